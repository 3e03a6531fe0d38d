//! Invariants that were broken during a run: each kind is logged when it is first noticed, counted as a metric, and
//! reported. Counts belong to the process: of runs beside each other in one process each reports what all of them broke.

use std::cell::Cell;
use std::collections::BTreeMap;

use weir_types::invariant::{Kind, Violations, take_example, violations};

use crate::telemetry;

/// See the module.
pub(crate) struct RunViolations {
    before: Violations,
    /// Since then, as far as noticed.
    noticed: Cell<Violations>,
}

impl RunViolations {
    /// Those from now on.
    pub(crate) fn start() -> Self {
        Self {
            before: violations(),
            noticed: Cell::default(),
        }
    }

    /// Notices what was broken since the last call. Says whether anything was since the start.
    pub(crate) fn poll(&self) -> bool {
        self.notice(violations(), take_example)
    }

    /// Violations since the start by name of the invariant; invariants without a violation are left out.
    pub(crate) fn counts(&self) -> BTreeMap<String, u64> {
        self.poll();
        let counts = self.noticed.get();
        let named = counts.iter().map(|(kind, count)| (kind.name().to_owned(), count));
        named.collect()
    }

    /// `example` is asked for when a kind is first noticed.
    fn notice(&self, now: Violations, mut example: impl FnMut(Kind) -> Option<String>) -> bool {
        let now = now.since(&self.before);
        let noticed = self.noticed.replace(now);
        for (kind, count) in now.since(&noticed).iter() {
            telemetry::record_violations(kind, count);
            if noticed.count(kind) == 0 {
                let example = example(kind);
                tracing::error!(
                    "invariant {} broken, a defect of this program: {}",
                    kind.name(),
                    example.as_deref().unwrap_or("another run has logged it")
                );
            }
        }
        !now.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use weir_types::invariant;
    use weir_types::invariant::counted;

    use super::*;

    /// Counts of a process in which these were broken.
    fn broken(kinds: &[Kind]) -> Violations {
        let break_all = || {
            for &kind in kinds {
                invariant!(false, kind, "by design");
            }
        };
        counted(break_all).1
    }

    #[test]
    fn what_is_broken_since_the_start_is_counted_and_each_kind_is_logged_once() {
        use Kind::{Items, Ledger, Slots};
        let violations = RunViolations {
            before: broken(&[Ledger]),
            noticed: Cell::default(),
        };
        let logged = RefCell::new(Vec::new());
        let notice = |kinds: &[Kind]| {
            violations.notice(broken(kinds), |kind| {
                logged.borrow_mut().push(kind);
                None
            })
        };
        assert!(!notice(&[Ledger]));
        assert!(notice(&[Ledger, Slots]));
        assert!(notice(&[Ledger, Slots, Slots, Slots, Items]));
        assert!(
            notice(&[Ledger, Slots, Slots, Slots, Items]),
            "also what is known"
        );
        assert_eq!(*logged.borrow(), [Slots, Items]);
        let counts: Vec<_> = violations.noticed.get().iter().collect();
        assert_eq!(counts, [(Slots, 3), (Items, 1)]);
    }
}
