//! SLO attainment by load factor, for the group G1 (Figure 7).

use super::ReproduceError;
use super::data_plane::DataPlane;
use super::progress::map_with_progress;
use super::published::{Cluster, WEIGHTS_2019};
use super::setting::{Arrivals, PPIPE, SCHEMES, Setting, mean};
use super::source::{PlanningCase, Source};
use crate::plot::{Axis, Figure, Kind, Line, Panel, Rule, markdown};

/// Attainment by cluster, scheme and load factor.
#[derive(Debug, Clone, PartialEq)]
pub struct Attainment {
    /// Names of the clusters.
    pub names: Vec<String>,
    /// `parts[cluster][scheme]`: load factor and share of items in time, the mean over the models.
    pub parts: Vec<Vec<Vec<(f64, f64)>>>,
}

impl Attainment {
    /// Runs G1 on all clusters under Poisson arrivals with every seed.
    ///
    /// # Errors
    /// When a profile cannot be read or a plan laid out.
    pub fn run(source: &Source, seeds: &[u64], threads: usize) -> Result<Self, ReproduceError> {
        let clusters = source.clusters();
        let group = source.groups()?.swap_remove(0);
        let settings = clusters.iter().map(|cluster| {
            let classes = cluster.classes(25, 75);
            Setting::new(
                source,
                &PlanningCase::paper(classes, &group, &WEIGHTS_2019, SCHEMES[PPIPE].1),
            )
        });
        let settings: Vec<Setting> = settings.collect::<Result<_, _>>()?;
        let lines: Vec<(usize, usize)> = (0..clusters.len())
            .flat_map(|cluster| (0..SCHEMES.len()).map(move |scheme| (cluster, scheme)))
            .collect();
        let in_time = |(cluster, scheme): (usize, usize), factor: f64| {
            let setting = &settings[cluster];
            let one = |model: usize, seed: u64| {
                let run = setting.serve(
                    (scheme, model),
                    factor,
                    Arrivals::Poisson,
                    DataPlane::PUBLISHED,
                    seed,
                );
                run.map_or(0.0, |run| 1.0 - run.miss_rate())
            };
            let models = 0..setting.rates.len();
            mean(models.map(|model| mean(seeds.iter().map(|&seed| one(model, seed)))))
        };
        let parts = map_with_progress("figure 7", &lines, threads, |&line| {
            let factors = (1..=20_u32).map(|step| f64::from(step) * 0.05);
            factors
                .map(|factor| (factor, in_time(line, factor)))
                .collect::<Vec<_>>()
        });
        Ok(Self {
            names: clusters.iter().map(Cluster::name).collect(),
            parts: parts.chunks(SCHEMES.len()).map(<[_]>::to_vec).collect(),
        })
    }
}

/// Figure 7: a panel a cluster.
#[must_use]
pub fn figure_7(attainment: &Attainment) -> Figure {
    let panel = |(at, lines): (usize, &Vec<Vec<(f64, f64)>>)| Panel {
        title: format!("HC{}-L {}", at + 1, attainment.names[at]),
        x: Axis::new("load factor").range(0.0, 1.0),
        y: Axis::new("in time (%)").range(40.0, 101.0),
        kind: Kind::Lines(
            SCHEMES
                .iter()
                .zip(lines)
                .map(|((name, _), points)| Line {
                    name: (*name).to_owned(),
                    points: points
                        .iter()
                        .map(|(factor, part)| (*factor, 100.0 * part))
                        .collect(),
                    ..Line::default()
                })
                .collect(),
        ),
        rules: vec![Rule {
            name: "99 %".to_owned(),
            at: 99.0,
        }],
        ..Panel::default()
    };
    Figure {
        title: "In time by load factor, G1, Poisson (after Figure 7)".to_owned(),
        panels: attainment.parts.iter().enumerate().map(panel).collect(),
        columns: 2,
        width: 900,
        height: 560,
    }
}

/// The greatest load factor at which the mean of the models is 99 %, and the attainment at 1.0.
#[must_use]
pub fn table(attainment: &Attainment) -> String {
    let reach = |points: &[(f64, f64)]| {
        let found = points.iter().rev().find(|(_, part)| *part >= 0.99);
        found.map_or("-".to_owned(), |(factor, _)| format!("{factor:.2}"))
    };
    let full = |points: &[(f64, f64)]| points.last().map_or(f64::NAN, |(_, part)| 100.0 * part);
    let rows: Vec<Vec<String>> = attainment
        .parts
        .iter()
        .enumerate()
        .map(|(at, lines)| {
            let mut row = vec![format!("HC{}-L {}", at + 1, attainment.names[at])];
            row.extend(lines.iter().map(|points| reach(points)));
            row.extend(lines.iter().map(|points| format!("{:.1}", full(points))));
            row
        })
        .collect();
    let head = [
        "cluster",
        "NP: 99 % up to",
        "DART-r",
        "PPipe",
        "NP: % at 1.0",
        "DART-r",
        "PPipe",
    ];
    markdown(&head, &rows)
}
