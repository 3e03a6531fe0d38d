//! Timeline of a run, second by second, for plots; the report holds the totals.

use weir_policy::{BatchSlice, End, Module};
use weir_types::{ModuleId, Timestamp};

/// A run second by second. Series begin at second 0 and may be of unequal length.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Timeline {
    /// Number of requests by the second in which they were sent.
    pub sent: Vec<u32>,
    /// Number of these that were not delivered within their SLO.
    pub lost: Vec<u32>,
    /// Series of each module, by module id.
    pub modules: Vec<ModuleTimeline>,
    /// Load factor and priority of each module at each look: `(seconds, load factor, high budget first)`.
    pub priorities: Vec<Vec<(f64, f64, bool)>>,
    /// Bytes of state that modules published to each other.
    pub state_bytes: u64,
    /// Number of state messages that modules published.
    pub state_messages: u64,
}

/// Timeline of one module.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ModuleTimeline {
    /// Sum of queueing delays in milliseconds of requests that began to run in that second.
    pub queued_ms: Vec<f64>,
    /// Number of requests that began to run in that second.
    pub ran: Vec<u32>,
    /// Number of requests that it dropped in that second.
    pub dropped: Vec<u32>,
}

fn add<T: Default + Clone + std::ops::AddAssign>(series: &mut Vec<T>, at: Timestamp, value: T) {
    let second = (at.micros() / 1_000_000) as usize;
    if series.len() <= second {
        series.resize(second + 1, T::default());
    }
    series[second] += value;
}

impl Timeline {
    pub(crate) fn new(modules: usize) -> Self {
        Self {
            modules: vec![ModuleTimeline::default(); modules],
            priorities: vec![Vec::new(); modules],
            ..Self::default()
        }
    }

    pub(crate) fn on_sent(&mut self, at: Timestamp) {
        add(&mut self.sent, at, 1);
    }

    pub(crate) fn on_lost(&mut self, sent_at: Timestamp) {
        add(&mut self.lost, sent_at, 1);
    }

    pub(crate) fn on_dropped(&mut self, module: ModuleId, at: Timestamp) {
        add(&mut self.modules[module.index()].dropped, at, 1);
    }

    pub(crate) fn on_state_published(&mut self, bytes: usize) {
        self.state_bytes += bytes as u64;
        self.state_messages += 1;
    }

    pub(crate) fn on_run(&mut self, module: ModuleId, at: Timestamp, slices: &[BatchSlice]) {
        let of = &mut self.modules[module.index()];
        let queued: f64 = slices.iter().map(|slice| slice.queued.as_millis_f64()).sum();
        add(&mut of.queued_ms, at, queued);
        add(&mut of.ran, at, slices.len() as u32);
    }

    pub(crate) fn on_tick<'a>(&mut self, at: Timestamp, modules: impl Iterator<Item = &'a Module>) {
        for (line, module) in self.priorities.iter_mut().zip(modules) {
            let priority = module.priority();
            line.push((
                (at.micros() as f64) / 1e6,
                priority.load_factor(),
                priority.end() == End::High,
            ));
        }
    }
}
