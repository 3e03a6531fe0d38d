//! Frames become requests; what each brings to each module.

use weir_control::{BooksMessage, EgressMessage, Message, ModuleMessage, RequestInfo};
use weir_policy::Admission;
use weir_types::{DropReason, ModuleId, RequestId, StreamId, Timestamp};

use super::{Event, Site, World};
use crate::spec::WorldPool;

impl World<'_> {
    /// Handles the next frame of `stream`, or of the next stream in turn. It becomes a request at once, or
    /// after decoding.
    pub(super) fn on_arrival(&mut self, stream: Option<StreamId>) {
        let site = &mut self.site;
        site.events += 1;
        let streams = site.spec.streams.max(1);
        let in_turn = (site.frames % u64::from(streams)) as u32;
        site.frames += 1;
        site.names_streams = stream.is_some();
        let stream = StreamId(stream.map_or(in_turn, |stream| stream.0.min(streams - 1)));
        if site.decoders.is_some() {
            self.on_frame(stream);
        } else {
            let now = site.now;
            self.admit(stream, now);
        }
    }

    /// A request comes that was sent at `sent_at`. A frame of a lossless stream waits while its stream is at
    /// the limit, and is sent once it is admitted.
    pub(super) fn admit(&mut self, stream: StreamId, sent_at: Timestamp) {
        if self.site.spec.is_lossless(stream) {
            self.site.waiting[stream.index()] += 1;
            return self.admit_waiting(stream);
        }
        self.send(stream, sent_at);
    }

    /// Admits the frames of a lossless stream that wait, as far as there is room.
    pub(super) fn admit_waiting(&mut self, stream: StreamId) {
        let place = stream.index();
        while self.site.waiting[place] > 0 && self.site.limits[place].has_room() {
            self.site.waiting[place] -= 1;
            self.send(stream, self.site.now);
        }
    }

    /// A request is sent, or rejected.
    fn send(&mut self, stream: StreamId, sent_at: Timestamp) {
        let (request, rejected) = self.site.new_request(stream, sent_at);
        self.tell_all(|site, messages| site.foretell(messages));
        self.tell(match rejected {
            Some(reason) => Message::Books(BooksMessage::Rejected { request, reason }),
            None => Message::Egress(EgressMessage::Arrived(request)),
        });
    }
}

impl Site<'_> {
    /// A request of a stream has ended: a frame that waits for that may come.
    pub(super) fn free_place(&mut self, stream: StreamId, sent_at: Timestamp) {
        self.limits[stream.index()].on_ended(self.now.since(sent_at));
        if self.waiting[stream.index()] > 0 {
            self.event_queue.push(self.now, Event::HasRoom(stream));
        }
    }

    /// A request that was sent at `sent_at`, and why it is not admitted.
    fn new_request(&mut self, stream: StreamId, sent_at: Timestamp) -> (RequestInfo, Option<DropReason>) {
        let request = RequestInfo {
            id: RequestId(self.sent.len() as u64),
            stream,
            sent_at,
            slo: self.own_slo[stream.index()],
            droppable: !self.spec.is_lossless(stream),
            route: 0,
        };
        let row = self.items.len();
        self.items.resize(row + self.spec.modules.len(), 1);
        self.sampler.draw(stream.0, &mut self.items[row..]);
        self.tiles.fill(stream, &mut self.items[row..]);
        self.sent.push(sent_at);
        self.timeline.on_sent(sent_at);
        if let Some(stages) = &mut self.stages {
            stages.on_request(stream, self.names_streams);
            // What comes there is seen as it does.
            let later = self.spec.cascades.later_stages();
            later.for_each(|module| self.items[row + module] = 0);
        }
        match self.limits[stream.index()].admit(true) {
            Admission::Drop(reason) => (request, Some(reason)),
            Admission::Enter | Admission::Wait => (request, None),
        }
    }

    /// Number of items that a request brings to a module. A later stage of a cascade gets the items of which
    /// the stages before it were not certain.
    pub(super) fn items_at(&mut self, module: ModuleId, request: &RequestInfo) -> u8 {
        let row = request.id.index() * self.spec.modules.len();
        let brought = &mut self.items[row + module.index()];
        let Some(stages) = &mut self.stages else {
            return *brought;
        };
        let asked = stages.on_arrived(module, request.id, *brought);
        *brought = asked;
        asked
    }

    /// Pools whose workers follow the items of requests learn of those that the last request will bring.
    fn foretell(&self, messages: &mut Vec<Message>) {
        let modules = self.spec.modules.len();
        let brought = &self.items[self.items.len() - modules..];
        let brought = (0..).map(ModuleId).zip(brought);
        messages.extend(brought.filter_map(|(module, items)| self.foretold(module, u32::from(*items))));
    }

    /// Items that a request will bring to a module, where its workers follow them.
    pub(super) fn foretold(&self, module: ModuleId, items: u32) -> Option<Message> {
        match &self.spec.modules[module.index()].pool {
            WorldPool::Scaled(scaling) if scaling.is_foretold => {
                Some(Message::Module(module, ModuleMessage::Foretold(items)))
            }
            _ => None,
        }
    }
}
