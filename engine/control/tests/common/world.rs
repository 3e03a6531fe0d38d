//! A small deterministic world around the controller: effects are carried out as in a live driver, messages between machines
//! are delayed and overtake each other as far as an actor system lets them. It checks invariants at every step and panics
//! with the seed. Unlike the simulator it has no traces and no reports.

use weir_control::{BooksMessage, ControlSpec, Controller, Edge, EgressMessage, Message, RequestInfo, Route};
use weir_policy::*;
use weir_types::*;

use super::scenario::{Scenario, Vertex};
use super::site::{Event, Site, json_round_trip};

pub struct World {
    pub controller: Controller,
    pub site: Site,
}

/// Specifications of the modules and slots of a scenario.
pub fn specs(scenario: &Scenario) -> (Vec<ModuleSpec>, SlotsSpec) {
    let topology = topology(scenario);
    let slots_of = |vertex: &Vertex| vertex.slots.iter().map(|&slot| SlotId(slot)).collect::<Vec<_>>();
    let peer = |vertex: &Vertex| ModuleInfo {
        profile: vertex.profile(),
        batch: vertex.batch.clone(),
        workers: vertex.slots.len() as u32,
        fallback: weir_policy::gears::Fallback::Never,
    };
    let peers: Vec<ModuleInfo> = scenario.vertices.iter().map(peer).collect();
    let module = |(id, vertex): (u32, &Vertex)| ModuleSpec {
        ends: Vec::new(),
        generate: None,
        id: ModuleId(id),
        slo: scenario.slo,
        policy: scenario.policy.clone(),
        slots: slots_of(vertex),
        pool: Pool::Shared,
        batch: vertex.batch.clone(),
        profile: vertex.profile(),
        topology: topology.clone(),
        peers: peers.clone(),
        share: 1.0,
        shares: Vec::new(),
        seed: scenario.seed,
        overlap: None,
    };
    let placement = |(id, vertex): (u32, &Vertex)| Placement {
        routed: false,
        module: ModuleId(id),
        slots: slots_of(vertex),
        weight: 1.0,
        optional: false,
        model: None,
        live: false,
    };
    let slots = SlotsSpec {
        slots: scenario.slots,
        placements: (0..).zip(&scenario.vertices).map(placement).collect(),
        arbitration: scenario.policy.arbitration,
        topology: topology.clone(),
        forecasts: scenario.policy.binding() == BatchBinding::Early,
        overlapped: Vec::new(),
        memory: Vec::new(),
        queues: None,
        planning: SlotPlanning::default(),
    };
    let modules = (0..).zip(&scenario.vertices).map(module);
    (
        modules.map(|spec| json_round_trip(&spec)).collect(),
        json_round_trip(&slots),
    )
}

fn topology(scenario: &Scenario) -> Topology {
    let ids = |vertex: &Vertex| vertex.next.iter().map(|&id| ModuleId(id)).collect();
    Topology::new(scenario.vertices.iter().map(ids).collect())
}

impl World {
    pub fn new(scenario: Scenario) -> Self {
        let (modules, slots) = specs(&scenario);
        let edges = |vertex: &Vertex| {
            let edge = |&to: &u32| Edge {
                to: ModuleId(to),
                link: None,
            };
            vertex.next.iter().map(edge).collect()
        };
        let topology = topology(&scenario);
        let controller = Controller::new(ControlSpec {
            slo: scenario.slo,
            modules: modules
                .into_iter()
                .zip(scenario.vertices.iter().map(edges))
                .collect(),
            routes: vec![Route::through(&topology)],
            slots: Some(slots),
            breaker: BreakerSpec {
                losses: u32::MAX,
                ..BreakerSpec::default()
            },
            scaling: Vec::new(),
            max_workers: None,
            queues: Vec::new(),
            cascades: None,
            plan: None,
            has_books: true,
            is_distributed: scenario.message_delay > Span::ZERO,
            topology,
        });
        Self {
            controller,
            site: Site::new(scenario),
        }
    }

    pub fn ledger(&self) -> &Ledger {
        self.controller.books().ledger()
    }

    fn tell(&mut self, message: Message) {
        let message = if self.site.scenario.json {
            json_round_trip(&message)
        } else {
            message
        };
        self.controller.on(message, self.site.now, &mut self.site);
    }

