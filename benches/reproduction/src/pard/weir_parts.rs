//! Contribution of each part of `weir`: the additional loss without that part, with everything else
//! unchanged.

use std::collections::BTreeMap;

use weir_sim::experiment::Estimate;

use super::naming::WEIR;
use super::outcome::Outcome;
use super::studies::Studies;
use super::study::Study;
use super::words::with_interval;
use crate::plot::{Axis, Bar, BarSeries, Bars, Figure, Kind, Panel, markdown};

/// Parts of the policy, and the settings that disable each.
const PARTS: [(&str, &[&str]); 10] = [
    ("slack", &["slack = false"]),
    ("joint batch sizes", &["sizing = \"fair\""]),
    ("stagger", &["stagger = false"]),
    ("early drop", &["sweep = false"]),
    ("cost limit", &["cost_limit = false"]),
    ("expected items by stream", &["estimate.per_stream = false"]),
    ("branch shedding", &["branch_shedding = false"]),
    ("fair streams", &["fair_streams = false"]),
    (
        "whole waits",
        &["estimate.measured = \"bound\"", "estimate.queueing = true"],
    ),
    ("tie-break", &["fair = false"]),
];

/// A part that was taken out, with the points that were last measured without it, by setting.
const TAKEN_OUT: [(&str, [&str; 4]); 1] = [("exit reserve (taken out)", ["0.01", "-0.01", "0", "0"])];

/// PARD in the architecture of weir.
const PARD_LATE: &str = "pard (late)";

const SETTINGS: [&str; 4] = ["fixed workers", "paper's setting", "dynamic paths", "fan-out"];

