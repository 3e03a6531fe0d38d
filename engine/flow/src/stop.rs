//! The flag by which a run is asked to stop.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Raised once to stop a run; blocking calls poll it.
#[derive(Clone, Default)]
pub struct StopFlag {
    raised: Arc<AtomicBool>,
    /// A condition that counts as raised for this clone only.
    until: Option<Arc<dyn Fn() -> bool + Send + Sync>>,
}

impl StopFlag {
    /// Raises the flag and all its clones.
    pub fn raise(&self) {
        self.raised.store(true, Ordering::Relaxed);
    }

    /// Whether the flag is raised, or the condition of this clone holds.
    #[must_use]
    pub fn is_raised(&self) -> bool {
        self.raised.load(Ordering::Relaxed) || self.until.as_ref().is_some_and(|until| until())
    }

    /// A clone that also counts as raised while `until` returns true; called at every poll.
    #[must_use]
    pub fn or_until(&self, until: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self {
            raised: Arc::clone(&self.raised),
            until: Some(Arc::new(until)),
        }
    }
}

impl std::fmt::Debug for StopFlag {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("StopFlag").field(&self.raised).finish()
    }
}
