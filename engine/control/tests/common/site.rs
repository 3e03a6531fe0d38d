//! Surroundings of the machines: slots that run batches, frames that come, messages on their way.

use std::collections::{BTreeMap, BTreeSet};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde::{Serialize, de::DeserializeOwned};
use weir_control::{Act, Address, BatchEnd, Effect, Entry, Message, ModuleMessage, RequestInfo, View};
use weir_policy::*;
use weir_types::*;

use super::scenario::{Items, Scenario, Stream};

#[derive(Debug, Clone)]
pub enum Event {
    Frame(u32),
    Message(Box<Message>),
    Done(ModuleId, SlotId, BatchId, Span),
    FlapSlot(bool),
    Tick,
}

/// The state of one request.
pub struct RequestState {
    pub sent_at: Timestamp,
    pub ended: Option<(Outcome, Timestamp)>,
    /// By module: items that ran.
    ran: BTreeMap<u32, BTreeSet<u32>>,
}

pub struct Site {
    pub scenario: Scenario,
    pub now: Timestamp,
    next: u64,
    pub events: BTreeMap<(Timestamp, u64), Event>,
    /// When the last message from one machine to another arrives.
    last_arrival: BTreeMap<(Address, Address), Timestamp>,
    limits: Vec<ConcurrencyLimit>,
    blocked_frames: Vec<u32>,
    frames_left: Vec<u32>,
    /// Streams of which a frame waited and can become a request now.
    pub unblocked: Vec<u32>,
    pub requests: Vec<RequestState>,
    running: BTreeMap<u32, (ModuleId, BatchId)>,
    lost: BTreeSet<u32>,
    random: Pcg64Mcg,
    pub log: String,
    pub runs: u64,
}

pub fn json_round_trip<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(value: &T) -> T {
    let text = serde_json::to_string(value).unwrap();
    let back: T = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error} in {text}"));
    assert_eq!(&back, value, "{text}");
    back
}

impl Site {
    pub fn new(scenario: Scenario) -> Self {
        let limit = |stream: &Stream| {
            ConcurrencyLimit::new(ConcurrencyLimitSpec {
                overflow: if stream.lossless {
                    Overflow::Backpressure
                } else {
                    Overflow::Drop
                },
                initial: stream.max_in_flight,
                max: stream.max_in_flight,
                slo: Span::MAX,
            })
        };
        let mut site = Self {
            now: Timestamp::ZERO,
            next: 0,
            events: BTreeMap::new(),
            last_arrival: BTreeMap::new(),
            limits: scenario.streams.iter().map(limit).collect(),
            blocked_frames: vec![0; scenario.streams.len()],
            frames_left: scenario.streams.iter().map(|stream| stream.frames).collect(),
            unblocked: Vec::new(),
            requests: Vec::new(),
            running: BTreeMap::new(),
            lost: BTreeSet::new(),
            random: Pcg64Mcg::seed_from_u64(scenario.seed),
            log: String::new(),
            runs: 0,
            scenario,
        };
        for stream in 0..site.scenario.streams.len() as u32 {
            site.push(Span::ZERO, Event::Frame(stream));
        }
        site.push(Span::ZERO, Event::Tick);
        if site.scenario.flaky_slot.is_some() {
            site.push(Span::from_millis(100), Event::FlapSlot(true));
        }
        site
    }

    pub fn push(&mut self, after: Span, event: Event) {
        self.events.insert((self.now + after, self.next), event);
        self.next += 1;
    }

    /// Whether no frame is to come and nothing runs.
    pub fn is_quiet(&self) -> bool {
        let none = |counts: &[u32]| counts.iter().all(|&count| count == 0);
        none(&self.frames_left) && none(&self.blocked_frames) && self.running.is_empty()
    }

    pub fn check_end(&self) {
        assert!(self.limits.iter().all(|limit| limit.in_flight() == 0));
    }

