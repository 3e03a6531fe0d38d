//! Figures 2, 6, 7, 8 and 10 of the paper, after our data.

use weir_policy::route::{Moves, RouteRule};
use weir_sim::generate::LengthRule;

use super::setting::{Case, OBJECTIVES, RATES};
use super::studies::{CHECKS, COMPARED, LENGTHS, MIDDLE, Studies, TRUE, just_enough, rule, rules};
use crate::plot::{Axis, Bar, BarSeries, Bars, Figure, Kind, Line, Panel, markdown};

fn bars(title: &str, y: &str, categories: Vec<String>, series: Vec<BarSeries>) -> Figure {
    Figure {
        title: title.to_owned(),
        panels: vec![Panel {
            y: Axis::new(y),
            kind: Kind::Bars(Bars { categories, series }),
            ..Panel::default()
        }],
        columns: 1,
        width: 760,
        height: 360,
    }
}

fn bar(studies: &Studies, case: &Case) -> Bar {
    Bar {
        error: studies.outcome(case).map(super::setting::Outcome::goodput_range),
        ..Bar::from(studies.goodput(case))
    }
}

/// Goodput of every rule at 10 a second and 6 s, as in the paper's experiment, and at 30 a second.
#[must_use]
pub fn figure_2(studies: &Studies) -> Figure {
    let rates = [10, 30];
    let series = |(name, rule): (String, RouteRule)| BarSeries {
        name,
        values: rates
            .iter()
            .map(|rate| bar(studies, &Case::new(rule, TRUE, *rate, 6)))
            .collect(),
    };
    bars(
        "Goodput by rule, true lengths, 6 s (after Figure 2)",
        "in time (requests a second)",
        rates.iter().map(|rate| format!("{rate} a second")).collect(),
        rules().into_iter().map(series).collect(),
    )
}

/// Goodput by rate, a panel for each objective, with true lengths.
#[must_use]
pub fn figure_6(studies: &Studies) -> Figure {
    let line = |(name, rule): (String, RouteRule), objective_s: u32| {
        let at = |rate: u32| {
            let outcome = studies.outcome(&Case::new(rule, TRUE, rate, objective_s));
            let (low, high) = outcome.map_or((f64::NAN, f64::NAN), |found| found.goodput_range());
            let mean = outcome.map_or(f64::NAN, |found| found.goodput());
            (f64::from(rate), mean, low, high)
        };
        let points: Vec<(f64, f64, f64, f64)> = RATES.map(at).into();
        Line {
            points: points.iter().map(|(x, mean, ..)| (*x, *mean)).collect(),
            band: match name.as_str() {
                "just-enough" | "weir" => points.iter().map(|(x, _, low, high)| (*x, *low, *high)).collect(),
                _ => Vec::new(),
            },
            dashed: !matches!(name.as_str(), "earliest" | "just-enough" | "weir"),
            name,
            ..Line::default()
        }
    };
    let panel = |objective_s: u32| Panel {
        title: format!("{objective_s} s"),
        x: Axis::new("requests a second"),
        y: Axis::new("in time (requests a second)"),
        kind: Kind::Lines(rules().into_iter().map(|rule| line(rule, objective_s)).collect()),
        ..Panel::default()
    };
    Figure {
        title: "Goodput by rate and objective, true lengths (after Figure 6)".to_owned(),
        panels: OBJECTIVES.map(panel).into(),
        columns: 3,
        width: 1_100,
        height: 420,
    }
}

/// A part of requests in time for every rule, rate and objective, in per cent.
#[must_use]
pub fn table_6(studies: &Studies) -> String {
    let mut rows = Vec::new();
    for objective_s in OBJECTIVES {
        for (name, rule) in rules() {
            let cells = RATES.map(|rate| {
                format!(
                    "{:.1}",
                    studies.percent(&Case::new(rule, TRUE, rate, objective_s))
                )
            });
            let head = [format!("{objective_s} s"), name];
            rows.push(head.into_iter().chain(cells).collect::<Vec<String>>());
        }
    }
    markdown(&head(&["objective", "rule"]), &rows)
}

fn head(first: &[&str]) -> Vec<String> {
    let rates = RATES.map(|rate| format!("{rate}/s (%)"));
    first.iter().map(|name| (*name).to_owned()).chain(rates).collect()
}

