//! Ablation: the eleven variants of Table 1 beside PARD (Figures 11, 12c and 13).

use super::outcome::Outcome;
use super::paper::bar;
use super::series::stretch_of_loss;
use super::study::{Study, mean_of};
use super::words::{factor, percent, share, short};
use crate::plot::{Axis, BarSeries, Bars, Figure, Kind, Line, Panel, Part, Region, Rule, Stacked, markdown};

/// Drop and invalid rates as multiples of PARD's, from the paper's text. "1.8 x higher" is read as 1.8 times.
const PAPER: [(&str, Option<f64>, Option<f64>); 11] = [
    ("back", Some(3.6), Some(24.0)),
    ("sf", None, None),
    ("oc", Some(2.1), Some(3.0)),
    ("split", Some(2.6), Some(6.7)),
    ("wcl", Some(2.8), Some(5.4)),
    ("lower", None, Some(3.5)),
    ("upper", Some(1.3), None),
    ("fcfs", Some(1.8), None),
    ("hbf", Some(1.5), None),
    ("lbf", Some(2.2), None),
    ("instant", Some(1.25), None),
];

/// Seconds of the stretch that figures over time show.
const STRETCH: usize = 30;

/// Outcomes by policy, of all the variants of overload control the best.
#[must_use]
pub fn rows(study: &Study) -> Vec<(String, Vec<&Outcome>)> {
    let of = |policy: &String| study.filter(|outcome| outcome.policy == *policy);
    let rate = |outcomes: &[&Outcome]| mean_of(outcomes, |outcome| outcome.drop_rate).mean;
    let all: Vec<(String, Vec<&Outcome>)> = study
        .policies()
        .iter()
        .map(|policy| (policy.clone(), of(policy)))
        .collect();
    let is_oc = |policy: &str| policy.starts_with("oc ");
    let best = all
        .iter()
        .filter(|(policy, _)| is_oc(policy))
        .min_by(|a, b| rate(&a.1).total_cmp(&rate(&b.1)))
        .map(|(policy, _)| policy.clone());
    all.into_iter()
        .filter(|(policy, _)| !is_oc(policy) || best.as_ref() == Some(policy))
        .collect()
}

/// The table, the least drop rate first.
#[must_use]
pub fn table(study: &Study) -> String {
    let mut rows = rows(study);
    let rate = |outcomes: &[&Outcome]| mean_of(outcomes, |outcome| outcome.drop_rate);
    let invalid = |outcomes: &[&Outcome]| mean_of(outcomes, |outcome| outcome.invalid_rate);
    rows.sort_by(|a, b| rate(&a.1).mean.total_cmp(&rate(&b.1).mean));
    let pard = rows
        .iter()
        .find(|(policy, _)| policy == "pard")
        .map(|(_, outcomes)| outcomes.clone())
        .unwrap_or_default();
    let lines: Vec<Vec<String>> = rows
        .iter()
        .map(|(policy, outcomes)| {
            let paper = PAPER
                .iter()
                .find(|(name, ..)| policy.split(' ').next() == Some(name));
            let said = |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value} x"));
            let part = |counts: &dyn Fn(usize, usize) -> bool| {
                share(mean_of(outcomes, |o| o.share_lost(counts)).mean)
            };
            vec![
                policy.clone(),
                percent(rate(outcomes)),
                factor(rate(outcomes).mean / rate(&pard).mean),
                said(paper.and_then(|paper| paper.1)),
                percent(invalid(outcomes)),
                factor(invalid(outcomes).mean / invalid(&pard).mean),
                said(paper.and_then(|paper| paper.2)),
                part(&|depth, _| depth < 2),
                part(&|depth, last| depth == last),
                share(mean_of(outcomes, late).mean),
            ]
        })
        .collect();
    markdown(
        &[
            "policy",
            "drop rate (%)",
            "of PARD's",
            "paper",
            "invalid rate (%)",
            "of PARD's",
            "paper",
            "lost in the first two",
            "in the last",
            "late",
        ],
        &lines,
    )
}

