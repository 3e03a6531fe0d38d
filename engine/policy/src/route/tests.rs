use std::collections::BTreeMap;

use proptest::prelude::*;
use weir_types::{InstanceId, SequenceId, Span, StepCurve, StepProfile, Timestamp};

use super::view::{Cluster, Demand, View};
use super::*;
use crate::generate::{InstanceSpec, InstanceState};

fn spec(step_ms: u64, blocks: u32) -> InstanceSpec {
    let points = [
        (1, Span::from_millis(step_ms)),
        (64, Span::from_millis(2 * step_ms)),
    ];
    let curve = StepCurve::from_points(&points).unwrap();
    InstanceSpec {
        steps: StepProfile {
            decode: curve.clone(),
            prompt: curve,
        },
        max_step_tokens: 64,
        max_sequences: 64,
        max_sequence_tokens: 1_000,
        blocks,
        block_tokens: 16,
        reserve_blocks: 0,
        prompt_gives_token: true,
        prefix_tokens: 10_000,
    }
}

fn at_ms(ms: u64) -> Timestamp {
    Timestamp::from_micros(1_000 * ms)
}

fn state(running: u32, free_blocks: u32, wait_s: f64, token_s: f64) -> InstanceState {
    InstanceState {
        running,
        waiting: 0,
        free_blocks,
        wait_s,
        prompt_token_s: 0.001,
        token_s,
        correction: 1.0,
    }
}

fn reported(instance: u32, state: InstanceState) -> RouteEvent {
    RouteEvent::Reported {
        instance: InstanceId(instance),
        state,
    }
}

fn arrived(sequence: u64, expected: u32, deadline_ms: u64) -> RouteEvent {
    RouteEvent::Arrived {
        sequence: SequenceId(sequence),
        prompt: 100,
        expected,
        deadline: at_ms(deadline_ms),
        prefix: None,
    }
}

/// A slow, a middling and a fast instance.
fn router(rule: RouteRule) -> Router {
    let instances = vec![spec(40, 100), spec(20, 100), spec(10, 100)];
    Router::new(RouterSpec::new(rule), instances).unwrap()
}

fn effects(router: &mut Router, event: RouteEvent, ms: u64) -> Vec<RouteEffect> {
    let mut effects = Vec::new();
    router.step(event, at_ms(ms), &mut effects);
    effects
}

/// Returns the instance that an arriving sequence is routed to.
fn routed(router: &mut Router, event: RouteEvent, ms: u64) -> u32 {
    match effects(router, event, ms).as_slice() {
        [RouteEffect::Route { to, .. }] => to.0,
        other => panic!("it is routed: {other:?}"),
    }
}

fn just_enough(moves: Moves) -> RouteRule {
    RouteRule::JustEnough(JustEnough {
        moves,
        ..JustEnough::default()
    })
}

#[test]
fn just_enough_takes_the_slowest_that_is_in_time_and_else_the_least_late() {
    // 100 tokens take 4, 2 and 1 s, and a prompt at most about 0.1 s.
    for (deadline_ms, to) in [(5_000, 0), (3_000, 1), (1_500, 2), (500, 2)] {
        let mut router = router(just_enough(Moves::Late));
        assert_eq!(
            routed(&mut router, arrived(1, 100, deadline_ms), 0),
            to,
            "{deadline_ms} ms"
        );
    }
}

#[test]
fn just_enough_leaves_out_what_has_no_memory() {
    let mut router = router(just_enough(Moves::Late));
    effects(&mut router, reported(0, state(0, 12, 0.0, 0.04)), 0);
    // 200 tokens take 13 blocks.
    assert_eq!(routed(&mut router, arrived(1, 100, 9_000), 0), 1);
    assert_eq!(routed(&mut router, arrived(2, 90, 9_000), 0), 0);
    // The first request has reserved 7 of its 12 blocks.
    assert_eq!(routed(&mut router, arrived(3, 90, 9_000), 0), 1);
}

#[test]
fn waits_are_smoothed_and_an_instance_with_one_sequence_counts_as_idle() {
    let mut router = router(RouteRule::Earliest);
    // q is 0.8 of the reported wait: 1 s with 0.8 s is less than 2 s.
    effects(&mut router, reported(2, state(2, 100, 1.0, 0.01)), 0);
    assert_eq!(routed(&mut router, arrived(1, 100, 0), 0), 2);
    effects(&mut router, reported(2, state(2, 100, 1.0, 0.03)), 0);
    assert_eq!(routed(&mut router, arrived(2, 100, 0), 0), 1);
    effects(&mut router, reported(2, state(1, 100, 0.0, 0.03)), 0);
    assert_eq!(routed(&mut router, arrived(3, 100, 0), 0), 2);
}

