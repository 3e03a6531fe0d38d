//! A single model on 16 devices of the third cluster: its plan (Figure 11) and its reservations over time
//! (Figure 12).

use std::collections::BTreeMap;

use weir_planner::{ModelPlan, PipelinePlan};
use weir_policy::reservations::ResourceUse;
use weir_sim::ResourceUsage;
use weir_types::Timestamp;
use weir_types::{ClusterSpec, ShareId};

use super::ReproduceError;
use super::data_plane::DataPlane;
use super::load_factor::Placed;
use super::setting::{Arrivals, PPIPE, SCHEMES, Setting};
use super::source::{PlanningCase, Source};
use crate::plot::{Axis, Figure, Kind, Panel, Timeline, TimelineBox, markdown};

/// Plan and timeline of one run.
#[derive(Debug, Clone, PartialEq)]
pub struct Microscopic {
    /// Name of the model.
    pub model: String,
    /// Name of the cluster.
    pub cluster: String,
    /// Pipelines of the plan.
    pub plan: ModelPlan,
    /// Largest load factor at which 99 % of the items are in time.
    pub factor: f64,
    /// Part of that run.
    pub timeline: Timeline,
    /// Length of the timeline in SLOs.
    pub slos: f64,
}

/// Start of the timeline in seconds, and its length in SLOs.
const FROM_S: f64 = 10.0;
const SLOS: f64 = 3.0;
/// Number of highlighted batches of each pipeline with several partitions.
const MARKED: usize = 4;

/// Plans the model and serves it at its largest load factor.
///
/// # Errors
/// [`ReproduceError`] if a profile cannot be read, or the plan cannot be placed.
pub fn run(source: &Source) -> Result<Option<Microscopic>, ReproduceError> {
    let cluster = source.clusters()[2];
    let model = source.microscopic()?;
    let classes = cluster.classes(4, 12);
    let case = PlanningCase::paper(classes, std::slice::from_ref(&model), &[1.0], SCHEMES[PPIPE].1);
    let setting = Setting::new(source, &case)?;
    let Some(placed) = &setting.placed[PPIPE] else {
        return Ok(None);
    };
    let (factor, _) = setting.most((PPIPE, 0), Arrivals::Poisson, DataPlane::PUBLISHED, 1);
    let arrivals = Arrivals::Poisson.draw(setting.rates[0] * factor, 1);
    let run = placed.replay(0, &arrivals, DataPlane::PUBLISHED, true);
    Ok(Some(Microscopic {
        plan: placed.solution.models[0].clone(),
        timeline: timeline(placed, &run.uses),
        model,
        cluster: cluster.name(),
        factor,
        slos: SLOS,
    }))
}

/// Row and pipeline of a share in a stage.
type Places = BTreeMap<(ShareId, u32), (usize, usize)>;

/// Names of the timeline's rows, and the row and pipeline of each share.
fn rows(cluster: &ClusterSpec) -> (Vec<String>, Places) {
    let mut names = Vec::new();
    let mut places = BTreeMap::new();
    for (pipeline, spec) in cluster.pipelines.iter().enumerate() {
        for (stage, spec) in (0..).zip(&spec.stages) {
            for (at, share) in spec.shares.iter().enumerate() {
                places.insert((*share, stage), (names.len(), pipeline));
                let class = &cluster.shares[share.index()].class;
                names.push(format!("{}.{} {class} {}", pipeline + 1, stage + 1, at + 1));
            }
        }
    }
    (names, places)
}

fn timeline(placed: &Placed, uses: &[ResourceUsage]) -> Timeline {
    let slo = placed.problem.models[0].slo.as_secs_f64();
    let place = |at: Timestamp| ((at - Timestamp::ZERO).as_secs_f64() - FROM_S) / slo;
    let (names, places) = rows(&placed.cluster);
    let runs = || {
        uses.iter().filter_map(|used| {
            let &(row, pipeline) = places.get(&(used.share, used.stage))?;
            let shown = used.used == ResourceUse::Run && place(used.to) > 0.0 && place(used.from) < SLOS;
            shown.then_some((used, row, pipeline))
        })
    };
    // Batches that begin early enough to be seen in all partitions.
    let mut marks = BTreeMap::new();
    for (pipeline, spec) in placed.cluster.pipelines.iter().enumerate() {
        let mut first: Vec<_> = runs()
            .filter(|(used, _, of)| {
                let begin = place(used.from);
                *of == pipeline
                    && used.stage == 0
                    && spec.stages.len() > 1
                    && begin > 0.0
                    && begin < SLOS - 1.0
            })
            .map(|(used, ..)| (used.from, used.booking))
            .collect();
        first.sort();
        let every = (first.len() / MARKED).max(1);
        for (_, booking) in first.into_iter().step_by(every).take(MARKED) {
            let mark = u32::try_from(marks.len()).unwrap_or(u32::MAX);
            marks.insert(booking, mark);
        }
    }
    let boxes = runs().map(|(used, row, pipeline)| TimelineBox {
        row,
        from: place(used.from),
        to: place(used.to),
        name: format!("pipeline {}, partition {}", pipeline + 1, used.stage + 1),
        mark: marks.get(&used.booking).copied(),
    });
    let mut boxes: Vec<TimelineBox> = boxes.collect();
    boxes.sort_by(|one, other| one.row.cmp(&other.row).then(one.from.total_cmp(&other.from)));
    Timeline { rows: names, boxes }
}

/// Draws Figure 12, the reservations of a cluster over time.
#[must_use]
pub fn figure_12(microscopic: &Microscopic) -> Figure {
    let rows = u32::try_from(microscopic.timeline.rows.len()).unwrap_or(u32::MAX);
    Figure {
        title: format!(
            "Reservations on HC3-S {}, load factor {:.2} (after Figure 12)",
            microscopic.cluster, microscopic.factor
        ),
        panels: vec![Panel {
            x: Axis::new("time in SLOs").range(0.0, microscopic.slos),
            kind: Kind::Timeline(microscopic.timeline.clone()),
            ..Panel::default()
        }],
        columns: 1,
        width: 1000,
        height: (120 + 20 * rows).min(2000),
    }
}

/// Figure 11: the plan, a row a partition.
#[must_use]
pub fn table(microscopic: &Microscopic) -> String {
    let row = |(at, pipeline): (usize, &PipelinePlan)| -> Vec<Vec<String>> {
        let stage = |(place, stage): (usize, &weir_planner::StagePlan)| {
            let share = if stage.shares == 1 {
                String::new()
            } else {
                format!("/{}", stage.shares)
            };
            vec![
                format!("{}", at + 1),
                format!("{}", place + 1),
                format!("{} to {}", stage.from, stage.to - 1),
                format!("{} x {}{share}", stage.pool, stage.class),
                pipeline.batch.to_string(),
                format!("{:.0}", pipeline.throughput),
            ]
        };
        pipeline.stages.iter().enumerate().map(stage).collect()
    };
    let rows: Vec<Vec<String>> = microscopic
        .plan
        .pipelines
        .iter()
        .enumerate()
        .flat_map(row)
        .collect();
    let head = [
        "pipeline",
        "partition",
        "blocks",
        "pool",
        "batch",
        "items/s of the pipeline",
    ];
    markdown(&head, &rows)
}
