//! Quality of plans relative to exhaustive search (Figure 13), and planning times (Figure 14).

use weir_planner::gears::{
    CascadeChoice, Evaluated, Evaluation, GearProblem, LoadOrder, Scoring, exhaustive, frontier, hypervolume,
    random_search,
};

use super::ReproduceError;
use super::published::Published;
use super::setting::{Load, REFINE, evaluate, problem};
use crate::cpu_time::thread_cpu_s;
use crate::plot::{Axis, Figure, Kind, Line, Panel, markdown};

/// The setting of Figure 13: cascades and ranges.
const SMALL: (usize, usize) = (6, 6);

/// Exhaustive search in the load order of the paper.
pub const ALL_FALLING: &str = "exhaustive, no dearer cascade at a higher load";
/// The walk with what is near, in the order of loads.
pub const FALLING: &str = "walk and neighbours";
/// The walk with what is near, in any order.
pub const FREE: &str = "walk and neighbours in any order";
/// Assignments drawn at random, as many as twice those of [`FREE`].
pub const RANDOM: &str = "random, twice the plans";

/// Result of a planning method, in the setting of Figure 13.
#[derive(Debug, Clone, PartialEq)]
pub struct Search {
    /// Name of the search.
    pub name: &'static str,
    /// Pareto frontier that it found.
    pub frontier: Vec<Evaluated>,
    /// Hypervolume of the frontier, relative to that of the exhaustive search.
    pub hypervolume: f64,
    /// Number of simulated plans.
    pub simulated: usize,
    /// Processor time in seconds.
    pub seconds: f64,
    /// Processor time that the paper states.
    pub paper: &'static str,
}

impl Search {
    /// Hypervolume of its plans below a latency, as a part of what all assignments have there.
    fn below(&self, all: &Self, latency: f64) -> f64 {
        let least = all.frontier.first().map_or(0.0, |plan| plan.evaluation.accuracy);
        let worst = Evaluation {
            latency,
            accuracy: least - 1e-4,
        };
        hypervolume(&self.frontier, worst) / hypervolume(&all.frontier, worst)
    }
}

/// Planning time of the whole problem.
#[derive(Debug, Clone, PartialEq)]
pub struct Size {
    /// Number of cascades to choose from.
    pub cascades: usize,
    /// Number of load ranges.
    pub ranges: usize,
    /// Number of devices.
    pub slots: usize,
    /// Number of simulated plans.
    pub simulated: usize,
    /// Processor time in seconds.
    pub seconds: f64,
}

/// Compares planning methods: all models on all slots, batches of one, 8 s of trace, 6 cascades, 6 ranges.
///
/// # Errors
/// As [`frontier`].
pub fn compare(published: &Published, load: &Load) -> Result<Vec<Search>, ReproduceError> {
    let problem = small(published, load);
    let any_order = GearProblem {
        order: LoadOrder::Free,
        ..problem.clone()
    };
    let (all, simulated, seconds) = timed(&any_order, load, |problem, evaluate| {
        exhaustive(problem, evaluate)
    })?;
    let falling = timed(&problem, load, |problem, evaluate| exhaustive(problem, evaluate))?;
    let worst = Evaluation {
        latency: all.iter().map(|plan| plan.evaluation.latency).fold(0.0, f64::max) * 1.01,
        accuracy: all
            .iter()
            .map(|plan| plan.evaluation.accuracy)
            .fold(1.0, f64::min)
            - 1e-4,
    };
    let whole = hypervolume(&all, worst);
    let search = |name, paper, (frontier, simulated, seconds): (Vec<Evaluated>, usize, f64)| Search {
        name,
        hypervolume: hypervolume(&frontier, worst) / whole,
        frontier,
        simulated,
        seconds,
        paper,
    };
    let mut found = vec![
        search("exhaustive", "9 to 16 minutes", (all, simulated, seconds)),
        search(ALL_FALLING, "-", falling),
    ];
    let searches = [
        ("walk, score as printed", Scoring::Ratio, LoadOrder::Falling, 0),
        ("walk", Scoring::Trade, LoadOrder::Falling, 0),
        (FALLING, Scoring::Trade, LoadOrder::Falling, REFINE),
        (
            "walk and 100 neighbours in any order",
            Scoring::Trade,
            LoadOrder::Free,
            100,
        ),
        (FREE, Scoring::Trade, LoadOrder::Free, REFINE),
    ];
    let mut twice = 0;
    for (name, scoring, order, refine) in searches {
        let problem = GearProblem {
            scoring,
            order,
            refine,
            ..problem.clone()
        };
        let walk = timed(&problem, load, |problem, evaluate| frontier(problem, evaluate))?;
        twice = 2 * walk.1;
        found.push(search(name, "0.1 to 1 s", walk));
    }
    let random = timed(&problem, load, |problem, evaluate| {
        random_search(problem, twice, evaluate)
    })?;
    found.push(search(RANDOM, "twice the time", random));
    Ok(found)
}

