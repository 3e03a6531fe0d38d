use std::sync::Arc;

use proptest::prelude::*;
use weir_types::{DropReason, InstanceId, SequenceId, Span, StepCurve, StepProfile, Timestamp};

use super::belief::{Beliefs, LITTLE};
use super::book::{Book, Booked, seconds_until};
use super::step_times::StepTimes;
use super::view::{Cluster, Demand, View};
use super::weir::{Bookings, Verdict};
use super::*;
use crate::generate::InstanceSpec;

/// A step of one sequence takes `step_ms`, and of 64 twice that; prompts take the same.
fn spec(step_ms: u64) -> InstanceSpec {
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
        blocks: 1_000,
        block_tokens: 16,
        reserve_blocks: 0,
        prompt_gives_token: true,
        prefix_tokens: 10_000,
    }
}

fn at_ms(ms: u64) -> Timestamp {
    Timestamp::from_micros(1_000 * ms)
}

fn arrived(sequence: u64, expected: u32, deadline_ms: u64) -> RouteEvent {
    RouteEvent::Arrived {
        sequence: SequenceId(sequence),
        prompt: 20,
        expected,
        deadline: at_ms(deadline_ms),
        prefix: None,
    }
}

fn effects(router: &mut Router, event: RouteEvent, ms: u64) -> Vec<RouteEffect> {
    let mut effects = Vec::new();
    router.step(event, at_ms(ms), &mut effects);
    effects
}

/// A slow, a medium and a fast instance, with a router that has seen exact predictions.
fn router() -> Router {
    let rule = RouteRule::Weir(Weir::default());
    let mut router = Router::new(RouterSpec::new(rule), vec![spec(40), spec(20), spec(10)]).unwrap();
    for sequence in 1_000..1_020 {
        let length = 50 + sequence as u32 % 20;
        effects(&mut router, arrived(sequence, length, 9_000), 0);
        let ended = RouteEvent::Ended {
            sequence: SequenceId(sequence),
            generated: length,
        };
        effects(&mut router, ended, 0);
    }
    router
}

#[test]
fn the_slowest_that_is_in_time_is_picked_and_what_none_can_finish_is_dropped() {
    // 100 tokens take 4, 2 and 1 s, and the prompt a little.
    for (deadline_ms, to) in [
        (15_000, Some(0)),
        (13_000, Some(1)),
        (11_500, Some(2)),
        (10_500, None),
    ] {
        let mut router = router();
        let found = effects(&mut router, arrived(1, 100, deadline_ms), 10_000);
        match (found.as_slice(), to) {
            ([RouteEffect::Route { to: is, .. }], Some(to)) => assert_eq!(is.0, to, "{deadline_ms} ms"),
            ([RouteEffect::Drop { reason, from, .. }], None) => {
                assert_eq!((*reason, *from), (DropReason::Infeasible, None));
            }
            other => panic!("{deadline_ms} ms: {other:?}"),
        }
        assert_eq!(router.sequences().count(), usize::from(to.is_some()));
    }
}

#[test]
fn none_is_put_where_another_would_be_late_for_it() {
    let mut router = router();
    // All but 60 ms of the fast one is needed by the first.
    let first = effects(&mut router, arrived(1, 100, 11_100), 10_000);
    assert!(
        matches!(first.as_slice(), [RouteEffect::Route { to, .. }] if to.0 == 2),
        "{first:?}"
    );
    // The second sequence alone could be in time there.
    let second = effects(&mut router, arrived(2, 100, 11_120), 10_010);
    assert!(
        matches!(
            second.as_slice(),
            [RouteEffect::Route { .. } | RouteEffect::Drop { .. }]
        ),
        "{second:?}"
    );
    let slow = effects(&mut router, arrived(3, 100, 13_500), 10_020);
    assert!(
        matches!(slow.as_slice(), [RouteEffect::Route { to, .. }] if to.0 == 1),
        "{slow:?}"
    );
}

