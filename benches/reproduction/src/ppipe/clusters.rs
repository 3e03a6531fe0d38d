//! All groups on the four clusters: load factors at 99 % in time (Figure 6) and device utilisation at these
//! loads (Figure 8).

use weir_types::Timestamp;

use super::ReproduceError;
use super::data_plane::DataPlane;
use super::progress::map_with_progress;
use super::published::Cluster;
use super::setting::{Arrivals, PPIPE, SCHEMES, Setting, mean};
use super::source::{PlanningCase, Source};
use crate::pard::words::short;
use crate::plot::{Axis, Bar, BarSeries, Bars, Figure, Kind, Panel, markdown};

/// The gains in load factor over NP, HC1-L to HC4-L, "Poisson" (7.2).
pub const GAINS_NP: [f64; 4] = [64.9, 34.8, 46.7, 45.5];
/// Published gains over DART-r in percent, by cluster.
pub const GAINS_DART_R: [f64; 4] = [47.2, 17.3, 34.8, 29.3];
/// "Bursty", over NP.
pub const BURSTY_NP: [f64; 4] = [161.6, 34.1, 50.4, 54.1];
/// "Bursty", over DART-r.
pub const BURSTY_DART_R: [f64; 4] = [50.4, 18.1, 40.2, 34.5];

/// Results of one group on one cluster.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupOutcome {
    /// Index of the cluster, from 0.
    pub cluster: usize,
    /// Index of the group, from 0.
    pub group: usize,
    /// `factors[scheme][model][seed]`.
    pub factors: Vec<Vec<Vec<f64>>>,
    /// `busy[scheme][class]`: utilisation of the devices of a class at those load factors, 0 to 1, for the
    /// first seed.
    pub busy: Vec<[f64; 2]>,
    /// Largest optimality gap of the plans.
    pub gap: f64,
}

impl GroupOutcome {
    /// The mean load factor over models and seeds.
    #[must_use]
    pub fn factor(&self, scheme: usize) -> f64 {
        mean(
            self.factors[scheme]
                .iter()
                .map(|seeds| mean(seeds.iter().copied())),
        )
    }
}

/// Results of all groups on all clusters with one kind of arrivals.
#[derive(Debug, Clone, PartialEq)]
pub struct Clusters {
    /// Names of the clusters.
    pub names: Vec<String>,
    /// Outcomes by cluster, then by group.
    pub outcomes: Vec<GroupOutcome>,
}

impl Clusters {
    /// Runs every group with `weights`, high and low devices as `counts`, and every seed.
    ///
    /// # Errors
    /// When a profile cannot be read or a plan laid out.
    pub fn run(
        name: &str,
        source: &Source,
        weights: &[f64; 3],
        arrivals: Arrivals,
        seeds: &[u64],
        threads: usize,
    ) -> Result<Self, ReproduceError> {
        let groups = source.groups()?;
        let clusters = source.clusters();
        let cases: Vec<(usize, usize)> = (0..clusters.len())
            .flat_map(|cluster| (0..groups.len()).map(move |group| (cluster, group)))
            .collect();
        let settings = map_with_progress(&format!("{name}, plans"), &cases, threads, |&(cluster, group)| {
            let classes = clusters[cluster].classes(25, 75);
            let scheme = SCHEMES[PPIPE].1;
            Setting::new(
                source,
                &PlanningCase::paper(classes, &groups[group], weights, scheme),
            )
        });
        let settings: Vec<Setting> = settings.into_iter().collect::<Result<_, _>>()?;
        let outcomes = map_with_progress(name, &(0..cases.len()).collect::<Vec<_>>(), threads, |&at| {
            group(cases[at], &settings[at], arrivals, seeds)
        });
        Ok(Self {
            names: clusters.iter().map(Cluster::name).collect(),
            outcomes,
        })
    }

    fn of(&self, cluster: usize) -> impl Iterator<Item = &GroupOutcome> {
        self.outcomes
            .iter()
            .filter(move |outcome| outcome.cluster == cluster)
    }

    /// The mean load factor of a scheme on a cluster, over groups.
    #[must_use]
    pub fn factor(&self, cluster: usize, scheme: usize) -> f64 {
        mean(self.of(cluster).map(|outcome| outcome.factor(scheme)))
    }

