//! A request's way through a world: it comes, is handed on from module to module, and ends once.

use weir_policy::{Admission, ModuleEvent, Outcome};
use weir_types::{ModuleId, RequestId, Span, StreamId, Timestamp};

use super::{Event, RequestState, World};

impl World<'_> {
    /// The next frame comes, of `stream` or of the next in turn: a request, once it is decoded where it has to be.
    pub(super) fn on_arrival(&mut self, stream: Option<StreamId>) {
        self.events += 1;
        let streams = self.spec.streams.max(1);
        let in_turn = (self.frames % u64::from(streams)) as u32;
        self.frames += 1;
        self.names_streams = stream.is_some();
        let stream = StreamId(stream.map_or(in_turn, |stream| stream.0.min(streams - 1)));
        if self.decoders.is_some() {
            self.on_frame(stream);
        } else {
            self.admit(stream, self.now);
        }
    }

    /// A request comes that was sent at `sent_at`.
    pub(super) fn admit(&mut self, stream: StreamId, sent_at: Timestamp) {
        let request = RequestId(self.requests.len() as u64);
        let row = self.items.len();
        self.items.resize(row + self.modules.len(), 1);
        self.sampler.draw(stream.0, &mut self.items[row..]);
        self.requests.push(RequestState {
            sent_at,
            stream,
            slo: self.own_slo[stream.index()],
            ended: false,
        });
        // The ledger and the gate take this in.
        self.policy_events += 2;
        self.ledger.on_arrived(request, stream);
        self.timeline.on_sent(sent_at);
        if let Some(stages) = &mut self.stages {
            stages.on_request(stream, self.names_streams);
            // What comes there is seen as it does.
            let later = self.spec.cascades.later_stages();
            later.for_each(|module| self.items[row + module] = 0);
        }
        for (pool, items) in self.pools.iter_mut().zip(&self.items[row..]) {
            pool.on_request(u32::from(*items), self.now);
        }
        if let Admission::Drop(reason) = self.limits[stream.index()].admit(true) {
            self.end(request, Outcome::Dropped(None, reason), false);
            return;
        }
        for entrance in 0..self.entrances.len() {
            self.forward(Some(self.entrances[entrance]), request, None);
        }
    }

    /// Sends a request on its way to a module or to the end.
    pub(super) fn forward(&mut self, to: Option<ModuleId>, request: RequestId, link: Option<usize>) {
        let mut at = self.now + self.spec.hop;
        if let Some((link, free)) =
            link.and_then(|link| Some((self.spec.links.get(link)?, self.link_free.get_mut(link)?)))
        {
            *free = (*free).max(at) + Span::from_secs_f64(link.bytes * 8.0 / link.bandwidth_bps.max(1.0));
            at = *free + link.latency;
        }
        if at == self.now {
            self.on_request_arrived(to, request);
        } else {
            self.event_queue
                .push_in_order(at, Event::RequestArrived(to, request));
        }
    }

    pub(super) fn on_request_arrived(&mut self, to: Option<ModuleId>, request: RequestId) {
        let state = self.requests[request.index()];
        if state.ended {
            return;
        }
        let place = to.map_or(self.modules.len(), ModuleId::index);
        if self.join_counts[place] > 1 {
            let of = self.join_counts[place];
            if self.joins[place].on_branch(request, of, (), |_, ()| ()).is_none() {
                return;
            }
        }
        let Some(module) = to else {
            let latency = self.now.since(state.sent_at);
            self.stats.on_completed(state.stream, latency);
            let late = latency > state.slo.unwrap_or(self.spec.slo);
            self.end(
                request,
                if late { Outcome::Late } else { Outcome::Delivered },
                true,
            );
            return;
        };
        let items = self.items_at(module, request);
        if let Some(prompted) = self.prompted(module, request, items) {
            return self.deliver(module, prompted);
        }
        let arrived = ModuleEvent::Arrived {
            request,
            stream: state.stream,
            sent_at: state.sent_at,
            items: u32::from(items),
            droppable: true,
            slo: state.slo,
        };
        self.deliver(module, arrived);
    }

    /// What a request brings to a module. A stage of a cascade gets what those before it were not certain of.
    fn items_at(&mut self, module: ModuleId, request: RequestId) -> u8 {
        let row = request.index() * self.modules.len();
        let brought = &mut self.items[row + module.index()];
        let Some(stages) = &mut self.stages else {
            return *brought;
        };
        let asked = stages.on_arrived(module, request, *brought);
        *brought = asked;
        if self.spec.cascades.is_later_stage(module.index()) {
            self.pools[module.index()].on_request(u32::from(asked), self.now);
        }
        asked
    }

    /// Ends a request; the modules that may have it are notified. Says false where it had ended already.
    pub(super) fn end(&mut self, request: RequestId, outcome: Outcome, entered: bool) -> bool {
        let unused = self.is_unused(request, outcome);
        if !self.ledger.on_ended(request, outcome) {
            return false;
        }
        self.policy_events += 1 + u64::from(entered);
        let state = &mut self.requests[request.index()];
        state.ended = true;
        let (stream, sent_at) = (state.stream, state.sent_at);
        if let Some(stages) = &mut self.stages {
            let row = request.index() * self.modules.len();
            let items = &self.items[row..row + self.modules.len()];
            stages.on_ended(request, outcome == Outcome::Delivered, items);
        }
        self.observe_end(stream, unused);
        if outcome != Outcome::Delivered {
            self.timeline.on_lost(sent_at);
        }
        if entered {
            self.limits[stream.index()].on_ended(Span::ZERO);
        }
        self.complete_removal(stream);
        if let Outcome::Dropped(by, _) = outcome
            && self.has_branches
        {
            for (join, of) in self.joins.iter_mut().zip(&self.join_counts) {
                if *of > 1 {
                    join.cancel(request);
                }
            }
            for module in (0..self.modules.len() as u32).map(ModuleId) {
                if Some(module) != by {
                    self.send(module, ModuleEvent::Cancelled { request });
                }
            }
        }
        true
    }
}