#[test]
fn prediction_from_the_text_so_far_replaces_the_first_one() {
    let mut router = router();
    effects(&mut router, arrived(1, 100, 15_000), 10_000);
    let predicted = RouteEvent::Predicted {
        sequence: SequenceId(1),
        total: 1_000,
    };
    assert_eq!(effects(&mut router, predicted, 12_000), []);
    let progressed = RouteEvent::Progressed {
        sequence: SequenceId(1),
        generated: 50,
        expected: 950,
    };
    let dropped = effects(&mut router, progressed, 12_000);
    let [RouteEffect::Drop { from, .. }] = dropped.as_slice() else {
        panic!("no instance can finish it in time: {dropped:?}");
    };
    assert_eq!(*from, Some(InstanceId(0)));
}

#[test]
fn what_is_late_moves_where_it_can_be_in_time_and_is_dropped_where_it_cannot() {
    let progressed = |generated, expected| RouteEvent::Progressed {
        sequence: SequenceId(1),
        generated,
        expected,
    };
    let mut router = router();
    effects(&mut router, arrived(1, 100, 15_000), 10_000);
    assert_eq!(effects(&mut router, progressed(50, 50), 12_000), []);
    // 40 tokens take 1.6 s here and 0.8 s on the medium instance, where earlier tokens are computed again.
    let moved = effects(&mut router, progressed(60, 40), 14_000);
    let to_middling = RouteEffect::Move {
        sequence: SequenceId(1),
        from: InstanceId(0),
        to: InstanceId(1),
        by: Transfer::TokenIds,
    };
    assert_eq!(moved, [to_middling]);
    effects(
        &mut router,
        RouteEvent::Moved {
            sequence: SequenceId(1),
        },
        14_050,
    );
    let late = effects(&mut router, progressed(70, 30), 14_990);
    assert!(
        matches!(
            late.as_slice(),
            [RouteEffect::Drop {
                from: Some(InstanceId(1)),
                ..
            }]
        ),
        "{late:?}"
    );
    assert_eq!(router.sequences_on(InstanceId(1)), 0);
}

#[test]
fn what_runs_past_its_deadline_is_dropped_with_the_next_report() {
    let mut router = router();
    effects(&mut router, arrived(1, 100, 11_500), 10_000);
    let state = crate::generate::InstanceState {
        running: 1,
        waiting: 0,
        free_blocks: 900,
        wait_s: 0.0,
        prompt_token_s: 0.001,
        token_s: 0.01,
        correction: 1.0,
    };
    let reported = |ms| {
        (
            RouteEvent::Reported {
                instance: InstanceId(2),
                state,
            },
            ms,
        )
    };
    let (event, ms) = reported(11_499);
    assert_eq!(effects(&mut router, event, ms), []);
    let (event, ms) = reported(11_500);
    assert_eq!(effects(&mut router, event, ms).len(), 1);
}

/// An instance of which one step takes 10 ms, with two places.
fn two_places() -> InstanceSpec {
    InstanceSpec {
        max_sequences: 2,
        ..spec(10)
    }
}

#[test]
fn sequences_without_a_place_wait_for_the_first_that_ends() {
    let mut book = Book::new(Arc::new(StepTimes::new(&two_places())));
    let beliefs = Beliefs::new();
    let now = at_ms(10_000);
    let booked = |id: u64, expected: u32, deadline_ms: u64| Booked {
        id: SequenceId(id),
        deadline: at_ms(deadline_ms),
        belief: belief_of(&beliefs, expected),
        generated: 0,
        expected,
        at: now,
        runs: false,
    };
    let free_s = book.ready_s(20, at_ms(60_000), now);
    book.add(booked(1, 100, 60_000), 20, now);
    book.add(booked(2, 300, 60_000), 20, now);
    // The steps of two are not longer for a third, which begins once the first has ended.
    let step_s = book.token_s(2);
    assert_eq!(book.token_s(3), step_s);
    let third_s = book.ready_s(20, at_ms(60_000), now);
    assert!((third_s - 100.0 * step_s - free_s).abs() < 0.1, "{third_s}");
    // Behind it, the next waits for the second; before it, an urgent one waits as long as the third did.
    book.add(booked(3, 50, 60_000), 20, now);
    let (behind_s, urgent_s) = (
        book.ready_s(20, at_ms(60_000), now),
        book.ready_s(20, at_ms(20_000), now),
    );
    assert!((behind_s - 300.0 * step_s - free_s).abs() < 0.1, "{behind_s}");
    assert!((urgent_s - third_s).abs() < 1e-9, "{urgent_s}");
    // Its place is taken by the one that waits.
    book.remove(SequenceId(1), now);
    let runs = |book: &Book| book.sequences().iter().filter(|booked| booked.runs).count();
    assert_eq!((runs(&book), book.sequences().len()), (2, 2));
}

