//! The paper's setting: twelve workloads, ratios and checks (Figure 8 and the text around it).

use weir_sim::experiment::Estimate;

use super::outcome::Outcome;
use super::study::{Study, mean_of};
use super::words::{self, Check, factor, percent, share, short, span};
use crate::plot::{Axis, Bar, BarSeries, Bars, Figure, Kind, Panel, markdown};

/// The baselines that the claim is about.
const BASELINES: [&str; 3] = ["nexus", "clipper++", "naive"];

/// Outcomes of one policy on one workload.
#[must_use]
pub fn select<'a>(study: &'a Study, workload: &(String, String), policy: &str) -> Vec<&'a Outcome> {
    study.filter(|outcome| {
        (&outcome.world, &outcome.trace) == (&workload.0, &workload.1) && outcome.policy == policy
    })
}

fn drop_rate(study: &Study, workload: &(String, String), policy: &str) -> Estimate {
    mean_of(&select(study, workload, policy), |outcome| outcome.drop_rate)
}

fn invalid_rate(study: &Study, workload: &(String, String), policy: &str) -> Estimate {
    mean_of(&select(study, workload, policy), |outcome| outcome.invalid_rate)
}

/// `lv-tweet`.
#[must_use]
pub fn name(workload: &(String, String)) -> String {
    format!("{}-{}", workload.0, workload.1)
}

/// A row for each workload, a column for each policy.
#[must_use]
pub fn table(study: &Study, figure: &dyn Fn(&Outcome) -> f64) -> String {
    let policies = study.policies();
    let header: Vec<String> = std::iter::once("workload".to_owned())
        .chain(policies.iter().cloned())
        .collect();
    let row = |workload: &(String, String)| -> Vec<String> {
        let cells = policies
            .iter()
            .map(|policy| percent(mean_of(&select(study, workload, policy), figure)));
        std::iter::once(name(workload)).chain(cells).collect()
    };
    let rows: Vec<Vec<String>> = study.workloads().iter().map(row).collect();
    markdown(&header, &rows)
}

/// Table of drop rates beside the lower bound, for workloads where it was computed.
#[must_use]
pub fn bounds(study: &Study) -> String {
    let row = |workload: &(String, String)| {
        let of = select(study, workload, "pard");
        let bound = mean_of(&of, |outcome| outcome.bound.unwrap_or(f64::NAN));
        let pard = drop_rate(study, workload, "pard");
        let weir = drop_rate(study, workload, "weir");
        vec![
            name(workload),
            percent(pard),
            percent(weir),
            percent(bound),
            share((pard.mean - weir.mean) / (pard.mean - bound.mean)),
        ]
    };
    let rows: Vec<Vec<String>> = study.workloads().iter().map(row).collect();
    markdown(
        &["workload", "pard", "weir", "bound", "gap closed by weir"],
        &rows,
    )
}

/// Table of the baselines' drop and invalid rates as multiples of PARD's.
#[must_use]
pub fn ratios(study: &Study) -> String {
    let rivals = [
        "naive",
        "nexus",
        "nexus (deadline)",
        "clipper++",
        "clipper++ (path)",
        "clipper++ (local)",
    ];
    let mut header = vec!["workload".to_owned()];
    header.extend(rivals.iter().map(|rival| format!("{rival}: drop")));
    header.extend(rivals.iter().map(|rival| format!("{rival}: invalid")));
    let row = |workload: &(String, String)| {
        let mut row = vec![name(workload)];
        row.extend(
            rivals
                .iter()
                .map(|rival| factor(drop_ratio(study, workload, rival))),
        );
        row.extend(
            rivals
                .iter()
                .map(|rival| factor(invalid_ratio(study, workload, rival))),
        );
        row
    };
    let rows: Vec<Vec<String>> = study.workloads().iter().map(row).collect();
    markdown(&header, &rows)
}

fn drop_ratio(study: &Study, workload: &(String, String), rival: &str) -> f64 {
    drop_rate(study, workload, rival).mean / drop_rate(study, workload, "pard").mean
}

fn invalid_ratio(study: &Study, workload: &(String, String), rival: &str) -> f64 {
    invalid_rate(study, workload, rival).mean / invalid_rate(study, workload, "pard").mean
}

/// Table of the share of drops before the middle of the pipeline, by workload; for PARD also with the middle
/// module.
#[must_use]
pub fn places(study: &Study) -> String {
    let shown = ["pard", "nexus", "clipper++", "clipper++ (local)", "naive"];
    let mut header = vec!["workload".to_owned()];
    header.extend(shown.iter().map(|policy| format!("{policy}: before the middle")));
    header.push("pard: up to the middle".to_owned());
    let row = |workload: &(String, String)| {
        let mut row = vec![name(workload)];
        row.extend(
            shown
                .iter()
                .map(|policy| share(share_lost_early(study, workload, policy))),
        );
        let with = mean_of(&select(study, workload, "pard"), |outcome| {
            outcome.share_lost(|depth, last| 2 * depth <= last)
        });
        row.push(share(with.mean));
        row
    };
    let rows: Vec<Vec<String>> = study.workloads().iter().map(row).collect();
    markdown(&header, &rows)
}

