//! The workers of a module's own pool, which open and close with its load.
//!
//! At every tick the [`Autoscaler`] says how many workers the module should have. Workers that are missing are opened, which
//! takes as long as it takes, and is measured. Workers that are too many are given no more batches, and closed once their
//! batch has ended.
//!
//! ```text
//! Closed ──Open──> Opening ──Opened──> Open ──too many──> Draining ──last batch ends: Close──> Closing ──Closed──> Closed
//!   ^                 └──OpenFailed──> (after a wait)       └── wanted again ──> Open              │
//!   └──────────────────────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! A worker that is out of use for a fault is not counted, so that another one takes its place while there is room; it is
//! neither opened nor closed until it returns.

use serde::{Deserialize, Serialize};
use weir_types::invariant;
use weir_types::invariant::Kind;
use weir_types::{ModuleId, Profile, SlotId, Span, Timestamp, Topology};

use crate::accounting::is_zero;
use crate::measure::window::Window;
use crate::pard::state::ModuleState;
use crate::pard::state_planner::StatePlanner;
use crate::strategy::Policy;
use crate::supply::scaling::{AutoscaleRule, Autoscaler};

/// Window over which the request rate for scaling is measured.
const RATE: Span = Span::from_secs(5);
/// Weight of a new request in the mean number of items, once as many requests have come as it stands for.
const ITEMS_GAIN: f64 = 0.02;
/// Wait after a worker could not be opened; it doubles with every further failure in a row.
const FIRST_RETRY: Span = Span::from_secs(1);
/// Longest wait between attempts to open a worker.
const MAX_RETRY: Span = Span::from_secs(60);

/// Specification of a pool whose workers open and close.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ScalingSpec {
    /// Rule by which the number of workers is decided.
    pub rule: AutoscaleRule,
    /// Number of workers that are open at the start.
    pub initial: u32,
    /// Items a second of one worker.
    pub worker_throughput: f64,
    /// Whether the driver says how many items each request will bring, as only a simulation can. Otherwise a request of the
    /// graph counts as many items as requests brought in the mean.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_foretold: bool,
}

/// Items a second of one worker of each module, by their profiles and batch sizes: at the batch size of its fair share of the
/// SLO, whatever the policy.
#[must_use]
pub fn worker_throughput(slo: Span, topology: &Topology, modules: &[(&Profile, &[u32])]) -> Vec<f64> {
    let modules = || (0..).map(ModuleId).zip(modules);
    let alone =
        |(id, (profile, _)): (ModuleId, &(&Profile, &[u32]))| ModuleState::initial(id, profile.duration(1));
    let states: Vec<ModuleState> = modules().map(alone).collect();
    let of = |(id, (profile, batch)): (ModuleId, &(&Profile, &[u32]))| {
        let estimation = Policy::default().estimation();
        let planner = StatePlanner::new(id, slo, estimation, topology, states.clone());
        profile.throughput(profile.batch_size(batch, planner.fair_share()))
    };
    modules().map(of).collect()
}

/// A fact about a worker that was to be opened or closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum WorkerEvent {
    /// It is open and takes batches.
    Opened {
        /// Slot of the worker.
        slot: SlotId,
        /// Time that opening took.
        took: Span,
    },
    /// It could not be opened.
    OpenFailed {
        /// Slot of the worker.
        slot: SlotId,
    },
    /// It is closed, and holds nothing any more.
    Closed {
        /// Slot of the worker.
        slot: SlotId,
    },
}

/// A change that a pool wants, of its workers or of what its module may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoolEffect {
    /// Open the worker of a slot; a [`WorkerEvent`] follows.
    Open(SlotId),
    /// Close the worker of a slot, on which nothing runs; a [`WorkerEvent`] follows.
    Close(SlotId),
    /// The module may run batches on the slot.
    Up(SlotId),
    /// The module may start no more batches on the slot.
    Down(SlotId),
}

/// Workers of a module so far, for its report.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct WorkersReport {
    /// Number of workers that are open.
    pub open: u32,
    /// Largest number of workers that were open at once.
    pub most_open: u32,
    /// Number of workers that were opened after the start.
    pub opened: u64,
    /// Number of workers that were closed.
    pub closed: u64,
    /// Number of attempts to open a worker that failed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failed: u64,
    /// Mean time in milliseconds that recent workers took to open; `None` before the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cold_start_ms: Option<f64>,
}

impl WorkersReport {
    /// Adds the workers of another module of that name, which an earlier or later graph had.
    pub fn merge(&mut self, other: &Self) {
        self.open += other.open;
        self.most_open = self.most_open.max(other.most_open);
        self.opened += other.opened;
        self.closed += other.closed;
        self.failed += other.failed;
        self.cold_start_ms = other.cold_start_ms.or(self.cold_start_ms);
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Closed,
    /// It is being opened; `is_wanted` is false if it is closed again as soon as it is open.
    Opening {
        is_wanted: bool,
    },
    Open,
    Draining,
    Closing,
}

#[derive(Debug, Clone, Copy)]
struct Worker {
    slot: SlotId,
    state: State,
    /// Number of batches that are on it; two where the next one is prepared while one runs.
    batches: u32,
    /// Whether it is out of use for a fault.
    is_lost: bool,
}

impl Worker {
    fn is_usable(&self) -> bool {
        self.state == State::Open && !self.is_lost
    }

