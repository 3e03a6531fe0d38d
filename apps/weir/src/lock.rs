//! Locks that a panic of another thread leaves usable.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// A lock that is good whatever another thread did with it.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
