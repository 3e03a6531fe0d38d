//! A value that takes work to make and may be some moments old: however many ask, it is made so often and no more.

use std::sync::{Mutex, MutexGuard, PoisonError};

use weir_runtime::Clock;
use weir_types::{Span, Timestamp};

/// See the module.
pub(crate) struct Cached<T> {
    clock: Clock,
    max_age: Span,
    latest: Mutex<Option<(Timestamp, T)>>,
}

impl<T: Clone> Cached<T> {
    /// Values that may be so old.
    pub(crate) fn new(max_age: Span) -> Self {
        Self {
            clock: Clock::start(),
            max_age,
            latest: Mutex::new(None),
        }
    }

    /// The latest value, or the one that `make` gives where that is too old. Others wait for it meanwhile.
    pub(crate) fn get<E>(&self, make: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let mut latest = self.lock();
        // Of the moment before it is made: it may show what is true then.
        let now = self.clock.now();
        if let Some((made_at, value)) = &*latest
            && now.since(*made_at) <= self.max_age
        {
            return Ok(value.clone());
        }
        let value = make()?;
        *latest = Some((now, value.clone()));
        Ok(value)
    }

    /// The next value is made anew: something has changed.
    pub(crate) fn forget(&self) {
        *self.lock() = None;
    }

    fn lock(&self) -> MutexGuard<'_, Option<(Timestamp, T)>> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_made_once_until_it_is_too_old_or_forgotten() {
        let mut made = 0;
        let mut next = || {
            made += 1;
            Ok::<u32, ()>(made)
        };
        let lasting = Cached::new(Span::from_secs(3_600));
        assert_eq!(lasting.get(&mut next), Ok(1));
        assert_eq!(lasting.get(&mut next), Ok(1));
        lasting.forget();
        assert_eq!(lasting.get(&mut next), Ok(2));
        assert_eq!(Cached::<u32>::new(Span::ZERO).get(|| Err(())), Err(()));
    }
}