/// Share of a policy's losses before the middle of the pipeline.
fn share_lost_early(study: &Study, workload: &(String, String), policy: &str) -> f64 {
    let outcomes = select(study, workload, policy);
    let lost: f64 = outcomes.iter().map(|o| o.drop_rate * o.arrived as f64).sum();
    let weighted = |o: &&&Outcome| {
        let share = o.share_lost(|depth, last| 2 * depth < last);
        if share.is_finite() {
            share * o.drop_rate * o.arrived as f64
        } else {
            0.0
        }
    };
    let early: f64 = outcomes.iter().map(|o| weighted(&o)).sum();
    early / lost
}

/// The claims of the paper and of this project about this setting.
#[must_use]
pub fn claims(study: &Study) -> Vec<Check> {
    let workloads = study.workloads();
    let mut checks = Vec::new();
    let dropping: Vec<&(String, String)> = workloads
        .iter()
        .filter(|workload| {
            BASELINES
                .iter()
                .any(|rival| drop_rate(study, workload, rival).mean > 0.0)
        })
        .collect();
    let rivals = BASELINES
        .iter()
        .chain(&["nexus (deadline)", "clipper++ (path)", "clipper++ (local)"]);
    for rival in rivals {
        let below = |workload: &&&(String, String)| {
            drop_rate(study, workload, "pard").mean < drop_rate(study, workload, rival).mean
        };
        let count = dropping.iter().filter(below).count();
        let wanted = dropping.len().min(11);
        let claim = format!(
            "PARD's mean drop rate is below that of {rival} on at least {wanted} of {}",
            dropping.len()
        );
        let others: Vec<String> = dropping.iter().filter(|w| !below(w)).map(|w| name(w)).collect();
        let found = if others.is_empty() {
            format!("{count}")
        } else {
            format!("{count}; not on {}", others.join(", "))
        };
        checks.push(Check::new(claim, found, count >= wanted));
    }
    let pard = words::range(workloads.iter().map(|w| 100.0 * drop_rate(study, w, "pard").mean));
    let within = pard.is_some_and(|(low, high)| low >= 0.12 && high <= 3.6);
    checks.push(Check::new(
        "PARD drops 0.12 to 3.6 % in the mean",
        span(pard, |v| format!("{} %", short(v))),
        within,
    ));
    for (what, paper, ratio) in [
        (
            "drop rate",
            (1.6, 16.7),
            drop_ratio as fn(&Study, &(String, String), &str) -> f64,
        ),
        ("invalid rate", (1.5, 61.9), invalid_ratio),
    ] {
        let all = workloads
            .iter()
            .flat_map(|w| ["nexus", "clipper++"].map(|rival| ratio(study, w, rival)));
        let range = words::range(all);
        let claim = format!(
            "nexus and clipper++ have {} to {} times PARD's {what}",
            paper.0, paper.1
        );
        checks.push(Check::new(
            claim,
            span(range, factor),
            range.is_some_and(|(low, _)| low >= paper.0),
        ));
    }
    let lost = |w: &(String, String)| {
        select(study, w, "pard")
            .iter()
            .map(|o| o.drop_rate * o.arrived as f64)
            .sum::<f64>()
    };
    let all: f64 = workloads.iter().map(lost).sum();
    let before: f64 = workloads
        .iter()
        .map(|w| lost(w) * share_lost_early(study, w, "pard"))
        .filter(|v| v.is_finite())
        .sum();
    let least = words::range(workloads.iter().map(|w| share_lost_early(study, w, "pard")));
    checks.push(Check::new(
        "at least 80 % of PARD's drops fall before the middle of the pipeline",
        format!(
            "{} of all; by workload {}",
            share(before / all),
            span(least, share)
        ),
        before / all >= 0.8,
    ));
    let worse = words::range(
        workloads
            .iter()
            .map(|w| 100.0 * (drop_rate(study, w, "weir").mean - drop_rate(study, w, "pard").mean)),
    );
    checks.push(Check::new(
        "weir is nowhere worse than PARD by more than 0.1 point",
        format!("{} points", span(worse, short)),
        worse.is_some_and(|(_, most)| most <= 0.1),
    ));
    checks
}

/// Figure 8: drop and invalid rate by workload.
#[must_use]
pub fn figure_8(study: &Study) -> Figure {
    let workloads = study.workloads();
    let panel = |title: &str, figure: &dyn Fn(&Outcome) -> f64| Panel {
        title: title.to_owned(),
        y: Axis::new(format!("{title} (%)")),
        kind: Kind::Bars(Bars {
            categories: workloads.iter().map(name).collect(),
            series: study
                .policies()
                .into_iter()
                .filter(|policy| policy != "nexus (deadline)" && policy != "pard (late)")
                .map(|policy| BarSeries {
                    values: workloads
                        .iter()
                        .map(|w| bar(mean_of(&select(study, w, &policy), figure)))
                        .collect(),
                    name: policy,
                })
                .collect(),
        }),
        ..Panel::default()
    };
    Figure {
        title: "Drop and invalid rate of twelve workloads (after Figure 8)".to_owned(),
        panels: vec![
            panel("drop rate", &|outcome| outcome.drop_rate),
            panel("invalid rate", &|outcome| outcome.invalid_rate),
        ],
        columns: 1,
        width: 1200,
        height: 760,
    }
}

/// A bar in percent with its interval.
#[must_use]
pub fn bar(estimate: Estimate) -> Bar {
    let (mean, half) = (100.0 * estimate.mean, 100.0 * estimate.half);
    Bar {
        value: mean,
        error: (half > 0.0).then_some(((mean - half).max(0.0), mean + half)),
        paper: None,
    }
}
