//! How far a run is, for whoever shows it.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters that another thread may read while the run goes on.
#[derive(Debug, Default)]
pub struct Progress {
    arrived: AtomicU64,
    delivered: AtomicU64,
    late: AtomicU64,
    dropped: AtomicU64,
}

/// A reading of [`Progress`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reading {
    /// Frames sent.
    pub arrived: u64,
    /// Out within the SLO.
    pub delivered: u64,
    /// Out after it.
    pub late: u64,
    /// Let go.
    pub dropped: u64,
}

impl Progress {
    /// The counters now.
    #[must_use]
    pub fn read(&self) -> Reading {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Reading {
            arrived: of(&self.arrived),
            delivered: of(&self.delivered),
            late: of(&self.late),
            dropped: of(&self.dropped),
        }
    }

    pub(crate) fn arrived(&self) {
        self.arrived.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn came_out(&self, late: bool) {
        let counter = if late { &self.late } else { &self.delivered };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn dropped(&self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }
}