/// The problem of Figure 13.
#[must_use]
pub fn small(published: &Published, load: &Load) -> GearProblem {
    let mut problem = problem(published, 1, SMALL.1, load);
    problem.operators[0].cascades = spread(&published.cascades, SMALL.0);
    for model in &mut problem.models {
        model.batch = vec![1];
    }
    problem
}

/// Cascades at even steps of the list, its ends among them.
fn spread(cascades: &[CascadeChoice], count: usize) -> Vec<CascadeChoice> {
    let last = cascades.len().saturating_sub(1);
    let steps = (count - 1).max(1);
    let mut chosen: Vec<CascadeChoice> = Vec::new();
    for step in 0..count {
        let choice = &cascades[last * step / steps];
        if !chosen.contains(choice) {
            chosen.push(choice.clone());
        }
    }
    chosen
}

type Found = (Vec<Evaluated>, usize, f64);
type Evaluate<'a> = dyn FnMut(&weir_types::GearPlan, &weir_planner::gears::Assignment) -> Evaluation + 'a;

/// Runs a search. Returns its frontier, the number of simulated plans, and its processor time in seconds: a
/// search is single-threaded.
fn timed(
    problem: &GearProblem,
    load: &Load,
    search: impl Fn(&GearProblem, &mut Evaluate<'_>) -> Result<Vec<Evaluated>, weir_planner::gears::GearError>,
) -> Result<Found, ReproduceError> {
    let mut simulated = 0;
    let began = thread_cpu_s();
    let found = search(problem, &mut |plan, assignment| {
        simulated += 1;
        evaluate(problem, plan, assignment, load)
    })?;
    Ok((found, simulated, thread_cpu_s() - began))
}

/// Planning times by number of cascades and ranges, on four devices whose memory cannot hold every model.
///
/// # Errors
/// As [`frontier`].
pub fn scaling(published: &Published, load: &Load) -> Result<Vec<Size>, ReproduceError> {
    let mut sizes = Vec::new();
    for (cascades, ranges) in [(10, 5), (20, 10)] {
        let mut problem = problem(published, 4, ranges, load);
        problem.operators[0].cascades = denser(published, cascades);
        problem.memory = 560 << 20;
        let (_, simulated, seconds) = timed(&problem, load, |problem, evaluate| frontier(problem, evaluate))?;
        sizes.push(Size {
            cascades: problem.operators[0].cascades.len(),
            ranges,
            slots: problem.slots,
            simulated,
            seconds,
        });
    }
    Ok(sizes)
}

/// Interpolates to `count` cascades. Between two neighbours with the same models, a new one has shares and
/// accuracy between theirs; otherwise it is the more expensive one with fewer items handed on.
fn denser(published: &Published, count: usize) -> Vec<CascadeChoice> {
    let given = &published.cascades;
    let mut out = Vec::new();
    for (index, choice) in given.iter().enumerate() {
        let copies = count / given.len() + usize::from(index < count % given.len());
        let next = given.get(index + 1).unwrap_or(choice);
        for copy in 0..copies {
            let part = copy as f64 / copies as f64;
            let mut between = choice.clone();
            between.accuracy -= part * (choice.accuracy - next.accuracy);
            for reach in between.reach.iter_mut().skip(1) {
                *reach *= 1.0 - 0.5 * part;
            }
            out.push(between);
        }
    }
    out
}

/// Table of the searches: plans found, hypervolume, effort.
#[must_use]
pub fn searches_table(found: &[Search]) -> String {
    let row = |search: &Search| {
        vec![
            search.name.to_owned(),
            search.frontier.len().to_string(),
            format!("{:.2}", 100.0 * search.hypervolume),
            search.simulated.to_string(),
            format!("{:.2}", search.seconds),
            search.paper.to_owned(),
        ]
    };
    let rows: Vec<Vec<String>> = found.iter().map(row).collect();
    let head = [
        "search",
        "plans",
        "hypervolume (% of all)",
        "simulated",
        "seconds",
        "paper",
    ];
    markdown(&head, &rows)
}

/// Table of the hypervolume that searches reach with plans below some latencies, as a percentage of the
/// exhaustive search's.
#[must_use]
pub fn latencies_table(found: &[Search]) -> String {
    const SECONDS: [f64; 6] = [0.025, 0.05, 0.1, 1.0, 3.0, 6.0];
    let Some(all) = found.first() else {
        return String::new();
    };
    let shown = found
        .iter()
        .filter(|search| [ALL_FALLING, FALLING, FREE, RANDOM].contains(&search.name));
    let row = |search: &Search| {
        let parts = SECONDS.map(|seconds| format!("{:.2}", 100.0 * search.below(all, seconds)));
        let whole = format!("{:.2}", 100.0 * search.hypervolume);
        let mut row = vec![search.name.to_owned()];
        row.extend(parts);
        row.push(whole);
        row
    };
    let rows: Vec<Vec<String>> = shown.map(row).collect();
    let head = [
        "hypervolume (% of all) with p95 below",
        "25 ms",
        "50 ms",
        "100 ms",
        "1 s",
        "3 s",
        "6 s",
        "any",
    ];
    markdown(&head, &rows)
}

/// Table of planning times by problem size.
#[must_use]
pub fn scaling_table(sizes: &[Size]) -> String {
    let row = |size: &Size| {
        vec![
            size.cascades.to_string(),
            size.ranges.to_string(),
            size.slots.to_string(),
            size.simulated.to_string(),
            format!("{:.1}", size.seconds),
        ]
    };
    let rows: Vec<Vec<String>> = sizes.iter().map(row).collect();
    markdown(
        &["cascades", "ranges", "devices", "plans simulated", "seconds"],
        &rows,
    )
}

/// The frontiers of the searches.
#[must_use]
pub fn figure_13(found: &[Search]) -> Figure {
    let line = |search: &Search| Line {
        name: search.name.to_owned(),
        points: (search.frontier.iter())
            .map(|plan| (1e3 * plan.evaluation.latency, 100.0 * plan.evaluation.accuracy))
            .collect(),
        step: true,
        ..Line::default()
    };
    Figure {
        title: "Frontiers that searches find (after Figure 13)".to_owned(),
        panels: vec![Panel {
            x: Axis::new("p95 (ms)").log(),
            y: Axis::new("accuracy (%)"),
            kind: Kind::Lines(found.iter().map(line).collect()),
            ..Panel::default()
        }],
        columns: 1,
        width: 700,
        height: 400,
    }
}

/// Seconds by simulated plans.
#[must_use]
pub fn figure_14(sizes: &[Size]) -> Figure {
    let mut points: Vec<(f64, f64)> = sizes
        .iter()
        .map(|size| (size.simulated as f64, size.seconds))
        .collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    Figure {
        title: "Planning time, one thread (after Figure 14)".to_owned(),
        panels: vec![Panel {
            x: Axis::new("plans simulated"),
            y: Axis::new("seconds"),
            kind: Kind::Lines(vec![Line {
                name: "here".to_owned(),
                points,
                ..Line::default()
            }]),
            ..Panel::default()
        }],
        columns: 1,
        width: 560,
        height: 340,
    }
}