fn late(outcome: &Outcome) -> f64 {
    let lost = outcome.dropped.iter().sum::<u64>() + outcome.late;
    if lost == 0 {
        0.0
    } else {
        outcome.late as f64 / lost as f64
    }
}

/// The grid of overload control.
#[must_use]
pub fn grid(study: &Study) -> String {
    let policies = study
        .policies()
        .into_iter()
        .filter(|policy| policy.starts_with("oc "));
    let row = |policy: String| {
        let of = study.filter(|outcome| outcome.policy == policy);
        vec![
            policy.clone(),
            percent(mean_of(&of, |outcome| outcome.drop_rate)),
            percent(mean_of(&of, |outcome| outcome.invalid_rate)),
        ]
    };
    let rows: Vec<Vec<String>> = policies.map(row).collect();
    markdown(&["overload control", "drop rate (%)", "invalid rate (%)"], &rows)
}

/// Figure 11: drop and invalid rates, and drops by module.
#[must_use]
pub fn figure_11(study: &Study, title: &str) -> Figure {
    let rows = rows(study);
    let names: Vec<String> = rows
        .iter()
        .map(|(policy, _)| policy.split(' ').next().unwrap_or("").to_owned())
        .collect();
    let series = |named: &str, of: &dyn Fn(&Outcome) -> f64| BarSeries {
        name: named.to_owned(),
        values: rows
            .iter()
            .map(|(_, outcomes)| bar(mean_of(outcomes, of)))
            .collect(),
    };
    let part = |depth: usize| Part {
        name: format!("module {}", depth + 1),
        values: rows
            .iter()
            .map(|(_, outcomes)| 100.0 * mean_of(outcomes, |o| o.share_lost(|at, _| at == depth)).mean)
            .collect(),
    };
    let mut parts: Vec<Part> = (0..5).map(part).collect();
    parts.push(Part {
        name: "late".to_owned(),
        values: rows
            .iter()
            .map(|(_, outcomes)| 100.0 * mean_of(outcomes, late).mean)
            .collect(),
    });
    let bars = |label: &str, of: &dyn Fn(&Outcome) -> f64| Panel {
        title: format!("(a) {label}"),
        y: Axis::new(format!("{label} (%)")),
        kind: Kind::Bars(Bars {
            categories: names.clone(),
            series: vec![series(label, of)],
        }),
        ..Panel::default()
    };
    Figure {
        title: title.to_owned(),
        panels: vec![
            bars("drop rate", &|outcome| outcome.drop_rate),
            bars("invalid rate", &|outcome| outcome.invalid_rate),
            Panel {
                title: "(b) where requests are lost".to_owned(),
                y: Axis::new("of all losses (%)").range(0.0, 100.0),
                kind: Kind::Stacked(Stacked {
                    categories: names.clone(),
                    parts,
                }),
                ..Panel::default()
            },
        ],
        columns: 1,
        width: 1100,
        height: 900,
    }
}

/// Run of a policy with a recorded timeline.
fn recorded_outcome<'a>(study: &'a Study, policy: &str) -> Option<&'a Outcome> {
    study
        .outcomes
        .iter()
        .find(|outcome| outcome.policy == policy && outcome.timeline.is_some())
}

/// Mean queueing delay by second of a module, in milliseconds.
fn queueing(outcome: &Outcome, module: usize) -> Vec<(f64, f64)> {
    let Some(of) = outcome
        .timeline
        .as_ref()
        .and_then(|timeline| timeline.modules.get(module))
    else {
        return Vec::new();
    };
    let each = of.queued_ms.iter().zip(&of.ran).enumerate();
    each.map(|(second, (ms, ran))| (second as f64, ms / f64::from((*ran).max(1))))
        .collect()
}

/// Summed queueing delay of the pipeline over the stretch, mean in milliseconds.
fn queueing_in(outcome: &Outcome, begin: usize) -> f64 {
    let until = (begin + STRETCH) as f64;
    let of = |module: usize| {
        let points: Vec<f64> = queueing(outcome, module)
            .into_iter()
            .filter(|(at, _)| *at >= begin as f64 && *at < until)
            .map(|(_, ms)| ms)
            .collect();
        points.iter().sum::<f64>() / points.len().max(1) as f64
    };
    (0..outcome.modules.len()).map(of).sum()
}

