//! The flag by which a run is asked to stop.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Raised once when a run is to stop; blocking calls look at it.
#[derive(Clone, Default)]
pub struct StopFlag {
    raised: Arc<AtomicBool>,
    /// What else ends the wait of who was given this flag.
    until: Option<Arc<dyn Fn() -> bool + Send + Sync>>,
}

impl StopFlag {
    /// Asks everybody to stop, also those who have it with a limit.
    pub fn raise(&self) {
        self.raised.store(true, Ordering::Relaxed);
    }

    /// Whether it was asked, or the limit of this one is over.
    #[must_use]
    pub fn is_raised(&self) -> bool {
        self.raised.load(Ordering::Relaxed) || self.until.as_ref().is_some_and(|until| until())
    }

    /// The same flag, which also counts as raised while `until` says so. It is called at every look.
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