    fn is_done(&self) -> bool {
        self.site.is_quiet() && self.ledger().total().in_flight == 0
    }

    /// Runs until all requests have ended and all messages are delivered.
    pub fn run(mut self) -> Self {
        let most = Timestamp::ZERO + Span::from_secs(600);
        while let Some(((at, _), event)) = self.site.events.pop_first() {
            assert!(
                at < most,
                "stuck: {:?}, {:?}",
                self.ledger().total(),
                self.site.scenario
            );
            self.site.now = at;
            self.handle(event);
            while self.site.scenario.batch_events
                && let Some(next) = self.site.events.first_entry().filter(|next| next.key().0 == at)
            {
                let event = next.remove();
                self.handle(event);
            }
            self.controller.decide(at, &mut self.site);
            assert!(self.ledger().total().is_balanced());
        }
        let total = self.ledger().total();
        assert!(
            total.in_flight == 0 && self.ledger().open_requests().is_empty(),
            "{total:?}"
        );
        let modules = self.controller.modules();
        assert!(
            modules.iter().all(|module| module.policy().requests() == 0),
            "requests remain in a module"
        );
        assert!(
            modules.iter().all(|module| module.joining() == 0) && self.controller.egress().joining() == 0
        );
        let free = self.controller.slots().map(|slots| slots.policy().free());
        assert_eq!(free, Some(self.site.scenario.slots as usize));
        self.site.check_end();
        self
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Frame(stream) => {
                if self.site.next_frame(stream) {
                    self.admit(stream);
                }
            }
            Event::Message(message) => self.tell(*message),
            Event::Done(module, slot, batch, took) => {
                if let Some(ended) = self.site.done(module, slot, batch, took) {
                    self.tell(ended);
                }
            }
            Event::FlapSlot(lost) => {
                for message in self.site.flap_slot(lost) {
                    self.tell(message);
                }
                if lost || !self.is_done() {
                    let next = Span::from_millis(if lost { 300 } else { 500 });
                    self.site.push(next, Event::FlapSlot(!lost));
                }
            }
            Event::Tick => {
                self.tell(Message::Tick);
                self.change_policy();
                if !self.is_done() {
                    self.site.push(Span::from_millis(200), Event::Tick);
                }
            }
        }
        // A request of a lossless stream has ended: the next one comes.
        for stream in std::mem::take(&mut self.site.unblocked) {
            self.admit(stream);
        }
    }

    fn admit(&mut self, stream: u32) {
        let number = self.site.requests.len() as u64;
        let Some(rejected) = self.site.admit(stream) else {
            return;
        };
        let of = &self.site.scenario.streams[stream as usize];
        let request = RequestInfo {
            id: RequestId(number),
            stream: StreamId(stream),
            sent_at: self.site.now,
            slo: of.slo,
            droppable: !of.lossless,
            route: 0,
        };
        self.tell(match rejected {
            Some(reason) => Message::Books(BooksMessage::Rejected { request, reason }),
            None => Message::Egress(EgressMessage::Arrived(request)),
        });
    }

    /// The next policy comes into force, and a stream has another share.
    fn change_policy(&mut self) {
        let changes = &self.site.scenario.changes;
        if changes.is_empty() {
            return;
        }
        let number = self.site.now.micros() / 200_000;
        let policy = changes[number as usize % changes.len()].clone();
        let stream = StreamId(number as u32 % self.site.scenario.streams.len() as u32);
        let share = [
            StreamShare::default(),
            StreamShare {
                weight: 3.0,
                reserve: None,
            },
            StreamShare {
                weight: 1.0,
                reserve: Some(5.0),
            },
        ][number as usize % 3];
        self.tell(Message::Slots(SlotEvent::PolicyApplied {
            arbitration: policy.arbitration,
            forecasts: policy.binding() == BatchBinding::Early,
        }));
        for module in (0..self.controller.modules().len() as u32).map(ModuleId) {
            let policy = Box::new(policy.clone());
            self.tell(Message::fact(module, ModuleEvent::PolicyApplied { policy }));
            let changed = ModuleEvent::StreamShareChanged { stream, share };
            self.tell(Message::fact(module, changed));
        }
    }
}