/// For each setting: the runs of the whole of weir, those without a part, and a text that names of its worlds
/// contain.
fn settings(studies: &Studies) -> [(&Study, &Study, &'static str); 4] {
    let parts = &studies.parts;
    [
        (&studies.fixed, &parts.fixed, ""),
        (&studies.paper, &parts.paper, ""),
        (&studies.dynamic, &parts.dynamic, "dynamic"),
        (&studies.dynamic, &parts.dynamic, "crowd"),
    ]
}

/// Additional drop rate of `without` compared with the whole of weir on the same arrivals, in percentage
/// points: the mean over workloads, seed by seed; `None` if it was not run.
fn points_lost(whole: &Study, without: &[&Outcome]) -> Option<Estimate> {
    let whole = whole.filter(|outcome| outcome.rule == WEIR && outcome.departures.is_empty());
    let mut by_seed: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for outcome in without {
        let key = |outcome: &Outcome| (outcome.world.clone(), outcome.trace.clone(), outcome.seed);
        if let Some(whole) = whole.iter().find(|whole| key(whole) == key(outcome)) {
            let points = 100.0 * (outcome.drop_rate - whole.drop_rate);
            by_seed.entry(outcome.seed).or_default().push(points);
        }
    }
    let means: Vec<f64> = by_seed
        .values()
        .map(|points| points.iter().sum::<f64>() / points.len() as f64)
        .collect();
    (!means.is_empty()).then(|| Estimate::from_values(&means))
}

/// Additional loss without a part, by setting.
fn lost_without(studies: &Studies, lines: &[&str]) -> [Option<Estimate>; 4] {
    settings(studies).map(|(whole, parts, worlds)| {
        let without = parts.filter(|outcome| {
            outcome.rule == WEIR && outcome.departures == lines && outcome.world.contains(worlds)
        });
        points_lost(whole, &without)
    })
}

/// Additional loss of PARD in the same architecture, by setting, on the workloads of the parts.
fn lost_without_all(studies: &Studies) -> [Option<Estimate>; 4] {
    settings(studies).map(|(whole, parts, worlds)| {
        let workloads = parts.workloads();
        let late = whole.filter(|outcome| {
            let workload = (outcome.world.clone(), outcome.trace.clone());
            outcome.policy == PARD_LATE && outcome.world.contains(worlds) && workloads.contains(&workload)
        });
        points_lost(whole, &late)
    })
}

/// Table of the additional loss without each part, with the changed settings, and PARD in the same
/// architecture.
#[must_use]
pub fn table(studies: &Studies) -> String {
    let mut header = vec!["without", "`[policy]`"];
    header.extend(SETTINGS);
    let row = |name: &str, lines: &[&str], lost: [Option<Estimate>; 4]| {
        let lines: Vec<String> = lines.iter().map(|line| format!("`{line}`")).collect();
        let mut row = vec![name.to_owned(), lines.join(", ")];
        let written = |lost: Option<Estimate>| lost.map(|lost| with_interval(lost.mean, lost.half));
        row.extend(lost.map(|lost| written(lost).unwrap_or_else(|| "-".to_owned())));
        row
    };
    let mut rows: Vec<Vec<String>> = PARTS
        .iter()
        .map(|(name, lines)| row(name, lines, lost_without(studies, lines)))
        .collect();
    rows.extend(TAKEN_OUT.map(|(name, points)| {
        let mut row = vec![name.to_owned(), String::new()];
        row.extend(points.map(str::to_owned));
        row
    }));
    rows.push(row("all of them: pard (late)", &[], lost_without_all(studies)));
    markdown(&header, &rows)
}

/// The same results as bars.
#[must_use]
pub fn figure(studies: &Studies) -> Figure {
    let bar = |lost: Option<Estimate>| Bar {
        error: lost.map(|lost| (lost.mean - lost.half, lost.mean + lost.half)),
        ..Bar::from(lost.map_or(f64::NAN, |lost| lost.mean))
    };
    let lost: Vec<[Option<Estimate>; 4]> = PARTS
        .iter()
        .map(|(_, lines)| lost_without(studies, lines))
        .collect();
    let series = SETTINGS.iter().enumerate().map(|(setting, name)| BarSeries {
        name: (*name).to_owned(),
        values: lost.iter().map(|lost| bar(lost[setting])).collect(),
    });
    Figure {
        title: "Weir without each of its parts".to_owned(),
        panels: vec![Panel {
            y: Axis::new("points of drop rate lost"),
            kind: Kind::Bars(Bars {
                categories: PARTS.iter().map(|(name, _)| (*name).to_owned()).collect(),
                series: series.collect(),
            }),
            ..Panel::default()
        }],
        columns: 1,
        width: 1100,
        height: 400,
    }
}

#[cfg(test)]
mod tests {
    use super::super::studies::Parts;
    use super::*;

    #[test]
    fn points_are_taken_on_the_same_arrivals_and_seed_by_seed() {
        let outcome = |world: &str, seed: u64, lines: &[&str], drop_rate: f64| Outcome {
            world: world.to_owned(),
            rule: WEIR.to_owned(),
            departures: lines.iter().map(|line| (*line).to_owned()).collect(),
            seed,
            drop_rate,
            ..Outcome::default()
        };
        let off = ["slack = false"];
        let whole = vec![
            outcome("da-dynamic", 1, &[], 0.1),
            outcome("da-dynamic", 2, &[], 0.3),
            outcome("tm-crowd", 1, &[], 0.1),
        ];
        let without = vec![
            outcome("da-dynamic", 1, &off, 0.15),
            outcome("da-dynamic", 2, &off, 0.4),
            outcome("da-dynamic", 3, &off, 0.9),
            outcome("tm-crowd", 1, &off, 0.1),
        ];
        let studies = Studies {
            dynamic: Study { outcomes: whole },
            parts: Parts {
                dynamic: Study { outcomes: without },
                ..Parts::default()
            },
            ..Studies::default()
        };
        let points = |lines: &[&str]| {
            lost_without(&studies, lines).map(|lost| lost.map(|lost| (100.0 * lost.mean).round()))
        };
        assert_eq!(points(&off), [None, None, Some(750.0), Some(0.0)]);
        assert_eq!(points(&["stagger = false"]), [None; 4]);
        let table = table(&studies);
        let row = table.lines().find(|line| line.starts_with("| slack ")).unwrap();
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        assert_eq!(cells[1..5], ["slack", "`slack = false`", "-", "-"]);
        assert!(cells[5].starts_with("7.50 ± "), "{row}");
        assert_eq!(cells[6], "0");
        assert!(table.contains("exit reserve (taken out)"), "{table}");
    }
}
