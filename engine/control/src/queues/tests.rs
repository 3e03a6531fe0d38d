//! Two models that take turns on one slot, of which its memory holds one.

use weir_policy::generate::{InstanceSpec, LengthSource};
use weir_policy::residency::ModelMemory;
use weir_policy::route::{RouteRule, RouterSpec};
use weir_policy::{Answer, DeviceMemory, DeviceModel};
use weir_types::{StepCurve, StepProfile};

use super::*;

const MAX_SEQUENCES: u32 = 2;

fn generate() -> GenerateSpec {
    let ms = Span::from_millis;
    let curve = StepCurve::from_points(&[(1, ms(10)), (64, ms(20))]).unwrap();
    GenerateSpec {
        instances: vec![InstanceSpec {
            steps: StepProfile {
                decode: curve.clone(),
                prompt: curve,
            },
            max_step_tokens: 64,
            max_sequences: MAX_SEQUENCES,
            max_sequence_tokens: 128,
            blocks: 64,
            block_tokens: 16,
            reserve_blocks: 0,
            prompt_gives_token: true,
            prefix_tokens: 0,
        }],
        router: RouterSpec::new(RouteRule::Earliest),
        max_tokens: 32,
        answer: Answer::Whole,
        length: LengthSource::default(),
    }
}

/// Models 5 and 6, of modules 0 and 1, with sessions of their own on slots 10 and 11.
fn spec(rule: SlotQueues) -> DeviceQueuesSpec {
    spec_of(rule, &generate())
}

fn spec_of(rule: SlotQueues, generate: &GenerateSpec) -> DeviceQueuesSpec {
    let model = |number: u32| DeviceModel {
        model: ModelId(5 + number),
        slots: vec![SlotId(10 + number)],
        memory: ModelMemory {
            device_bytes: 20,
            host_bytes: 20,
        },
        open_cold: Span::from_millis(500),
        open_warm: Span::from_millis(100),
    };
    let memory = DeviceMemory {
        memory: 30,
        host_memory: 100,
        models: vec![model(0), model(1)],
    };
    let modules = [Some((ModuleId(0), generate)), Some((ModuleId(1), generate))];
    DeviceQueuesSpec::new(&memory, &modules, (Some(rule), SlotPlanning::default())).unwrap()
}

/// The machine with sessions that open and close at once, and sequences that run until they are finished.
struct Driven {
    machine: QueueMachine,
    now: Timestamp,
    /// Whether openings succeed.
    opens: bool,
    opened: Vec<ModelId>,
    closed: Vec<ModelId>,
    /// Sequences that run, in the order in which they were started.
    running: Vec<(ModuleId, SequenceId)>,
    started: u32,
    refused: u32,
}

impl Driven {
    fn new(rule: SlotQueues) -> Self {
        Self {
            machine: QueueMachine::new(vec![spec(rule)]).unwrap(),
            now: Timestamp::ZERO,
            opens: true,
            opened: Vec::new(),
            closed: Vec::new(),
            running: Vec::new(),
            started: 0,
            refused: 0,
        }
    }

    fn tell(&mut self, message: QueueMessage) {
        self.tell_all(vec![message]);
    }

    /// Gives messages of one moment, which the machine decides on together.
    fn tell_all(&mut self, mut messages: Vec<QueueMessage>) {
        while !messages.is_empty() {
            let mut out = Outbox::default();
            for message in messages.drain(..) {
                self.machine.on(message, self.now, &mut out);
            }
            self.machine.decide(self.now, &mut out);
            for outgoing in out.drain() {
                messages.extend(self.on_outgoing(outgoing));
            }
        }
    }

    fn on_outgoing(&mut self, outgoing: Outgoing) -> Option<QueueMessage> {
        let took = Span::ZERO;
        let event = match outgoing {
            Outgoing::Act(Effect::Session(SlotEffect::Open { slot, model, warm })) => {
                assert_eq!(slot.0 + 5, model.0 + 10, "each model has a session of its own");
                self.opened.push(model);
                match self.opens {
                    true => SlotEvent::Opened {
                        slot,
                        model,
                        warm,
                        took,
                    },
                    false => SlotEvent::OpenFailed { slot, model, took },
                }
            }
            Outgoing::Act(Effect::Session(SlotEffect::Close { slot, model })) => {
                assert!(
                    !self.running.iter().any(|(module, _)| module.0 + 5 == model.0),
                    "a model that runs is closed"
                );
                self.closed.push(model);
                SlotEvent::Closed { slot, model, took }
            }
            Outgoing::Tell(Message::Module(module, ModuleMessage::Fact(event))) => {
                match event {
                    ModuleEvent::SequenceStarted { sequence, .. } => {
                        self.started += 1;
                        self.running.push((module, sequence));
                    }
                    ModuleEvent::SequenceRefused { .. } => self.refused += 1,
                    _ => panic!("unexpected: {event:?}"),
                }
                return None;
            }
            _ => return None,
        };
        Some(QueueMessage::Session(event))
    }

    fn fact(&mut self, module: u32, fact: QueueFact) {
        self.tell(QueueMessage::Fact(ModuleId(module), fact));
    }

    fn arrives(&mut self, module: u32, sequence: u64) {
        let slo = Span::from_secs(600);
        self.fact(
            module,
            QueueFact::Arrived {
                sequence: SequenceId(sequence),
                prompt: 8,
                slo,
                deadline: self.now + slo,
            },
        );
    }