    /// Whether it counts as a worker that the module has, or will have soon.
    fn counts(&self) -> bool {
        self.is_usable() || self.is_starting()
    }

    fn is_starting(&self) -> bool {
        self.state == State::Opening { is_wanted: true } && !self.is_lost
    }
}

/// See the module.
#[derive(Debug)]
pub struct ScaledPool {
    spec: ScalingSpec,
    scaler: Autoscaler,
    /// Workers by slot, ascending.
    workers: Vec<Worker>,
    demand: Window,
    /// Mean items of a request, and the number of requests that it was learned from.
    items: (f64, u64),
    /// Failures to open a worker in a row, and the time of the next attempt.
    failures: u32,
    retry_at: Timestamp,
    report: WorkersReport,
}

impl ScaledPool {
    /// A pool on `slots`, of which the first are open.
    #[must_use]
    pub fn new(spec: ScalingSpec, slots: &[SlotId]) -> Self {
        let mut slots = slots.to_vec();
        slots.sort_unstable();
        slots.dedup();
        let open = spec.initial.min(slots.len() as u32);
        let workers = (0..).zip(slots).map(|(place, slot)| Worker {
            slot,
            state: if place < open { State::Open } else { State::Closed },
            batches: 0,
            is_lost: false,
        });
        Self {
            workers: workers.collect(),
            scaler: Autoscaler::new(spec.rule),
            demand: Window::new(RATE),
            items: (1.0, 0),
            failures: 0,
            retry_at: Timestamp::ZERO,
            report: WorkersReport {
                open,
                most_open: open,
                ..WorkersReport::default()
            },
            spec,
        }
    }

    /// Slots whose workers are not open at the start.
    pub fn closed(&self) -> impl Iterator<Item = SlotId> {
        let closed = self.workers.iter().filter(|worker| worker.state == State::Closed);
        closed.map(|worker| worker.slot)
    }

    /// Number of workers that are there or starting.
    #[must_use]
    pub fn size(&self) -> u32 {
        self.workers.iter().filter(|worker| worker.counts()).count() as u32
    }

    /// Number of workers that are open and not lost.
    #[must_use]
    pub fn open(&self) -> u32 {
        self.workers.iter().filter(|worker| worker.is_usable()).count() as u32
    }

    /// Number of workers that are open, those that are lost included.
    #[must_use]
    pub fn placed(&self) -> u32 {
        let open = self.workers.iter().filter(|worker| worker.state == State::Open);
        open.count() as u32
    }

    /// Workers so far.
    #[must_use]
    pub fn report(&self) -> WorkersReport {
        WorkersReport {
            open: self.open(),
            cold_start_ms: self.scaler.cold_start().map(Span::as_millis_f64),
            ..self.report
        }
    }

    /// A request came to the graph, and will pass the module.
    pub fn on_request(&mut self, now: Timestamp) {
        if !self.spec.is_foretold {
            self.demand.observe(self.items.0, now);
        }
    }

    /// A request came to the graph and will bring so many items here, as the driver knows.
    pub fn on_foretold(&mut self, items: u32, now: Timestamp) {
        if self.spec.is_foretold {
            self.demand.observe(f64::from(items), now);
        }
    }

    /// A request has brought so many items.
    pub fn on_items(&mut self, items: u32) {
        let (mean, requests) = &mut self.items;
        *requests += 1;
        let gain = (1.0 / *requests as f64).max(ITEMS_GAIN);
        *mean += gain * (f64::from(items) - *mean);
    }

    /// A batch starts on a worker.
    pub fn on_run(&mut self, slot: SlotId) {
        if let Some(worker) = self.worker(slot) {
            worker.batches += 1;
            let is_there = matches!(worker.state, State::Open);
            invariant!(
                is_there,
                Kind::Slots,
                "a batch starts on slot {}, whose worker is not open",
                slot.0
            );
        }
    }

    /// A batch on a worker has ended, well or not.
    pub fn on_run_over(&mut self, slot: SlotId, effects: &mut Vec<PoolEffect>) {
        if let Some(worker) = self.worker(slot) {
            worker.batches = worker.batches.saturating_sub(1);
        }
        self.close_drained(slot, effects);
    }

    /// A worker is out of use for a fault.
    pub fn on_lost(&mut self, slot: SlotId, effects: &mut Vec<PoolEffect>) {
        self.change(slot, effects, |worker| worker.is_lost = true);
    }

