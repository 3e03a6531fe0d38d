//! Planning time by number of devices and classes (Figure 14). Problems are solved one at a time, so that
//! times are not affected by each other.

use weir_planner::{Class, gap};

use super::ReproduceError;
use super::published::WEIGHTS_2019;
use super::setting::{PPIPE, SCHEMES, mean, solve_timed};
use super::source::{PlanningCase, Source};
use crate::plot::{Axis, Bar, BarSeries, Bars, Figure, Kind, Panel, markdown};

/// Optimality gap at which planning stops. With more classes, the rest of the proof would take most of the
/// time.
pub const GAP: f64 = 1e-3;

/// Planning times of every group at one size.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// Description of the size.
    pub what: String,
    /// Planning time of each group in seconds.
    pub seconds: Vec<f64>,
    /// Largest optimality gap.
    pub gap: f64,
    /// Planning time in seconds that the paper states.
    pub paper: Option<f64>,
}

/// Devices of the first cluster, then classes of 100 devices.
///
/// # Errors
/// When a profile cannot be read.
pub fn run(source: &Source) -> Result<Vec<Point>, ReproduceError> {
    let cluster = source.clusters()[0];
    let mut points = Vec::new();
    for devices in [100, 10_000, 100_000] {
        let classes = cluster.classes(devices / 4, devices / 4 * 3);
        points.push(point(source, format!("{devices} devices"), &classes, Some(3.5))?);
    }
    // High and low classes in turn, one device a server, 6 Gb/s.
    let [first, _, _, last] = source.clusters();
    let names = [first.high, first.low, last.low, last.high];
    for (classes, paper) in [(2_u32, None), (3, Some(35.3)), (4, Some(77.0))] {
        // Proofs for synthetic models on more classes take minutes.
        if source.published().is_none() && classes > 2 {
            continue;
        }
        let class = |name: &&str| Class {
            name: (*name).to_owned(),
            count: 100 / classes,
            per_server: 1,
            bandwidth_bps: 6_000_000_000,
            cost: 1.0,
        };
        let even: Vec<Class> = names.iter().take(classes as usize).map(class).collect();
        let what = format!("{classes} classes");
        points.push(point(source, what, &even, paper)?);
    }
    Ok(points)
}

fn point(
    source: &Source,
    what: String,
    classes: &[Class],
    paper: Option<f64>,
) -> Result<Point, ReproduceError> {
    let mut point = Point {
        what,
        seconds: Vec::new(),
        gap: 0.0,
        paper,
    };
    for group in source.groups()? {
        let usual = PlanningCase::paper(classes.to_vec(), &group, &WEIGHTS_2019, SCHEMES[PPIPE].1);
        let case = PlanningCase { gap: GAP, ..usual };
        let problem = source.problem(&case)?;
        let (solution, seconds) = solve_timed(&problem);
        point.seconds.push(seconds);
        point.gap = point
            .gap
            .max(solution.map_or(f64::NAN, |solution| gap(&problem, &solution)));
    }
    Ok(point)
}

/// Seconds by size.
#[must_use]
pub fn table(points: &[Point]) -> String {
    let rows: Vec<Vec<String>> = points
        .iter()
        .map(|point| {
            vec![
                point.what.clone(),
                format!("{:.2}", mean(point.seconds.iter().copied())),
                format!("{:.2}", point.seconds.iter().copied().fold(0.0, f64::max)),
                format!("{:.2}", 100.0 * point.gap),
                point.paper.map_or("-".to_owned(), |seconds| format!("{seconds}")),
            ]
        })
        .collect();
    let head = [
        "cluster",
        "mean of the groups (s)",
        "longest (s)",
        "greatest gap (%)",
        "paper, mean (s)",
    ];
    markdown(&head, &rows)
}

/// Figure 14: seconds by devices and by classes.
#[must_use]
pub fn figure_14(points: &[Point]) -> Figure {
    let panel = |title: &str, points: &[Point]| Panel {
        title: title.to_owned(),
        y: Axis::new("seconds").log(),
        kind: Kind::Bars(Bars {
            categories: points.iter().map(|point| point.what.clone()).collect(),
            series: vec![BarSeries {
                name: "here, mean of the groups".to_owned(),
                values: points
                    .iter()
                    .map(|point| Bar {
                        paper: point.paper,
                        ..Bar::from(mean(point.seconds.iter().copied()))
                    })
                    .collect(),
            }],
        }),
        ..Panel::default()
    };
    let (devices, classes) = points.split_at(3.min(points.len()));
    Figure {
        title: "Planning time, one thread (after Figure 14)".to_owned(),
        panels: vec![panel("by devices", devices), panel("by classes", classes)],
        columns: 2,
        width: 900,
        height: 360,
    }
}
