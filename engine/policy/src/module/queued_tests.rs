//! A module whose sequences wait in queues of several models: it runs what these start, and reports what becomes of it.

use weir_types::{
    ModuleId, Profile, RequestId, SequenceId, SlotId, Span, StepCurve, StepProfile, StreamId, Timestamp,
    Topology,
};

use super::*;
use crate::generate::{InstanceSpec, LengthSource};
use crate::route::{RouteRule, RouterSpec};
use crate::{ModuleInfo, Policy};

const FIRST: SequenceId = SequenceId(0);
const SLOTS: [SlotId; 2] = [SlotId(3), SlotId(4)];

fn module() -> Module {
    let profile = Profile::new(vec![(1, Span::from_millis(10))]).unwrap();
    let points = [(1, Span::from_millis(5)), (32, Span::from_millis(10))];
    let curve = StepCurve::from_points(&points).unwrap();
    let instance = InstanceSpec {
        steps: StepProfile {
            decode: curve.clone(),
            prompt: curve,
        },
        max_step_tokens: 32,
        max_sequences: 2,
        max_sequence_tokens: 64,
        blocks: 16,
        block_tokens: 4,
        reserve_blocks: 0,
        prompt_gives_token: true,
        prefix_tokens: 0,
    };
    let mut module = Module::new(ModuleSpec {
        ends: Vec::new(),
        id: ModuleId(0),
        slo: Span::from_secs(60),
        policy: Policy::default(),
        slots: SLOTS.to_vec(),
        pool: Pool::Own,
        batch: vec![1],
        profile: profile.clone(),
        topology: Topology::new(vec![vec![]]),
        peers: vec![ModuleInfo {
            profile,
            batch: vec![1],
            workers: 2,
            fallback: crate::gears::Fallback::Never,
        }],
        share: 1.0,
        shares: Vec::new(),
        seed: 1,
        overlap: None,
        generate: Some(GenerateSpec {
            instances: vec![instance; 2],
            router: RouterSpec::new(RouteRule::Earliest),
            max_tokens: 24,
            answer: Answer::Whole,
            length: LengthSource::default(),
        }),
    });
    module.use_queues();
    module
}

fn step(module: &mut Module, event: ModuleEvent) -> Vec<ModuleEffect> {
    let mut effects = Vec::new();
    module.step([event], Timestamp::ZERO, &mut effects);
    effects
}

/// Request 0 arrives with one prompt.
fn prompted(module: &mut Module) -> Vec<ModuleEffect> {
    let prompted = ModuleEvent::Prompted {
        request: RequestId(0),
        stream: StreamId(0),
        sent_at: Timestamp::ZERO,
        prompts: vec![4],
        predicted: Vec::new(),
        prefixes: Vec::new(),
        droppable: false,
        slo: None,
    };
    step(module, prompted)
}

fn started(module: &mut Module, slot: SlotId) -> Vec<ModuleEffect> {
    let started = ModuleEvent::SequenceStarted {
        slot,
        sequence: FIRST,
        cached: 0,
    };
    step(module, started)
}

fn recalled(module: &mut Module, keeps_cache: bool) -> Vec<ModuleEffect> {
    let recalled = ModuleEvent::SequenceRecalled {
        slot: SLOTS[0],
        sequence: FIRST,
        keeps_cache,
    };
    step(module, recalled)
}

/// A step on the first slot is done.
fn stepped(module: &mut Module, finished: &[SequenceId]) -> Vec<ModuleEffect> {
    let stepped = ModuleEvent::Stepped {
        slot: SLOTS[0],
        took: Span::from_millis(5),
        finished: finished.to_vec(),
        failed: false,
        predicted: Vec::new(),
    };
    step(module, stepped)
}

fn facts(effects: &[ModuleEffect]) -> Vec<QueueFact> {
    let fact = |effect: &ModuleEffect| match effect {
        ModuleEffect::Queue { fact } => Some(*fact),
        _ => None,
    };
    effects.iter().filter_map(fact).collect()
}

fn places(effects: &[ModuleEffect]) -> Vec<SlotId> {
    let place = |effect: &ModuleEffect| match effect {
        ModuleEffect::Place { slot, .. } => Some(*slot),
        _ => None,
    };
    effects.iter().filter_map(place).collect()
}

