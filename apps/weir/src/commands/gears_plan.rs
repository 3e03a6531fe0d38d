//! `weir gears plan`: which stages are asked, and how certain they must be, by load.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::Path;

use weir_graph::planning::{
    self, GearsPlanning, PlanSearch, PlannedCascades, PlannedLatency, PlannedQueues, PolicyScored,
};
use weir_graph::{GearFile, GearModels, GearsFile, ReplicaFile, Sources, StageFile};
use weir_planner::gears::{
    Assignment, CascadeChoice, Evaluated, Evaluation, GearError, exhaustive, fixed, frontier, pareto,
    random_search,
};
use weir_types::{Gear, GearPlan, Span};

use super::score::file_error;
use crate::args::{GearsPlan, Pick};
use crate::catalog;
use crate::error::UserError;
use crate::gears_problem::{GearsProblem, files};
use crate::output;
use crate::outputs::Files;
use crate::process::cores;
use crate::report::plain_table;
use crate::whole_file::write_whole;
use crate::zoo::Zoo;

/// Plans gears; prints the plans that no other beats and why one is so where asked, and writes it where asked.
///
/// # Errors
/// All problems of the file at once, samples that are not of the graph, why there is no plan, and a file that cannot be
/// written.
pub(crate) fn plan(args: &GearsPlan, zoo: &Zoo) -> anyhow::Result<()> {
    let environment = |name: &str| std::env::var(name).ok();
    let (planning, _) = planning::load_gears(&args.problem, &environment)?;
    let mut written = Files::default();
    written.read("the plan", &args.problem);
    files(&planning)
        .iter()
        .for_each(|file| written.read("the plan", file));
    args.out.iter().for_each(|path| written.write("--out", path));
    written.check()?;
    let graph = catalog::load_for(Sources::Replaced, &planning.graph, zoo)?;
    let cores = cores() as u32;
    let problem = GearsProblem::new(&graph, &planning, cores)?;
    let wrong = |error: String| UserError::new(format!("{}: {error}", args.problem.display()));
    let found = search(&problem, &planning).map_err(|error| wrong(error.to_string()))?;
    let found = scored(&problem, &planning, found).map_err(wrong)?;
    if found.is_empty() {
        let message = format!(
            "{}: no plan sustains the load and fits the memory; with overload = \"evaluate\" those that do not sustain it are plans, too",
            args.problem.display()
        );
        return Err(UserError::new(message).into());
    }
    let picked = pick(&problem, &found, args.pick.as_ref())?;
    output::say(&frontier_table(&problem, &found, picked))?;
    let chosen = &found[picked];
    if args.explain {
        output::say(&explanation(&problem, chosen))?;
    }
    match &args.out {
        Some(path) => write(&problem, &planning, chosen, path),
        None => Ok(()),
    }
}

fn search(problem: &GearsProblem, planning: &GearsPlanning) -> Result<Vec<Evaluated>, GearError> {
    let mut evaluate = |plan: &GearPlan, assignment: &Assignment| match planning.policy {
        PolicyScored::All => with_policy(problem, planning, plan, assignment).unwrap_or(Evaluation {
            latency: f64::INFINITY,
            accuracy: 0.0,
        }),
        PolicyScored::Found | PolicyScored::None => problem.evaluate(plan, assignment),
    };
    if matches!(planning.plans, PlannedCascades::Static | PlannedCascades::Single) {
        return Ok(pareto(fixed(&problem.problem, &mut evaluate)?));
    }
    match planning.search {
        PlanSearch::Walk => frontier(&problem.problem, &mut evaluate),
        PlanSearch::Exhaustive => exhaustive(&problem.problem, &mut evaluate),
        PlanSearch::Random(count) => random_search(&problem.problem, count as usize, &mut evaluate),
    }
}

/// Maximum number of found plans that are scored with the policy of the graph: each is a run over the whole load.
const MAX_SCORED: usize = 32;

