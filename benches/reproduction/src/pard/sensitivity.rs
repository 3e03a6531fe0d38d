//! Sensitivity: load, SLO, quantile and window (Figure 14).

use super::outcome::Outcome;
use super::study::{Study, mean_of};
use super::words::{Check, factor, percent, range, short, span};
use weir_sim::experiment::Estimate;

use crate::plot::{Axis, Figure, Kind, Line, Panel, markdown};

/// Values of the swept key, ascending.
fn values(study: &Study, key: &str) -> Vec<f64> {
    let mut values = study.names(|outcome| outcome.number(key));
    values.retain(|value| value.is_finite());
    values.sort_by(f64::total_cmp);
    values.dedup();
    values
}

fn select_at<'a>(
    study: &'a Study,
    key: &str,
    value: f64,
    wanted: &dyn Fn(&Outcome) -> bool,
) -> Vec<&'a Outcome> {
    study.filter(|outcome| outcome.number(key) == value && wanted(outcome))
}

/// A row for each value of `key`, a column for each of `names`.
fn table(
    study: &Study,
    key: &str,
    head: &str,
    names: &[String],
    of: &dyn Fn(&Outcome) -> String,
    figure: &dyn Fn(&[&Outcome]) -> String,
) -> String {
    let header: Vec<String> = std::iter::once(head.to_owned())
        .chain(names.iter().cloned())
        .collect();
    let row = |value: f64| -> Vec<String> {
        let cell = |name: &String| figure(&select_at(study, key, value, &|outcome| of(outcome) == *name));
        std::iter::once(format!("{value}"))
            .chain(names.iter().map(cell))
            .collect()
    };
    let rows: Vec<Vec<String>> = values(study, key).into_iter().map(row).collect();
    markdown(&header, &rows)
}

fn lines(
    study: &Study,
    key: &str,
    names: &[String],
    of: &dyn Fn(&Outcome) -> String,
    figure: &dyn Fn(&Outcome) -> f64,
) -> Vec<Line> {
    let line = |name: &String| {
        let estimates: Vec<_> = values(study, key)
            .into_iter()
            .map(|value| {
                (
                    value,
                    mean_of(
                        &select_at(study, key, value, &|outcome| of(outcome) == *name),
                        figure,
                    ),
                )
            })
            .collect();
        Line {
            name: name.clone(),
            points: estimates.iter().map(|(value, e)| (*value, e.mean)).collect(),
            band: estimates
                .iter()
                .map(|(value, e)| (*value, (e.mean - e.half).max(0.0), e.mean + e.half))
                .collect(),
            ..Line::default()
        }
    };
    names.iter().map(line).collect()
}

fn policy(outcome: &Outcome) -> String {
    outcome.policy.clone()
}

fn workload(outcome: &Outcome) -> String {
    format!("{}-{}", outcome.world, outcome.trace)
}

fn drop_percent(outcome: &Outcome) -> f64 {
    100.0 * outcome.drop_rate
}

fn rate_of(outcomes: &[&Outcome]) -> String {
    percent(mean_of(outcomes, |outcome| outcome.drop_rate))
}

/// Requests a second that were sent.
fn sent_rps(outcome: &Outcome) -> f64 {
    outcome.goodput / (1.0 - outcome.drop_rate).max(1e-9)
}

/// The most goodput that any policy could have had, by the bound.
fn optimal(study: &Study, load: f64) -> f64 {
    let of = select_at(study, "load", load, &|outcome| outcome.policy == "pard");
    mean_of(&of, |outcome| {
        sent_rps(outcome) * (1.0 - outcome.bound.unwrap_or(f64::NAN))
    })
    .mean
}

/// Figure 14a in words.
#[must_use]
pub fn loads(study: &Study) -> String {
    let goodput = |outcomes: &[&Outcome]| format!("{:.0}", mean_of(outcomes, |outcome| outcome.goodput).mean);
    table(study, "load", "load", &study.policies(), &policy, &goodput)
}

/// Figure 14b in words.
#[must_use]
pub fn slos(study: &Study) -> String {
    table(study, "slo", "SLO (ms)", &study.policies(), &policy, &rate_of)
}

/// Figure 14c in words.
#[must_use]
pub fn quantiles(study: &Study) -> String {
    table(
        study,
        QUANTILE,
        "quantile",
        &study.names(workload),
        &workload,
        &rate_of,
    )
}

/// Figure 14d in words.
#[must_use]
pub fn windows(study: &Study) -> String {
    table(
        study,
        WINDOW,
        "window (s)",
        &study.names(workload),
        &workload,
        &rate_of,
    )
}

const QUANTILE: &str = "drop.quantile";
const WINDOW: &str = "drop.window";