#[test]
fn a_sequence_runs_once_the_queues_start_it() {
    let mut module = module();
    let effects = prompted(&mut module);
    assert!(places(&effects).is_empty());
    let arrived = QueueFact::Arrived {
        sequence: FIRST,
        prompt: 4,
        slo: Span::from_secs(60),
        deadline: Timestamp::ZERO + Span::from_secs(60),
    };
    assert_eq!(facts(&effects), [arrived]);

    let effects = started(&mut module, SLOTS[0]);
    assert_eq!(places(&effects), [SLOTS[0]]);
    let runs = |effect: &ModuleEffect| matches!(effect, ModuleEffect::RunStep { .. });
    assert!(effects.iter().any(runs));
    let [QueueFact::Room { slot, sequences, .. }] = facts(&effects)[..] else {
        panic!("{effects:?}");
    };
    assert_eq!((slot, sequences), (SLOTS[0], 1), "one of two has its place");

    let effects = stepped(&mut module, &[FIRST]);
    let finished = QueueFact::Finished {
        sequence: FIRST,
        generated: 1,
    };
    assert_eq!(facts(&effects)[0], finished);
    assert!(effects.contains(&ModuleEffect::Forward {
        request: RequestId(0)
    }));
}

#[test]
fn a_recalled_sequence_waits_again_with_its_tokens_once_its_step_is_done() {
    let mut module = module();
    prompted(&mut module);
    started(&mut module, SLOTS[0]);
    stepped(&mut module, &[]);
    assert!(recalled(&mut module, false).is_empty(), "a step has it");
    let effects = stepped(&mut module, &[]);
    let returned = QueueFact::Returned {
        sequence: FIRST,
        generated: 2,
        cached: 0,
    };
    assert_eq!(facts(&effects)[0], returned);
    assert_eq!(places(&started(&mut module, SLOTS[1])), [SLOTS[1]]);
}

#[test]
fn a_recalled_sequence_may_leave_and_come_back_with_its_cache() {
    let mut module = module();
    prompted(&mut module);
    started(&mut module, SLOTS[0]);
    recalled(&mut module, true);
    let effects = stepped(&mut module, &[]);
    // Of the prompt and the token that followed it, the prompt was computed.
    let returned = QueueFact::Returned {
        sequence: FIRST,
        generated: 1,
        cached: 4,
    };
    assert_eq!(facts(&effects)[0], returned);
    let kept = ModuleEffect::Remove {
        slot: SLOTS[0],
        sequence: FIRST,
        keeps_cache: true,
    };
    assert!(effects.contains(&kept), "{effects:?}");
    let again = ModuleEvent::SequenceStarted {
        slot: SLOTS[0],
        sequence: FIRST,
        cached: 4,
    };
    let computed = |effect: &ModuleEffect| match effect {
        ModuleEffect::RunStep { step, .. } => Some(step.tokens),
        _ => None,
    };
    let effects = step(&mut module, again);
    assert_eq!(effects.iter().find_map(computed), Some(1));
}

#[test]
fn a_dropped_sequence_is_reported_once_no_step_has_it() {
    let mut module = module();
    prompted(&mut module);
    started(&mut module, SLOTS[0]);
    let cancelled = ModuleEvent::Cancelled {
        request: RequestId(0),
    };
    assert!(facts(&step(&mut module, cancelled)).is_empty());
    let effects = stepped(&mut module, &[]);
    assert_eq!(facts(&effects)[0], QueueFact::Cancelled { sequence: FIRST });
}

#[test]
fn the_place_of_a_sequence_that_ended_before_its_start_is_free_again() {
    let mut module = module();
    prompted(&mut module);
    let cancelled = ModuleEvent::Cancelled {
        request: RequestId(0),
    };
    let effects = step(&mut module, cancelled);
    assert_eq!(facts(&effects), [QueueFact::Cancelled { sequence: FIRST }]);
    let effects = started(&mut module, SLOTS[0]);
    assert!(places(&effects).is_empty());
    let [QueueFact::Room { slot, sequences, .. }] = facts(&effects)[..] else {
        panic!("{effects:?}");
    };
    assert_eq!((slot, sequences), (SLOTS[0], 2));
}

#[test]
fn a_sequence_is_not_started_on_a_lost_instance() {
    let mut module = module();
    prompted(&mut module);
    started(&mut module, SLOTS[0]);
    let effects = step(&mut module, ModuleEvent::SlotDown { slot: SLOTS[0] });
    assert_eq!(facts(&effects), [QueueFact::Down { slot: SLOTS[0] }]);
    assert!(places(&started(&mut module, SLOTS[0])).is_empty());
    assert_eq!(places(&started(&mut module, SLOTS[1])), [SLOTS[1]]);
    let effects = step(&mut module, ModuleEvent::SlotUp { slot: SLOTS[0] });
    assert_eq!(facts(&effects), [QueueFact::Up { slot: SLOTS[0] }]);
}
