//! Decodes the frames of a world and reports the outcome to the decode levels.

use weir_control::{BooksMessage, Message};
use weir_types::{DropReason, StreamId, Timestamp};

use super::decoders::{OBSERVE_INTERVAL, Turn};
use super::{Event, World};

impl World<'_> {
    /// A frame of a stream was sent.
    pub(super) fn on_frame(&mut self, stream: StreamId) {
        if let Some(decoders) = &mut self.site.decoders {
            decoders.on_frame(stream, self.site.now);
        }
        self.decode_next();
    }

    /// A picture comes out: a request, unless nothing changed in it.
    pub(super) fn on_decoded(&mut self, stream: StreamId, sent_at: Timestamp) {
        let now = self.site.now;
        let decoders = self.site.decoders.as_mut();
        if decoders.is_some_and(|decoders| decoders.on_decoded(stream, sent_at, now)) {
            self.tell(Message::Books(BooksMessage::Still { stream, count: 1 }));
        } else {
            self.admit(stream, sent_at);
        }
        self.decode_next();
    }

    fn decode_next(&mut self) {
        let running = self.site.pools.iter().map(|pool| pool.busy_slots()).sum();
        while let Some(turn) = self
            .site
            .decoders
            .as_mut()
            .and_then(|decoders| decoders.next(running))
        {
            match turn {
                Turn::LeaveOut(stream) => {
                    let (reason, count) = (DropReason::NotDecoded, 1);
                    self.tell(Message::Books(BooksMessage::LeftOut {
                        stream,
                        reason,
                        count,
                    }));
                }
                Turn::HoldBack(stream) => {
                    self.tell(Message::Books(BooksMessage::Still { stream, count: 1 }));
                }
                Turn::Decode {
                    stream,
                    sent_at,
                    took,
                } => {
                    self.site
                        .event_queue
                        .push(self.site.now + took, Event::Decoded(stream, sent_at));
                }
            }
        }
    }

    pub(super) fn observe_decoding(&mut self) {
        if let Some(decoders) = &mut self.site.decoders {
            self.site.facts += decoders.streams() as u64;
            decoders.observe(self.site.now);
        }
        if self.goes_on() {
            self.site
                .event_queue
                .push(self.site.now + OBSERVE_INTERVAL, Event::DecodingTick);
        }
    }
}