#[test]
fn instance_on_which_sequences_took_longer_than_estimated_gets_fewer() {
    let placed = |longest_s: f64| {
        let instances = vec![View::new(spec(40)), View::new(spec(10))];
        let cluster = Cluster { instances, seed: 1 };
        let mut bookings = Bookings::new(Weir::default(), &cluster);
        for number in 0..40 {
            let own = bookings.on_arrived(50);
            bookings.on_ended(own, 50);
            let actual_s = if number % 2 == 0 { longest_s } else { 2.0 };
            bookings.on_finish(InstanceId(0), [actual_s, 2.0], false);
        }
        let demand = Demand {
            number: 0,
            prompt: 20,
            prefix: None,
            expected: 50,
            left_s: 2.6,
            excluded: None,
            transfer: None,
        };
        let belief = bookings.belief(50);
        let place = bookings.place(&cluster, &demand, (belief, 0), at_ms(10_000));
        place.map(|(to, _)| to.0)
    };
    // 50 tokens take about 2.1 s on the slow instance, of 2.6 s.
    assert_eq!((placed(2.0), placed(3.0)), (Some(0), Some(1)));
}

#[test]
fn dropped_sequences_say_nothing_about_lengths() {
    let found = |dropped: bool| {
        let mut router = router();
        for sequence in 1..40 {
            effects(&mut router, arrived(sequence, 100, 90_000), 10_000);
            let (sequence, generated) = (SequenceId(sequence), 1);
            let event = match dropped {
                true => RouteEvent::Dropped { sequence, generated },
                false => RouteEvent::Ended { sequence, generated },
            };
            effects(&mut router, event, 10_000);
        }
        // 100 tokens take at least 1 s.
        effects(&mut router, arrived(99, 100, 10_500), 10_000)
    };
    let by_dropped = found(true);
    assert!(
        matches!(by_dropped.as_slice(), [RouteEffect::Drop { .. }]),
        "{by_dropped:?}"
    );
    let by_ended = found(false);
    assert!(
        matches!(by_ended.as_slice(), [RouteEffect::Route { .. }]),
        "{by_ended:?}"
    );
}

fn belief_of(beliefs: &Beliefs, length: u32) -> super::belief::Belief {
    beliefs.belief(length)
}

