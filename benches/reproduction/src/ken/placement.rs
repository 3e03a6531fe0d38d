//! Three fixed cascades on two V100 under three ways to place and invoke them (Figure 6).

use weir_planner::gears::{CascadeChoice, GearProblem, OperatorChoices};
use weir_policy::gears::ShiftRule;
use weir_sim::gears::run_gears;
use weir_types::{CascadeGear, Gear, GearPlan, ReplicaGear, Span, StageGear};

use super::published::Published;
use super::setting::{Load, problem};
use crate::plot::{Axis, Bar, BarSeries, Bars, Figure, Kind, Panel, markdown};

/// p95 in seconds by cascade, for one placement.
#[derive(Debug, Clone, PartialEq)]
pub struct AtPlacement {
    /// Name of the placement.
    pub name: &'static str,
    /// p95 latency in seconds, by cascade. If an accurate cascade is too slow, the queue grows until the
    /// trace ends.
    pub p95: Vec<f64>,
}

/// A cascade: its name, and its stages with the part of items that reaches each.
type Cascade = (&'static str, &'static [(&'static str, f64)]);

/// Cascades of the paper's text: the models with the share of requests that reach each.
const CASCADES: [Cascade; 3] = [
    ("1: mini, 60 % medium", &[("mini", 1.0), ("medium", 0.6)]),
    (
        "2: mini, 30 % medium, 20 % of these base",
        &[("mini", 1.0), ("medium", 0.3), ("base", 0.06)],
    ),
    ("3: mini, 9 % base", &[("mini", 1.0), ("base", 0.09)]),
];

/// Simulates all three cascades under all three placements.
#[must_use]
pub fn run(published: &Published, load: &Load) -> Vec<AtPlacement> {
    let settings = [
        ("all on both, evenly", [1.0, 0.5], 1),
        ("mini on one alone", [1.0, 0.0], 1),
        ("the same, larger batches of base", [1.0, 0.0], 8),
    ];
    let p95 = |setting: &(&'static str, [f64; 2], u32)| {
        let of = |cascade: &Cascade| at(published, load, cascade.1, setting);
        AtPlacement {
            name: setting.0,
            p95: CASCADES.iter().map(of).collect(),
        }
    };
    settings.iter().map(p95).collect()
}

fn at(
    published: &Published,
    load: &Load,
    cascade: &[(&str, f64)],
    (name, _, base_size): &(&'static str, [f64; 2], u32),
) -> f64 {
    let index = |name: &str| published.models.iter().position(|model| model.name == name);
    let stages: Option<Vec<usize>> = cascade.iter().map(|(name, _)| index(name)).collect();
    let Some(stages) = stages else { return f64::NAN };
    let gear_stages: Vec<StageGear> = (stages.iter())
        .map(|model| StageGear {
            model: *model,
            certainty: 0.5,
        })
        .collect();
    let problem = GearProblem {
        operators: vec![OperatorChoices {
            name: "sentiment".to_owned(),
            items: 1.0,
            cascades: vec![CascadeChoice {
                stages: gear_stages.clone(),
                reach: cascade.iter().map(|(_, reach)| *reach).collect(),
                accuracy: 1.0,
            }],
        }],
        ..problem(published, 2, 1, load)
    };
    let mut replicas = Vec::new();
    let mut placement = vec![Vec::new(); 2];
    for (&model, (stage, reach)) in stages.iter().zip(cascade) {
        let slots: &[(usize, f64)] = match (*stage, *name) {
            (_, "all on both, evenly") => &[(0, 0.5), (1, 0.5)],
            ("mini", _) => &[(0, 1.0)],
            // The first slot also has mini, so the second gets more of the rest.
            _ => &[(0, 0.25), (1, 0.75)],
        };
        let size = if *stage == "base" { *base_size } else { 1 };
        for &(slot, share) in slots {
            placement[slot].push(model);
            replicas.push(ReplicaGear {
                model,
                slot,
                share,
                size,
                wait: Span::from_secs_f64(f64::from(size - 1) / (load.peak * reach * share).max(1.0)),
            });
        }
    }
    let plan = GearPlan {
        number: 1,
        models: problem.models.iter().map(|model| model.name.clone()).collect(),
        operators: vec!["sentiment".to_owned()],
        placement,
        gears: vec![Gear {
            up_to: load.peak,
            cascades: vec![CascadeGear { stages: gear_stages }],
            replicas,
        }],
    };
    let assignment = vec![vec![0]];
    let p95 = (1..).zip(&load.arrivals).map(|(seed, arrivals)| {
        run_gears(&problem, &plan, &assignment, arrivals, ShiftRule::default(), seed).latency(0.95)
    });
    p95.sum::<f64>() / load.arrivals.len().max(1) as f64
}

/// p95 by cascade and placement.
#[must_use]
pub fn table(found: &[AtPlacement]) -> String {
    let rows: Vec<Vec<String>> = (CASCADES.iter().enumerate())
        .map(|(index, (name, _))| {
            let p95 = found.iter().map(|at| format!("{:.1}", 1e3 * at.p95[index]));
            std::iter::once((*name).to_owned()).chain(p95).collect()
        })
        .collect();
    let head: Vec<&str> = std::iter::once("cascade, p95 (ms)")
        .chain(found.iter().map(|at| at.name))
        .collect();
    markdown(&head, &rows)
}

/// The same results as bars.
#[must_use]
pub fn figure_6(found: &[AtPlacement]) -> Figure {
    let series = |(index, (name, _)): (usize, &Cascade)| BarSeries {
        name: (*name).to_owned(),
        values: found.iter().map(|at| Bar::from(1e3 * at.p95[index])).collect(),
    };
    Figure {
        title: "p95 by placement and invocation, two V100 (after Figure 6)".to_owned(),
        panels: vec![Panel {
            y: Axis::new("p95 (ms)").log(),
            kind: Kind::Bars(Bars {
                categories: found.iter().map(|at| at.name.to_owned()).collect(),
                series: CASCADES.iter().enumerate().map(series).collect(),
            }),
            ..Panel::default()
        }],
        columns: 1,
        width: 800,
        height: 380,
    }
}