/// Figure 12c: queueing delay of each module in a burst.
#[must_use]
pub fn figure_12c(study: &Study) -> Figure {
    let begin = recorded_outcome(study, "pard").map_or(0, |outcome| stretch_of_loss(outcome, STRETCH));
    let panel = |policy: &&str| {
        let outcome = recorded_outcome(study, policy);
        let names = outcome.map(|outcome| outcome.modules.clone()).unwrap_or_default();
        let line = |(module, name): (usize, &String)| Line {
            name: format!("module {}: {name}", module + 1),
            points: outcome
                .map(|outcome| queueing(outcome, module))
                .unwrap_or_default(),
            ..Line::default()
        };
        Panel {
            title: (*policy).to_owned(),
            x: Axis::new("time (s)").range(begin as f64, (begin + STRETCH) as f64),
            y: Axis::new("queueing delay (ms)").range(0.0, 300.0),
            kind: Kind::Lines(names.iter().enumerate().map(line).collect()),
            ..Panel::default()
        }
    };
    Figure {
        title: "Queueing delay of what ran, by module, in a burst (after Figure 12c)".to_owned(),
        panels: ["fcfs", "pard"].iter().map(panel).collect(),
        columns: 2,
        width: 1200,
        height: 420,
    }
}

/// Table for Figures 12c and 13: queueing delay and priority switches by policy.
#[must_use]
pub fn delays(study: &Study) -> String {
    let begin = recorded_outcome(study, "pard").map_or(0, |outcome| stretch_of_loss(outcome, STRETCH));
    let row = |policy: &&str| {
        let kept = recorded_outcome(study, policy)?;
        let all = study.filter(|outcome| outcome.policy == *policy);
        let switches = mean_of(&all, |outcome| outcome.switches.iter().sum::<u64>() as f64);
        Some(vec![
            (*policy).to_owned(),
            short(queueing_in(kept, begin)),
            format!("{:.0} ± {:.0}", switches.mean, switches.half),
        ])
    };
    let rows: Vec<Vec<String>> = ["pard", "fcfs", "hbf", "lbf", "instant"]
        .iter()
        .filter_map(row)
        .collect();
    markdown(
        &[
            "policy",
            "queueing delay in the burst, all modules (ms)",
            "changes of priority in a run",
        ],
        &rows,
    )
}

/// Figure 13: load factor and priority of the first module.
#[must_use]
pub fn figure_13(study: &Study) -> Figure {
    let begin = recorded_outcome(study, "pard").map_or(0, |outcome| stretch_of_loss(outcome, 2 * STRETCH));
    let until = (begin + 2 * STRETCH) as f64;
    let panel = |policy: &&str| {
        let looks = recorded_outcome(study, policy)
            .and_then(|outcome| outcome.timeline.as_ref()?.priorities.first().cloned())
            .unwrap_or_default();
        let mut regions: Vec<Region> = Vec::new();
        for pair in looks.windows(2) {
            let (at, next) = (pair[0], pair[1]);
            if !at.2 || next.0 < begin as f64 || at.0 > until {
                continue;
            }
            match regions.last_mut() {
                Some(region) if region.to == at.0 => region.to = next.0,
                _ => regions.push(Region {
                    name: "high budget first".to_owned(),
                    from: at.0.max(begin as f64),
                    to: next.0,
                }),
            }
        }
        Panel {
            title: (*policy).to_owned(),
            x: Axis::new("time (s)").range(begin as f64, until),
            y: Axis::new("load factor").range(0.0, 3.0),
            kind: Kind::Lines(vec![Line {
                name: "load factor of the first module".to_owned(),
                points: looks.iter().map(|look| (look.0, look.1)).collect(),
                ..Line::default()
            }]),
            regions,
            rules: vec![Rule {
                name: "1".to_owned(),
                at: 1.0,
            }],
        }
    };
    Figure {
        title: "Load factor and priority (after Figure 13)".to_owned(),
        panels: ["pard", "instant"].iter().map(panel).collect(),
        columns: 1,
        width: 1100,
        height: 560,
    }
}
