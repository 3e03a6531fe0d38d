//! What the bound is computed from: arrivals, the graph, what each request asks of each module, and who may work on it.

use thiserror::Error;
use weir_types::{ModuleId, Profile, Span, Timestamp, Topology};

/// Largest batch size that is considered.
pub const MAX_BATCH: u32 = 65_536;

/// Losses are counted by the second: no run is longer than about a hundred days.
const MAX_RUN: Span = Span::from_secs(10_000_000);

/// One graph, one arrival sequence, and the capacity over time.
#[derive(Debug, Clone, Hash)]
pub struct BoundInput<'a> {
    /// When each request was sent, ascending.
    pub arrivals: &'a [Timestamp],
    /// A request is delivered if it is out at most this long after it was sent.
    pub slo: Span,
    /// Which module follows which.
    pub topology: &'a Topology,
    /// What a request needs between the modules.
    pub hops: HopTimes,
    /// What a request does about a module to which it brings no items.
    pub unvisited: Unvisited,
    /// By module id, as many as the topology has.
    pub modules: Vec<BoundModule<'a>>,
    /// Modules that run on the same slots.
    pub shared: Vec<SharedSlots>,
}

/// Least travel times; zero by default.
#[derive(Debug, Clone, Copy, Hash, Default)]
pub struct HopTimes {
    /// From the source to a first module.
    pub entry: Span,
    /// From one module to the next.
    pub between: Span,
    /// From a last module to the sink.
    pub exit: Span,
}

/// What a request does about a module to which it brings no items.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Unvisited {
    /// Nothing is known: the modules after it need not wait for those before it. Always a true bound.
    #[default]
    NotTaken,
    /// It passes straight through, after the modules before and ahead of the modules after. Tighter, and true where
    /// every request takes every edge.
    PassedThrough,
}

/// One module, as far as the bound is concerned.
#[derive(Debug, Clone, Hash)]
pub struct BoundModule<'a> {
    /// Items that each request brings.
    pub items: Items<'a>,
    /// Least duration by batch size: scaled by the least factor that execution noise can draw, or by the mean one if a
    /// bound on the expectation is enough (then a lucky run may exceed it a little).
    pub profile: &'a Profile,
    /// Batch sizes that a policy may choose; batches may be filled in part, so that only the largest matters.
    pub batches: &'a [u32],
    /// Workers (slots) that could run the module.
    pub workers: Capacity,
}

/// Items that requests bring to a module.
#[derive(Debug, Clone, Copy, Hash)]
pub enum Items<'a> {
    /// One each.
    One,
    /// By request; none where it does not visit the module.
    PerRequest(&'a [u32]),
}

impl Items<'_> {
    pub(super) fn count(&self, request: usize) -> u32 {
        match self {
            Self::One => 1,
            Self::PerRequest(items) => items.get(request).copied().unwrap_or(0),
        }
    }
}

/// Modules whose batches run on the same slots.
#[derive(Debug, Clone, Hash)]
pub struct SharedSlots {
    /// Which.
    pub modules: Vec<ModuleId>,
    /// The slots they have together.
    pub slots: Capacity,
}

/// How many workers there are over time: from each moment on, so many; none before the first. A worker that finishes a
/// batch while it is leaving counts until it has.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Capacity(pub Vec<(Timestamp, u32)>);

impl Capacity {
    /// Always so many.
    #[must_use]
    pub fn constant(workers: u32) -> Self {
        Self(vec![(Timestamp::ZERO, workers)])
    }

    pub(super) fn max(&self) -> u32 {
        self.0.iter().map(|step| step.1).max().unwrap_or(0)
    }
}

/// Why there is no bound.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BoundError {
    /// Requests must stand in the order of their sending times.
    #[error("arrival {0} was sent before the one ahead of it; sort the arrivals")]
    Unsorted(usize),
    /// One description a module.
    #[error("the topology has {modules} modules, but {stations} are described; describe each once")]
    Stations {
        /// Of the topology.
        modules: usize,
        /// Of the scene.
        stations: usize,
    },
    /// Item counts by request need one entry a request.
    #[error("module {module} has item counts for {given} requests of {arrivals}; give one for each")]
    Items {
        /// Which.
        module: u32,
        /// Entries given.
        given: usize,
        /// Requests.
        arrivals: usize,
    },
    /// A module with no batch size can run nothing.
    #[error("module {0} may use no batch size from 1 to {most}; allow at least one", most = MAX_BATCH)]
    Batches(u32),
    /// There is no bound for what a plan spreads over pipelines.
    #[error("module \"{0}\" runs over pipelines, for which no bound is known; simulate without it")]
    Pipelines(String),
    /// There is no bound for what generates token by token.
    #[error("module \"{0}\" generates token by token, for which no bound is known; simulate without it")]
    Generates(String),
    /// Steps must stand in time order.
    #[error("the workers of {0} are not given in the order of time; sort the steps")]
    Steps(String),
    /// A group names a module that there is not.
    #[error("a group of shared slots names module {0}, which the topology lacks; name modules of the graph")]
    NoModule(u32),
    /// More work than can be counted.
    #[error("workers times duration exceed what can be counted; bound a shorter run")]
    TooLong,
}

impl BoundInput<'_> {
    pub(super) fn check(&self) -> Result<(), BoundError> {
        let modules = self.topology.len();
        if let Some(at) = self.arrivals.windows(2).position(|pair| pair[0] > pair[1]) {
            return Err(BoundError::Unsorted(at + 1));
        }
        let end = self.arrivals.last().copied().unwrap_or_default();
        if end.since(Timestamp::ZERO) > MAX_RUN
            || self.slo > MAX_RUN
            || self.arrivals.len() > u32::MAX as usize
        {
            return Err(BoundError::TooLong);
        }
        if self.modules.len() != modules {
            let stations = self.modules.len();
            return Err(BoundError::Stations { modules, stations });
        }
        for (module, module_input) in (0_u32..).zip(&self.modules) {
            if let Items::PerRequest(items) = module_input.items
                && items.len() != self.arrivals.len()
            {
                let (given, arrivals) = (items.len(), self.arrivals.len());
                return Err(BoundError::Items {
                    module,
                    given,
                    arrivals,
                });
            }
            let largest = module_input.batches.iter().copied().max().unwrap_or(0);
            if !(1..=MAX_BATCH).contains(&largest) {
                return Err(BoundError::Batches(module));
            }
            module_input.workers.check(|| format!("module {module}"))?;
        }
        for (group, shared) in self.shared.iter().enumerate() {
            if let Some(missing) = shared.modules.iter().find(|module| module.index() >= modules) {
                return Err(BoundError::NoModule(missing.0));
            }
            shared.slots.check(|| format!("shared group {group}"))?;
        }
        Ok(())
    }
}

impl Capacity {
    fn check(&self, whose: impl Fn() -> String) -> Result<(), BoundError> {
        if self.0.is_sorted_by(|a, b| a.0 < b.0) {
            Ok(())
        } else {
            Err(BoundError::Steps(whose()))
        }
    }
}
