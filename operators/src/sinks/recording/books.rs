//! Counts of a recording, which add up, and the failures that have been logged.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weir_flow::SinkError;

use crate::media::WriteError;

/// Streams that packets are counted of: names may come and go without end.
pub(super) const MAX_STREAMS: usize = 4_096;

/// Counts by name, shared by the thread that records and the sink.
#[derive(Debug, Default)]
pub(super) struct Books {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    counts: BTreeMap<&'static str, u64>,
    /// Packets that could not be written, by stream.
    failed: BTreeMap<Arc<str>, u64>,
    /// The first failure.
    error: Option<SinkError>,
    /// Why nothing can be written now.
    outage: Option<String>,
}

impl Books {
    pub(super) fn add(&self, name: &'static str, count: u64) {
        *self.lock().counts.entry(name).or_default() += count;
    }

    /// Packets of a stream could not be written.
    pub(super) fn on_packets_failed(&self, stream: &Arc<str>, count: u64) {
        let mut state = self.lock();
        if count > 0 && (state.failed.len() < MAX_STREAMS || state.failed.contains_key(stream)) {
            *state.failed.entry(Arc::clone(stream)).or_default() += count;
        }
    }

    /// Packets that could not be written so far, by stream.
    pub(super) fn failed(&self) -> BTreeMap<Arc<str>, u64> {
        self.lock().failed.clone()
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
