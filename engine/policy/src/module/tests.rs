//! What no driver may tell a module: each is a violation, and changes nothing where violations are counted.

use weir_types::invariant::Kind;

use weir_types::{BatchId, ModuleId, Profile, RequestId, SlotId, Span, StreamId, Topology};

use super::*;
use crate::violation::assert_violates;
use crate::{ModuleInfo, Policy};

/// One slot, shared or its own; 10 ms for an item, requests with a second.
fn module(pool: Pool) -> Module {
    let profile = Profile::new(vec![(1, Span::from_millis(10))]).unwrap();
    Module::new(ModuleSpec {
        id: ModuleId(0),
        slo: Span::from_secs(1),
        policy: Policy::default(),
        slots: vec![SlotId(0)],
        pool,
        batch: vec![1],
        profile: profile.clone(),
        topology: Topology::new(vec![vec![]]),
        peers: vec![ModuleInfo {
            profile,
            batch: vec![1],
            workers: 1,
        }],
        share: 1.0,
        seed: 1,
    })
}

fn arrived(request: u64) -> ModuleEvent {
    ModuleEvent::Arrived {
        request: RequestId(request),
        stream: StreamId(0),
        sent_at: Timestamp::ZERO,
        items: 1,
        droppable: true,
    }
}

/// What the module does when it gets `events` in one burst.
fn step(module: &mut Module, events: impl IntoIterator<Item = ModuleEvent>) -> Vec<ModuleEffect> {
    let mut effects = Vec::new();
    module.step(events, Timestamp::ZERO, &mut effects);
    effects
}

/// The batches that it runs.
fn batches(effects: &[ModuleEffect]) -> Vec<BatchId> {
    let run = |effect: &ModuleEffect| match effect {
        ModuleEffect::Run { batch, .. } => Some(*batch),
        _ => None,
    };
    effects.iter().filter_map(run).collect()
}

fn forwards(effects: &[ModuleEffect]) -> usize {
    let forward = |effect: &&ModuleEffect| matches!(effect, ModuleEffect::Forward { .. });
    effects.iter().filter(forward).count()
}

/// What must not be dropped asks for ever later paths, so that one is found however long the answers take.
#[test]
fn a_request_without_a_path_in_time_asks_for_ever_later_ones() {
    let mut module = module(Pool::Pipelines);
    let late = |request| match request {
        ModuleEvent::Arrived {
            request,
            stream,
            sent_at,
            items,
            ..
        } => ModuleEvent::Arrived {
            request,
            stream,
            sent_at,
            items,
            droppable: false,
        },
        other => other,
    };
    let mut effects = step(&mut module, [late(arrived(1))]);
    let mut now = Timestamp::ZERO + Span::from_secs(2);
    let mut beyond = Vec::new();
    for _ in 0..8 {
        now = now + Span::from_millis(1);
        let finish = now + Span::from_millis(10);
        effects.clear();
        module.step([ModuleEvent::NoPath { finish }], now, &mut effects);
        let asked = effects.iter().find_map(|effect| match effect {
            ModuleEffect::RequestPath(request) => Some(request.deadline),
            _ => None,
        });
        beyond.push(asked.expect("it asks again") - finish);
    }
    assert!(
        beyond.is_sorted() && beyond[7] >= Span::from_millis(50),
        "{beyond:?}"
    );
}

#[test]
fn a_batch_that_comes_back_without_running_is_a_violation_and_spends_nothing() {
    let (batch, took) = (BatchId(99), Span::MAX);
    for back in [
        ModuleEvent::Finished { batch, took },
        ModuleEvent::Failed { batch, took },
        ModuleEvent::Lost { batch, took },
    ] {
        let effects = assert_violates(Kind::Batches, || step(&mut module(Pool::Own), [back.clone()]));
        assert_eq!(effects, [], "{back:?}");
    }
}

#[test]
fn a_batch_that_comes_back_twice_is_a_violation_and_its_request_is_forwarded_once() {
    let effects = assert_violates(Kind::Batches, || {
        let mut module = module(Pool::Own);
        let [batch] = batches(&step(&mut module, [arrived(1)]))[..] else {
            panic!("one batch runs");
        };
        let took = Span::from_millis(10);
        let finished = ModuleEvent::Finished { batch, took };
        step(&mut module, [finished.clone(), finished])
    });
    assert_eq!(forwards(&effects), 1);
}

#[test]
fn a_request_that_arrives_twice_is_a_violation_and_runs_once() {
    let effects = assert_violates(Kind::Items, || {
        step(&mut module(Pool::Own), [arrived(1), arrived(1)])
    });
    assert_eq!(batches(&effects).len(), 1);
}

#[test]
fn a_slot_that_is_granted_while_it_runs_a_batch_is_a_violation() {
    let granted = ModuleEvent::Granted { slot: SlotId(0) };
    assert_violates(Kind::Slots, || {
        let mut module = module(Pool::Shared);
        assert_eq!(
            batches(&step(&mut module, [arrived(1), granted.clone()])).len(),
            1
        );
        step(&mut module, [arrived(2), granted.clone()])
    });
}