proptest! {
    /// With exact predictions, the rule takes the slowest instance on which the sequence is in time and makes
    /// no other late. If there is none, it takes no instance where more is lost than gained.
    #[test]
    fn what_is_picked_is_what_enumeration_picks(
        steps in prop::collection::vec(5_u64..60, 1..6),
        there in prop::collection::vec((0_usize..6, 1_u32..200, 100_u64..6_000), 0..40),
        length in 1_u32..200,
        left_ms in 1_u64..6_000,
    ) {
        let rule = Weir { near: 1e-4, near_gain: 0.0, loss_weight: 1.0, ..Weir::default() };
        let views: Vec<View> = steps.iter().map(|step| View::new(spec(*step))).collect();
        let cluster = Cluster { instances: views, seed: 1 };
        let mut bookings = Bookings::new(rule, &cluster);
        let mut beliefs = Beliefs::new();
        for number in 0..40_u32 {
            let length = 50 + 7 * number;
            let own = bookings.on_arrived(length);
            bookings.on_ended(own, length);
            let own = beliefs.on_arrived(length);
            beliefs.on_tokens(own, length, true);
        }
        let now = at_ms(10_000);
        let demand = |left_s| Demand { number: 0, prompt: 20, prefix: None, expected: 0, left_s, excluded: None, transfer: None };
        let mut books: Vec<Book> =
            steps.iter().map(|step| Book::new(Arc::new(StepTimes::new(&spec(*step))))).collect();
        for (id, (on, length, left)) in there.into_iter().enumerate() {
            let on = on % steps.len();
            let deadline = at_ms(10_000 + left);
            let belief = belief_of(&beliefs, length);
            let booked = Booked { id: SequenceId(id as u64), deadline, belief, generated: 0, expected: length, at: now, runs: false };
            bookings.on_placed(&cluster, (booked, InstanceId(on as u32)), &demand(1.0), now);
            books[on].add(booked, 20, now);
        }
        let left_s = left_ms as f64 / 1e3;
        let deadline = at_ms(10_000 + left_ms);
        let belief = belief_of(&beliefs, length);
        let picked = bookings.place(&cluster, &demand(left_s), (belief, 0), now);
        // The expected choice, computed directly: gain and loss of each instance.
        let mut all: Vec<(f64, f64, f64, u32)> = Vec::new();
        for (index, book) in books.iter().enumerate() {
            let ready_s = book.ready_s(20, deadline, now);
            let (_, stall_s) = book.prompt_s(20, now);
            let count = book.sequences().len();
            let (before, after) = (book.token_s(count), book.token_s(count + 1));
            let gain = beliefs.chance(belief, 0, (left_s - ready_s) / after);
            let loss: f64 = book.sequences().iter().map(|other| {
                let left = seconds_until(other.deadline, other.at.max(now));
                let is = beliefs.chance(other.belief, 0, left / before);
                let then = beliefs.chance(other.belief, 0, (left - stall_s) / after);
                if is < rule.min_chance { 0.0 } else { (is - then).max(0.0) }
            }).sum();
            all.push((gain, loss, after, index as u32));
        }
        let best = all.iter().map(|(gain, ..)| *gain).fold(0.0, f64::max);
        all.retain(|(gain, ..)| *gain >= best - rule.near);
        all.sort_by(|a, b| b.2.total_cmp(&a.2));
        let harmless = all.iter().find(|(_, loss, ..)| *loss <= rule.near);
        let most = || all.iter().map(|(gain, loss, ..)| gain - loss).fold(f64::MIN, f64::max);
        match picked {
            None => prop_assert!(best < rule.min_chance || (harmless.is_none() && most() <= 0.0)),
            Some((to, score)) => match harmless {
                Some((.., index)) => prop_assert_eq!(to.0, *index),
                None => prop_assert!((score - most()).abs() < 1e-9 && score > 0.0),
            },
        }
    }

    /// Few probabilities are computed, and losses only as far as they matter. The decisions equal those by
    /// all probabilities and complete losses, for predictions of any quality.
    #[test]
    fn shortcuts_decide_as_all_chances_and_whole_losses_do(
        steps in prop::collection::vec(5_u64..60, 1..60),
        there in prop::collection::vec((0_usize..60, 1_u32..400, 100_u64..9_000, 0_u32..300), 0..200),
        errors in prop::collection::vec((1_u32..400, -0.8_f64..0.8), 0..200),
        length in 1_u32..400,
        left_ms in 1_u64..9_000,
    ) {
        let rule = Weir::default();
        let views: Vec<View> = steps.iter().map(|step| View::new(spec(*step))).collect();
        let cluster = Cluster { instances: views, seed: 1 };
        let mut bookings = Bookings::new(rule, &cluster);
        let mut beliefs = Beliefs::new();
        for (length, error) in errors {
            let actual = (f64::from(length) * error.exp()).ceil() as u32;
            let own = bookings.on_arrived(length);
            bookings.on_ended(own, actual);
            let own = beliefs.on_arrived(length);
            beliefs.on_tokens(own, actual, true);
        }
        let now = at_ms(10_000);
        let demand = |left_s| Demand { number: 0, prompt: 20, prefix: None, expected: 0, left_s, excluded: None, transfer: None };
        let mut books: Vec<Book> =
            steps.iter().map(|step| Book::new(Arc::new(StepTimes::new(&spec(*step))))).collect();
        let on_all = there.len();
        for (id, (on, length, left, generated)) in there.into_iter().enumerate() {
            let on = on % steps.len();
            let deadline = at_ms(10_000 + left);
            let belief = belief_of(&beliefs, length);
            let booked = Booked { id: SequenceId(id as u64), deadline, belief, generated, expected: length, at: now, runs: false };
            bookings.on_placed(&cluster, (booked, InstanceId(on as u32)), &demand(1.0), now);
            books[on].add(booked, 20, now);
        }
        let left_s = left_ms as f64 / 1e3;
        let deadline = at_ms(10_000 + left_ms);
        let belief = belief_of(&beliefs, length);
        let picked = bookings.place(&cluster, &demand(left_s), (belief, 0), now);
        let mut all: Vec<(u32, f64, f64)> = Vec::new();
        for (index, book) in (0..).zip(&books) {
            let token_s = book.token_s(book.sequences().len() + 1);
            let ready_s = book.ready_s(20, deadline, now);
            all.push((index, beliefs.chance(belief, 0, (left_s - ready_s) / token_s), token_s));
        }
        let best = all.iter().map(|(_, chance, _)| *chance).fold(0.0, f64::max);
        all.retain(|(_, chance, _)| *chance >= best - rule.near);
        all.sort_by(|a, b| b.2.total_cmp(&a.2));
        let mut expected: Option<(u32, f64)> = None;
        let mut scored = Vec::new();
        for (index, chance, after) in all.into_iter().take(8) {
            let book = &books[index as usize];
            let (before, (_, stall_s)) = (book.token_s(book.sequences().len()), book.prompt_s(20, now));
            let loss: f64 = book.sequences().iter().map(|other| {
                let [is, then] = Book::chances(&beliefs, other, ([before, after], stall_s), now);
                if is < rule.min_chance { 0.0 } else { (is - then).max(0.0) }
            }).sum();
            let score = chance - rule.loss_weight * loss;
            scored.push((index, score, loss));
            if loss <= rule.near {
                expected = Some((index, score));
                break;
            }
            if expected.is_none_or(|(_, best)| score > best) {
                expected = Some((index, score));
            }
        }
        let expected = expected.filter(|(_, score)| *score > 0.0 && best >= rule.min_chance);
        // A lost chance that does not count may be left out: by that much less is lost.
        let slack = LITTLE * on_all as f64;
        match (picked, expected) {
            (Some((to, is)), Some((index, best))) => {
                let of_picked = scored.iter().find(|(index, _, _)| *index == to.0);
                let &(_, score, loss) = of_picked.expect("it is one of the slowest");
                prop_assert!((is - score).abs() <= slack, "{is} in place of {score}");
                prop_assert!(to.0 == index || score >= best - slack || loss <= rule.near + slack, "{} in place of {index}", to.0);
            }
            (Some((_, score)), None) => prop_assert!(score <= slack),
            (None, expected) => prop_assert_eq!(expected, None),
        }
    }
}

