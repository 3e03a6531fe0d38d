//! Illegal events from a driver: each is a violation, and changes nothing when violations are only counted.

use weir_types::invariant::Kind;

use weir_types::{BatchId, ModuleId, Profile, RequestId, SlotId, Span, StreamId, Topology};

use super::*;
use crate::violation::assert_violates;
use crate::{ModuleInfo, Policy};

/// A module with one slot, shared or its own; an item takes 10 ms, and requests have an objective of 1 s.
fn module(pool: Pool) -> Module {
    let profile = Profile::new(vec![(1, Span::from_millis(10))]).unwrap();
    Module::new(ModuleSpec {
        ends: Vec::new(),
        generate: None,
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
            fallback: crate::gears::Fallback::Never,
        }],
        share: 1.0,
        shares: Vec::new(),
        seed: 1,
        overlap: None,
    })
}

fn arrived(request: u64) -> ModuleEvent {
    ModuleEvent::Arrived {
        request: RequestId(request),
        stream: StreamId(0),
        sent_at: Timestamp::ZERO,
        items: 1,
        droppable: true,
        slo: None,
    }
}

/// Returns the module's effects for `events` in one burst.
fn step(module: &mut Module, events: impl IntoIterator<Item = ModuleEvent>) -> Vec<ModuleEffect> {
    let mut effects = Vec::new();
    module.step(events, Timestamp::ZERO, &mut effects);
    effects
}

/// Batches that the module runs.
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

/// A request that must not be dropped asks for ever later paths until one is found, however late the answers
/// come.
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
            slo: None,
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

/// A request of a stream with `slo`, sent when it arrives.
fn with_objective(request: u64, stream: u32, slo_ms: u64, now: Timestamp) -> ModuleEvent {
    ModuleEvent::Arrived {
        request: RequestId(request),
        stream: StreamId(stream),
        sent_at: now,
        items: 1,
        droppable: true,
        slo: Some(Span::from_millis(slo_ms)),
    }
}

fn at(ms: u64) -> Timestamp {
    Timestamp::ZERO + Span::from_millis(ms)
}

#[test]
fn the_request_whose_own_deadline_is_next_runs_first_whenever_it_came() {
    let mut module = module(Pool::Own);
    let mut effects = step(&mut module, [arrived(1)]);
    let [first] = batches(&effects)[..] else {
        panic!("{effects:?}");
    };
    for (request, slo_ms, now) in [(2, 900, 1), (3, 200, 2), (4, 400, 3)] {
        module.step(
            [with_objective(request, 0, slo_ms, at(now))],
            at(now),
            &mut effects,
        );
    }
    effects.clear();
    let took = Span::from_millis(10);
    let mut order = Vec::new();
    let mut ended = ModuleEvent::Finished { batch: first, took };
    for now in [10, 20, 30] {
        module.step([ended.clone()], at(now), &mut effects);
        for effect in effects.drain(..) {
            if let ModuleEffect::Run { batch, slices, .. } = effect {
                order.push(slices[0].request.0);
                ended = ModuleEvent::Finished { batch, took };
            }
        }
    }
    assert_eq!(order, [3, 4, 2]);
}

#[test]
fn a_request_is_dropped_early_by_its_own_deadline() {
    let mut module = module(Pool::Shared);
    let mut effects = Vec::new();
    module.step(
        [with_objective(1, 0, 600, at(0)), with_objective(2, 1, 100, at(0))],
        at(0),
        &mut effects,
    );
    let timer = at(90) + Span::from_micros(1);
    assert!(
        effects.contains(&ModuleEffect::SetTimer { at: timer }),
        "{effects:?}"
    );
    let bid = effects.iter().find_map(|effect| match effect {
        ModuleEffect::Bid(bid) => Some(bid.latest_start),
        _ => None,
    });
    assert_eq!(
        bid,
        Some(at(90)),
        "the most urgent one says when the batch must start"
    );
    effects.clear();
    module.step([], timer, &mut effects);
    let dropped = |effects: &[ModuleEffect]| -> Vec<u64> {
        let drop = |effect: &ModuleEffect| match effect {
            ModuleEffect::Drop { request, .. } => Some(request.0),
            _ => None,
        };
        effects.iter().filter_map(drop).collect()
    };
    assert_eq!(dropped(&effects), [2]);
    effects.clear();
    module.step([], at(590) + Span::from_micros(1), &mut effects);
    assert_eq!(dropped(&effects), [1]);
}

/// Peers can estimate each objective correctly only if a state lists each one separately.
#[test]
fn a_module_publishes_what_requests_of_each_objective_meet_where_they_differ() {
    let published = |events: &[ModuleEvent]| {
        let mut module = module(Pool::Shared);
        let mut effects = Vec::new();
        module.step(events.iter().cloned(), at(0), &mut effects);
        module.step([ModuleEvent::Granted { slot: SlotId(0) }], at(40), &mut effects);
        module.step([ModuleEvent::Tick], at(1_000), &mut effects);
        let state = effects.iter().rev().find_map(|effect| match effect {
            ModuleEffect::Publish(state) => Some(state.objectives.clone()),
            _ => None,
        });
        state
            .unwrap()
            .iter()
            .map(|state| state.slo.micros() / 1_000)
            .collect::<Vec<u64>>()
    };
    assert!(published(&[arrived(1), arrived(2)]).is_empty());
    let own = |request, slo| with_objective(request, 0, slo, at(0));
    assert!(
        published(&[own(1, 150), own(2, 150)]).is_empty(),
        "all have the same"
    );
    assert_eq!(published(&[own(1, 2_000), own(2, 150)]), [150, 2_000]);
}

