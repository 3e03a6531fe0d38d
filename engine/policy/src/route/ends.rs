//! Routing for requests of an ordinary model on slots of different speed. A request is assigned to a slot
//! when it arrives, and runs there as one batch behind earlier requests.
//!
//! ```text
//! T = wait behind all work on the slot + duration of its batch          for each slot
//! just-enough   among slots with T <= time left the longest duration; else the least T
//! weir          as just-enough, among slots where no waiting request becomes late; else the least wait
//!               in the order of deadlines, + duration
//! earliest      the least T
//! ```
//!
//! Other rules use the same figures of a slot as of an instance: its requests, items of the last minute, work
//! of the last minutes. `most-free` equals `least-requests`, because waiting requests use no device memory.

use weir_types::Span;

use super::rule::RouteRule;
use crate::queue::tie_break::{GOLDEN_GAMMA, uniform_hash};

/// A slot that a request could be assigned to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct End {
    /// Place of the slot among the module's slots.
    pub(crate) place: usize,
    /// Time until the request's batch would be done.
    pub(crate) finish: Span,
    /// The same if the request waits behind all other requests.
    pub(crate) behind_all: Span,
    /// Duration of the request's batch on the slot.
    pub(crate) duration: Span,
    /// Whether the request would make no waiting request late that is in time now.
    pub(crate) is_harmless: bool,
    /// Number of requests that wait or run on the slot.
    pub(crate) requests: u64,
    /// Number of items assigned to the slot in the last minute.
    pub(crate) items: f64,
    /// Seconds of work assigned to the slot within the window of rule `prefix`.
    pub(crate) work_s: f64,
}

/// Place of the slot for a request with `left` time before its deadline; `None` if there is no slot. `number`
/// counts requests, for rules that draw or take turns.
pub(crate) fn pick(rule: RouteRule, ends: &[End], left: Span, (number, seed): (u64, u64)) -> Option<usize> {
    let least = |cost: &dyn Fn(&End) -> f64| {
        let all = ends.iter().map(|end| (cost(end), end.place));
        all.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, place)| place)
    };
    let earliest = || ends.iter().min_by_key(|end| (end.finish, end.place));
    let slowest = |is_good: &dyn Fn(&End) -> bool| {
        let in_time = ends.iter().filter(|end| end.behind_all <= left && is_good(end));
        in_time.max_by_key(|end| (end.duration, std::cmp::Reverse((end.finish, end.place))))
    };
    let chosen = match rule {
        RouteRule::Random => return two(ends, number ^ seed),
        RouteRule::RoundRobin => ends.get((number % (ends.len() as u64).max(1)) as usize),
        RouteRule::LeastRequests | RouteRule::MostFree(_) => return least(&|end| end.requests as f64),
        RouteRule::LowestTokens(_) => return least(&|end| end.items),
        RouteRule::Prefix(_) => return least(&|end| end.work_s),
        RouteRule::Earliest => earliest(),
        RouteRule::JustEnough(_) => slowest(&|_| true).or_else(earliest),
        RouteRule::Weir(_) => slowest(&|end| end.is_harmless).or_else(earliest),
    };
    chosen.map(|end| end.place)
}

/// Whether a rule checks waiting requests again, and moves them to other slots.
pub(crate) fn looks_again(rule: RouteRule) -> bool {
    match rule {
        RouteRule::JustEnough(rule) => rule.moves != super::just_enough::Moves::Never,
        RouteRule::Weir(_) => true,
        _ => false,
    }
}

