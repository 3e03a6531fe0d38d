//! Frames become requests; what each brings to each module.

use weir_control::{BooksMessage, EgressMessage, Message, ModuleMessage, RequestInfo};
use weir_policy::Admission;
use weir_types::{DropReason, ModuleId, StreamId, Timestamp};

use super::{Event, Site, World};
use crate::spec::WorldPool;

impl World<'_> {
    /// Handles the next frame of `stream`, or of the next stream in turn. It becomes a request at once, or
    /// after decoding.
    pub(super) fn on_arrival(&mut self, stream: Option<StreamId>) {
        let site = &mut self.site;
        site.events += 1;
        let stream = site.streams.on_frame(stream);
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
            self.site.streams.wait(stream);
            return self.admit_waiting(stream);
        }
        self.send(stream, sent_at);
    }

    /// Admits the frames of a lossless stream that wait, as far as there is room.
    pub(super) fn admit_waiting(&mut self, stream: StreamId) {
        while self.site.streams.take_waiting(stream) {
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
        if self.streams.on_ended(stream, self.now.since(sent_at)) {
            self.event_queue.push(self.now, Event::HasRoom(stream));
        }
    }

    /// A request that was sent at `sent_at`, and why it is not admitted.
    fn new_request(&mut self, stream: StreamId, sent_at: Timestamp) -> (RequestInfo, Option<DropReason>) {
        let request = RequestInfo {
            id: self.requests.next_id(),
            stream,
            sent_at,
            slo: self.streams.own_slo(stream),
            droppable: !self.spec.is_lossless(stream),
            route: 0,
        };
        let items = self.requests.add(stream, sent_at);
        self.tiles.fill(stream, items);
        self.timeline.on_sent(sent_at);
        if let Some(stages) = &mut self.stages {
            stages.on_request(stream, self.streams.are_named());
            // What comes there is seen as it does.
            let later = self.spec.cascades.later_stages();
            later.for_each(|module| items[module] = 0);
        }
        match self.streams.admit(stream) {
            Admission::Drop(reason) => (request, Some(reason)),
            Admission::Enter | Admission::Wait => (request, None),
        }
    }

    /// Number of items that a request brings to a module. A later stage of a cascade gets the items of which
    /// the stages before it were not certain.
    pub(super) fn items_at(&mut self, module: ModuleId, request: &RequestInfo) -> u8 {
        let brought = &mut self.requests.row_mut(request.id)[module.index()];
        let Some(stages) = &mut self.stages else {
            return *brought;
        };
        let asked = stages.on_arrived(module, request.id, *brought);
        *brought = asked;
        asked
    }

    /// Pools whose workers follow the items of requests learn of those that the last request will bring.
    fn foretell(&self, messages: &mut Vec<Message>) {
        let brought = (0..).map(ModuleId).zip(self.requests.last_row());
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