    /// Whether the stream has another frame now; the one after it comes in its time.
    pub fn next_frame(&mut self, stream: u32) -> bool {
        let at = stream as usize;
        if self.frames_left[at] == 0 {
            return false;
        }
        self.frames_left[at] -= 1;
        let Stream { period, poisson, .. } = self.scenario.streams[at];
        let factor = if poisson {
            -(1.0 - self.random.random::<f64>()).ln()
        } else {
            1.0
        };
        self.push(period.scale(factor), Event::Frame(stream));
        true
    }

    /// A frame becomes a request: why it is dropped at once. `None`: it waits.
    pub fn admit(&mut self, stream: u32) -> Option<Option<DropReason>> {
        let rejected = match self.limits[stream as usize].admit(true) {
            Admission::Wait => {
                self.blocked_frames[stream as usize] += 1;
                return None;
            }
            Admission::Drop(reason) => Some(reason),
            Admission::Enter => None,
        };
        self.requests.push(RequestState {
            sent_at: self.now,
            ended: None,
            ran: BTreeMap::new(),
        });
        Some(rejected)
    }

    fn items(&self, module: ModuleId, request: RequestId) -> u32 {
        match self.scenario.vertices[module.index()].items {
            Items::Fixed(items) => items,
            Items::UpTo(most) => {
                let seed = self.scenario.seed ^ (request.0 << 8) ^ u64::from(module.0);
                Pcg64Mcg::seed_from_u64(seed).random_range(0..=most)
            }
        }
    }

    fn run(&mut self, module: ModuleId, slot: SlotId, batch: BatchId, slices: &[BatchSlice]) {
        let items = self.check_run(module, slot, batch, slices);
        let factor = 1.0 + self.scenario.noise * (2.0 * self.random.random::<f64>() - 1.0);
        let profile = self.scenario.vertices[module.index()].profile();
        let took = profile.duration(items).scale(factor);
        self.runs += 1;
        if self.lost.contains(&slot.0) {
            // Granted just before the slot was lost.
            self.running.remove(&slot.0);
            let ended = lost_batch(module, slot, batch, Span::ZERO);
            self.push(self.scenario.message_delay, Event::Message(Box::new(ended)));
        } else {
            self.push(took, Event::Done(module, slot, batch, took));
        }
        for slice in slices {
            let state = &mut self.requests[slice.request.index()];
            let ran = state.ran.entry(module.0).or_default();
            let fresh = (slice.first..slice.first + slice.count).all(|item| ran.insert(item));
            assert!(fresh, "items of {:?} run twice", slice.request);
        }
    }

    fn check_run(&mut self, module: ModuleId, slot: SlotId, batch: BatchId, slices: &[BatchSlice]) -> u32 {
        let vertex = &self.scenario.vertices[module.index()];
        assert!(vertex.slots.contains(&slot.0));
        let before = self.running.insert(slot.0, (module, batch));
        assert_eq!(before, None, "two batches on {slot:?}");
        let items: u32 = slices.iter().map(|slice| slice.count).sum();
        let most = vertex.batch.iter().max().copied().unwrap_or(1);
        assert!(
            items >= 1 && items <= most,
            "{items} items in a batch of {module:?}"
        );
        for slice in slices {
            assert!(slice.count > 0);
            let ended = self.requests[slice.request.index()].ended;
            // The module may not know yet.
            let known = ended.is_some_and(|(_, at)| at + self.longest_delay() < self.now);
            assert!(!known, "{:?} runs on {module:?} after it ended", slice.request);
        }
        items
    }

    /// A message waits for those before it, of which each may have come as late as that.
    fn longest_delay(&self) -> Span {
        self.scenario.message_delay
    }

    pub fn done(&mut self, module: ModuleId, slot: SlotId, batch: BatchId, took: Span) -> Option<Message> {
        if self.running.get(&slot.0) != Some(&(module, batch)) {
            return None;
        }
        self.running.remove(&slot.0);
        let end = if self.random.random_bool(self.scenario.failure_rate) {
            BatchEnd::Failed(slot)
        } else {
            BatchEnd::Done(slot)
        };
        Some(Message::Module(
            module,
            ModuleMessage::BatchEnded { batch, took, end },
        ))
    }

