//! Processor time of a live run by kind of thread.

use serde::{Deserialize, Serialize};

/// Processor seconds of the threads of a live run, by purpose; threads that have ended are included.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct ProcessorReport {
    /// Reading and decoding sources.
    pub decoding_s: f64,
    /// Running batches, and preparing their inputs.
    pub workers_s: f64,
    /// The control thread, which makes all decisions.
    pub control_s: f64,
    /// The delivery thread, which tracks objects and passes results to sinks.
    #[serde(default)]
    pub delivery_s: f64,
    /// Writing sinks that encode no video.
    pub sinks_s: f64,
    /// Drawing and encoding video, and writing it.
    pub encoding_s: f64,
    /// All other threads of the process, such as those of libraries.
    pub other_s: f64,
}

impl ProcessorReport {
    /// Sum over all purposes, in seconds.
    #[must_use]
    pub fn total_s(&self) -> f64 {
        let kinds = [
            self.decoding_s,
            self.workers_s,
            self.control_s,
            self.delivery_s,
            self.sinks_s,
            self.encoding_s,
            self.other_s,
        ];
        kinds.iter().sum()
    }
}
