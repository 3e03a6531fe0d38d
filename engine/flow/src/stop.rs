//! Flag that asks a run to stop.

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

    /// True if the flag is raised, or if the condition of this clone holds.
    #[must_use]
    pub fn is_raised(&self) -> bool {
        self.raised.load(Ordering::Relaxed) || self.until.as_ref().is_some_and(|until| until())
    }

    /// Returns a clone that also counts as raised while `until` returns true, in addition to the condition of
    /// this one; `until` is called at every poll.
    #[must_use]
    pub fn or_until(&self, until: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        let until: Arc<dyn Fn() -> bool + Send + Sync> = match self.until.clone() {
            Some(before) => Arc::new(move || before() || until()),
            None => Arc::new(until),
        };
        Self {
            raised: Arc::clone(&self.raised),
            until: Some(until),
        }
    }
}

impl std::fmt::Debug for StopFlag {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("StopFlag").field(&self.raised).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_add_up_and_raise_no_other_clone() {
        let stop = StopFlag::default();
        let conditions: [Arc<AtomicBool>; 2] = Default::default();
        let [first, second] = conditions.clone();
        let stream = stop.or_until(move || first.load(Ordering::Relaxed));
        let opening = stream.or_until(move || second.load(Ordering::Relaxed));
        conditions[0].store(true, Ordering::Relaxed);
        assert!(opening.is_raised() && stream.is_raised() && !stop.is_raised());
        conditions[0].store(false, Ordering::Relaxed);
        conditions[1].store(true, Ordering::Relaxed);
        assert!(opening.is_raised() && !stream.is_raised());
        stop.raise();
        assert!(stream.is_raised());
    }
}
