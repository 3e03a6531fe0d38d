//! The observer: it looks four times a second at what threads other than that of control count. From what became of the frames of each
//! stream, the policy's `DecodeLevels` decides levels of decoding, which it sets; steps of motion gates it writes into the event log; and
//! it notes how much of the processor is used while frames are dropped.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use actix::{Actor, AsyncContext, Context};
use rustix::time::ClockId;
use weir_policy::{DecodeEffect, DecodeEvent, DecodeLevels, IdleWatch};
use weir_types::{Span, Timestamp};

use crate::clock::{Clock, processor_time};
use crate::progress::Progress;
use crate::record::Recorder;
use crate::source::{RecordedGates, SharedDecodeLevels};

/// Time between two observations: a few frames of a camera.
const OBSERVE_INTERVAL: Duration = Duration::from_millis(200);

pub(crate) struct Observer {
    policy: DecodeLevels,
    clock: Clock,
    recorder: Option<Recorder>,
    levels: SharedDecodeLevels,
    gates: RecordedGates,
    idle: Rc<Cell<IdleWatch>>,
    progress: Arc<Progress>,
    /// The first event, until there is something to observe.
    started: Option<DecodeEvent>,
}

impl Observer {
    pub(crate) fn new(
        (levels, gates): (SharedDecodeLevels, RecordedGates),
        (idle, progress): (Rc<Cell<IdleWatch>>, Arc<Progress>),
        slo: Span,
        clock: Clock,
        recorder: Option<Recorder>,
    ) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self {
            policy: DecodeLevels::default(),
            clock,
            recorder,
            levels,
            gates,
            idle,
            progress,
            started: Some(DecodeEvent::Started {
                cores: u32::try_from(cores).unwrap_or(u32::MAX),
                slo,
            }),
        }
    }

    fn observe(&mut self) {
        self.observe_idle();
        for (stream, hold_ms, steps) in self.gates.take_steps() {
            if let Some(recorder) = &self.recorder {
                recorder.record_gate(stream, hold_ms, steps);
            }
        }
        let observed = self.levels.take();
        if observed.is_empty() {
            return;
        }
        let events: Vec<DecodeEvent> = self.started.take().into_iter().chain(observed).collect();
        let now = self.clock.now();
        let mut effects = Vec::new();
        self.policy.step(events.iter().cloned(), now, &mut effects);
        if let Some(recorder) = &self.recorder {
            recorder.record_levels(now, &events, &effects);
        }
        for DecodeEffect::SetLevel { stream, level } in effects {
            if let Some(shared) = self.levels.get(stream) {
                tracing::debug!(stream = stream.0, ?level, "decoded at another level");
                shared.set_level(level);
            }
        }
    }

    fn observe_idle(&self) {
        let counts = self.progress.snapshot();
        let mut idle = self.idle.get();
        let at = self.clock.now().since(Timestamp::ZERO);
        let used = processor_time(ClockId::ProcessCPUTime);
        idle.observe(at, used, counts.dropped + counts.late);
        self.idle.set(idle);
    }
}

impl Actor for Observer {
    type Context = Context<Self>;

    fn started(&mut self, context: &mut Self::Context) {
        context.run_interval(OBSERVE_INTERVAL, |actor, _| actor.observe());
    }
}