proptest! {
    /// Checked sequences stay, move or end by their probability where they are, and by the choice among the
    /// other instances, which are few enough to enumerate.
    #[test]
    fn a_sequence_that_is_looked_at_again_stays_moves_or_ends_by_its_chances(
        steps in prop::collection::vec(5_u64..60, 1..4),
        there in prop::collection::vec((0_usize..3, 1_u32..300, 100_u64..6_000, 0_u32..200), 1..6),
        moves in 0_u32..4,
    ) {
        let rule = Weir { max_moves: 3, ..Weir::default() };
        let views: Vec<View> = steps.iter().map(|step| View::new(spec(*step))).collect();
        let cluster = Cluster { instances: views, seed: 1 };
        let mut bookings = Bookings::new(rule, &cluster);
        let mut beliefs = Beliefs::new();
        for number in 0..40_u32 {
            let (length, actual) = (50 + 7 * number, 40 + 8 * number);
            let own = bookings.on_arrived(length);
            bookings.on_ended(own, actual);
            let own = beliefs.on_arrived(length);
            beliefs.on_tokens(own, actual, true);
        }
        let now = at_ms(10_000);
        let demand = |left_s, excluded| Demand { number: 0, prompt: 20, prefix: None, expected: 0, left_s, excluded, transfer: None };
        let mut books: Vec<Book> =
            steps.iter().map(|step| Book::new(Arc::new(StepTimes::new(&spec(*step))))).collect();
        let mut placed: Vec<(Booked, usize)> = Vec::new();
        for (id, (on, length, left, generated)) in there.into_iter().enumerate() {
            let on = on % steps.len();
            let deadline = at_ms(10_000 + left);
            let belief = belief_of(&beliefs, length);
            let booked = Booked { id: SequenceId(id as u64), deadline, belief, generated, expected: length, at: now, runs: false };
            bookings.on_placed(&cluster, (booked, InstanceId(on as u32)), &demand(1.0, None), now);
            books[on].add(booked, 20, now);
            placed.push((booked, on));
        }
        for (asked, on) in placed {
            let from = InstanceId(on as u32);
            let demand = demand(seconds_until(asked.deadline, now), Some(from));
            let verdict = bookings.reconsider(&cluster, (asked.id, from), &demand, moves, now);
            let book = &books[on];
            // It runs from when it was ready on.
            let own = book.sequences().iter().find(|booked| booked.id == asked.id).expect("it is there");
            let token_s = book.token_s(book.sequences().len());
            let chance = Book::chance(&beliefs, own, token_s, now);
            let at_best = Book::chance(&beliefs, own, token_s * (1.0 - rule.grace), now);
            let elsewhere = bookings.place(&cluster, &demand, (asked.belief, asked.generated), now);
            let gains = elsewhere.filter(|(_, score)| moves < 3 && *score >= chance + rule.move_gain);
            let expected = match gains {
                Some((to, _)) => Verdict::Move(to),
                None if chance < rule.min_chance && at_best < rule.min_chance => Verdict::Drop,
                None => Verdict::Stay,
            };
            prop_assert_eq!(verdict, expected, "sequence {} on {}, chance {}", asked.id.0, on, chance);
            prop_assert!(verdict != Verdict::Move(from), "it moves to where it is");
        }
    }
}

