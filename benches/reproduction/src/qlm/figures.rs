//! Figures 8 to 18 and 20 of the paper, after our data.

use weir_policy::groups::{Operations, QueueRule};

use super::setting::{Case, Run};
use super::studies::{
    DELTAS, MEGAS, QUEUES, RULES, SCALES, SLOW, Studies, TAILS, URGENT, ablations, crowded, many, queued,
};
use crate::plot::{Axis, Bar, BarSeries, Bars, Figure, Kind, Line, Panel, markdown};

/// Value of a run that a line or bar shows.
type Of = fn(&Run) -> f64;

fn figure(title: &str, panels: Vec<Panel>) -> Figure {
    let columns = panels.len();
    Figure {
        title: title.to_owned(),
        panels,
        columns,
        width: if columns > 1 { 1_000 } else { 640 },
        height: 380,
    }
}

/// A line for each rule over `xs`.
fn lines(studies: &Studies, xs: &[f64], of: Of, case: impl Fn(QueueRule, f64) -> Case) -> Kind {
    let line = |(name, rule): (&str, QueueRule)| {
        let outcomes = xs.iter().map(|x| (*x, studies.outcome(&case(rule, *x))));
        let known: Vec<_> = outcomes.filter_map(|(x, outcome)| Some((x, outcome?))).collect();
        Line {
            points: known.iter().map(|(x, outcome)| (*x, outcome.mean(of))).collect(),
            band: match rule {
                QueueRule::Virtual(_) | QueueRule::Sticky => known
                    .iter()
                    .map(|(x, outcome)| {
                        let (low, high) = outcome.range(of);
                        (*x, low, high)
                    })
                    .collect(),
                _ => Vec::new(),
            },
            dashed: !matches!(rule, QueueRule::Virtual(_)),
            name: name.to_owned(),
            ..Line::default()
        }
    };
    Kind::Lines(RULES.map(line).into())
}

fn panel(title: &str, x: Axis, y: &str, kind: Kind) -> Panel {
    Panel {
        title: title.to_owned(),
        x,
        y: Axis::new(y),
        kind,
        ..Panel::default()
    }
}

const THROUGHPUT: &str = "requests a second";
const IN_TIME: &str = "in time (%)";

/// Throughput by the part of the tail, a panel for each rate.
#[must_use]
pub fn figure_8(studies: &Studies) -> Figure {
    let panels = [4.0, 8.0, 12.0].map(|rate| {
        let kind = lines(
            studies,
            &TAILS,
            |run| run.throughput,
            |rule, tail| many(rule, rate, tail),
        );
        panel(
            &format!("{rate:.0} a second"),
            Axis::new("part of the tail"),
            THROUGHPUT,
            kind,
        )
    });
    figure("Throughput, eight models (after Figure 8)", panels.into())
}

/// Attainment by the part that is urgent, of the crowded workload A.
#[must_use]
pub fn figure_9(studies: &Studies) -> Figure {
    let of_class = |title: &str, of: Of| {
        let kind = lines(studies, &URGENT, of, |rule, urgent_share| Case {
            urgent_share,
            ..crowded(rule)
        });
        panel(title, Axis::new("part that is urgent"), IN_TIME, kind)
    };
    let panels = vec![
        of_class("urgent", |run| run.urgent),
        of_class("all", |run| run.all),
    ];
    figure("Objectives met, eight models (after Figure 9)", panels)
}

fn ablation(studies: &Studies, title: &str, case: Case) -> Figure {
    let names: Vec<String> = ablations().map(|(name, _)| name.to_owned()).into();
    let bars = |title: &str, of: Of, y: &str| {
        let values = ablations().map(|(_, operations)| {
            let outcome = studies.outcome(&Case { operations, ..case });
            Bar {
                error: outcome.map(|outcome| outcome.range(of)),
                ..Bar::from(outcome.map_or(f64::NAN, |outcome| outcome.mean(of)))
            }
        });
        let series = vec![BarSeries {
            name: "virtual".to_owned(),
            values: values.into(),
        }];
        let kind = Kind::Bars(Bars {
            categories: names.clone(),
            series,
        });
        panel(title, Axis::default(), y, kind)
    };
    let panels = vec![
        bars("throughput", |run| run.throughput, THROUGHPUT),
        bars("urgent requests in time", |run| run.urgent, IN_TIME),
    ];
    figure(title, panels)
}

