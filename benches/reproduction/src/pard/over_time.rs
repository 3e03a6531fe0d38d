//! Figures over windows and time: after Figures 2, 9 and 10.

use super::outcome::Outcome;
use super::paper::{name, select};
use super::series::{loss_over_time, max_window_loss, stretch_of_loss};
use super::study::{Study, mean_of};
use super::words::{Check, range, share, span};
use crate::plot::{Axis, Figure, Kind, Line, Panel, Part, Region, Stacked};

/// Windows that are looked at, in seconds.
const WINDOWS: [usize; 8] = [1, 2, 5, 10, 20, 30, 45, 60];
/// The policies that the figures show.
pub const SHOWN: [&str; 5] = ["naive", "nexus", "clipper++", "pard", "weir"];
/// Seconds of the stretch that Figure 10 shows.
const STRETCH: usize = 60;

fn windows(outcomes: &[&Outcome], of: impl Fn(f64) -> f64) -> Vec<(f64, f64)> {
    let at = |&window: &usize| {
        let worst = mean_of(outcomes, |outcome| max_window_loss(outcome, window)).mean;
        (window as f64, of(100.0 * worst))
    };
    WINDOWS.iter().map(at).collect()
}

fn lines(study: &Study, workload: &(String, String), value: impl Fn(f64) -> f64 + Copy) -> Vec<Line> {
    let line = |policy: &&str| Line {
        name: (*policy).to_owned(),
        points: windows(&select(study, workload, policy), value),
        ..Line::default()
    };
    SHOWN.iter().map(line).collect()
}

/// Figure 2: the least goodput and the greatest drop rate over windows, drops by module, and drops over time.
#[must_use]
pub fn figure_2(study: &Study) -> Figure {
    let workload = ("lv".to_owned(), "tweet".to_owned());
    let clipper = select(study, &workload, "clipper++");
    let transient = clipper
        .first()
        .map(|outcome| percent_over_time(outcome, 2))
        .unwrap_or_default();
    let window = || Axis::new("window (s)");
    let drops = |policy: &str| Panel {
        title: format!("(c) drops by module, {policy}"),
        y: Axis::new("of its drops (%)").range(0.0, 100.0),
        kind: Kind::Stacked(by_module(study, policy)),
        ..Panel::default()
    };
    Figure {
        title: "What reactive dropping does (after Figure 2)".to_owned(),
        panels: vec![
            Panel {
                title: "(a) least goodput in a window, lv-tweet".to_owned(),
                x: window(),
                y: Axis::new("of what was sent (%)").range(0.0, 100.0),
                kind: Kind::Lines(lines(study, &workload, |worst| 100.0 - worst)),
                ..Panel::default()
            },
            Panel {
                title: "(b) greatest drop rate in a window, lv-tweet".to_owned(),
                x: window(),
                y: Axis::new("drop rate (%)").range(0.0, 100.0),
                kind: Kind::Lines(lines(study, &workload, |worst| worst)),
                ..Panel::default()
            },
            drops("clipper++"),
            drops("nexus"),
            Panel {
                title: "(d) drop rate over time, clipper++, lv-tweet, first seed".to_owned(),
                x: Axis::new("time (s)"),
                y: Axis::new("drop rate (%)").range(0.0, 100.0),
                kind: Kind::Lines(vec![Line {
                    name: "clipper++".to_owned(),
                    points: transient,
                    area: true,
                    step: true,
                    ..Line::default()
                }]),
                ..Panel::default()
            },
        ],
        columns: 2,
        width: 1200,
        height: 1150,
    }
}

/// Drops of a policy by module and workload, in percent; what came out late is apart.
fn by_module(study: &Study, policy: &str) -> Stacked {
    let workloads = study.workloads();
    let part = |depth: usize| Part {
        name: format!("module {}", depth + 1),
        values: workloads
            .iter()
            .map(|w| {
                100.0
                    * mean_of(&select(study, w, policy), |outcome| {
                        outcome.share_lost(|at, _| at == depth)
                    })
                    .mean
            })
            .collect(),
    };
    let mut parts: Vec<Part> = (0..5).map(part).collect();
    parts.push(Part {
        name: "late".to_owned(),
        values: (0..workloads.len())
            .map(|index| 100.0 - parts.iter().map(|part| part.values[index]).sum::<f64>())
            .map(|rest| if rest < 1e-6 { 0.0 } else { rest })
            .collect(),
    });
    Stacked {
        categories: workloads.iter().map(name).collect(),
        parts,
    }
}

