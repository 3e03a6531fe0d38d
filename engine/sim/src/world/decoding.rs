//! The frames of a world are decoded, and what becomes of them is observed.

use weir_policy::Outcome;
use weir_types::{DropReason, RequestId, Span, StreamId, Timestamp};

use super::decoders::{OBSERVE_INTERVAL, Turn};
use super::{Event, World};

impl World<'_> {
    /// A frame of a stream was sent.
    pub(super) fn on_frame(&mut self, stream: StreamId) {
        if let Some(decoders) = &mut self.decoders {
            decoders.on_frame(stream, self.now);
        }
        self.decode_next();
    }

    /// A picture comes out: a request.
    pub(super) fn on_decoded(&mut self, stream: StreamId, sent_at: Timestamp) {
        if let Some(decoders) = &mut self.decoders {
            decoders.on_decoded();
        }
        self.admit(stream, sent_at);
        self.decode_next();
    }

    fn decode_next(&mut self) {
        let running = self.pools.iter().map(|pool| pool.busy_slots()).sum();
        while let Some(turn) = self.decoders.as_mut().and_then(|decoders| decoders.next(running)) {
            match turn {
                Turn::LeaveOut(stream) => {
                    self.policy_events += 1;
                    self.ledger.on_left_out(stream, DropReason::NotDecoded, 1);
                }
                Turn::Decode {
                    stream,
                    sent_at,
                    took,
                } => {
                    self.event_queue
                        .push(self.now + took, Event::Decoded(stream, sent_at));
                }
            }
        }
    }

    /// Whether a request in flight that ends now was decoded for nothing.
    pub(super) fn is_unused(&self, request: RequestId, outcome: Outcome) -> bool {
        match outcome {
            Outcome::Dropped(_, reason) => self.decoders.is_some() && self.ledger.is_unused(request, reason),
            Outcome::Delivered | Outcome::Late => false,
        }
    }

    /// A request has ended.
    pub(super) fn observe_end(&mut self, stream: StreamId, unused: bool) {
        if let Some(decoders) = &mut self.decoders {
            decoders.on_request_ended(stream, unused);
        }
    }

    /// The duration of a batch beside the decoders.
    pub(super) fn slowed(&self, took: Span) -> Span {
        match &self.decoders {
            Some(decoders) => Span::from_secs_f64(took.as_secs_f64() * decoders.slowdown()),
            None => took,
        }
    }

    pub(super) fn observe_decoding(&mut self) {
        if let Some(decoders) = &mut self.decoders {
            self.policy_events += decoders.streams() as u64;
            decoders.observe(self.now);
        }
        if self.goes_on() {
            self.event_queue
                .push(self.now + OBSERVE_INTERVAL, Event::DecodingTick);
        }
    }
}
