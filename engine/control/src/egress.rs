//! The egress as a machine: requests of a graph begin and end here, each once.

use weir_policy::{Join, ModuleEvent, Outcome, RequestMap};
use weir_types::{DropReason, ModuleId, RequestId, Shortfall, Span, StreamId, Timestamp, Topology};

use crate::machine::{Machine, Outbox};
use crate::message::{BooksMessage, EgressMessage, Message};
use crate::request::{RequestInfo, Route};

/// A route, and what follows of it.
#[derive(Debug)]
struct KnownRoute {
    route: Route,
    /// Whether a request can be in several modules at once, so that others must learn of its drop.
    splits: bool,
}

/// See the module.
#[derive(Debug)]
pub struct Egress {
    /// The latency objective of requests that have none of their own.
    slo: Span,
    topology: Topology,
    routes: Vec<KnownRoute>,
    /// Whether no request may go on any more.
    is_abandoned: bool,
    /// Requests in flight.
    requests: RequestMap<RequestInfo>,
    join: Join<()>,
}

impl Egress {
    /// Creates the egress of a graph with this shape, without requests.
    #[must_use]
    pub fn new(slo: Span, topology: Topology, routes: Vec<Route>) -> Self {
        let mut egress = Self {
            slo,
            topology,
            routes: Vec::new(),
            is_abandoned: false,
            requests: RequestMap::default(),
            join: Join::default(),
        };
        routes.into_iter().for_each(|route| egress.add_route(route));
        egress
    }

    /// A request that is in flight, and the number of branches that make it whole at a module.
    #[must_use]
    pub fn at_module(&self, request: RequestId, module: ModuleId) -> Option<(RequestInfo, u32)> {
        let request = self.requests.get(request).copied()?;
        Some((request, self.branches(request.route, module).unwrap_or(1).max(1)))
    }

    /// Whether requests of a route pass a module.
    pub(crate) fn passes(&self, route: usize, module: ModuleId) -> bool {
        self.branches(route, module).is_some_and(|branches| branches > 0)
    }

    /// Number of branches of a route that come to a module; `None` for an unknown one.
    fn branches(&self, route: usize, module: ModuleId) -> Option<u32> {
        let known = self.routes.get(route)?;
        known.route.branches.get(module.index()).copied()
    }

    /// Requests that have come to the end on some of their branches and not on all.
    #[must_use]
    pub fn joining(&self) -> usize {
        self.join.len()
    }

    fn add_route(&mut self, route: Route) {
        let splits = route.splits(&self.topology);
        self.routes.push(KnownRoute { route, splits });
    }

    fn on_arrived(&mut self, request: RequestInfo, out: &mut Outbox) {
        let RequestInfo { id, stream, .. } = request;
        out.tell(Message::Books(BooksMessage::Arrived { request: id, stream }));
        self.requests.insert(id, request);
        if self.is_abandoned {
            return self.stop(id, out);
        }
        let entries = self
            .routes
            .get(request.route)
            .map_or(&[][..], |known| &known.route.entries);
        if entries.is_empty() {
            out.send(Message::Egress(EgressMessage::Completed(id)));
        }
        for entry in entries {
            out.send(Message::Goes(id, *entry));
        }
    }

    fn on_completed(&mut self, request: RequestId, now: Timestamp, out: &mut Outbox) {
        let Some(info) = self.requests.get(request).copied() else {
            return;
        };
        let exits = self.routes.get(info.route).map_or(1, |known| known.route.exits);
        if self.join.on_branch(request, exits, (), |_, ()| ()).is_none() {
            return;
        }
        let latency = now.since(info.sent_at);
        let outcome = if latency > info.slo.unwrap_or(self.slo) {
            Outcome::Late
        } else {
            Outcome::Delivered
        };
        self.end(request, outcome, (Some(latency), None), out);
    }

