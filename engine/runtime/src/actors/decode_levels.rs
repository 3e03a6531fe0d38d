//! The actor of the levels of decoding: observes what became of the frames of each stream, and sets the levels that the
//! policy's `DecodeLevels` decides.

use std::time::Duration;

use actix::{Actor, AsyncContext, Context};
use weir_policy::{DecodeEffect, DecodeEvent, DecodeLevels};
use weir_types::Span;

use crate::clock::Clock;
use crate::record::Recorder;
use crate::source::SharedDecodeLevels;

/// Time between two observations: a few frames of a camera.
const OBSERVE_INTERVAL: Duration = Duration::from_millis(250);

pub(crate) struct DecodeLevelActor {
    policy: DecodeLevels,
    clock: Clock,
    recorder: Option<Recorder>,
    levels: SharedDecodeLevels,
    /// The first event, until there is something to observe.
    started: Option<DecodeEvent>,
}

impl DecodeLevelActor {
    pub(crate) fn new(
        levels: SharedDecodeLevels,
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
            started: Some(DecodeEvent::Started {
                cores: u32::try_from(cores).unwrap_or(u32::MAX),
                slo,
            }),
        }
    }

    fn observe(&mut self) {
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
}

impl Actor for DecodeLevelActor {
    type Context = Context<Self>;

    fn started(&mut self, context: &mut Self::Context) {
        context.run_interval(OBSERVE_INTERVAL, |actor, _| actor.observe());
    }
}