#[test]
fn earliest_spreads_arrivals_between_two_reports() {
    let instances = vec![spec(10, 1_000); 3];
    let mut router = Router::new(RouterSpec::new(RouteRule::Earliest), instances).unwrap();
    let to: Vec<u32> = (0..9)
        .map(|sequence| routed(&mut router, arrived(sequence, 100, 9_000), 0))
        .collect();
    assert_eq!(to, [0, 1, 2, 0, 1, 2, 0, 1, 2]);
}

#[test]
fn a_sequence_that_is_late_moves_as_often_as_it_may() {
    let rule = JustEnough {
        max_moves: 2,
        ..JustEnough::default()
    };
    let mut router = router(RouteRule::JustEnough(rule));
    assert_eq!(routed(&mut router, arrived(1, 100, 5_000), 0), 0);
    let progressed = |generated, expected| RouteEvent::Progressed {
        sequence: SequenceId(1),
        generated,
        expected,
    };
    assert_eq!(effects(&mut router, progressed(50, 50), 2_000), []);
    // 100 more tokens take 4 s: in time at 1,500 ms of 5,000, and late at 2,500.
    let moved = |from, to| RouteEffect::Move {
        sequence: SequenceId(1),
        from: InstanceId(from),
        to: InstanceId(to),
        by: Transfer::TokenIds,
    };
    assert_eq!(effects(&mut router, progressed(100, 100), 2_500), [moved(0, 1)]);
    assert_eq!(
        effects(&mut router, progressed(100, 900), 2_500),
        [],
        "it is between two instances"
    );
    let arrived = RouteEvent::Moved {
        sequence: SequenceId(1),
    };
    effects(&mut router, arrived, 2_600);
    assert_eq!(effects(&mut router, progressed(150, 900), 2_700), [moved(1, 2)]);
    effects(&mut router, arrived, 2_800);
    assert_eq!(
        effects(&mut router, progressed(200, 900), 2_900),
        [],
        "twice at most"
    );
}

#[test]
fn a_move_that_helps_nothing_is_made_by_the_paper_s_rule_alone() {
    for (moves, count) in [(Moves::Late, 1), (Moves::Better, 0), (Moves::Never, 0)] {
        let mut router = router(just_enough(moves));
        // Only the fastest instance is in time; later the sequence is late there too.
        assert_eq!(routed(&mut router, arrived(1, 100, 1_500), 0), 2);
        let progressed = RouteEvent::Progressed {
            sequence: SequenceId(1),
            generated: 50,
            expected: 100,
        };
        assert_eq!(effects(&mut router, progressed, 1_000).len(), count, "{moves:?}");
    }
}

#[test]
fn prompts_that_begin_alike_go_where_the_beginning_is_cached() {
    let mut router = router(RouteRule::Prefix(LongestPrefix::default()));
    let arrived = |sequence, tokens| RouteEvent::Arrived {
        sequence: SequenceId(sequence),
        prompt: 100,
        expected: 50,
        deadline: at_ms(9_000),
        prefix: Some(Prefix { id: 7, tokens }),
    };
    let first = routed(&mut router, arrived(1, 80), 0);
    match effects(&mut router, arrived(2, 60), 0).as_slice() {
        [RouteEffect::Route { to, reused, .. }] => assert_eq!((to.0, *reused), (first, 60)),
        other => panic!("it is routed: {other:?}"),
    }
    // If less than half of the prompt is cached, the load decides.
    assert_ne!(routed(&mut router, arrived(3, 40), 0), first);
    let lost = RouteEvent::PrefixesLost {
        instance: InstanceId(first),
    };
    effects(&mut router, lost, 0);
    match effects(&mut router, arrived(4, 80), 0).as_slice() {
        [RouteEffect::Route { to, reused, .. }] if to.0 == first => assert_eq!(*reused, 0),
        [RouteEffect::Route { .. }] => {}
        other => panic!("it is routed: {other:?}"),
    }
}

#[test]
fn what_is_short_of_memory_hands_its_shortest_sequence_on() {
    let mut router = router(RouteRule::MostFree(MostFree::default()));
    for sequence in 1..=6 {
        routed(&mut router, arrived(sequence, 50, 9_000), 0);
    }
    let on_first: Vec<SequenceId> = (router.sequences())
        .filter(|(_, instance)| instance.0 == 0)
        .map(|(sequence, _)| sequence)
        .collect();
    assert_eq!(on_first.len(), 2, "the freest takes the next");
    let found = effects(&mut router, reported(0, state(2, 5, 0.0, 0.04)), 500);
    let [RouteEffect::Move { sequence, from, .. }] = found.as_slice() else {
        panic!("one moves: {found:?}");
    };
    assert_eq!((*sequence, from.0), (on_first[0], 0));
}