    /// The sequence that was started first has its last token.
    fn finish_one(&mut self) {
        let (module, sequence) = self.running.remove(0);
        self.now = self.now + Span::from_millis(100);
        self.fact(
            module.0,
            QueueFact::Finished {
                sequence,
                generated: 8,
            },
        );
        let own = self.running.iter().filter(|(other, _)| *other == module);
        let sequences = MAX_SEQUENCES - own.count() as u32;
        self.fact(
            module.0,
            QueueFact::Room {
                slot: SlotId(10 + module.0),
                sequences,
                tokens: 1_000,
            },
        );
    }
}

/// Openings that twelve requests for two models in turn take.
fn openings(rule: SlotQueues) -> usize {
    let mut driven = Driven::new(rule);
    for number in 0..12 {
        driven.arrives(number % 2, u64::from(number / 2));
    }
    for _ in 0..12 {
        driven.finish_one();
    }
    assert_eq!((driven.started, driven.running.len()), (12, 0), "{rule:?}");
    driven.opened.len()
}

#[test]
fn virtual_queues_open_a_model_for_a_group_and_fcfs_for_each_request() {
    assert!(openings(SlotQueues::Virtual) <= 3);
    assert!(openings(SlotQueues::Sticky) <= 3);
    assert!(openings(SlotQueues::Fcfs) >= 10);
}

#[test]
fn a_lost_instance_is_used_again_once_its_sessions_are_closed() {
    let mut driven = Driven::new(SlotQueues::Virtual);
    driven.arrives(0, 0);
    assert_eq!((driven.opened.len(), driven.started), (1, 1));
    driven.running.clear();
    driven.fact(0, QueueFact::Down { slot: SlotId(10) });
    driven.arrives(1, 0);
    assert_eq!((driven.opened.len(), driven.started), (1, 1), "it waits");
    driven.fact(0, QueueFact::Up { slot: SlotId(10) });
    assert_eq!(driven.closed[0], ModelId(5), "what is open of before is closed");
    assert!(driven.opened.len() >= 2);
    driven.finish_one();
    driven.finish_one();
    assert_eq!((driven.started, driven.running.len()), (3, 0));
}

#[test]
fn a_start_is_withdrawn_if_its_instance_is_lost_at_that_moment() {
    let mut driven = Driven::new(SlotQueues::Virtual);
    driven.arrives(0, 0);
    driven.running.clear();
    let (slot, slo) = (SlotId(10), Span::from_secs(600));
    let arrived = QueueFact::Arrived {
        sequence: SequenceId(1),
        prompt: 8,
        slo,
        deadline: driven.now + slo,
    };
    let facts = [arrived, QueueFact::Down { slot }, QueueFact::Up { slot }];
    driven.tell_all(facts.map(|fact| QueueMessage::Fact(ModuleId(0), fact)).to_vec());
    assert_eq!(driven.opened, [ModelId(5), ModelId(5)]);
    assert_eq!(
        (driven.started, driven.running.len()),
        (3, 2),
        "the first starts again"
    );
}

#[test]
fn a_dropped_sequence_leaves_its_queue_and_its_place() {
    let mut driven = Driven::new(SlotQueues::Virtual);
    driven.arrives(0, 0);
    driven.arrives(1, 0);
    driven.arrives(1, 1);
    let dropped = |sequence: u64| QueueFact::Cancelled {
        sequence: SequenceId(sequence),
    };
    driven.fact(1, dropped(0));
    // What runs is dropped, too: the other model is next.
    driven.running.clear();
    driven.fact(0, dropped(0));
    assert_eq!(driven.running, [(ModuleId(1), SequenceId(1))]);
    driven.finish_one();
    assert_eq!(driven.opened, [ModelId(5), ModelId(6)]);
}

#[test]
fn a_model_that_cannot_be_opened_costs_the_request_that_it_was_opened_for() {
    let mut driven = Driven::new(SlotQueues::Virtual);
    driven.opens = false;
    driven.arrives(0, 0);
    assert_eq!((driven.refused, driven.started), (1, 0));
    driven.opens = true;
    driven.arrives(0, 1);
    assert_eq!((driven.refused, driven.started), (1, 1));
}

#[test]
fn the_slots_of_a_device_share_its_memory() {
    let DeviceQueuesSpec { queues, modules } = spec(SlotQueues::Virtual);
    assert_eq!(queues.instances.len(), 1);
    assert_eq!(queues.instances[0].residency.memory, Some(30));
    assert_eq!(modules[1].model, ModelId(6));
    let text = serde_json::to_string(&spec(SlotQueues::Virtual)).unwrap();
    assert_eq!(
        serde_json::from_str::<DeviceQueuesSpec>(&text).unwrap(),
        spec(SlotQueues::Virtual)
    );
}

#[test]
fn a_lost_thread_of_another_model_leaves_what_runs() {
    let mut driven = Driven::new(SlotQueues::Virtual);
    driven.arrives(0, 0);
    driven.arrives(1, 0);
    driven.fact(1, QueueFact::Down { slot: SlotId(11) });
    driven.finish_one();
    assert_eq!(
        (driven.opened.len(), driven.started),
        (2, 1),
        "it opens and waits"
    );
    driven.fact(1, QueueFact::Up { slot: SlotId(11) });
    assert_eq!(driven.running, [(ModuleId(1), SequenceId(0))]);
    driven.finish_one();
    assert_eq!(driven.started, 2);
}

#[test]
fn caches_are_swapped_if_they_can_leave_their_sessions() {
    let mut generate = generate();
    assert!(!spec_of(SlotQueues::Virtual, &generate).queues.operations.swap);
    generate.router.transfer = Some(MoveCost {
        link: HOST_LINK,
        cache_bytes: 1e3,
    });
    let queues = spec_of(SlotQueues::Virtual, &generate).queues;
    assert!(queues.operations.swap);
    let instance = &queues.instances[0];
    assert_eq!((instance.swap_memory, instance.models[1].cache_bytes), (100, 1e3));
}