/// Plans, spread evenly over those found, with the scores that the policy of the graph gives them; without those that others
/// beat then.
fn scored(
    problem: &GearsProblem,
    planning: &GearsPlanning,
    found: Vec<Evaluated>,
) -> Result<Vec<Evaluated>, String> {
    if planning.policy == PolicyScored::None {
        return Ok(found);
    }
    let last = found.len().saturating_sub(1);
    let places: BTreeSet<usize> = match found.len() > MAX_SCORED {
        true => (0..MAX_SCORED)
            .map(|place| place * last / (MAX_SCORED - 1))
            .collect(),
        false => (0..found.len()).collect(),
    };
    let kept = found
        .into_iter()
        .enumerate()
        .filter(|(place, _)| places.contains(place));
    let mut kept: Vec<Evaluated> = kept.map(|(_, plan)| plan).collect();
    for plan in &mut kept {
        plan.evaluation = with_policy(problem, planning, &plan.plan, &plan.assignment)?;
    }
    Ok(pareto(kept))
}

fn with_policy(
    problem: &GearsProblem,
    planning: &GearsPlanning,
    plan: &GearPlan,
    assignment: &Assignment,
) -> Result<Evaluation, String> {
    problem.evaluate_with_policy(&file(problem, planning, plan, assignment, 1))
}

/// Index of the picked plan among `found`, which ascends by latency and accuracy. Without a condition it is
/// the most accurate plan within the latency objective of the graph, or else the fastest; the first plan if
/// latency is a drop rate.
fn pick(problem: &GearsProblem, found: &[Evaluated], pick: Option<&Pick>) -> Result<usize, UserError> {
    let within = |most: f64| found.iter().rposition(|plan| plan.evaluation.latency <= most);
    match pick {
        None => Ok(match problem.latency {
            PlannedLatency::Quantile(_) => within(problem.slo.as_secs_f64()).unwrap_or(0),
            PlannedLatency::DropRate => 0,
        }),
        Some(Pick::Accuracy(least)) => {
            let enough = found.iter().position(|plan| plan.evaluation.accuracy >= *least);
            enough.ok_or_else(|| {
                let best = found.last().map_or(0.0, |plan| plan.evaluation.accuracy);
                UserError::new(format!(
                    "no plan has an accuracy of at least {least}; the most accurate has {best:.4}"
                ))
            })
        }
        Some(Pick::Latency(most)) => within(*most).ok_or_else(|| {
            let best = found.first().map_or(0.0, |plan| plan.evaluation.latency);
            UserError::new(format!(
                "no plan has a latency of at most {}; the least is {}",
                shown(problem, *most),
                shown(problem, best)
            ))
        }),
    }
}

/// A latency, or a drop rate.
fn shown(problem: &GearsProblem, value: f64) -> String {
    match problem.latency {
        PlannedLatency::Quantile(_) => Span::from_secs_f64(value).to_string(),
        PlannedLatency::DropRate => format!("{:.2} %", 100.0 * value),
    }
}

fn measure(problem: &GearsProblem) -> String {
    match problem.latency {
        PlannedLatency::Quantile(quantile) => format!("p{}", (quantile * 1e4).round() / 1e2),
        PlannedLatency::DropRate => "late".to_owned(),
    }
}

fn frontier_table(problem: &GearsProblem, found: &[Evaluated], picked: usize) -> String {
    let measure = measure(problem);
    let mut table = plain_table(&["", &measure, "accuracy", "gears"]);
    for (index, plan) in found.iter().enumerate() {
        table.add_row([
            if index == picked { ">" } else { "" }.to_owned(),
            shown(problem, plan.evaluation.latency),
            format!("{:.4}", plan.evaluation.accuracy),
            gears(problem, &plan.plan, &plan.assignment, Written::SharedQueues)
                .len()
                .to_string(),
        ]);
    }
    format!(
        "{} plans for up to {} requests a second that no other beats\n{}",
        found.len(),
        problem.peak(),
        table.trim_fmt()
    )
}

