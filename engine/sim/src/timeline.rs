//! What a run leaves behind beside its report: what happened second by second, for plots.

use weir_policy::{BatchSlice, End, Module};
use weir_types::{ModuleId, Timestamp};

/// A run second by second. Series begin at second 0 and may be of unequal length.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Timeline {
    /// Requests by the second in which they were sent.
    pub sent: Vec<u32>,
    /// Those of them that were not delivered.
    pub lost: Vec<u32>,
    /// By module.
    pub modules: Vec<ModuleTimeline>,
    /// Load factor and priority of each module at each look: `(seconds, load factor, high budget first)`.
    pub priorities: Vec<Vec<(f64, f64, bool)>>,
    /// Bytes of state that modules published to each other.
    pub state_bytes: u64,
    /// How often a module published its state.
    pub state_messages: u64,
}

/// One module second by second.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ModuleTimeline {
    /// Summed queueing delay in milliseconds of requests that began to run in that second.
    pub queued_ms: Vec<f64>,
    /// How many they were.
    pub ran: Vec<u32>,
    /// Requests that it dropped.
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
