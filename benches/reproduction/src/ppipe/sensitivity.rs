//! Sensitivity on 16 devices of the first cluster, one model at a time: SLO scale, ratio of high to low
//! devices, margin (Figure 13).

use super::ReproduceError;
use super::data_plane::DataPlane;
use super::progress::map_with_progress;
use super::setting::{Arrivals, PPIPE, SCHEMES, Setting, mean};
use super::source::{PlanningCase, Source};
use crate::plot::{Axis, Bar, BarSeries, Bars, Figure, Kind, Panel, markdown};

/// Parameter that is varied.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Varied {
    /// SLO relative to the latency on the fastest class.
    Scale(f64),
    /// Number of high-class devices out of 16.
    High(u32),
    /// Fraction of the SLO that plans leave unused.
    Margin(f64),
}

/// SLO scales that are compared.
pub const SCALES: [f64; 6] = [2.0, 3.0, 4.0, 5.0, 7.0, 10.0];
/// Numbers of high-class devices that are compared.
pub const HIGHS: [u32; 6] = [2, 4, 6, 8, 10, 12];
/// Margins that are compared.
pub const MARGINS: [f64; 5] = [0.2, 0.3, 0.4, 0.5, 0.6];

impl Varied {
    fn name(self) -> String {
        match self {
            Self::Scale(scale) => format!("{scale}x"),
            Self::High(high) => format!("{high}:{}", 16 - high),
            Self::Margin(margin) => format!("{margin}"),
        }
    }

    /// Gain of PPipe over NP in percent according to the paper's text.
    fn paper(self) -> Option<f64> {
        match self {
            Self::Scale(2.0) => Some(0.0),
            Self::High(2) => Some(64.03),
            Self::High(12) => Some(5.64),
            Self::Margin(0.2) => Some(24.9),
            Self::Margin(0.4) => Some(52.8),
            Self::Margin(0.6) => Some(16.4),
            Self::Scale(_) | Self::High(_) | Self::Margin(_) => None,
        }
    }

    fn all() -> Vec<Vec<Self>> {
        vec![
            SCALES.map(Self::Scale).to_vec(),
            HIGHS.map(Self::High).to_vec(),
            MARGINS.map(Self::Margin).to_vec(),
        ]
    }
}

/// Results for one value of a parameter, over all models.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// Parameter with its value.
    pub varied: Varied,
    /// Mean load factors of NP, DART-r and PPipe.
    pub factors: [f64; 3],
    /// Number of models for which there is a plan.
    pub planned: usize,
}

impl Point {
    /// Gain of PPipe's load factor over NP's in percent.
    #[must_use]
    pub fn gain(&self) -> f64 {
        100.0 * (self.factors[PPIPE] / self.factors[0] - 1.0)
    }
}

/// Runs all values: a list each for scale, ratio and margin.
///
/// # Errors
/// When a profile cannot be read or a plan laid out.
pub fn run(source: &Source, threads: usize) -> Result<Vec<Vec<Point>>, ReproduceError> {
    let models: Vec<String> = source.groups()?.concat();
    let all = Varied::all();
    let flat: Vec<Varied> = all.concat();
    let cases: Vec<(Varied, &String)> = flat
        .iter()
        .flat_map(|&varied| models.iter().map(move |model| (varied, model)))
        .collect();
    let served = map_with_progress("figure 13", &cases, threads, |&(varied, model)| {
        one(source, varied, model)
    });
    let served: Vec<Option<[f64; 3]>> = served.into_iter().collect::<Result<_, _>>()?;
    let mut points = flat
        .iter()
        .zip(served.chunks(models.len()))
        .map(|(&varied, of_models)| Point {
            varied,
            factors: [0, 1, 2].map(|scheme| mean(of_models.iter().flatten().map(|factors| factors[scheme]))),
            planned: of_models.iter().flatten().count(),
        });
    Ok(all
        .iter()
        .map(|values| points.by_ref().take(values.len()).collect())
        .collect())
}

/// Load factors of one model; `None` if PPipe has no plan.
fn one(source: &Source, varied: Varied, model: &str) -> Result<Option<[f64; 3]>, ReproduceError> {
    let high = if let Varied::High(high) = varied { high } else { 4 };
    let classes = source.clusters()[0].classes(high, 16 - high);
    let mut case = PlanningCase::paper(classes, &[model.to_owned()], &[1.0], SCHEMES[PPIPE].1);
    match varied {
        Varied::Scale(scale) => case.slo_scale = scale,
        Varied::Margin(margin) => case.margin = margin,
        Varied::High(_) => {}
    }
    let setting = Setting::new(source, &case)?;
    if setting.placed[PPIPE].is_none() {
        return Ok(None);
    }
    let most = |scheme: usize| {
        setting
            .most((scheme, 0), Arrivals::Poisson, DataPlane::PUBLISHED, 1)
            .0
    };
    Ok(Some([0, 1, 2].map(most)))
}

/// Figure 13: a panel each for scale, ratio and margin.
#[must_use]
pub fn figure_13(points: &[Vec<Point>], cluster: &str) -> Figure {
    let titles = ["SLO over latency", "high : low", "margin"];
    let panel = |(points, title): (&Vec<Point>, &str)| Panel {
        title: title.to_owned(),
        y: Axis::new("load factor").range(0.0, 1.0),
        kind: Kind::Bars(Bars {
            categories: points.iter().map(|point| point.varied.name()).collect(),
            series: SCHEMES
                .iter()
                .enumerate()
                .map(|(scheme, (name, _))| BarSeries {
                    name: (*name).to_owned(),
                    values: points
                        .iter()
                        .map(|point| Bar::from(point.factors[scheme]))
                        .collect(),
                })
                .collect(),
        }),
        ..Panel::default()
    };
    Figure {
        title: format!("SLO, devices and margin, HC1-S {cluster} (after Figure 13)"),
        panels: points.iter().zip(titles).map(panel).collect(),
        columns: 3,
        width: 1000,
        height: 340,
    }
}

/// Load factors and gains by value.
#[must_use]
pub fn table(points: &[Vec<Point>]) -> String {
    let heads = ["SLO scale", "high:low", "margin"];
    let rows: Vec<Vec<String>> = points
        .iter()
        .zip(heads)
        .flat_map(|(points, head)| {
            points.iter().map(move |point| {
                let mut row = vec![
                    format!("{head} {}", point.varied.name()),
                    point.planned.to_string(),
                ];
                row.extend(point.factors.iter().map(|factor| format!("{factor:.3}")));
                row.push(format!("{:.1}", point.gain()));
                row.push(
                    point
                        .varied
                        .paper()
                        .map_or("-".to_owned(), |gain| format!("{gain:.1}")),
                );
                row
            })
        })
        .collect();
    let head = [
        "varied",
        "models with a plan",
        "NP",
        "DART-r",
        "PPipe",
        "over NP (%)",
        "paper (%)",
    ];
    markdown(&head, &rows)
}
