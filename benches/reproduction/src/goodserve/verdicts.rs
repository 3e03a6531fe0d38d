//! Expected results beside measured ones.

use weir_policy::route::{Moves, RouteRule};
use weir_sim::generate::LengthRule;

use super::setting::{Case, OBJECTIVES, RATES};
use super::studies::{LENGTHS, Studies, TRUE, baselines, just_enough, rule};
use crate::plot::markdown;

/// Rows of a table of verdicts.
#[derive(Debug, Default)]
struct Verdicts(Vec<Vec<String>>);

impl Verdicts {
    fn add(&mut self, what: &str, wanted: &str, found: impl Into<String>, holds: bool) {
        let verdict = if holds { "yes" } else { "no" };
        self.0.push(vec![
            what.to_owned(),
            wanted.to_owned(),
            found.into(),
            verdict.to_owned(),
        ]);
    }

    fn table(&self) -> String {
        markdown(&["what", "wanted", "found", "holds"], &self.0)
    }
}

fn at(rule: RouteRule, rate: u32, objective_s: u32) -> Case {
    Case::new(rule, TRUE, rate, objective_s)
}

/// Per cent at 20, 30 and 40 a second and 6 s.
fn middle(studies: &Studies, rule: RouteRule, lengths: LengthRule) -> [f64; 3] {
    [20, 30, 40].map(|rate| studies.percent(&Case::new(rule, lengths, rate, 6)))
}

fn list(values: &[f64]) -> String {
    let texts: Vec<String> = values.iter().map(|value| format!("{value:.1}")).collect();
    texts.join(", ")
}

/// The best of the paper's baselines, in per cent.
fn best_baseline(studies: &Studies, rate: u32, objective_s: u32) -> f64 {
    let all = baselines().into_iter();
    all.map(|other| studies.percent(&at(other, rate, objective_s)))
        .fold(0.0, f64::max)
}

/// Just-enough and the baselines; what an independent simulation found.
#[must_use]
pub fn just_enough_table(studies: &Studies) -> String {
    let mut verdicts = Verdicts::default();
    let earliest = middle(studies, RouteRule::Earliest, TRUE);
    let best = [20, 30, 40].map(|rate| best_baseline(studies, rate, 6));
    let less = |a: [f64; 3], b: [f64; 3]| [0, 1, 2].map(|index| a[index] - b[index]);
    for (name, moves) in [
        ("moves whenever late, as in the authors' code", Moves::Late),
        ("moves for the better", Moves::Better),
    ] {
        let rule = just_enough(moves);
        let is = middle(studies, rule, TRUE);
        let ahead = [0, 1, 2].map(|index| 100.0 * (is[index] / best[index] - 1.0));
        verdicts.add(
            &format!("{name}: ahead of the best baseline at 20, 30, 40 a second and 6 s"),
            "5 % at least",
            format!("{} %", list(&ahead)),
            ahead.iter().all(|ahead| *ahead >= 5.0),
        );
        let second = less(earliest, is);
        verdicts.add(
            &format!("{name}: `earliest` is second and close (points beside it)"),
            "0 to 5 below",
            list(&second),
            second.iter().all(|points| (-5.0..=0.0).contains(points)),
        );
        let drawn = less(
            middle(studies, rule, LengthRule::History),
            middle(studies, RouteRule::Earliest, LengthRule::History),
        );
        verdicts.add(
            &format!("{name}: behind `earliest` with lengths drawn from history (points)"),
            "below 0",
            list(&drawn),
            drawn.iter().all(|points| *points < 0.0),
        );
        let ends = [40, 50].map(|rate| studies.goodput(&at(rule, rate, 6)));
        verdicts.add(
            &format!("{name}: collapses at 50 a second (in time a second at 40 and 50, 6 s)"),
            "less at 50",
            list(&ends),
            ends[1] < ends[0],
        );
        let gains = OBJECTIVES.map(|objective_s| {
            let rates = [20, 30, 40].map(|rate| {
                let than = best_baseline(studies, rate, objective_s);
                100.0 * (studies.percent(&at(rule, rate, objective_s)) / than - 1.0)
            });
            rates.iter().sum::<f64>() / 3.0
        });
        verdicts.add(
            &format!(
                "{name}: its gain over the best baseline vanishes where objectives are loose (6, 9, 12 s)"
            ),
            "the paper's grows, 3.1 to 16.6 %",
            format!("{} %", list(&gains)),
            gains[2] < 2.0,
        );
    }
    let without = less(middle(studies, just_enough(Moves::Never), TRUE), earliest);
    verdicts.add(
        "without checks: behind `earliest` at 20, 30, 40 a second and 6 s (points)",
        "below 0",
        list(&without),
        without.iter().all(|points| *points < 0.0),
    );
    let above = less(earliest, best);
    verdicts.add(
        "`earliest` ahead of the best baseline (points)",
        "above 0",
        list(&above),
        above.iter().all(|points| *points > 0.0),
    );
    verdicts.table()
}