/// Draws two slots and returns the one with fewer requests.
fn two(ends: &[End], number: u64) -> Option<usize> {
    if ends.len() < 2 {
        return ends.first().map(|end| end.place);
    }
    let draw = |number: u64, below: usize| {
        let uniform = uniform_hash(number.wrapping_mul(GOLDEN_GAMMA));
        ((uniform * below as f64) as usize).min(below - 1)
    };
    let first = draw(number.wrapping_mul(2), ends.len());
    let second = draw(number.wrapping_mul(2).wrapping_add(1), ends.len() - 1);
    let second = second + usize::from(second >= first);
    let pair = [ends[first], ends[second]];
    let fewer = pair.iter().min_by_key(|end| (end.requests, end.place));
    fewer.map(|end| end.place)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::route::{JustEnough, Weir};

    fn end(place: usize, [finish, duration]: [u64; 2], is_harmless: bool, requests: u64) -> End {
        End {
            place,
            finish: Span::from_millis(finish),
            behind_all: Span::from_millis(finish),
            duration: Span::from_millis(duration),
            is_harmless,
            requests,
            items: requests as f64,
            work_s: finish as f64,
        }
    }

    #[test]
    fn just_enough_takes_the_slowest_that_is_in_time_and_earliest_the_first() {
        let ends = [
            end(0, [30, 10], true, 2),
            end(1, [45, 20], false, 1),
            end(2, [70, 40], true, 0),
        ];
        let picked = |rule, left| pick(rule, &ends, Span::from_millis(left), (0, 1));
        let just_enough = RouteRule::JustEnough(JustEnough::default());
        let weir = RouteRule::Weir(Weir::default());
        for (left, just, weir_picks) in [(100, 2, 2), (50, 1, 0), (40, 0, 0), (10, 0, 0)] {
            assert_eq!(picked(just_enough, left), Some(just), "{left}");
            assert_eq!(picked(weir, left), Some(weir_picks), "{left}");
            assert_eq!(picked(RouteRule::Earliest, left), Some(0));
            assert_eq!(picked(RouteRule::LeastRequests, left), Some(2));
        }
    }

    #[test]
    fn every_rule_picks_one_that_is_there() {
        let ends = [end(3, [30, 10], true, 2), end(5, [45, 20], true, 1)];
        for rule in RouteRule::all() {
            for number in 0..50 {
                let picked = pick(rule, &ends, Span::from_millis(40), (number, 7));
                assert!(matches!(picked, Some(3 | 5)), "{rule:?}");
                assert_eq!(pick(rule, &[], Span::from_millis(40), (number, 7)), None);
            }
        }
    }

    fn drawn() -> impl Strategy<Value = End> {
        // Few values, so that equals occur.
        let spans = (0_u64..6, 0_u64..3, 1_u64..4);
        (spans, any::<bool>(), 0_u64..3, 0_u32..3, 0_u32..3).prop_map(
            |((finish, behind, duration), is_harmless, requests, items, work)| End {
                place: 0,
                finish: Span::from_millis(finish),
                behind_all: Span::from_millis(finish + behind),
                duration: Span::from_millis(duration),
                is_harmless,
                requests,
                items: f64::from(items),
                work_s: f64::from(work),
            },
        )
    }

    /// Cost that a rule minimises over the slots, spelled out; among equals the first place wins.
    fn cost(rule: RouteRule, end: &End, left: Span) -> [f64; 3] {
        let (finish, duration) = (end.finish.as_secs_f64(), end.duration.as_secs_f64());
        let in_time = end.behind_all <= left;
        match rule {
            RouteRule::Earliest => [0.0, finish, 0.0],
            RouteRule::LeastRequests | RouteRule::MostFree(_) => [0.0, end.requests as f64, 0.0],
            RouteRule::LowestTokens(_) => [0.0, end.items, 0.0],
            RouteRule::Prefix(_) => [0.0, end.work_s, 0.0],
            RouteRule::JustEnough(_) if in_time => [0.0, -duration, finish],
            RouteRule::Weir(_) if in_time && end.is_harmless => [0.0, -duration, finish],
            RouteRule::JustEnough(_) | RouteRule::Weir(_) => [1.0, finish, 0.0],
            RouteRule::Random | RouteRule::RoundRobin => [0.0; 3],
        }
    }

    proptest! {
        #[test]
        fn what_is_picked_is_what_enumeration_picks(
            ends in prop::collection::vec(drawn(), 1..5),
            left in 0_u64..8,
            number in 0_u64..20,
        ) {
            let left = Span::from_millis(left);
            let ends: Vec<End> = (0..).zip(ends).map(|(place, end)| End { place, ..end }).collect();
            for rule in RouteRule::all() {
                let picked = pick(rule, &ends, left, (number, 3));
                let picked = &ends[picked.expect("there is one")];
                match rule {
                    RouteRule::RoundRobin => prop_assert_eq!(picked.place, number as usize % ends.len()),
                    // Of two different slots: never the one with strictly the most requests.
                    RouteRule::Random => prop_assert!(
                        ends.len() == 1 || ends.iter().any(|end| end.place != picked.place && end.requests >= picked.requests)
                    ),
                    _ => {
                        let costs = ends.iter().map(|end| (cost(rule, end, left), end.place));
                        let best = costs.min_by(|a, b| a.partial_cmp(b).expect("they are numbers"));
                        prop_assert_eq!(Some(picked.place), best.map(|(_, place)| place), "{}", rule.name());
                    }
                }
            }
        }
    }
}
