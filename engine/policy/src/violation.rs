//! Helper for tests that break an invariant on purpose.

use std::panic::{AssertUnwindSafe, catch_unwind};

use weir_types::invariant::{Kind, counted, panicking};

/// Runs `break_it`, which violates `kind` exactly once and nothing else: first with violations that panic,
/// then with violations that are counted. Returns the result of the second run.
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
