//! The actor of the levels of decoding: observes what became of the frames of each stream, and sets the levels that the
//! policy's `DecodeLevels` decides.

use std::time::Duration;

use actix::{Actor, AsyncContext, Context};
use weir_policy::{DecodeEffect, DecodeEvent, DecodeLevels};
use weir_types::Span;

use super::burst::{Burst, PolicyActor};
use crate::clock::Clock;
use crate::record::Recorder;
use crate::source::SharedDecodeLevels;

/// Time between two observations: a few frames of a camera.
const OBSERVE_INTERVAL: Duration = Duration::from_millis(250);

pub(crate) struct DecodeLevelActor {
    burst: Burst<DecodeLevels>,
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
            burst: Burst::new(DecodeLevels::default(), clock, recorder),
            levels,
            started: Some(DecodeEvent::Started {
                cores: u32::try_from(cores).unwrap_or(u32::MAX),
                slo,
            }),
        }
    }

    fn observe(&mut self, context: &mut Context<Self>) {
        let events = self.levels.take();
        if events.is_empty() {
            return;
        }
        for event in self.started.take().into_iter().chain(events) {
            self.on_event(event, context);
        }
    }
}

impl PolicyActor for DecodeLevelActor {
    type Machine = DecodeLevels;

    fn burst(&mut self) -> &mut Burst<DecodeLevels> {
        &mut self.burst
    }

    fn apply(
        &mut self,
        DecodeEffect::SetLevel { stream, level }: DecodeEffect,
        _context: &mut Context<Self>,
    ) {
        if let Some(shared) = self.levels.get(stream) {
            tracing::debug!(stream = stream.0, ?level, "decoded at another level");
            shared.set_level(level);
        }
    }
}

impl Actor for DecodeLevelActor {
    type Context = Context<Self>;

    fn started(&mut self, context: &mut Self::Context) {
        context.run_interval(OBSERVE_INTERVAL, Self::observe);
    }
}
