//! The books as a machine: each request by its outcome, device time, and latencies.

use std::collections::BTreeSet;

use weir_policy::{Ledger, ModuleEvent, Outcome, RunStats, StreamReport};
use weir_types::{Shortfall, StreamId, Timestamp};

use crate::machine::{Machine, Outbox};
use crate::message::{BooksMessage, Effect, Message};
use crate::request::RequestInfo;

/// See the module. Several graphs may share them.
#[derive(Debug, Default)]
pub struct Books {
    ledger: Ledger,
    stats: RunStats,
    /// Streams that were removed and of which something is in flight.
    removed: BTreeSet<StreamId>,
}

impl Books {
    /// Each request by its outcome.
    #[must_use]
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Latencies; statistics of modules are with their machines.
    #[must_use]
    pub fn stats(&self) -> &RunStats {
        &self.stats
    }

    /// Takes a stream out of the books, and gives its report over the `seconds` that it was there. `None`, and nothing is
    /// changed, while a request of it is in flight.
    pub fn close_stream(&mut self, stream: StreamId, seconds: f64) -> Option<StreamReport> {
        self.stats.remove_stream(&mut self.ledger, stream, seconds)
    }

    fn end(
        &mut self,
        request: RequestInfo,
        outcome: Outcome,
        shortfall: Option<Shortfall>,
        out: &mut Outbox,
    ) -> bool {
        let unused = match outcome {
            Outcome::Dropped(_, reason) => self.ledger.is_unused(request.id, reason),
            Outcome::Delivered | Outcome::Late => false,
        };
        if !self.ledger.on_ended(request.id, outcome) {
            return false;
        }
        out.act(Effect::Ended {
            request,
            outcome,
            unused,
            shortfall,
        });
        self.complete_removal(request.stream, out);
        true
    }

    /// Modules learn of a stream that was removed, once nothing of it is in flight.
    fn complete_removal(&mut self, stream: StreamId, out: &mut Outbox) {
        if self.removed.contains(&stream) && self.ledger.stream(stream).in_flight == 0 {
            self.removed.remove(&stream);
            out.send(Message::Modules(ModuleEvent::StreamRemoved { stream }));
        }
    }
}

impl Machine for Books {
    type Message = BooksMessage;

    fn on(&mut self, message: BooksMessage, _now: Timestamp, out: &mut Outbox) {
        match message {
            BooksMessage::Arrived { request, stream } => _ = self.ledger.on_arrived(request, stream),
            BooksMessage::Rejected { request, reason } => {
                self.ledger.on_arrived(request.id, request.stream);
                self.end(request, Outcome::Dropped(None, reason), None, out);
            }
            BooksMessage::LeftOut {
                stream,
                reason,
                count,
            } => self.ledger.on_left_out(stream, reason, count),
            BooksMessage::Still { stream, count } => self.ledger.on_still(stream, count),
            BooksMessage::Spent {
                request,
                module,
                span,
            } => self.ledger.on_spent(request, module, span),
            BooksMessage::Ended {
                request,
                outcome,
                latency,
                shortfall,
            } => {
                let stream = request.stream;
                if self.end(request, outcome, shortfall, out)
                    && let Some(latency) = latency
                {
                    self.stats.on_completed(stream, latency);
                }
            }
            BooksMessage::RemoveStream(stream) => {
                self.removed.insert(stream);
                self.complete_removal(stream, out);
            }
        }
    }

    fn decide(&mut self, _now: Timestamp, _out: &mut Outbox) {}

    fn is_due(&self) -> bool {
        false
    }
}