    /// A worker that was out of use has returned.
    pub fn on_returned(&mut self, slot: SlotId, effects: &mut Vec<PoolEffect>) {
        self.change(slot, effects, |worker| worker.is_lost = false);
        self.close_drained(slot, effects);
    }

    /// A worker was opened or closed. Legal for a slot that the pool does not have.
    pub fn on(&mut self, event: WorkerEvent, now: Timestamp, effects: &mut Vec<PoolEffect>) {
        match event {
            WorkerEvent::Opened { slot, took } => {
                (self.failures, self.retry_at) = (0, now);
                self.scaler.on_started(took);
                self.report.opened += 1;
                self.change(slot, effects, |worker| {
                    worker.state = match worker.state {
                        State::Opening { is_wanted: false } => State::Draining,
                        _ => State::Open,
                    };
                });
                self.close_drained(slot, effects);
            }
            WorkerEvent::OpenFailed { slot } => {
                self.report.failed += 1;
                let wait = FIRST_RETRY * (1_u64 << self.failures.min(6));
                self.retry_at = now + wait.min(MAX_RETRY);
                self.failures = self.failures.saturating_add(1);
                self.change(slot, effects, |worker| worker.state = State::Closed);
            }
            WorkerEvent::Closed { slot } => {
                self.report.closed += 1;
                self.change(slot, effects, |worker| worker.state = State::Closed);
            }
        }
    }

    /// Looks at the load: opens workers, of which `room` more may be there, or releases some.
    pub fn scale(&mut self, mut room: u32, now: Timestamp, effects: &mut Vec<PoolEffect>) {
        let rate = self.demand.rate(now, Timestamp::ZERO);
        let wanted = self.scaler.target_workers(rate, self.spec.worker_throughput, now);
        let mut size = self.size();
        while size < wanted && room > 0 && self.add(now, effects) {
            size += 1;
            room -= 1;
        }
        while size > wanted && self.release(effects) {
            size -= 1;
        }
    }

    /// Gets one more worker, if there is any: one that would be closed is kept, before another one is opened.
    fn add(&mut self, now: Timestamp, effects: &mut Vec<PoolEffect>) -> bool {
        let find = |state: State| {
            let mut workers = self.workers.iter();
            let found = workers.find(|worker| worker.state == state && !worker.is_lost);
            found.map(|worker| worker.slot)
        };
        if let Some(slot) = find(State::Opening { is_wanted: false }) {
            self.change(slot, effects, |worker| {
                worker.state = State::Opening { is_wanted: true };
            });
            return true;
        }
        if let Some(slot) = find(State::Draining) {
            self.change(slot, effects, |worker| worker.state = State::Open);
            return true;
        }
        let Some(slot) = find(State::Closed).filter(|_| now >= self.retry_at) else {
            return false;
        };
        self.change(slot, effects, |worker| {
            worker.state = State::Opening { is_wanted: true };
        });
        effects.push(PoolEffect::Open(slot));
        true
    }

    /// Releases one worker, if there is any: one that is starting, before the last of those that are open.
    fn release(&mut self, effects: &mut Vec<PoolEffect>) -> bool {
        let starting = self.workers.iter().rfind(|worker| worker.is_starting());
        let (slot, state) = match starting {
            Some(worker) => (worker.slot, State::Opening { is_wanted: false }),
            None => match self.workers.iter().rfind(|worker| worker.is_usable()) {
                Some(worker) => (worker.slot, State::Draining),
                None => return false,
            },
        };
        self.change(slot, effects, |worker| worker.state = state);
        self.close_drained(slot, effects);
        true
    }

    /// Closes a worker that is released, once nothing runs on it.
    fn close_drained(&mut self, slot: SlotId, effects: &mut Vec<PoolEffect>) {
        let Some(worker) = self.worker(slot) else { return };
        if worker.state == State::Draining && worker.batches == 0 && !worker.is_lost {
            worker.state = State::Closing;
            effects.push(PoolEffect::Close(slot));
        }
    }

    /// Changes a worker; the module learns of it where it may use the worker from now on, or no more.
    fn change(&mut self, slot: SlotId, effects: &mut Vec<PoolEffect>, change: impl FnOnce(&mut Worker)) {
        let Some(worker) = self.worker(slot) else { return };
        let before = worker.is_usable();
        change(worker);
        match (before, worker.is_usable()) {
            (false, true) => effects.push(PoolEffect::Up(slot)),
            (true, false) => effects.push(PoolEffect::Down(slot)),
            _ => {}
        }
        self.report.most_open = self.report.most_open.max(self.open());
    }

    fn worker(&mut self, slot: SlotId) -> Option<&mut Worker> {
        let place = self
            .workers
            .binary_search_by_key(&slot, |worker| worker.slot)
            .ok()?;
        self.workers.get_mut(place)
    }
}

#[cfg(test)]
mod tests;
