//! Time that a request would have needed to meet its deadline, and the time that it had.

use serde::{Deserialize, Serialize};

use crate::time::Span;

/// Shortfall of a request that is dropped because it would be late, by the estimates of the drop rule at that
/// moment. Parts that a rule does not count are zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shortfall {
    /// Until its batch would have started.
    pub wait: Span,
    /// Estimated duration of its batch in the module that drops it.
    pub execution: Span,
    /// Estimated time after that module, queueing included.
    pub downstream: Span,
    /// Time that remained until its deadline; zero if the deadline had passed.
    pub remaining: Span,
}

impl Shortfall {
    /// Total time that the request would have needed.
    #[must_use]
    pub fn needed(&self) -> Span {
        self.wait + self.execution + self.downstream
    }
}