/// `just-enough` without its parts, by objective, at the rate of [`MIDDLE`].
#[must_use]
pub fn figure_7(studies: &Studies) -> Figure {
    let rate = MIDDLE.0;
    let kinds: [(&str, RouteRule, LengthRule); 6] = [
        ("just-enough", just_enough(Moves::Late), TRUE),
        (
            "lengths from history",
            just_enough(Moves::Late),
            LengthRule::History,
        ),
        ("without moves", just_enough(Moves::Never), TRUE),
        ("moves for the better", just_enough(Moves::Better), TRUE),
        (
            "these, lengths from history",
            just_enough(Moves::Better),
            LengthRule::History,
        ),
        ("earliest", RouteRule::Earliest, TRUE),
    ];
    let series = |(name, rule, lengths): (&str, RouteRule, LengthRule)| BarSeries {
        name: name.to_owned(),
        values: OBJECTIVES
            .map(|objective_s| bar(studies, &Case::new(rule, lengths, rate, objective_s)))
            .into(),
    };
    bars(
        &format!("Just-enough without its parts, {rate} a second (after Figure 7)"),
        "in time (requests a second)",
        OBJECTIVES.map(|objective_s| format!("{objective_s} s")).into(),
        kinds.map(series).into(),
    )
}

/// The three rules by where lengths come from, in per cent of requests in time.
#[must_use]
pub fn table_lengths(studies: &Studies) -> String {
    let mut rows = Vec::new();
    for objective_s in OBJECTIVES {
        for (name, lengths) in LENGTHS {
            for (by, rule) in rules() {
                if !COMPARED.contains(&by.as_str()) {
                    continue;
                }
                let cells = RATES.map(|rate| {
                    let case = Case::new(rule, lengths, rate, objective_s);
                    format!("{:.1}", studies.percent(&case))
                });
                let first = [format!("{objective_s} s"), name.to_owned(), by];
                rows.push(first.into_iter().chain(cells).collect::<Vec<String>>());
            }
        }
    }
    markdown(&head(&["objective", "lengths", "rule"]), &rows)
}

/// Goodput by where lengths come from, at [`MIDDLE`] (Figure 8, its goodput).
#[must_use]
pub fn figure_8(studies: &Studies) -> Figure {
    let (rate, objective_s) = MIDDLE;
    let all = LENGTHS.into_iter().chain([("mean", LengthRule::Mean)]);
    let all: Vec<(&str, LengthRule)> = all.collect();
    let series = |name: &&str| BarSeries {
        name: (*name).to_owned(),
        values: all
            .iter()
            .map(|(_, lengths)| bar(studies, &Case::new(rule(name), *lengths, rate, objective_s)))
            .collect(),
    };
    bars(
        &format!("Goodput by lengths, {rate} a second, {objective_s} s (after Figure 8)"),
        "in time (requests a second)",
        all.iter().map(|(name, _)| (*name).to_owned()).collect(),
        ["earliest", "just-enough", "weir"].iter().map(series).collect(),
    )
}

/// Goodput by tokens between two looks, at [`MIDDLE`] (Figure 10b).
#[must_use]
pub fn figure_10(studies: &Studies) -> Figure {
    let (rate, objective_s) = MIDDLE;
    let line = |name: &&str| {
        let at = |check_tokens: u32| {
            let case = Case::new(rule(name), TRUE, rate, objective_s);
            let goodput = studies.goodput(&Case { check_tokens, ..case });
            (f64::from(check_tokens), goodput)
        };
        Line {
            name: (*name).to_owned(),
            points: CHECKS.map(at).into(),
            ..Line::default()
        }
    };
    Figure {
        title: format!("Goodput by interval of checks, {rate} a second, {objective_s} s (after Figure 10b)"),
        panels: vec![Panel {
            x: Axis::new("tokens between two checks").log(),
            y: Axis::new("in time (requests a second)"),
            kind: Kind::Lines(["just-enough", "weir"].iter().map(line).collect()),
            ..Panel::default()
        }],
        columns: 1,
        width: 640,
        height: 360,
    }
}

/// Table of predictors: their errors relative to history, and the share of scenes described in time with
/// each.
#[must_use]
pub fn table_predictors(studies: &Studies) -> String {
    let rows: Vec<Vec<String>> = (studies.predictors.iter().zip(&studies.described))
        .map(|(one, shares)| {
            let shares = shares.iter().map(|share| format!("{:.1}", 100.0 * share));
            std::iter::once(one.name.clone()).chain(shares).collect()
        })
        .collect();
    let head: Vec<&str> = std::iter::once("in time (%), by length")
        .chain(COMPARED)
        .collect();
    markdown(&head, &rows)
}