fn percent_over_time(outcome: &Outcome, seconds: usize) -> Vec<(f64, f64)> {
    let points = loss_over_time(outcome, seconds).into_iter();
    points.map(|(at, share)| (at, 100.0 * share)).collect()
}

/// Figure 9: the greatest drop rate over windows, all workloads.
#[must_use]
pub fn figure_9(study: &Study) -> Figure {
    let panel = |workload: &(String, String)| Panel {
        title: name(workload),
        x: Axis::new("window (s)"),
        y: Axis::new("drop rate (%)").range(0.0, 100.0),
        kind: Kind::Lines(lines(study, workload, |worst| worst)),
        ..Panel::default()
    };
    Figure {
        title: "Greatest mean drop rate in any window (after Figure 9)".to_owned(),
        panels: study.workloads().iter().map(panel).collect(),
        columns: 3,
        width: 1200,
        height: 1080,
    }
}

/// Checks of the paper's statements on Figure 9.
#[must_use]
pub fn claims(study: &Study) -> Vec<Check> {
    let workloads = study.workloads();
    let at = |w: &(String, String), policy: &str, window| {
        mean_of(&select(study, w, policy), |o| max_window_loss(o, window)).mean
    };
    let cut = |rival: &'static str| {
        workloads
            .iter()
            .flat_map(move |w| WINDOWS.map(|window| 1.0 - at(w, "pard", window) / at(w, rival, window)))
    };
    ["naive", "nexus", "clipper++"]
        .into_iter()
        .map(|rival| {
            let found = range(cut(rival));
            Check::new(
                format!("PARD cuts the worst drop rate of {rival} by 41 to 98 % in windows of 1 to 60 s"),
                span(found, share),
                found.is_some_and(|(low, _)| low >= 0.41),
            )
        })
        .collect()
}

/// Figure 10: the traces, and the goodput over time where most is lost.
#[must_use]
pub fn figure_10(study: &Study) -> Figure {
    let mut panels = Vec::new();
    for trace in study.names(|outcome| outcome.trace.clone()) {
        let workloads: Vec<_> = study.workloads().into_iter().filter(|w| w.1 == trace).collect();
        let Some(first) = workloads
            .first()
            .and_then(|w| select(study, w, "clipper++").first().copied())
        else {
            continue;
        };
        let begin = stretch_of_loss(first, STRETCH);
        panels.push(Panel {
            title: format!("{trace}, first seed"),
            x: Axis::new("time (s)"),
            y: Axis::new("sent a second"),
            kind: Kind::Lines(vec![Line {
                name: "sent".to_owned(),
                points: first
                    .sent
                    .iter()
                    .enumerate()
                    .map(|(s, sent)| (s as f64, f64::from(*sent)))
                    .collect(),
                ..Line::default()
            }]),
            regions: vec![Region {
                name: "shown at the right".to_owned(),
                from: begin as f64,
                to: (begin + STRETCH) as f64,
            }],
            ..Panel::default()
        });
        panels.extend(workloads.iter().map(|workload| stretch(study, workload, begin)));
    }
    Figure {
        title: "Traces, and goodput over what was sent where most is lost (after Figure 10)".to_owned(),
        panels,
        columns: 5,
        width: 1800,
        height: 900,
    }
}

fn stretch(study: &Study, workload: &(String, String), begin: usize) -> Panel {
    let until = (begin + STRETCH) as f64;
    let line = |policy: &&str| Line {
        name: (*policy).to_owned(),
        points: select(study, workload, policy)
            .first()
            .map(|outcome| loss_over_time(outcome, 2))
            .unwrap_or_default()
            .into_iter()
            .filter(|(at, _)| *at >= begin as f64 && *at <= until)
            .map(|(at, lost)| (at, 100.0 * (1.0 - lost)))
            .collect(),
        ..Line::default()
    };
    Panel {
        title: name(workload),
        x: Axis::new("time (s)").range(begin as f64, until),
        y: Axis::new("goodput (% of sent)").range(0.0, 100.0),
        kind: Kind::Lines(SHOWN.iter().map(line).collect()),
        ..Panel::default()
    }
}
