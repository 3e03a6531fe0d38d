//! The egress as a machine: requests begin and end here, each once, and the books are kept.

use std::collections::BTreeSet;

use weir_policy::{Join, Ledger, ModuleEvent, Outcome, RequestMap, RunStats};
use weir_types::{DropReason, ModuleId, RequestId, Shortfall, Span, StreamId, Timestamp};

use crate::machine::{Machine, Outbox};
use crate::message::{Effect, EgressMessage, Message};
use crate::request::{RequestInfo, Route};

/// See the module.
#[derive(Debug)]
pub struct Egress {
    /// The latency objective of requests that have none of their own.
    slo: Span,
    routes: Vec<Route>,
    /// By route: whether a request can be in several modules at once, so that others must learn of its drop.
    splits: Vec<bool>,
    modules: u32,
    ledger: Ledger,
    stats: RunStats,
    /// Requests in flight.
    requests: RequestMap<RequestInfo>,
    join: Join<()>,
    /// Streams that were removed and of which something is in flight.
    removed: BTreeSet<StreamId>,
}

impl Egress {
    /// Without a request. `splits`: by route, whether a request can be in several modules at once.
    #[must_use]
    pub fn new(slo: Span, routes: Vec<Route>, splits: Vec<bool>, modules: u32) -> Self {
        Self {
            slo,
            routes,
            splits,
            modules,
            ledger: Ledger::default(),
            stats: RunStats::default(),
            requests: RequestMap::default(),
            join: Join::default(),
            removed: BTreeSet::new(),
        }
    }

    /// The books: each request by its outcome.
    #[must_use]
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Latencies; statistics of modules are with their machines.
    #[must_use]
    pub fn stats(&self) -> &RunStats {
        &self.stats
    }

    /// A request that is in flight.
    #[must_use]
    pub fn request(&self, request: RequestId) -> Option<RequestInfo> {
        self.requests.get(request).copied()
    }

    /// Requests that have come to the end on some of their branches and not on all.
    #[must_use]
    pub fn joining(&self) -> usize {
        self.join.len()
    }

    fn all_modules(&self) -> impl Iterator<Item = ModuleId> + use<> {
        (0..self.modules).map(ModuleId)
    }

    fn on_arrived(&mut self, request: RequestInfo, rejected: Option<DropReason>, out: &mut Outbox) {
        self.ledger.on_arrived(request.id, request.stream);
        self.requests.insert(request.id, request);
        if let Some(reason) = rejected {
            self.end(request.id, Outcome::Dropped(None, reason), None, out);
            return;
        }
        let entries = self
            .routes
            .get(request.route)
            .map_or(&[][..], |route| &route.entries);
        if entries.is_empty() {
            out.send(Message::Goes(request.id, None));
        }
        for entry in entries {
            out.send(Message::Goes(request.id, Some(*entry)));
        }
    }

    fn on_completed(&mut self, request: RequestId, now: Timestamp, out: &mut Outbox) {
        let Some(request) = self.request(request) else {
            return;
        };
        let exits = self.routes.get(request.route).map_or(1, |route| route.exits);
        if self.join.on_branch(request.id, exits, (), |_, ()| ()).is_none() {
            return;
        }
        let latency = now.since(request.sent_at);
        self.stats.on_completed(request.stream, latency);
        let outcome = if latency > request.slo.unwrap_or(self.slo) {
            Outcome::Late
        } else {
            Outcome::Delivered
        };
        self.end(request.id, outcome, None, out);
    }

    /// Ends a request; modules that may have it learn of it. Nothing happens where it had ended already.
    fn end(&mut self, request: RequestId, outcome: Outcome, shortfall: Option<Shortfall>, out: &mut Outbox) {
        let unused = match outcome {
            Outcome::Dropped(_, reason) => self.ledger.is_unused(request, reason),
            Outcome::Delivered | Outcome::Late => false,
        };
        let Some(info) = self.requests.remove(request) else {
            return;
        };
        if !self.ledger.on_ended(request, outcome) {
            return;
        }
        out.act(Effect::Ended {
            request: info,
            outcome,
            entered: !matches!(outcome, Outcome::Dropped(None, _)),
            unused,
            shortfall,
        });
        self.complete_removal(info.stream, out);
        let splits = self.splits.get(info.route).copied().unwrap_or(true);
        if let Outcome::Dropped(by, _) = outcome
            && splits
        {
            self.join.cancel(request);
            for module in self.all_modules().filter(|module| Some(*module) != by) {
                out.send(Message::fact(module, ModuleEvent::Cancelled { request }));
            }
        }
    }

    /// Modules learn of a stream that was removed, once nothing of it is in flight.
    fn complete_removal(&mut self, stream: StreamId, out: &mut Outbox) {
        if self.removed.contains(&stream) && self.ledger.stream(stream).in_flight == 0 {
            self.removed.remove(&stream);
            for module in self.all_modules() {
                out.send(Message::fact(module, ModuleEvent::StreamRemoved { stream }));
            }
        }
    }
}

impl Machine for Egress {
    type Message = EgressMessage;

    fn on(&mut self, message: EgressMessage, now: Timestamp, out: &mut Outbox) {
        match message {
            EgressMessage::Arrived { request, rejected } => self.on_arrived(request, rejected, out),
            EgressMessage::LeftOut {
                stream,
                reason,
                count,
            } => self.ledger.on_left_out(stream, reason, count),
            EgressMessage::Completed(request) => self.on_completed(request, now, out),
            EgressMessage::Dropped {
                request,
                module,
                reason,
                shortfall,
            } => self.end(request, Outcome::Dropped(Some(module), reason), shortfall, out),
            EgressMessage::Spent {
                request,
                module,
                span,
            } => self.ledger.on_spent(request, module, span),
            EgressMessage::RemoveStream(stream) => {
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
