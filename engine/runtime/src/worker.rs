//! A worker: the thread that owns a slot and the sessions placed on it. It runs one batch at a time, sent over a channel of
//! one, and reports the result and the measured time. A panic or an error of a batch loses that batch; the session is
//! built again. Where its device prepares ahead, it is several threads: see [`overlapped`](crate::overlapped).

use std::sync::Arc;

use weir_flow::SessionError;
use weir_types::{ModelId, SlotId, Span};

use crate::batch::{BatchDoneSender, BatchLaunchedSender, PlacedModel, WorkerHandle};
use crate::clock::Clock;
use crate::inline::InlineWorker;
use crate::instance::Instance;
use crate::overlapped::OverlappedWorker;
use crate::processor_time::ProcessorTimes;
use crate::resident::ResidentWorker;
use crate::session_control::{SessionChangeSender, WarmModels};

/// A worker before its threads start: its sessions are open.
pub(crate) enum Worker {
    Inline(InlineWorker),
    Overlapped(OverlappedWorker),
    /// A worker on a device whose memory does not hold all its models; no session is open yet.
    Resident(ResidentWorker),
    /// An instance of a generative model, which has its slot to itself.
    Generative(Instance),
}

impl Worker {
    /// Opens a session of every model that is placed on `slot`; `overlaps`: it prepares the next batch while one runs.
    pub(crate) fn open(
        slot: SlotId,
        clock: Clock,
        placed: Vec<PlacedModel>,
        overlaps: bool,
    ) -> Result<Self, SessionError> {
        let generative = placed
            .iter()
            .find_map(|placed| Some((placed.device, placed.opener.generative()?)));
        if let Some((device, model)) = generative {
            return Ok(Self::Generative(Instance::open(slot, clock, device, model)?));
        }
        Ok(if overlaps {
            Self::Overlapped(OverlappedWorker::open(slot, clock, placed)?)
        } else {
            Self::Inline(InlineWorker::open(slot, clock, placed)?)
        })
    }

    /// An instance whose session is opened and closed by orders; `None` if no model that generates is placed on `slot`.
    pub(crate) fn closed(
        slot: SlotId,
        clock: Clock,
        placed: &[PlacedModel],
        warm: &Arc<WarmModels>,
    ) -> Option<Self> {
        placed.iter().find_map(|placed| {
            let model = placed.opener.generative()?;
            let id = ModelId(placed.model as u32);
            let instance = Instance::closed((slot, placed.device), clock, (id, model), Arc::clone(warm));
            Some(Self::Generative(instance))
        })
    }

    /// Its instance, where a model that generates is placed on its slot.
    pub(crate) fn instance_mut(&mut self) -> Option<&mut Instance> {
        match self {
            Self::Generative(instance) => Some(instance),
            Self::Inline(_) | Self::Overlapped(_) | Self::Resident(_) => None,
        }
    }

    /// The instance that it is, or the worker of batches.
    pub(crate) fn into_instance(self) -> Result<Instance, BatchWorker> {
        match self {
            Self::Generative(instance) => Ok(instance),
            Self::Inline(worker) => Err(BatchWorker::Inline(worker)),
            Self::Overlapped(worker) => Err(BatchWorker::Overlapped(worker)),
            Self::Resident(worker) => Err(BatchWorker::Resident(worker)),
        }
    }

    /// It, where the memory of its device does not hold all its models.
    pub(crate) fn resident_mut(&mut self) -> Option<&mut ResidentWorker> {
        match self {
            Self::Resident(worker) => Some(worker),
            Self::Inline(_) | Self::Overlapped(_) | Self::Generative(_) => None,
        }
    }

    /// With all its models open, where they were not yet.
    pub(crate) fn into_open(self) -> Result<Self, SessionError> {
        match self {
            Self::Resident(worker) => Ok(Self::Inline(worker.into_open()?)),
            Self::Inline(_) | Self::Overlapped(_) | Self::Generative(_) => Ok(self),
        }
    }

    /// Runs `model` on blank batches of `size` and gives the median time, the first runs left out.
    pub(crate) fn measure(
        &mut self,
        clock: Clock,
        model: usize,
        size: u32,
        runs: usize,
    ) -> Result<Span, SessionError> {
        let until = clock.now() + self.warming();
        self.warm_up(model, size)?;
        while clock.now() < until {
            self.warm_up(model, size)?;
        }
        let mut times = Vec::with_capacity(runs);
        for _ in 0..runs.max(1) {
            let began = clock.now();
            self.warm_up(model, size)?;
            times.push(clock.now().since(began));
        }
        times.sort_unstable();
        Ok(times[times.len() / 2])
    }

    /// For how long blank batches run before they are measured, at least: a GPU that was idle has low clocks at first.
    fn warming(&self) -> Span {
        match self {
            Self::Overlapped(_) => Span::from_millis(100),
            Self::Inline(_) | Self::Resident(_) | Self::Generative(_) => Span::ZERO,
        }
    }

    fn warm_up(&mut self, model: usize, size: u32) -> Result<(), SessionError> {
        match self {
            Self::Inline(worker) => worker.warm_up(model, size),
            Self::Overlapped(worker) => worker.warm_up(model, size),
            Self::Resident(worker) => worker.warm_up(model, size),
            Self::Generative(_) => Ok(()),
        }
    }
}

/// A worker of batches.
pub(crate) enum BatchWorker {
    Inline(InlineWorker),
    Overlapped(OverlappedWorker),
    Resident(ResidentWorker),
}

impl BatchWorker {
    /// Runs jobs on threads of its own until the channel closes.
    pub(crate) fn start(
        self,
        (on_launched, on_done, on_change): (BatchLaunchedSender, BatchDoneSender, SessionChangeSender),
        processor: &Arc<ProcessorTimes>,
    ) -> std::io::Result<WorkerHandle> {
        match self {
            Self::Resident(worker) => worker.start(on_change, on_done, processor),
            Self::Inline(worker) => worker.start(on_done, processor),
            Self::Overlapped(worker) => worker.start((on_launched, on_done), processor),
        }
    }
}