/// Figures 14a and 14b.
#[must_use]
pub fn figure_14ab(load: &Study, slo: &Study) -> Figure {
    let mut by_load = lines(load, "load", &load.policies(), &policy, &|outcome| {
        outcome.goodput
    });
    for line in &mut by_load {
        line.band.clear();
    }
    by_load.push(Line {
        name: "optimal (bound)".to_owned(),
        points: values(load, "load")
            .into_iter()
            .map(|value| (value, optimal(load, value)))
            .collect(),
        dashed: true,
        ..Line::default()
    });
    let mut by_slo = lines(slo, "slo", &slo.policies(), &policy, &drop_percent);
    for line in &mut by_slo {
        line.band.clear();
    }
    let panel = |title: &str, x: Axis, y: &str, lines| Panel {
        title: title.to_owned(),
        x,
        y: Axis::new(y),
        kind: Kind::Lines(lines),
        ..Panel::default()
    };
    Figure {
        title: "Load and SLO (after Figures 14a and 14b)".to_owned(),
        panels: vec![
            panel(
                "(a) goodput over load, lv, fixed workers",
                Axis::new("load (of capacity)").range(0.4, 2.0),
                "goodput (requests/s)",
                by_load,
            ),
            panel(
                "(b) drop rate over SLO, lv-tweet",
                Axis::new("SLO (ms)").range(150.0, 600.0),
                "drop rate (%)",
                by_slo,
            ),
        ],
        columns: 2,
        width: 1300,
        height: 470,
    }
}

/// Figures 14c and 14d: points of drop rate more than with PARD's own value, seed by seed.
#[must_use]
pub fn figure_14cd(quantile: &Study, window: &Study) -> Figure {
    let panel = |title: &str, x: Axis, lines| Panel {
        title: title.to_owned(),
        x,
        y: Axis::new("more drops (points)"),
        kind: Kind::Lines(lines),
        ..Panel::default()
    };
    Figure {
        title: "Quantile and window against PARD's own, 0.1 and 5 s (after Figures 14c and 14d)".to_owned(),
        panels: vec![
            panel(
                "(c) quantile, SLO of 150 ms, load 0.97",
                Axis::new("quantile"),
                more(quantile, QUANTILE, 0.1, &|outcome| outcome.world.clone()),
            ),
            panel(
                "(d) window, lv",
                Axis::new("window (s)"),
                more(window, WINDOW, 5.0, &workload),
            ),
        ],
        columns: 2,
        width: 1300,
        height: 470,
    }
}

/// Additional drop rate relative to the value `own` in percentage points, by value of `key`, seed by seed,
/// with the interval as a band.
fn more(study: &Study, key: &str, own: f64, of: &dyn Fn(&Outcome) -> String) -> Vec<Line> {
    let line = |name: String| {
        let rate = |value: f64, seed: u64| {
            let of = select_at(study, key, value, &|outcome| {
                of(outcome) == name && outcome.seed == seed
            });
            mean_drop_rate(&of)
        };
        let seeds = study.names(|outcome| outcome.seed);
        let each: Vec<_> = values(study, key)
            .into_iter()
            .map(|value| {
                let more: Vec<f64> = seeds
                    .iter()
                    .map(|&seed| rate(value, seed) - rate(own, seed))
                    .collect();
                (value, Estimate::from_values(&more))
            })
            .collect();
        Line {
            points: each.iter().map(|(value, more)| (*value, more.mean)).collect(),
            band: each
                .iter()
                .map(|(value, more)| (*value, more.mean - more.half, more.mean + more.half))
                .collect(),
            name,
            ..Line::default()
        }
    };
    study.names(of).into_iter().map(line).collect()
}

/// Checks of the paper's statements on Figure 14.
#[must_use]
pub fn claims(load: &Study, slo: &Study, quantile: &Study, window: &Study) -> Vec<Check> {
    let mut checks = load_checks(load);
    checks.push(slo_check(slo));
    checks.extend(quantile_checks(quantile));
    checks.extend(window_checks(window));
    checks
}

fn load_checks(study: &Study) -> Vec<Check> {
    let beyond: Vec<f64> = values(study, "load")
        .into_iter()
        .filter(|load| *load > 1.0)
        .collect();
    let goodput = |load: f64, name: &str| {
        mean_of(
            &select_at(study, "load", load, &|outcome| outcome.policy == name),
            |outcome| outcome.goodput,
        )
        .mean
    };
    let rivals = ["naive", "nexus", "clipper++"];
    let pairs = || beyond.iter().flat_map(|&load| rivals.map(|rival| (load, rival)));
    let more =
        range(pairs().map(|(load, rival)| 100.0 * (goodput(load, "pard") / goodput(load, rival) - 1.0)));
    let gap = |load: f64, name: &str| optimal(study, load) - goodput(load, name);
    let smaller = range(pairs().map(|(load, rival)| gap(load, rival) / gap(load, "pard").max(1e-9)));
    vec![
        Check::new(
            "beyond capacity PARD's goodput is 11.9 to 132.9 % higher than that of naive, nexus and clipper++",
            span(more, |value| format!("{value:.1} %")),
            more.is_some_and(|(low, _)| low >= 11.9),
        ),
        Check::new(
            "its gap to the optimal goodput is 3.4 to 23.4 times smaller than theirs",
            span(smaller, factor),
            smaller.is_some_and(|(low, _)| low >= 3.4),
        ),
    ]
}