/// Each operation switched off, workload A.
#[must_use]
pub fn figure_10(studies: &Studies) -> Figure {
    ablation(
        studies,
        "Operations switched off, eight models (after Figure 10)",
        crowded(QueueRule::WEIR),
    )
}

/// Each operation switched off, workload B.
#[must_use]
pub fn figure_13(studies: &Studies) -> Figure {
    ablation(
        studies,
        "Operations switched off, one model (after Figure 13)",
        Case::one(QueueRule::WEIR),
    )
}

/// Throughput of workload B by rule.
#[must_use]
pub fn figure_11(studies: &Studies) -> Figure {
    let values = RULES.map(|(_, rule)| Bar::from(studies.mean(&Case::one(rule), |run| run.throughput)));
    let kind = Kind::Bars(Bars {
        categories: RULES.map(|(name, _)| name.to_owned()).into(),
        series: vec![BarSeries {
            name: "one model".to_owned(),
            values: values.into(),
        }],
    });
    let panels = vec![panel("", Axis::default(), THROUGHPUT, kind)];
    figure("Throughput, one model (after Figure 11)", panels)
}

/// Attainment of workload B by the part that is urgent.
#[must_use]
pub fn figure_12(studies: &Studies) -> Figure {
    let of_class = |title: &str, of: Of| {
        let kind = lines(studies, &URGENT, of, |rule, urgent_share| Case {
            urgent_share,
            ..Case::one(rule)
        });
        panel(title, Axis::new("part that is urgent"), IN_TIME, kind)
    };
    let panels = vec![
        of_class("urgent", |run| run.urgent),
        of_class("all", |run| run.all),
    ];
    figure("Objectives met, one model (after Figure 12)", panels)
}

/// Throughput by how many instances are slow, with and without balancing.
#[must_use]
pub fn figure_14(studies: &Studies) -> Figure {
    let line = |(name, balance): (&str, bool)| {
        let at = |slow: usize| {
            let operations = Operations {
                balance,
                ..Operations::ALL
            };
            let case = crowded(QueueRule::WEIR);
            let case = Case {
                slow,
                operations,
                ..case
            };
            (25.0 * slow as f64, studies.mean(&case, |run| run.throughput))
        };
        Line {
            name: name.to_owned(),
            points: SLOW.map(at).into(),
            ..Line::default()
        }
    };
    let kind = Kind::Lines(
        [("virtual", true), ("one after the other", false)]
            .map(line)
            .into(),
    );
    let panels = vec![panel("", Axis::new("slow instances (%)"), THROUGHPUT, kind)];
    figure("Unequal instances (after Figure 14)", panels)
}

/// Attainment by the part of requests that is far larger.
#[must_use]
pub fn figure_15(studies: &Studies) -> Figure {
    let kind = lines(
        studies,
        &MEGAS,
        |run| run.all,
        |rule, mega_share| Case {
            mega_share,
            ..Case::many(rule)
        },
    );
    let panels = vec![panel("", Axis::new("part of mega prompts"), IN_TIME, kind)];
    figure("Mega prompts (after Figure 15)", panels)
}

/// Attainment by the length of the queue.
#[must_use]
pub fn figure_16(studies: &Studies) -> Figure {
    let xs = QUEUES.map(|requests| requests as f64);
    let of_class = |title: &str, of: Of| {
        let kind = lines(studies, &xs, of, |rule, requests| queued(rule, requests as usize));
        panel(title, Axis::new("requests in the queue"), IN_TIME, kind)
    };
    let panels = vec![
        of_class("urgent", |run| run.urgent),
        of_class("all", |run| run.all),
    ];
    figure("Length of the queue, one model (after Figure 16)", panels)
}