/// Older logs have no objectives; events without an objective are still written without the key.
#[test]
fn an_arrival_without_an_objective_is_written_and_read_as_before() {
    let text = r#"{"event":"arrived","request":1,"stream":0,"sent_at":0,"items":1,"droppable":true}"#;
    assert_eq!(serde_json::from_str::<ModuleEvent>(text).unwrap(), arrived(1));
    assert_eq!(serde_json::to_string(&arrived(1)).unwrap(), text);
    let own = with_objective(1, 0, 150, at(0));
    let again: ModuleEvent = serde_json::from_str(&serde_json::to_string(&own).unwrap()).unwrap();
    assert_eq!(again, own);
}

/// Requests of 10 ms that waited behind one that runs, by the policy that was in force from their arrival, and by another.
#[test]
fn what_waits_goes_by_the_policy_that_is_applied_and_by_the_shares_that_are_changed() {
    let request = |number: u64, stream: u32, sent_ms: u64| ModuleEvent::Arrived {
        request: RequestId(number),
        stream: StreamId(stream),
        sent_at: Timestamp::ZERO + Span::from_millis(sent_ms),
        items: 1,
        droppable: true,
        slo: None,
    };
    let policy = |order| Policy {
        order: Some(order),
        fair: Some(false),
        ..Policy::default()
    };
    // The earliest deadline first by default; the latest by `hbf`; that of the stream with the weight by its share.
    let hbf = ModuleEvent::PolicyApplied {
        policy: Box::new(policy(crate::Order::Hbf)),
    };
    let lbf = ModuleEvent::PolicyApplied {
        policy: Box::new(policy(crate::Order::Lbf)),
    };
    let share = crate::StreamShare {
        weight: 1.0,
        reserve: Some(1.0),
    };
    let reserved = ModuleEvent::StreamShareChanged {
        stream: StreamId(2),
        share,
    };
    for (changes, now_ms, first) in [
        (vec![lbf.clone()], 100, 1),
        (vec![hbf.clone()], 100, 3),
        (vec![hbf, lbf.clone()], 100, 1),
        // Half of the time is used up: shares decide.
        (vec![lbf, reserved], 900, 2),
    ] {
        let mut module = module(Pool::Own);
        let running = step(&mut module, [request(0, 0, 0)]);
        let waiting = [request(1, 1, 1), request(2, 2, 2), request(3, 3, 3)];
        assert_eq!(step(&mut module, waiting), []);
        let [batch] = batches(&running)[..] else {
            panic!("one runs: {running:?}");
        };
        let now = Timestamp::ZERO + Span::from_millis(now_ms);
        let mut effects = Vec::new();
        module.step(changes.clone(), now, &mut effects);
        assert_eq!(
            effects,
            [],
            "nothing is lost, and nothing else is done: {changes:?}"
        );
        let took = Span::from_millis(10);
        module.step([ModuleEvent::Finished { batch, took }], now, &mut effects);
        let ran = effects.iter().find_map(|effect| match effect {
            ModuleEffect::Run { slices, .. } => Some(slices[0].request),
            _ => None,
        });
        assert_eq!(ran, Some(RequestId(first)), "{changes:?}");
    }
}

#[test]
fn of_each_stream_the_newest_frame_waits_and_streams_take_turns() {
    let mut module = module(Pool::Own);
    let policy = Policy::preset("newest").unwrap();
    step(
        &mut module,
        [ModuleEvent::PolicyApplied {
            policy: Box::new(policy),
        }],
    );
    let running = batches(&step(&mut module, [arrived(0)]));
    let mut dropped = Vec::new();
    // Streams 1 to 3 in turn, five frames of each while the first request runs. A request id is 10 times the
    // frame plus the stream.
    for frame in 1..=5 {
        for stream in 1..=3 {
            let now = at(frame * 3 + stream);
            let arrived = with_objective(10 * frame + stream, stream as u32, 1_000, now);
            let mut effects = Vec::new();
            module.step([arrived], now, &mut effects);
            dropped.extend(effects.iter().filter_map(|effect| match effect {
                ModuleEffect::Drop { request, reason, .. } => Some((request.0, *reason)),
                _ => None,
            }));
        }
    }
    let superseded = (1..5).flat_map(|frame| (1..=3).map(move |stream| 10 * frame + stream));
    let expected: Vec<_> = superseded
        .map(|request| (request, DropReason::Superseded))
        .collect();
    assert_eq!(dropped, expected);
    // The third stream gets another frame while the first two run; it keeps its turn.
    let (mut batch, mut ran) = (running[0], Vec::new());
    for turn in 0..4_u64 {
        let (now, took) = (at(20 + 10 * turn), Span::from_millis(10));
        let more = (turn == 1).then(|| with_objective(63, 3, 1_000, now));
        let mut effects = Vec::new();
        let finished = ModuleEvent::Finished { batch, took };
        module.step([finished].into_iter().chain(more), now, &mut effects);
        for effect in effects {
            if let ModuleEffect::Run {
                batch: next, slices, ..
            } = effect
            {
                batch = next;
                ran.extend(slices.iter().map(|slice| slice.request.0));
            }
        }
    }
    assert_eq!(ran, [51, 52, 63]);
}