    /// Ends a request, with its latency and its shortfall; modules that may have it learn of it. Nothing happens where it
    /// had ended already.
    fn end(
        &mut self,
        request: RequestId,
        outcome: Outcome,
        (latency, shortfall): (Option<Span>, Option<Shortfall>),
        out: &mut Outbox,
    ) {
        let Some(info) = self.requests.remove(request) else {
            return;
        };
        out.tell(Message::Books(BooksMessage::Ended {
            request: info,
            outcome,
            latency,
            shortfall,
        }));
        let Outcome::Dropped(by, _) = outcome else {
            return;
        };
        let splits = self.routes.get(info.route).is_none_or(|known| known.splits);
        if splits || by.is_none() {
            self.join.cancel(request);
            let modules = (0..self.topology.len() as u32).map(ModuleId);
            for module in modules.filter(|module| Some(*module) != by) {
                out.send(Message::fact(module, ModuleEvent::Cancelled { request }));
            }
        }
    }

    fn abandon(&mut self, stream: Option<StreamId>, out: &mut Outbox) {
        let of_stream = |info: &RequestInfo| stream.is_none_or(|stream| info.stream == stream);
        let open = self.requests.iter().filter(|(_, info)| of_stream(info));
        let open: Vec<RequestId> = open.map(|(request, _)| request).collect();
        open.into_iter().for_each(|request| self.stop(request, out));
        self.is_abandoned |= stream.is_none();
    }

    fn stop(&mut self, request: RequestId, out: &mut Outbox) {
        let outcome = Outcome::Dropped(None, DropReason::Stopped);
        self.end(request, outcome, (None, None), out);
    }
}

impl Machine for Egress {
    type Message = EgressMessage;

    fn on(&mut self, message: EgressMessage, now: Timestamp, out: &mut Outbox) {
        match message {
            EgressMessage::Arrived(request) => self.on_arrived(request, out),
            EgressMessage::RouteAdded(route) => self.add_route(route),
            EgressMessage::Completed(request) => self.on_completed(request, now, out),
            EgressMessage::Dropped {
                request,
                module,
                reason,
                shortfall,
            } => {
                let outcome = Outcome::Dropped(Some(module), reason);
                self.end(request, outcome, (None, shortfall), out);
            }
            EgressMessage::Abandon(stream) => self.abandon(stream, out),
        }
    }

    fn decide(&mut self, _now: Timestamp, _out: &mut Outbox) {}

    fn is_due(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Outgoing;

    fn request(number: u64, stream: u32) -> EgressMessage {
        EgressMessage::Arrived(RequestInfo {
            id: RequestId(number),
            stream: StreamId(stream),
            sent_at: Timestamp::ZERO,
            slo: None,
            droppable: true,
            route: 0,
        })
    }

    /// Gives the requests that end as stopped, and the number of cancellations.
    fn stopped(egress: &mut Egress, message: EgressMessage) -> (Vec<u64>, usize) {
        let mut out = Outbox::default();
        egress.on(message, Timestamp::ZERO, &mut out);
        let (mut ended, mut cancelled) = (Vec::new(), 0);
        for outgoing in out.drain() {
            match outgoing {
                Outgoing::Tell(Message::Books(BooksMessage::Ended { request, outcome, .. })) => {
                    assert_eq!(outcome, Outcome::Dropped(None, DropReason::Stopped));
                    ended.push(request.id.0);
                }
                Outgoing::Send { message, .. } => {
                    cancelled += usize::from(matches!(message, Message::Module(..)));
                }
                Outgoing::Tell(_) | Outgoing::Act(_) => {}
            }
        }
        (ended, cancelled)
    }

    #[test]
    fn requests_that_are_abandoned_end_once_and_none_comes_after_all_were() {
        let topology = Topology::new(vec![vec![ModuleId(1)], vec![]]);
        let routes = vec![Route::through(&topology)];
        let mut egress = Egress::new(Span::from_secs(1), topology, routes);
        for (number, stream) in [(0, 0), (1, 1), (2, 0)] {
            assert_eq!(stopped(&mut egress, request(number, stream)), (vec![], 0));
        }
        let of_stream = EgressMessage::Abandon(Some(StreamId(0)));
        assert_eq!(stopped(&mut egress, of_stream.clone()), (vec![0, 2], 4));
        assert_eq!(stopped(&mut egress, of_stream), (vec![], 0));
        assert_eq!(
            stopped(&mut egress, request(3, 0)),
            (vec![], 0),
            "a stream may go on"
        );
        assert_eq!(
            stopped(&mut egress, EgressMessage::Abandon(None)),
            (vec![1, 3], 4)
        );
        assert_eq!(stopped(&mut egress, request(4, 1)), (vec![4], 2), "at once");
    }
}
