//! Requests of a world so far: sending times, and items at every module.

use weir_types::{RequestId, StreamId, Timestamp};

use crate::demand::DemandSampler;

/// See the module.
pub(super) struct RequestItems {
    sampler: DemandSampler,
    /// Number of modules.
    modules: usize,
    /// Sending time of each request.
    sent: Vec<Timestamp>,
    /// Number of items of every request at every module, one row per request.
    items: Vec<u8>,
}

impl RequestItems {
    /// No requests yet; their items at `modules` modules are drawn by `sampler`.
    pub(super) fn new(sampler: DemandSampler, modules: usize) -> Self {
        Self {
            sampler,
            modules,
            sent: Vec::new(),
            items: Vec::new(),
        }
    }

    /// Id of the next request.
    pub(super) fn next_id(&self) -> RequestId {
        RequestId(self.sent.len() as u64)
    }

    /// Adds a request of a stream. Returns its items by module, which can be changed.
    pub(super) fn add(&mut self, stream: StreamId, sent_at: Timestamp) -> &mut [u8] {
        let start = self.items.len();
        self.items.resize(start + self.modules, 1);
        self.sent.push(sent_at);
        let row = &mut self.items[start..];
        self.sampler.draw(stream.0, row);
        row
    }

    /// Sending times of all requests.
    pub(super) fn sent(&self) -> &[Timestamp] {
        &self.sent
    }

    /// Items of a request by module.
    pub(super) fn row(&self, request: RequestId) -> &[u8] {
        let start = request.index() * self.modules;
        &self.items[start..start + self.modules]
    }

    /// As [`Self::row`], to be changed.
    pub(super) fn row_mut(&mut self, request: RequestId) -> &mut [u8] {
        let start = request.index() * self.modules;
        &mut self.items[start..start + self.modules]
    }

    /// Items of the last request by module.
    pub(super) fn last_row(&self) -> &[u8] {
        &self.items[self.items.len() - self.modules..]
    }

    /// Sending times of all requests, and their items, one row per request.
    pub(super) fn into_parts(self) -> (Vec<Timestamp>, Vec<u8>) {
        (self.sent, self.items)
    }
}
