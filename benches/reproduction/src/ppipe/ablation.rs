//! Gain by reservation: PPipe's plans under its own data plane and under the reactive one, by margin (Figure
//! 10).

use super::ReproduceError;
use super::data_plane::{DataPlane, Dispatch};
use super::progress::map_with_progress;
use super::published::{MARGIN, WEIGHTS_2019};
use super::setting::{Arrivals, PPIPE, SCHEMES, Setting, mean};
use super::source::{PlanningCase, Source};
use crate::plot::{Axis, Bar, BarSeries, Bars, Figure, Kind, Panel, markdown};

/// Margins that are compared; the paper's is 0.4.
pub const MARGINS: [f64; 4] = [0.1, 0.25, 0.3, 0.4];
/// Load factors of the paper on HC2-L, for reservation and for the reactive scheduler.
pub const PAPER: [f64; 2] = [0.92, 0.71];

/// Data planes, with their names.
pub const PLANES: [(&str, Dispatch); 2] = [
    ("by reservation", Dispatch::Reserved),
    ("reactive", Dispatch::Reactive),
];

/// Results at one margin.
#[derive(Debug, Clone, PartialEq)]
pub struct AtMargin {
    /// Margin as a fraction of the SLO.
    pub margin: f64,
    /// `factors[plane][model]`, 1.0 being this margin's plan; the mean over seeds.
    pub factors: [Vec<f64>; 2],
    /// Rate of each model at this margin, relative to that at the paper's margin.
    pub scales: Vec<f64>,
}

impl AtMargin {
    /// The mean load factor of a data plane over models.
    #[must_use]
    pub fn factor(&self, plane: usize) -> f64 {
        mean(self.factors[plane].iter().copied())
    }

    /// Mean factor relative to the plan at the paper's margin, which is 1.0.
    #[must_use]
    pub fn against_paper_margin(&self, plane: usize) -> f64 {
        mean(
            self.factors[plane]
                .iter()
                .zip(&self.scales)
                .map(|(factor, scale)| factor * scale),
        )
    }
}

/// Runs all groups on the second cluster.
///
/// # Errors
/// When a profile cannot be read or a plan laid out.
pub fn run(source: &Source, seeds: &[u64], threads: usize) -> Result<Vec<AtMargin>, ReproduceError> {
    let groups = source.groups()?;
    let cluster = source.clusters()[1];
    let scheme = SCHEMES[PPIPE].1;
    let cases: Vec<(f64, usize)> = MARGINS
        .iter()
        .flat_map(|&margin| (0..groups.len()).map(move |group| (margin, group)))
        .collect();
    let served = map_with_progress("figure 10", &cases, threads, |&(margin, group)| {
        let case = PlanningCase {
            margin,
            ..PlanningCase::paper(cluster.classes(25, 75), &groups[group], &WEIGHTS_2019, scheme)
        };
        let setting = Setting::new(source, &case)?;
        let most = |model: usize, dispatch: Dispatch| {
            let plane = DataPlane {
                dispatch,
                ..DataPlane::PUBLISHED
            };
            let most = |&seed: &u64| setting.most((PPIPE, model), Arrivals::Poisson, plane, seed).0;
            mean(seeds.iter().map(most))
        };
        let factors = PLANES.map(|(_, dispatch)| -> Vec<f64> {
            (0..setting.rates.len())
                .map(|model| most(model, dispatch))
                .collect()
        });
        Ok((factors, setting.rates))
    });
    let served: Vec<([Vec<f64>; 2], Vec<f64>)> = served.into_iter().collect::<Result<_, ReproduceError>>()?;
    let by_margin: Vec<_> = served.chunks(groups.len()).collect();
    let rates = |at: usize| by_margin[at].iter().flat_map(|(_, rates)| rates.clone());
    let paper = MARGINS.iter().position(|&margin| margin == MARGIN).unwrap_or(0);
    let at_margin = |(at, &margin): (usize, &f64)| AtMargin {
        margin,
        factors: [0, 1].map(|plane| {
            by_margin[at]
                .iter()
                .flat_map(|(factors, _)| factors[plane].clone())
                .collect()
        }),
        scales: rates(at)
            .zip(rates(paper))
            .map(|(here, there)| here / there)
            .collect(),
    };
    Ok(MARGINS.iter().enumerate().map(at_margin).collect())
}

/// Figure 10, by margin.
#[must_use]
pub fn figure_10(margins: &[AtMargin], cluster: &str) -> Figure {
    let panel = |title: &str, of: &dyn Fn(&AtMargin, usize) -> f64, papers: bool| Panel {
        title: title.to_owned(),
        x: Axis::new("margin"),
        y: Axis::new("load factor").range(0.0, 1.4),
        kind: Kind::Bars(Bars {
            categories: margins.iter().map(|at| format!("{}", at.margin)).collect(),
            series: PLANES
                .iter()
                .enumerate()
                .map(|(plane, (name, _))| BarSeries {
                    name: (*name).to_owned(),
                    values: margins
                        .iter()
                        .map(|at| Bar {
                            paper: (papers && at.margin == MARGIN).then_some(PAPER[plane]),
                            ..Bar::from(of(at, plane))
                        })
                        .collect(),
                })
                .collect(),
        }),
        ..Panel::default()
    };
    Figure {
        title: format!("Reservation and reaction on HC2-L {cluster}, Poisson (after Figure 10)"),
        panels: vec![
            panel("1.0: the plan at that margin", &AtMargin::factor, true),
            panel(
                "1.0: the plan at margin 0.4",
                &AtMargin::against_paper_margin,
                false,
            ),
        ],
        columns: 2,
        width: 900,
        height: 340,
    }
}

/// Mean load factors by margin.
#[must_use]
pub fn table(margins: &[AtMargin]) -> String {
    let rows: Vec<Vec<String>> = margins
        .iter()
        .map(|at| {
            let paper = |plane: usize| {
                if at.margin == MARGIN {
                    format!("{:.2}", PAPER[plane])
                } else {
                    "-".to_owned()
                }
            };
            vec![
                format!("{}", at.margin),
                format!("{:.3}", at.factor(0)),
                paper(0),
                format!("{:.3}", at.factor(1)),
                paper(1),
                format!("{:.3}", at.against_paper_margin(0)),
                format!("{:.3}", at.against_paper_margin(1)),
            ]
        })
        .collect();
    let head = [
        "margin",
        "reservation",
        "paper",
        "reactive",
        "paper",
        "reservation, 1.0 at margin 0.4",
        "reactive, 1.0 at margin 0.4",
    ];
    markdown(&head, &rows)
}
