//! Counts of a recording, which add up, and the failures that have been logged.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use weir_flow::SinkError;

use crate::media::WriteError;

/// Counts by name, shared by the thread that records and the sink.
#[derive(Debug, Default)]
pub(super) struct Books {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    counts: BTreeMap<&'static str, u64>,
    /// The first failure.
    error: Option<SinkError>,
    /// Why nothing can be written now.
    outage: Option<String>,
}

impl Books {
    pub(super) fn add(&self, name: &'static str, count: u64) {
        *self.lock().counts.entry(name).or_default() += count;
    }

    /// Counts so far, by name.
    pub(super) fn counts(&self) -> BTreeMap<&'static str, u64> {
        self.lock().counts.clone()
    }

    /// Something could not be written: logged once until something is written again.
    pub(super) fn on_failure(&self, failure: WriteError) {
        let WriteError { is_disk_full, error } = failure;
        let mut state = self.lock();
        if state.outage.replace(error.to_string()).is_none() {
            tracing::error!("{error}; recordings are lost and counted until this is fixed");
            *state.counts.entry("outages").or_default() += 1;
        }
        // A full disk is an outcome of recording, not a failure of the run.
        if !is_disk_full {
            state.error.get_or_insert(error);
        }
    }

    /// Why nothing can be written now.
    pub(super) fn outage(&self) -> Option<String> {
        self.lock().outage.clone()
    }

    /// A file was written whole.
    pub(super) fn on_success(&self) {
        let mut state = self.lock();
        if state.outage.take().is_some() {
            tracing::warn!("recordings are written again");
        }
    }

    /// The first failure that is none of a full disk.
    pub(super) fn take_error(&self) -> Option<SinkError> {
        self.lock().error.take()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