fn explanation(problem: &GearsProblem, chosen: &Evaluated) -> String {
    let mut text = String::new();
    let names = |models: &[usize]| -> String {
        let names = models.iter().map(|model| chosen.plan.models[*model].as_str());
        names.collect::<Vec<_>>().join(", ")
    };
    for (slot, (device, placed)) in problem.slots.iter().zip(&chosen.plan.placement).enumerate() {
        text += &format!("slot {slot} of {device}: {}\n", names(placed));
    }
    let mut table = plain_table(&[
        "up to",
        "cascade",
        "stages",
        "handed on",
        "accuracy",
        "items waited for",
    ]);
    for (range, gear) in chosen.plan.gears.iter().enumerate() {
        for operator in 0..problem.cascades {
            let choice = choice(problem, &chosen.assignment, operator, range);
            let own: Vec<usize> = choice.stages.iter().map(|stage| stage.model).collect();
            let replicas = gear
                .replicas
                .iter()
                .filter(|replica| own.contains(&replica.model));
            let sizes = replicas.map(|replica| {
                let (name, percent) = (&chosen.plan.models[replica.model], 100.0 * replica.share);
                format!("{name} on {}: {} ({percent:.0} %)", replica.slot, replica.size)
            });
            table.add_row([
                format!("{}/s", gear.up_to),
                problem.problem.operators[operator].name.clone(),
                stages(problem, choice),
                choice
                    .reach
                    .iter()
                    .skip(1)
                    .map(|part| format!("{part:.3}"))
                    .collect::<Vec<_>>()
                    .join(" "),
                format!("{:.4}", choice.accuracy),
                sizes.collect::<Vec<_>>().join(", "),
            ]);
        }
    }
    text + &table.trim_fmt()
}

/// The stages of a cascade, with their certainties.
fn stages(problem: &GearsProblem, choice: &CascadeChoice) -> String {
    let last = choice.stages.len() - 1;
    let stage = |(place, stage): (usize, &weir_types::StageGear)| {
        let name = &problem.problem.models[stage.model].name;
        match place < last {
            true => format!("{name} {}", stage.certainty),
            false => name.clone(),
        }
    };
    let all = choice.stages.iter().enumerate().map(stage);
    all.collect::<Vec<_>>().join(" > ")
}

fn choice<'a>(
    problem: &'a GearsProblem,
    assignment: &Assignment,
    operator: usize,
    range: usize,
) -> &'a CascadeChoice {
    &problem.problem.operators[operator].cascades[assignment[operator][range]]
}

/// Form in which the replicas of a stage are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Written {
    /// Each with its queue.
    Replicas,
    /// One queue, and shares where they differ.
    SharedQueues,
    /// One queue, and shares although they are equal: models are open where they are placed alone.
    PlacedShares,
}

/// The gears of a plan as a file has them: neighbouring ranges with the same cascades are one.
fn gears(
    problem: &GearsProblem,
    plan: &GearPlan,
    assignment: &Assignment,
    written: Written,
) -> Vec<GearFile> {
    let mut gears: Vec<GearFile> = Vec::new();
    for (range, gear) in plan.gears.iter().enumerate() {
        let (mut cascades, mut right, mut items) = (BTreeMap::new(), 0.0, 0.0);
        for operator in 0..problem.cascades {
            let node = &problem.problem.operators[operator];
            let choice = choice(problem, assignment, operator, range);
            let last = choice.stages.len() - 1;
            let stage = |(place, stage): (usize, &weir_types::StageGear)| {
                let model = &problem.problem.models[stage.model];
                StageFile {
                    model: model.name.clone(),
                    certainty: (place < last).then_some(stage.certainty),
                    ..replicas(gear, stage.model, model.slots.clone(), written)
                }
            };
            let stages = choice.stages.iter().enumerate().map(stage).collect();
            cascades.insert(node.name.clone(), stages);
            right += node.items * choice.accuracy;
            items += node.items;
        }
        match gears.last_mut().filter(|before| before.cascades == cascades) {
            Some(before) => before.up_to = gear.up_to,
            None => gears.push(GearFile {
                up_to: gear.up_to,
                accuracy: (items > 0.0).then(|| (right / items * 1e6).round() / 1e6),
                cascades,
            }),
        }
    }
    gears
}

