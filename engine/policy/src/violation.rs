//! For tests that break an invariant on purpose.

use std::panic::{AssertUnwindSafe, catch_unwind};

use weir_types::invariant::{Kind, counted, panicking};

/// Runs `break_it`, which violates `kind` once and nothing else, where violations panic and where they are counted; gives
/// what came of the latter.
pub(crate) fn assert_violates<T>(kind: Kind, mut break_it: impl FnMut() -> T) -> T {
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        panicking(&mut break_it);
    }));
    let panic = panicked.expect_err("it holds");
    let what = panic.downcast_ref::<String>().cloned().unwrap_or_default();
    assert!(
        what.starts_with(&format!("invariant {} broken", kind.name())),
        "{what}"
    );
    let (result, violations) = counted(break_it);
    assert_eq!(violations.iter().collect::<Vec<_>>(), [(kind, 1)]);
    result
}