fn slo_check(study: &Study) -> Check {
    let rate = |slo: f64, name: &str| {
        mean_of(
            &select_at(study, "slo", slo, &|outcome| outcome.policy == name),
            |outcome| outcome.drop_rate,
        )
        .mean
    };
    let ratios = values(study, "slo")
        .into_iter()
        .flat_map(|slo| ["nexus", "clipper++", "naive"].map(|rival| rate(slo, rival) / rate(slo, "pard")));
    let found = range(ratios);
    Check::new(
        "PARD's drop rate is 1.9 to 5.3 times lower than theirs at SLOs of 200 to 600 ms",
        span(found, factor),
        found.is_some_and(|(low, _)| low >= 1.9),
    )
}

fn quantile_checks(study: &Study) -> Vec<Check> {
    let all = values(study, QUANTILE);
    let rate = |value: f64, name: &str| {
        mean_drop_rate(&select_at(study, QUANTILE, value, &|outcome| {
            workload(outcome) == name
        }))
    };
    let least = |name: &String| {
        all.iter()
            .copied()
            .min_by(|a, b| rate(*a, name).total_cmp(&rate(*b, name)))
            .unwrap_or(f64::NAN)
    };
    let names = study.names(workload);
    let best: Vec<(String, f64)> = names.iter().map(|name| (name.clone(), least(name))).collect();
    let spread = range(names.iter().map(|name| {
        let near = range([0.075, 0.1, 0.15].map(|value| rate(value, name)));
        near.map_or(f64::NAN, |(low, high)| high - low)
    }));
    let half = range(names.iter().map(|name| rate(0.5, name) - rate(0.1, name)));
    let gap = range(
        best.iter()
            .map(|(name, best)| rate(0.1, name) - rate(*best, name)),
    );
    let points = |value: f64| format!("{} points", short(value));
    let rows: Vec<String> = best.iter().map(|(name, best)| format!("{name} {best}")).collect();
    vec![
        Check::new(
            "the best quantile lies between 0.075 and 0.15",
            rows.join(", "),
            best.iter().all(|(_, best)| (0.075..=0.15).contains(best)),
        ),
        Check::new(
            "drop rates vary little between 0.075 and 0.15 (here: by less than 0.3 points)",
            span(spread, points),
            spread.is_some_and(|(_, most)| most < 0.3),
        ),
        Check::new(
            "0.1 is at most 0.3 points from the best",
            span(gap, points),
            gap.is_some_and(|(_, most)| most <= 0.3),
        ),
        Check::new(
            "0.1 drops 1.1 to 2.0 % less than 0.5 (read as points)",
            span(half, points),
            half.is_some_and(|(least, _)| least >= 1.1),
        ),
    ]
}

fn mean_drop_rate(outcomes: &[&Outcome]) -> f64 {
    100.0 * mean_of(outcomes, |outcome| outcome.drop_rate).mean
}

fn window_checks(study: &Study) -> Vec<Check> {
    let all = values(study, WINDOW);
    let names = study.names(workload);
    let rate = |value: f64, name: &str| {
        mean_drop_rate(&select_at(study, WINDOW, value, &|outcome| {
            workload(outcome) == name
        }))
    };
    let best = |name: &String| {
        all.iter()
            .copied()
            .min_by(|a, b| rate(*a, name).total_cmp(&rate(*b, name)))
            .unwrap_or(f64::NAN)
    };
    let rows: Vec<String> = names
        .iter()
        .map(|name| format!("{name} {} s", best(name)))
        .collect();
    let fits = |name: &String| match name.rsplit('-').next() {
        Some("wiki") => (5.0..=7.0).contains(&best(name)),
        _ => (1.0..=5.0).contains(&best(name)),
    };
    let gap = range(
        names
            .iter()
            .map(|name| 100.0 * (rate(5.0, name) / rate(best(name), name) - 1.0)),
    );
    vec![
        Check::new(
            "the best window is 5 to 7 s for wiki (CV 0.47), 1 to 5 s for tweet and azure (CV 1.0 and 1.3)",
            rows.join(", "),
            names.iter().all(fits),
        ),
        Check::new(
            "the default of 5 s drops 3.2 to 6.3 % (relative) more than the best at most",
            span(gap, |value| format!("{value:.1} %")),
            gap.is_some_and(|(_, most)| most <= 6.3),
        ),
    ]
}