/// Estimated and actual completion times.
#[must_use]
pub fn figure_17(studies: &Studies) -> Figure {
    let mut points = studies.estimates.clone();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let most = points.last().map_or(1.0, |point| point.0);
    let every = points.len().div_ceil(400).max(1);
    let kind = Kind::Lines(vec![
        Line {
            name: "actual".to_owned(),
            points: points.into_iter().step_by(every).collect(),
            ..Line::default()
        },
        Line {
            name: "as estimated".to_owned(),
            points: vec![(0.0, 0.0), (most, most)],
            dashed: true,
            ..Line::default()
        },
    ]);
    let panels = vec![panel("", Axis::new("estimated (s)"), "completion (s)", kind)];
    figure("Completion times, estimated and actual (after Figure 17)", panels)
}

/// Attainment by the size of groups.
#[must_use]
pub fn figure_18(studies: &Studies) -> Figure {
    let line = |(name, of): (&str, Of)| {
        let at = |delta: f64| {
            let case = Case {
                delta,
                ..crowded(QueueRule::WEIR)
            };
            (delta, studies.mean(&case, of))
        };
        Line {
            name: name.to_owned(),
            points: DELTAS.map(at).into(),
            ..Line::default()
        }
    };
    let kind = Kind::Lines(vec![
        line(("urgent", |run| run.urgent)),
        line(("all", |run| run.all)),
    ]);
    let panels = vec![panel(
        "",
        Axis::new("mean batches of a group").log(),
        IN_TIME,
        kind,
    )];
    figure("Size of groups (after Figure 18)", panels)
}

/// Attainment by the scale of objectives.
#[must_use]
pub fn figure_20(studies: &Studies) -> Figure {
    let kind = lines(
        studies,
        &SCALES,
        |run| run.all,
        |rule, scale| Case {
            scale,
            ..crowded(rule)
        },
    );
    let panels = vec![panel("", Axis::new("scale of objectives").log(), IN_TIME, kind)];
    figure("Scales of objectives (after Figure 20)", panels)
}

/// Throughput, attainment and openings of every rule, rate and part of the tail.
#[must_use]
pub fn table_many(studies: &Studies) -> String {
    let mut rows = Vec::new();
    for rate in super::studies::RATES {
        for tail in TAILS {
            for (name, rule) in RULES {
                let case = many(rule, rate, tail);
                let mut row = vec![
                    format!("{rate:.0}/s"),
                    format!("{:.0} %", 100.0 * tail),
                    name.to_owned(),
                ];
                row.extend(cells(studies, &case));
                row.push(format!("{:.0}", studies.mean(&case, |run| run.replans)));
                rows.push(row);
            }
        }
    }
    let head = [
        "rate",
        "tail",
        "rule",
        "requests/s",
        "all (%)",
        "urgent (%)",
        "batch (%)",
        "openings",
        "returns",
        "plans",
    ];
    markdown(&head, &rows)
}

/// Throughput, parts in time, openings and returns of a case.
fn cells(studies: &Studies, case: &Case) -> [String; 6] {
    let mean = |of: Of, digits: usize| format!("{:.digits$}", studies.mean(case, of));
    [
        mean(|run| run.throughput, 2),
        mean(|run| run.all, 1),
        mean(|run| run.urgent, 1),
        mean(|run| run.batch, 1),
        mean(|run| run.opened, 0),
        mean(|run| run.returned, 0),
    ]
}

/// Table of the effect of each queue operation.
#[must_use]
pub fn table_operations(studies: &Studies) -> String {
    let mut rows = Vec::new();
    let mega = Case {
        mega_share: 0.1,
        ..Case::one(QueueRule::WEIR)
    };
    let cases = [
        ("eight models", crowded(QueueRule::WEIR)),
        ("one model", Case::one(QueueRule::WEIR)),
        ("one model, mega prompts", mega),
    ];
    for (workload, case) in cases {
        for (name, operations) in ablations() {
            let case = Case { operations, ..case };
            let mut row = vec![workload.to_owned(), name.to_owned()];
            row.extend(cells(studies, &case));
            rows.push(row);
        }
    }
    let head = [
        "workload",
        "operations",
        "requests/s",
        "all (%)",
        "urgent (%)",
        "batch (%)",
        "openings",
        "returns",
    ];
    markdown(&head, &rows)
}