    /// Gain of PPipe's load factor over another scheme's in percent: ratio of the means over groups.
    #[must_use]
    pub fn gain(&self, cluster: usize, scheme: usize) -> f64 {
        100.0 * (self.factor(cluster, PPIPE) / self.factor(cluster, scheme) - 1.0)
    }

    /// The same gain, as the mean over the groups' gains.
    #[must_use]
    pub fn gain_of_groups(&self, cluster: usize, scheme: usize) -> f64 {
        let gain = |outcome: &GroupOutcome| 100.0 * (outcome.factor(PPIPE) / outcome.factor(scheme) - 1.0);
        mean(self.of(cluster).map(gain))
    }

    /// Mean utilisation of a device class on a cluster, over groups, 0 to 1.
    #[must_use]
    pub fn busy(&self, cluster: usize, scheme: usize, class: usize) -> f64 {
        mean(self.of(cluster).map(|outcome| outcome.busy[scheme][class]))
    }

    /// The greatest planning gap.
    #[must_use]
    pub fn gap(&self) -> f64 {
        self.outcomes
            .iter()
            .map(|outcome| outcome.gap)
            .fold(0.0, f64::max)
    }

    fn label(&self, cluster: usize) -> String {
        format!("HC{}-L {}", cluster + 1, self.names[cluster])
    }
}

fn group(
    (cluster, group): (usize, usize),
    setting: &Setting,
    arrivals: Arrivals,
    seeds: &[u64],
) -> GroupOutcome {
    let mut factors = Vec::new();
    let mut busy = Vec::new();
    for scheme in 0..SCHEMES.len() {
        let mut sums = [0.0; 2];
        let mut of_scheme = Vec::new();
        for model in 0..setting.rates.len() {
            let mut of_model = Vec::new();
            for (at, &seed) in seeds.iter().enumerate() {
                let (factor, run) = setting.most((scheme, model), arrivals, DataPlane::PUBLISHED, seed);
                of_model.push(factor);
                if let (0, Some(run)) = (at, run) {
                    for (sum, class) in sums.iter_mut().zip(&setting.classes) {
                        let used = run.busy_s.get(&class.name).copied().unwrap_or(0.0);
                        *sum += used
                            / (f64::from(class.count)
                                * (run.last_output - Timestamp::ZERO).as_secs_f64().max(1e-9));
                    }
                }
            }
            of_scheme.push(of_model);
        }
        factors.push(of_scheme);
        busy.push(sums);
    }
    GroupOutcome {
        cluster,
        group,
        factors,
        busy,
        gap: setting.gap(),
    }
}

/// Figure 6: a panel a cluster, a category a group and the mean.
#[must_use]
pub fn figure_6(clusters: &Clusters, title: &str) -> Figure {
    let panel = |cluster: usize| {
        let groups: Vec<&GroupOutcome> = clusters.of(cluster).collect();
        let mut categories: Vec<String> = groups
            .iter()
            .map(|outcome| format!("G{}", outcome.group + 1))
            .collect();
        categories.push("mean".to_owned());
        let series = SCHEMES.iter().enumerate().map(|(scheme, (name, _))| BarSeries {
            name: (*name).to_owned(),
            values: groups
                .iter()
                .map(|outcome| outcome.factor(scheme))
                .chain([clusters.factor(cluster, scheme)])
                .map(Bar::from)
                .collect(),
        });
        Panel {
            title: clusters.label(cluster),
            y: Axis::new("load factor").range(0.0, 1.0),
            kind: Kind::Bars(Bars {
                categories,
                series: series.collect(),
            }),
            ..Panel::default()
        }
    };
    Figure {
        title: title.to_owned(),
        panels: (0..clusters.names.len()).map(panel).collect(),
        columns: 2,
        width: 900,
        height: 560,
    }
}