/// Table of the rule `weir` beside the best of `earliest` and both variants of `just-enough`, by source of
/// lengths.
#[must_use]
pub fn weir_table(studies: &Studies) -> String {
    let mut rows = Vec::new();
    let mut verdicts = Verdicts::default();
    let (mut worst, mut losing, mut ahead) = (f64::INFINITY, 0, 0);
    let (mut all_losing, mut ahead_of_losing) = (0, 0);
    let mut falls = Vec::new();
    for (name, lengths) in LENGTHS {
        for objective_s in OBJECTIVES {
            let of = |by: &str, rate: u32| Case::new(rule(by), lengths, rate, objective_s);
            let cells = RATES.map(|rate| {
                let is = studies.percent(&of("weir", rate));
                let for_better = Case::new(just_enough(Moves::Better), lengths, rate, objective_s);
                let others = [of("earliest", rate), of("just-enough", rate), for_better];
                let others = others.map(|case| studies.percent(&case));
                let better = others.into_iter().fold(0.0, f64::max);
                worst = worst.min(is - better);
                let is_ahead = usize::from(is >= better + 5.0);
                if others.iter().any(|share| *share <= 95.0) {
                    losing += 1;
                    ahead += is_ahead;
                }
                if others.iter().all(|share| *share <= 95.0) {
                    all_losing += 1;
                    ahead_of_losing += is_ahead;
                }
                format!("{:+.1}", is - better)
            });
            let first = [name.to_owned(), format!("{objective_s} s")];
            rows.push(first.into_iter().chain(cells).collect::<Vec<String>>());
            let [at_40, at_50] = [40, 50].map(|rate| studies.goodput(&of("weir", rate)));
            if at_50 < at_40 {
                falls.push(format!("{name}, {objective_s} s: {at_40:.1}, {at_50:.1}"));
            }
        }
    }
    verdicts.add(
        "points below the best of `earliest` and `just-enough` (both kinds of moves), at worst",
        "1 at most",
        format!("{:.1}", (-worst).max(0.0)),
        worst >= -1.0,
    );
    verdicts.add(
        "cases in which any of these loses 5 points, and `weir` is ahead of all by 5",
        "a quarter",
        format!("{ahead} of {losing}"),
        4 * ahead >= losing,
    );
    verdicts.add(
        "cases in which all of these lose 5 points, and `weir` is ahead of all by 5",
        "a quarter",
        format!("{ahead_of_losing} of {all_losing}"),
        4 * ahead_of_losing >= all_losing,
    );
    verdicts.add(
        "goodput at 50 a second no less than at 40",
        "everywhere",
        if falls.is_empty() {
            "everywhere".to_owned()
        } else {
            falls.join("; ")
        },
        falls.is_empty(),
    );
    let rates = RATES.map(|rate| format!("{rate}/s (points)"));
    let head: Vec<String> = ["lengths", "objective"]
        .map(str::to_owned)
        .into_iter()
        .chain(rates)
        .collect();
    format!("{}\n{}", verdicts.table(), markdown(&head, &rows))
}

/// Predictors of lengths: what they had to come to.
#[must_use]
pub fn lengths_table(studies: &Studies) -> String {
    let mut verdicts = Verdicts::default();
    let error = |name: &str| {
        let found = studies.predictors.iter().find(|one| one.name == name);
        found.map_or(f64::NAN, |one| one.error)
    };
    let (experts, single, history) = (error("experts"), error("single"), error("history"));
    let part = experts / history;
    verdicts.add(
        "mean absolute error of `experts` beside `history`'s",
        "0.7 at most",
        format!("{part:.2}"),
        part <= 0.7,
    );
    verdicts.add(
        "`experts` no worse than `single` (tokens)",
        "at most",
        format!("{experts:.2}, {single:.2}"),
        experts <= single,
    );
    let slowest = studies
        .predictors
        .iter()
        .map(|one| one.micros)
        .fold(0.0, f64::max);
    verdicts.add(
        "a prediction",
        "below 100 us",
        if slowest < 100.0 {
            "below 100 us".to_owned()
        } else {
            format!("{slowest:.0} us")
        },
        slowest < 100.0,
    );
    verdicts.table()
}
