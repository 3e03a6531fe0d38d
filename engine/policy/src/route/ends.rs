//! Rules for requests of an ordinary model that runs on slots of unequal speed. A request goes to a slot when it arrives; it is
//! one batch there, behind what waits.
//!
//! ```text
//! T = wait behind all that is there + duration of its batch          at each slot
//! just-enough   among those with T <= time left the longest duration; else the least T
//! weir          the same among those where it makes nothing that waits late; else the least wait, in the order of
//!               deadlines, + duration
//! earliest      the least T
//! ```
//!
//! The other rules see of a slot what they see of an instance: requests that are there, items of the last minute, work of the
//! last minutes. `most-free` counts as `least-requests`, since what waits takes no memory of a device.

use weir_types::Span;

use super::rule::RouteRule;
use crate::queue::tie_break::{GOLDEN_GAMMA, uniform_hash};

/// A slot that a request could go to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct End {
    /// Its place among those of the module.
    pub(crate) place: usize,
    /// Until its batch would be done.
    pub(crate) finish: Span,
    /// The same behind all that waits there.
    pub(crate) behind_all: Span,
    /// How long that batch takes.
    pub(crate) duration: Span,
    /// Whether all that waits there would be no later for it than its deadline, where it was in time.
    pub(crate) is_harmless: bool,
    /// Requests that wait there.
    pub(crate) requests: u64,
    /// Items that were put there in the last minute.
    pub(crate) items: f64,
    /// Seconds of work that were put there in the last minutes.
    pub(crate) work_s: f64,
}

/// The place of the slot that a request with so much time left goes to; `None` where there is no slot. `number` counts
/// requests, for what is drawn or goes by turns.
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

/// Whether a rule looks again at what waits, and takes it elsewhere.
pub(crate) fn looks_again(rule: RouteRule) -> bool {
    match rule {
        RouteRule::JustEnough(rule) => rule.moves != super::just_enough::Moves::Never,
        RouteRule::Weir(_) => true,
        _ => false,
    }
}

/// The one of two with fewer requests.
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

    /// What a rule has least of at the slot that it picks, spelled out: of equals the first place.
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
                    // One of any two: never one of which each other has fewer.
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