/// Figure 8: a panel a class.
#[must_use]
pub fn figure_8(clusters: &Clusters) -> Figure {
    let panel = |(class, title): (usize, &str)| Panel {
        title: title.to_owned(),
        y: Axis::new("busy (%)").range(0.0, 100.0),
        kind: Kind::Bars(Bars {
            categories: (0..clusters.names.len())
                .map(|cluster| clusters.label(cluster))
                .collect(),
            series: SCHEMES
                .iter()
                .enumerate()
                .map(|(scheme, (name, _))| BarSeries {
                    name: (*name).to_owned(),
                    values: (0..clusters.names.len())
                        .map(|cluster| Bar::from(100.0 * clusters.busy(cluster, scheme, class)))
                        .collect(),
                })
                .collect(),
        }),
        ..Panel::default()
    };
    Figure {
        title: "Devices in use at 99 % in time (after Figure 8)".to_owned(),
        panels: [(0, "high class"), (1, "low class")]
            .into_iter()
            .map(panel)
            .collect(),
        columns: 2,
        width: 900,
        height: 330,
    }
}

/// Table of mean load factors and gains by cluster, beside the paper's.
#[must_use]
pub fn gains(clusters: &Clusters, paper: Option<([f64; 4], [f64; 4])>) -> String {
    let percent = |value: f64| format!("{value:.1}");
    let theirs =
        |values: Option<[f64; 4]>, at: usize| values.map_or("-".to_owned(), |values| percent(values[at]));
    let mut rows: Vec<Vec<String>> = (0..clusters.names.len())
        .map(|cluster| {
            let mut row = vec![clusters.label(cluster)];
            row.extend((0..SCHEMES.len()).map(|scheme| format!("{:.3}", clusters.factor(cluster, scheme))));
            for (scheme, values) in [(0, paper.map(|paper| paper.0)), (1, paper.map(|paper| paper.1))] {
                row.push(percent(clusters.gain(cluster, scheme)));
                row.push(percent(clusters.gain_of_groups(cluster, scheme)));
                row.push(theirs(values, cluster));
            }
            row
        })
        .collect();
    let all = || 0..clusters.names.len();
    let mut last = vec!["mean".to_owned()];
    last.extend(
        (0..SCHEMES.len()).map(|scheme| format!("{:.3}", mean(all().map(|at| clusters.factor(at, scheme))))),
    );
    for (scheme, values) in [(0, paper.map(|paper| paper.0)), (1, paper.map(|paper| paper.1))] {
        last.push(percent(mean(all().map(|at| clusters.gain(at, scheme)))));
        last.push(percent(mean(all().map(|at| clusters.gain_of_groups(at, scheme)))));
        last.push(values.map_or("-".to_owned(), |values| percent(mean(values))));
    }
    rows.push(last);
    let head = [
        "cluster",
        "NP",
        "DART-r",
        "PPipe",
        "over NP (%)",
        "by group (%)",
        "paper (%)",
        "over DART-r (%)",
        "by group (%)",
        "paper (%)",
    ];
    markdown(&head, &rows)
}

/// Load factors by cluster and group.
#[must_use]
pub fn by_group(clusters: &Clusters) -> String {
    let rows: Vec<Vec<String>> = clusters
        .outcomes
        .iter()
        .map(|outcome| {
            let mut row = vec![clusters.label(outcome.cluster), format!("G{}", outcome.group + 1)];
            row.extend((0..SCHEMES.len()).map(|scheme| format!("{:.3}", outcome.factor(scheme))));
            row
        })
        .collect();
    markdown(&["cluster", "group", "NP", "DART-r", "PPipe"], &rows)
}

/// Table of the utilisation of each class by cluster, in percent.
#[must_use]
pub fn busy(clusters: &Clusters) -> String {
    let figure = |cluster: usize, scheme: usize, class: usize| 100.0 * clusters.busy(cluster, scheme, class);
    let mut rows: Vec<Vec<String>> = Vec::new();
    for cluster in 0..clusters.names.len() {
        let mut row = vec![clusters.label(cluster)];
        for class in 0..2 {
            row.extend((0..SCHEMES.len()).map(|scheme| short(figure(cluster, scheme, class))));
        }
        rows.push(row);
    }
    let mut last = vec!["mean".to_owned()];
    for class in 0..2 {
        last.extend((0..SCHEMES.len()).map(|scheme| {
            short(mean(
                (0..clusters.names.len()).map(|cluster| figure(cluster, scheme, class)),
            ))
        }));
    }
    rows.push(last);
    let head = [
        "cluster", "high: NP", "DART-r", "PPipe", "low: NP", "DART-r", "PPipe",
    ];
    markdown(&head, &rows)
}
