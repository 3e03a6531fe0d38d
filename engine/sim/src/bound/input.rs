//! Input of the bound: arrivals, the graph, the items that each request brings to each module, and the
//! workers of each module.

use thiserror::Error;
use weir_types::{ModuleId, Profile, Span, Timestamp, Topology};

/// Largest batch size that is considered.
pub const MAX_BATCH: u32 = 65_536;

/// Losses are counted by the second, so a run may be at most about a hundred days long.
const MAX_RUN: Span = Span::from_secs(10_000_000);

/// Graph, arrivals, and capacity over time.
#[derive(Debug, Clone, Hash)]
pub struct BoundInput<'a> {
    /// Sending time of each request, ascending.
    pub arrivals: &'a [Timestamp],
    /// A request is delivered if it is out at most this long after it was sent.
    pub slo: Span,
    /// Edges between the modules.
    pub topology: &'a Topology,
    /// Time that a request needs between modules, on entry and on exit.
    pub hops: HopTimes,
    /// Behaviour of a request at a module to which it brings no items.
    pub unvisited: Unvisited,
    /// Modules by id, as many as the topology has.
    pub modules: Vec<BoundModule<'a>>,
    /// Modules that run on the same slots.
    pub shared: Vec<SharedSlots>,
}

/// Least travel times; zero by default.
#[derive(Debug, Clone, Copy, Hash, Default)]
pub struct HopTimes {
    /// Time from the source to a first module.
    pub entry: Span,
    /// Time from one module to the next.
    pub between: Span,
    /// Time from a last module to the sink.
    pub exit: Span,
}

/// Behaviour of a request at a module to which it brings no items.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Unvisited {
    /// Unknown: the modules after it need not wait for those before it. The bound is valid in every case.
    #[default]
    NotTaken,
    /// The request passes straight through, after the modules before and ahead of the modules after. The
    /// bound is tighter, and valid if every request takes every edge.
    PassedThrough,
}

/// Workers, batches and items of one module.
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
    /// One item from every request.
    One,
    /// Number of items by request; 0 if the request does not visit the module.
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
    /// Modules that run on these slots.
    pub modules: Vec<ModuleId>,
    /// Number of slots that the modules share.
    pub slots: Capacity,
}

/// Number of workers over time: each entry applies from its time on, and there are no workers before the
/// first entry. A worker that finishes a batch while it is being removed counts until the batch is done.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Capacity(pub Vec<(Timestamp, u32)>);

impl Capacity {
    /// The same number of workers at all times.
    #[must_use]
    pub fn constant(workers: u32) -> Self {
        Self(vec![(Timestamp::ZERO, workers)])
    }

    pub(super) fn max(&self) -> u32 {
        self.0.iter().map(|step| step.1).max().unwrap_or(0)
    }
}

/// Reason why no bound is computed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BoundError {
    /// Requests must stand in the order of their sending times.
    #[error("arrival {0} was sent before the one ahead of it; sort the arrivals")]
    Unsorted(usize),
    /// The number of module descriptions differs from the topology's.
    #[error("the topology has {modules} modules, but {stations} are described; describe each once")]
    Stations {
        /// Number of modules in the topology.
        modules: usize,
        /// Number of descriptions.
        stations: usize,
    },
    /// Item counts by request need one entry a request.
    #[error("module {module} has item counts for {given} requests of {arrivals}; give one for each")]
    Items {
        /// Index of the module.
        module: u32,
        /// Number of item counts in the input.
        given: usize,
        /// Number of requests in the input.
        arrivals: usize,
    },
    /// A module with no batch size can run nothing.
    #[error("module {0} may use no batch size from 1 to {most}; allow at least one", most = MAX_BATCH)]
    Batches(u32),
    /// No bound is known for a module whose batches a plan spreads over pipelines.
    #[error("module \"{0}\" runs over pipelines, for which no bound is known; simulate without it")]
    Pipelines(String),
    /// No bound is known for a module that generates token by token.
    #[error("module \"{0}\" generates token by token, for which no bound is known; simulate without it")]
    Generates(String),
    /// No bound is known for streams whose frames are sent when there is room for them.
    #[error("a stream is lossless, for which no bound is known; simulate without it")]
    Lossless,
    /// Steps must stand in time order.
    #[error("the workers of {0} are not given in the order of time; sort the steps")]
    Steps(String),
    /// A group of shared slots names a module that the topology does not have.
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