#[test]
fn sequences_of_a_lost_instance_are_routed_again() {
    let mut router = router(RouteRule::LeastRequests);
    for sequence in 1..=3 {
        routed(&mut router, arrived(sequence, 50, 9_000), 0);
    }
    let down = |instance| RouteEvent::Down {
        instance: InstanceId(instance),
    };
    for (instance, again) in [(0, 1), (1, 2)] {
        assert_eq!(effects(&mut router, down(instance), 10).len(), again);
    }
    assert!(router.sequences().all(|(_, instance)| instance.0 == 2));
    let lost = effects(&mut router, down(2), 20);
    assert_eq!(lost.len(), 3);
    assert!(
        lost.iter()
            .all(|effect| matches!(effect, RouteEffect::Drop { .. }))
    );
    effects(
        &mut router,
        RouteEvent::Up {
            instance: InstanceId(1),
        },
        30,
    );
    assert_eq!(routed(&mut router, arrived(9, 50, 9_000), 30), 1);
}

#[test]
fn parameters_out_of_bounds_are_refused() {
    let new = |change: fn(&mut RouterSpec)| {
        let mut router = RouterSpec::new(RouteRule::Random);
        change(&mut router);
        Router::new(router, vec![spec(10, 10)]).map(|_| ())
    };
    assert_eq!(new(|_| ()), Ok(()));
    assert_eq!(
        new(|spec| spec.check_tokens = 0),
        Err(RouterSpecError::Zero("check_tokens"))
    );
    assert_eq!(new(|spec| spec.wait_gain = 1.5), Err(RouterSpecError::Gain(1.5)));
    let none = Router::new(RouterSpec::new(RouteRule::Random), Vec::new());
    assert_eq!(none.map(|_| ()), Err(RouterSpecError::NoInstances));
}

fn view() -> impl Strategy<Value = View> {
    let reported = (0_u32..4, 0_u32..60, 0.0..2.0, 0.001..0.1);
    (1_u64..50, reported, 0_u32..6, any::<bool>()).prop_map(|(ms, reported, sequences, is_up)| {
        let mut view = View::new(spec(ms, 60));
        let (running, free, wait_s, token_s) = reported;
        view.state = state(running, free, wait_s, token_s);
        (view.wait_s, view.sequences, view.is_up) = (wait_s, sequences, is_up);
        view.tokens.add(f64::from(sequences), Timestamp::ZERO);
        view.work_s.add(f64::from(sequences), Timestamp::ZERO);
        view
    })
}

/// Cost that the picked instance minimises, spelled out for each rule. `just-enough` has ranks: instances in
/// time come first.
fn cost(rule: RouteRule, view: &View, demand: &Demand) -> (u8, f64) {
    let idle = view.state.running < 2;
    let d = if idle {
        view.idle_token_s
    } else {
        view.state.token_s
    };
    let prompt_s = view.state.prompt_token_s * f64::from(demand.prompt);
    let estimate = view.wait_s + prompt_s + d * f64::from(demand.expected);
    // All of its sequences have a place, and none of its prompts came since the report.
    let with_this = view.spec.steps.decode.duration(view.sequences + 1).as_secs_f64();
    let with_routed = view.wait_s + prompt_s + d.max(with_this) * f64::from(demand.expected);
    let needs = (demand.prompt + demand.expected).div_ceil(16);
    match rule {
        RouteRule::LeastRequests => (0, f64::from(view.sequences)),
        RouteRule::LowestTokens(_) => (0, view.tokens.sum(Timestamp::ZERO)),
        RouteRule::Prefix(_) => (0, view.work_s.sum(Timestamp::ZERO) + prompt_s),
        RouteRule::MostFree(_) => (
            0,
            -f64::from(view.state.free_blocks) / f64::from(view.sequences.max(1)),
        ),
        RouteRule::Earliest => (0, with_routed),
        RouteRule::JustEnough(_) if estimate <= demand.left_s && view.state.free_blocks >= needs => (0, -d),
        RouteRule::JustEnough(_) => (1, estimate),
        // The tests of `weir` enumerate its choices.
        RouteRule::Random | RouteRule::RoundRobin | RouteRule::Weir(_) => (0, 0.0),
    }
}

