//! Announces operations of sessions before they begin, for a process that opens a model on behalf of another one.

use std::sync::OnceLock;

/// An operation of a session that may take long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionOperation {
    /// A graph is opened.
    Open,
    /// A graph is run.
    Run {
        /// Rows of its input.
        items: usize,
        /// Bytes of its input.
        input_bytes: usize,
    },
}

static OBSERVER: OnceLock<fn(SessionOperation)> = OnceLock::new();

/// Calls `observer` before each operation of the sessions of this process. Only the first observer counts.
pub fn observe_sessions(observer: fn(SessionOperation)) {
    let _ = OBSERVER.set(observer);
}

pub(super) fn announce(operation: SessionOperation) {
    if let Some(observer) = OBSERVER.get() {
        observer(operation);
    }
}