    /// The flaky slot goes down with its batch, or up.
    pub fn flap_slot(&mut self, lost: bool) -> Vec<Message> {
        let Some(slot) = self.scenario.flaky_slot.map(SlotId) else {
            return Vec::new();
        };
        if !lost {
            self.lost.remove(&slot.0);
            return vec![Message::Slots(SlotEvent::Up { slot })];
        }
        self.lost.insert(slot.0);
        let mut messages = vec![Message::Slots(SlotEvent::Down { slot })];
        if let Some((module, batch)) = self.running.remove(&slot.0) {
            messages.push(lost_batch(module, slot, batch, Span::from_millis(1)));
        }
        messages
    }

    fn on_ended(&mut self, request: &RequestInfo, outcome: Outcome) {
        let entered = !matches!(outcome, Outcome::Dropped(None, _));
        let state = &mut self.requests[request.id.index()];
        assert!(state.ended.is_none(), "{:?} ends twice", request.id);
        state.ended = Some((outcome, self.now));
        if let Outcome::Dropped(_, reason) = outcome {
            let never = self.scenario.policy.drop == DropRule::None && self.scenario.changes.is_empty();
            let is_kept = entered && (!request.droppable || never);
            assert!(
                !is_kept || reason == DropReason::Failed,
                "{:?} must not be dropped",
                request.id
            );
        }
        if entered {
            let stream = request.stream.index();
            self.limits[stream].on_ended(Span::ZERO);
            if self.blocked_frames[stream] > 0 {
                self.blocked_frames[stream] -= 1;
                self.unblocked.push(request.stream.0);
            }
        }
    }

    fn leave(&mut self, module: ModuleId, request: RequestId) {
        let wanted = self.items(module, request);
        let ran = self.requests[request.index()].ran.remove(&module.0);
        assert!(
            ran.unwrap_or_default().into_iter().eq(0..wanted),
            "{request:?} goes on from {module:?} with items not run"
        );
    }

    /// Delays a message at random; those between two machines keep their order.
    fn carry(&mut self, from: Address, message: Message) {
        let most = self.scenario.message_delay.micros();
        let delay = Span::from_micros(self.random.random_range(0..=most));
        let last = self.last_arrival.entry((from, message.address())).or_default();
        *last = (*last).max(self.now + delay);
        let after = last.since(self.now);
        self.push(after, Event::Message(Box::new(message)));
    }
}

fn lost_batch(module: ModuleId, slot: SlotId, batch: BatchId, took: Span) -> Message {
    let end = BatchEnd::LostWith(slot);
    Message::Module(module, ModuleMessage::BatchEnded { batch, took, end })
}

impl Act for Site {
    fn act(&mut self, effect: Effect, view: View<'_>, answers: &mut Vec<Message>) {
        assert_eq!(view.now, self.now);
        let effect = if self.scenario.json {
            self.log += &format!(
                "{} {}\n",
                self.now.micros(),
                serde_json::to_string(&effect).unwrap()
            );
            json_round_trip(&effect)
        } else {
            effect
        };
        match effect {
            Effect::Enter(module, request) => {
                let entry = Entry::Items(self.items(module, request.id));
                answers.push(Message::Module(module, ModuleMessage::Entered(request, entry)));
            }
            Effect::Leave {
                module,
                request,
                fallback,
            } => {
                assert!(fallback.is_none(), "{request:?} has no answer to go on with");
                self.leave(module, request);
            }
            Effect::Run {
                module,
                slot,
                batch,
                slices,
                ..
            } => self.run(module, slot, batch, &slices),
            Effect::Ended { request, outcome, .. } => self.on_ended(&request, outcome),
            Effect::SetTimer { of, at } => {
                assert!(at >= self.now, "a timer of {of:?} at {at:?}, at {:?}", self.now);
                let fired = Message::TimerFired(of);
                self.push(at.since(self.now), Event::Message(Box::new(fired)));
            }
            Effect::Carry { from, message, .. } => self.carry(from, message),
            Effect::BatchOver { .. } | Effect::Published(..) => {}
            other => panic!("there are no pipelines, sessions and sequences here: {other:?}"),
        }
    }
}