proptest! {
    /// No instance is better than the picked one by the rule's own measure, and one is picked if there is
    /// any.
    #[test]
    fn what_is_picked_is_what_enumeration_picks(
        views in prop::collection::vec(view(), 1..9),
        expected in 1_u32..200,
        left_s in -1.0..9.0,
        excluded in prop::option::of(0_u32..9),
        number in any::<u64>(),
    ) {
        let cluster = Cluster { instances: views, seed: 1 };
        let demand = Demand {
            number,
            prompt: 100,
            prefix: None,
            expected,
            left_s,
            excluded: excluded.map(InstanceId),
            transfer: None,
        };
        let may = |index: usize, view: &View| view.is_up && excluded != Some(index as u32);
        for rule in RouteRule::all() {
            let picked = rule.pick(&cluster, &demand, Timestamp::ZERO);
            let mut all = cluster.instances.iter().enumerate().filter(|(index, view)| may(*index, view));
            let Some(picked) = picked else {
                prop_assert!(all.next().is_none(), "{} finds none", rule.name());
                continue;
            };
            let chosen = &cluster.instances[picked.index()];
            prop_assert!(may(picked.index(), chosen));
            let best = cost(rule, chosen, &demand);
            for (_, view) in all {
                let other = cost(rule, view, &demand);
                prop_assert!(best.0 < other.0 || (best.0 == other.0 && best.1 <= other.1), "{}", rule.name());
            }
        }
    }
}

proptest! {
    /// A sequence that is late and may move goes to the instance that enumeration picks among the others;
    /// with `better` only if it should end earlier there.
    #[test]
    fn a_sequence_that_is_looked_at_again_goes_where_enumeration_says(
        views in prop::collection::vec(view(), 1..6),
        from in 0_usize..6,
        expected in 1_u32..200,
        left_s in -1.0..9.0,
        moves in 0_u32..4,
        when in prop::sample::select(vec![Moves::Late, Moves::Better, Moves::Never]),
    ) {
        let from = from % views.len();
        let cluster = Cluster { instances: views, seed: 1 };
        let demand = Demand {
            number: 0,
            prompt: 100,
            prefix: None,
            expected,
            left_s,
            excluded: Some(InstanceId(from as u32)),
            transfer: None,
        };
        let rule = JustEnough { moves: when, max_moves: 3 };
        let found = rule.reconsider(&cluster, &cluster.instances[from], &demand, moves);
        let others = cluster.instances.iter().enumerate().filter(|(index, view)| *index != from && view.is_up);
        let others: Vec<(u32, &View)> = others.map(|(index, view)| (index as u32, view)).collect();
        let cost_of = |view: &View| cost(RouteRule::JustEnough(rule), view, &demand);
        let here = &cluster.instances[from];
        let d = |view: &View| if view.state.running < 2 { view.idle_token_s } else { view.state.token_s };
        let rest_s = d(here) * f64::from(expected);
        let best = others.iter().map(|(index, view)| (cost_of(view), *index));
        let best = best.min_by(|a, b| a.partial_cmp(b).expect("they are numbers"));
        let may = when != Moves::Never && moves < 3 && rest_s > left_s;
        let pays = |index: u32| {
            let view = &cluster.instances[index as usize];
            let prompt_s = view.state.prompt_token_s * f64::from(demand.prompt);
            when == Moves::Late || view.wait_s + prompt_s + d(view) * f64::from(expected) < rest_s
        };
        let to = best.map(|(_, index)| index).filter(|index| may && pays(*index));
        prop_assert_eq!(found.map(|to| to.0), to);
    }
}

#[derive(Debug, Clone)]
enum Act {
    Arrive(u32, u64),
    Progress(u64, u32),
    Moved(u64),
    End(u64),
    Report(u32, u32),
    Down(u32),
    Up(u32),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => (1_u32..300, 0_u64..9_000).prop_map(|(expected, deadline)| Act::Arrive(expected, deadline)),
        4 => (0_u64..30, 0_u32..300).prop_map(|(which, expected)| Act::Progress(which, expected)),
        2 => (0_u64..30).prop_map(Act::Moved),
        2 => (0_u64..30).prop_map(Act::End),
        2 => (0_u32..3, 0_u32..100).prop_map(|(which, free)| Act::Report(which, free)),
        1 => (0_u32..3).prop_map(Act::Down),
        1 => (0_u32..3).prop_map(Act::Up),
    ]
}

