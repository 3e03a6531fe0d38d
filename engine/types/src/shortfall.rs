//! Why a request could not be in time: what it would have needed, and what it had.

use serde::{Deserialize, Serialize};

use crate::time::Span;

/// Of a request that is dropped because it would be late, by the estimates that it is dropped by, from that moment on. What a
/// rule does not count is zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shortfall {
    /// Until its batch would have started.
    pub wait: Span,
    /// Its batch in the module that drops it.
    pub execution: Span,
    /// All that comes after that module, waiting included.
    pub downstream: Span,
    /// What was left until its deadline; zero where that had passed.
    pub remaining: Span,
}

impl Shortfall {
    /// All that it would have needed.
    #[must_use]
    pub fn needed(&self) -> Span {
        self.wait + self.execution + self.downstream
    }
}
