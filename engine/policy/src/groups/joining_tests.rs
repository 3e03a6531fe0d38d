//! Groups that requests join: their size, the work that an estimate counts, and requests that overtake others.

use proptest::prelude::*;
use weir_types::{InstanceId, ModelId, SequenceId, Span, Timestamp};

use super::queues::Waiting;
use super::tests::{full, serving, spec, step};
use super::*;

/// Prompts of three tiers.
const PROMPTS: [u32; 3] = [100, 1_500, 5_000];
/// Maximum number of requests in a group of [`queues`].
const MAX: usize = 8;

/// Queues of one model before one instance that has no room.
fn queues() -> Queues {
    let mut spec = spec(QueueRule::PAPER);
    spec.delta = 1.0;
    let mut queues = serving(spec, [0, 0]);
    full(&mut queues, 0);
    step(&mut queues, QueueEvent::Down(InstanceId(1)), 0);
    assert_eq!(queues.max_group(ModelId(0)), MAX);
    queues
}

fn arrive(queues: &mut Queues, number: u64, tier: usize, class: u32) {
    let arrived = QueueEvent::Arrived {
        request: SequenceId(number),
        model: ModelId(0),
        class,
        prompt: PROMPTS[tier],
        deadline: Timestamp::ZERO + Span::from_secs(1_000_000),
    };
    step(queues, arrived, 0);
}

/// Groups of the first instance in the order in which they are served.
fn groups(queues: &Queues) -> Vec<Vec<u64>> {
    let Waiting::Virtual(waiting) = &queues.waiting else {
        panic!("the rule has virtual queues");
    };
    let order = waiting.orders[0].iter();
    let groups = order.filter_map(|queued| waiting.groups.get(queued.group));
    groups
        .map(|group| group.requests.keys().map(|request| request.0).collect())
        .collect()
}

fn estimate_s(queues: &Queues, number: u64) -> f64 {
    let estimate = queues.estimate(SequenceId(number)).unwrap();
    estimate.since(Timestamp::ZERO).as_secs_f64()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn estimate_counts_the_work_before_and_only_earlier_places_move_it(
        asked in proptest::collection::vec((0..3_usize, 0..2_u32), 1..120),
    ) {
        let mut queues = queues();
        let rates = queues.rates[0][0];
        let work_s = |number: u64| rates.work_s(f64::from(PROMPTS[asked[number as usize].0]), 50.0);
        for (number, (tier, class)) in (0_u64..).zip(asked.iter().copied()) {
            let before: Vec<f64> = (0..number).map(|earlier| estimate_s(&queues, earlier)).collect();
            arrive(&mut queues, number, tier, class);
            let groups = groups(&queues);
            prop_assert!(groups.iter().all(|group| group.len() <= MAX), "{groups:?}");
            let order = groups.concat();
            let place = order.iter().position(|other| *other == number).unwrap();
            let service_s = rates.service_s(f64::from(PROMPTS[tier]), 50.0, rates.batch);
            let expected_s = order[..place].iter().map(|other| work_s(*other)).sum::<f64>() + service_s;
            let found_s = estimate_s(&queues, number);
            prop_assert!((found_s - expected_s).abs() < 1e-4, "{found_s} s, expected {expected_s} s");
            for (at, other) in order.iter().enumerate().filter(|(_, other)| **other != number) {
                let moved_s = estimate_s(&queues, *other) - before[*other as usize];
                let expected_s = if at < place { 0.0 } else { work_s(number) };
                prop_assert!((moved_s - expected_s).abs() < 1e-4, "{other} moves by {moved_s} s");
            }
        }
    }

    #[test]
    fn request_is_overtaken_by_less_than_a_group_of_each_other_tier(
        asked in proptest::collection::vec((0..3_usize, 0..2_u32), 1..120),
    ) {
        let mut queues = queues();
        for (number, (tier, class)) in (0_u64..).zip(asked.iter().copied()) {
            arrive(&mut queues, number, tier, class);
        }
        let order = groups(&queues).concat();
        for (at, request) in order.iter().enumerate() {
            let (_, class) = asked[*request as usize];
            let overtook = order[..at]
                .iter()
                .filter(|other| *other > request && asked[**other as usize].1 == class)
                .count();
            prop_assert!(overtook <= (PROMPTS.len() - 1) * (MAX - 1), "{overtook} before {request}");
        }
    }
}

#[test]
fn full_group_is_followed_by_a_new_one_at_the_end_of_the_order() {
    let mut queues = queues();
    for (number, tier) in [0, 1, 0, 0, 0, 0, 0, 0, 0].into_iter().enumerate() {
        arrive(&mut queues, number as u64, tier, 0);
    }
    // Eight requests came since the first group began, one of them to the group of another tier.
    assert_eq!(groups(&queues), [vec![0_u64, 2, 3, 4, 5, 6, 7], vec![1], vec![8]]);
}

#[test]
fn arrivals_for_another_class_leave_room_in_a_group() {
    let mut queues = queues();
    for number in 0..16 {
        arrive(&mut queues, number, 0, number as u32 % 2);
    }
    let [first, second] = [0, 1].map(|class| (class..16).step_by(2).collect::<Vec<u64>>());
    assert_eq!(groups(&queues), [first, second]);
}

#[test]
fn group_gets_full_although_it_is_served_while_it_grows() {
    let mut queues = queues();
    arrive(&mut queues, 0, 0, 0);
    arrive(&mut queues, 1, 1, 0);
    let mut started = Vec::new();
    for number in 2..12 {
        arrive(&mut queues, number, 0, 0);
        let room = QueueEvent::Room {
            instance: InstanceId(0),
            sequences: 1,
            tokens: 2_000,
        };
        for effect in step(&mut queues, room, 0) {
            if let QueueEffect::Start { request, .. } = effect {
                started.push(request.0);
            }
        }
    }
    // Never more than two requests wait in the first group.
    assert_eq!(started, [0, 2, 3, 4, 5, 6, 7, 1, 8, 9]);
}