proptest! {
    /// A sequence is on one instance until it ends, moves begin at its instance, and the instances' counts
    /// are right.
    #[test]
    fn a_sequence_is_on_one_instance(acts in prop::collection::vec(act(), 1..80), rule in 0_usize..9) {
        let mut router = router(RouteRule::all()[rule]);
        let mut on: BTreeMap<u64, (u32, u32)> = BTreeMap::new();
        let mut next = 0;
        for (ms, act) in (0_u64..).step_by(100).zip(acts) {
            let event = match act {
                Act::Arrive(expected, deadline) => {
                    next += 1;
                    arrived(next - 1, expected, deadline)
                }
                Act::Progress(which, expected) => {
                    let generated = on.get_mut(&which).map_or(0, |(_, generated)| {
                        *generated += 50;
                        *generated
                    });
                    RouteEvent::Progressed { sequence: SequenceId(which), generated, expected }
                }
                Act::Moved(which) => RouteEvent::Moved { sequence: SequenceId(which) },
                Act::End(which) => {
                    on.remove(&which);
                    RouteEvent::Ended { sequence: SequenceId(which), generated: 300 }
                }
                Act::Report(which, free) => reported(which, state(which, free, 0.1, 0.02)),
                Act::Down(which) => RouteEvent::Down { instance: InstanceId(which) },
                Act::Up(which) => RouteEvent::Up { instance: InstanceId(which) },
            };
            for effect in effects(&mut router, event, ms) {
                match effect {
                    RouteEffect::Route { sequence, to, .. } => {
                        let generated = on.get(&sequence.0).map_or(0, |(_, generated)| *generated);
                        on.insert(sequence.0, (to.0, generated));
                    }
                    RouteEffect::Move { sequence, from, to, .. } => {
                        let (instance, _) = on.get_mut(&sequence.0).expect("it has not ended");
                        prop_assert_eq!(*instance, from.0);
                        prop_assert_ne!(from, to);
                        *instance = to.0;
                    }
                    RouteEffect::Drop { sequence, .. } => {
                        on.remove(&sequence.0);
                    }
                }
            }
            let held: BTreeMap<u64, u32> = router.sequences().map(|(id, instance)| (id.0, instance.0)).collect();
            let known: BTreeMap<u64, u32> = on.iter().map(|(id, (instance, _))| (*id, *instance)).collect();
            prop_assert_eq!(held, known);
            for instance in 0..3 {
                let count = on.values().filter(|(at, _)| *at == instance).count();
                prop_assert_eq!(router.sequences_on(InstanceId(instance)) as usize, count);
            }
        }
    }
}

#[test]
fn what_a_move_costs_decides_what_goes_over_the_link_and_whether_it_pays() {
    // Prompts are slow here, 400 ms for 64 tokens: computing earlier output again takes long.
    let slow_prompts = |step_ms: u64| InstanceSpec {
        steps: StepProfile {
            prompt: StepCurve::from_points(&[(1, Span::from_millis(400)), (64, Span::from_millis(400))])
                .unwrap(),
            ..spec(step_ms, 100).steps
        },
        ..spec(step_ms, 100)
    };
    let moved = |transfer: Option<MoveCost>| {
        let rule = RouteRule::JustEnough(JustEnough {
            moves: Moves::Better,
            ..JustEnough::default()
        });
        let spec_of = RouterSpec {
            transfer,
            ..RouterSpec::new(rule)
        };
        let mut router = Router::new(spec_of, vec![slow_prompts(40), slow_prompts(10)]).unwrap();
        assert_eq!(routed(&mut router, arrived(1, 100, 15_000), 0), 0);
        // It is late: 40 ms for each of 100 tokens, in 3 s.
        effects(
            &mut router,
            RouteEvent::Progressed {
                sequence: SequenceId(1),
                generated: 400,
                expected: 100,
            },
            12_000,
        )
    };
    let link = |bandwidth_bps: f64, latency_ms: u64| MoveCost {
        link: Link {
            latency: Span::from_millis(latency_ms),
            bandwidth_bps,
        },
        cache_bytes: 1e5,
    };
    // Computing 500 tokens again takes 3.1 s, and the rest 1 s: longer than staying.
    let by = |effects: &[RouteEffect]| match effects {
        [RouteEffect::Move { by, .. }] => Some(*by),
        _ => None,
    };
    assert_eq!(
        by(&moved(Some(link(1e10, 1)))),
        Some(Transfer::Cache),
        "40 ms on the link"
    );
    assert_eq!(
        by(&moved(Some(link(1e6, 1)))),
        None,
        "50 MB over 1 Mb/s, or all computed again"
    );
    assert_eq!(
        by(&moved(Some(link(1e10, 9_000)))),
        None,
        "the link alone takes longer"
    );
}