proptest! {
    /// A sequence that is skipped without a look-up loses nothing by the look-ups either.
    #[test]
    fn a_sequence_that_is_passed_over_loses_nothing(
        lengths in prop::collection::vec((1_u32..600, 1_u32..600), 0..60),
        exact in any::<bool>(),
        there in prop::collection::vec((1_u32..700, 0_u32..700, -2_000_i64..20_000, 0_u64..9_000), 1..60),
        (count, stall_ms) in (1_usize..90, 0_u64..300),
    ) {
        let mut beliefs = Beliefs::new();
        for (predicted, actual) in lengths {
            let own = beliefs.on_arrived(predicted);
            beliefs.on_tokens(own, if exact { predicted } else { actual }, true);
        }
        let now = at_ms(10_000);
        let book = Book::new(Arc::new(StepTimes::new(&spec(10))));
        let (before, after) = (book.token_s(count), book.token_s(count + 1));
        let stall_s = stall_ms as f64 / 1e3;
        for (predicted, generated, left_ms, since_ms) in there {
            let booked = Booked {
                id: SequenceId(0),
                deadline: at_ms((10_000 + left_ms) as u64),
                belief: belief_of(&beliefs, predicted),
                generated,
                expected: predicted,
                at: at_ms(10_000 - since_ms),
                runs: true,
            };
            if Book::surely_loses_nothing(&beliefs, &booked, ([1.0 / before, 1.0 / after], stall_s), now) {
                let [is, then] = Book::chances(&beliefs, &booked, ([before, after], stall_s), now);
                prop_assert!(is - then <= LITTLE, "{is} becomes {then}");
            }
        }
    }
}