/// Replicas of a stage on the slots of its model.
fn replicas(gear: &Gear, model: usize, slots: Range<usize>, written: Written) -> StageFile {
    if written != Written::Replicas || slots.len() < 2 {
        return StageFile {
            shares: shares(gear, model, slots, written == Written::PlacedShares),
            ..invocation(gear, model)
        };
    }
    let replica = |slot: usize| {
        let mut planned = gear.replicas.iter();
        let planned = planned.find(|replica| replica.model == model && replica.slot == slot);
        let waits = planned.filter(|replica| replica.size > 1);
        ReplicaFile {
            share: planned.map_or(0.0, |replica| (replica.share * 1e3).round() / 1e3),
            items: waits.map(|replica| replica.size),
            wait: waits.map(|replica| replica.wait.to_string()),
        }
    };
    StageFile {
        replicas: Some(slots.map(replica).collect()),
        ..StageFile::default()
    }
}

/// Share of a model's items for each of its slots, 0 to 1; `None` if all shares are equal, unless `is_placed`.
fn shares(gear: &Gear, model: usize, slots: Range<usize>, is_placed: bool) -> Option<Vec<f64>> {
    let share = |slot| {
        let replicas = gear.replicas.iter();
        let of_slot = replicas.filter(|replica| replica.model == model && replica.slot == slot);
        let share: f64 = of_slot.map(|replica| replica.share).sum();
        (share * 1e3).round() / 1e3
    };
    let shares: Vec<f64> = slots.map(share).collect();
    let even = 1.0 / shares.len().max(1) as f64;
    let is_even = shares.iter().all(|share| (share - even).abs() < 2e-3);
    (is_placed || !is_even).then_some(shares)
}

/// Items and wait of a stage. A module has one queue for all of its slots: the items are the mean batch size
/// of its replicas, weighted by share; the wait is the longest of theirs, scaled by share.
fn invocation(gear: &Gear, model: usize) -> StageFile {
    let replicas = || gear.replicas.iter().filter(|replica| replica.model == model);
    let items: f64 = replicas()
        .map(|replica| replica.share * f64::from(replica.size))
        .sum();
    // Those of one replica come slower than those of all.
    let wait = replicas().map(|replica| replica.wait.scale(replica.share)).max();
    let items = Some(items.round() as u32).filter(|items| *items > 1);
    StageFile {
        wait: wait.filter(|_| items.is_some()).map(|wait| wait.to_string()),
        items,
        ..StageFile::default()
    }
}

/// The gears file of a plan. A plan with a memory places its models for all gears, so they must fit together.
fn file(
    problem: &GearsProblem,
    planning: &GearsPlanning,
    plan: &GearPlan,
    assignment: &Assignment,
    number: u64,
) -> GearsFile {
    let is_placed = planning.memory.is_some();
    let written = match planning.queues {
        _ if is_placed => Written::PlacedShares,
        PlannedQueues::Replica if problem.takes_replicas => Written::Replicas,
        PlannedQueues::Replica | PlannedQueues::Shared => Written::SharedQueues,
    };
    GearsFile {
        graph: problem.graph.clone(),
        number,
        models: is_placed.then_some(GearModels::Resident),
        shift: planning.shift.clone(),
        gears: gears(problem, plan, assignment, written),
    }
}

/// Writes a plan as a gears file; its number is above that of the file that is there.
fn write(
    problem: &GearsProblem,
    planning: &GearsPlanning,
    chosen: &Evaluated,
    path: &Path,
) -> anyhow::Result<()> {
    let before = std::fs::read_to_string(path).ok();
    let before = before.and_then(|text| toml::from_str::<GearsFile>(&text).ok());
    let number = before.map_or(1, |before| before.number.saturating_add(1));
    let text = format!(
        "# Gears, written by weir gears plan: {} {} and an accuracy of {:.4} expected, of loads up to {} requests a second.\n\n{}",
        measure(problem),
        shown(problem, chosen.evaluation.latency),
        chosen.evaluation.accuracy,
        problem.peak(),
        file(problem, planning, &chosen.plan, &chosen.assignment, number).text()
    );
    write_whole(path, &text).map_err(|error| file_error("gears", path, weir_files::io_reason(&error)).into())
}
