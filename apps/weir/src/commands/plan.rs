//! `weir plan`: which blocks of which models run on which pools of devices.

use std::path::Path;

use comfy_table::CellAlignment;
use weir_graph::planning;
use weir_planner::{Objective, Problem, Resource, Solution};

use crate::args::Plan;
use crate::error::{UserError, write_error};
use crate::output;
use crate::outputs::Files;
use crate::report::plain_table;
use crate::whole_file::write_whole;

/// Solves a planning problem; prints its pipelines, why they are so where asked, and writes the plan where asked.
///
/// # Errors
/// All problems of the file at once, why there is no plan, and a file that cannot be written.
pub(crate) fn plan(args: &Plan) -> anyhow::Result<()> {
    let environment = |name: &str| std::env::var(name).ok();
    let (problem, read) = planning::load_with_files(&args.problem, &environment)?;
    let mut files = Files::default();
    read.iter().for_each(|file| files.read("the plan", file));
    args.out.iter().for_each(|path| files.write("--out", path));
    files.check()?;
    let solution = weir_planner::solve(&problem)
        .map_err(|error| UserError::new(format!("{}: {error}", args.problem.display())))?;
    output::say(&table(&solution))?;
    output::say(&summary(&problem, &solution))?;
    if args.explain {
        for line in explanation(&problem, &solution) {
            output::say(&line)?;
        }
    }
    match &args.out {
        Some(path) => write(&weir_planner::Plan { solution, problem }, path),
        None => Ok(()),
    }
}

fn table(solution: &Solution) -> String {
    let mut table = plain_table(&["model", "pipeline", "batch", "items/s", "latency"]);
    table
        .column_iter_mut()
        .skip(2)
        .for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    for model in &solution.models {
        for pipeline in &model.pipelines {
            let stage = |stage: &weir_planner::StagePlan| {
                let share = if stage.shares == 1 {
                    String::new()
                } else {
                    format!("/{}", stage.shares)
                };
                format!(
                    "{}x{}{share}[{}..{}]",
                    stage.pool, stage.class, stage.from, stage.to
                )
            };
            let stages: Vec<String> = pipeline.stages.iter().map(stage).collect();
            table.add_row([
                model.model.clone(),
                stages.join(" > "),
                pipeline.batch.to_string(),
                format!("{:.1}", pipeline.throughput),
                pipeline.latency.to_string(),
            ]);
        }
    }
    table.trim_fmt()
}

fn summary(problem: &Problem, solution: &Solution) -> String {
    let used =
        |(class, used): (&weir_planner::Class, &u32)| format!("{used} of {} {}", class.count, class.name);
    let used: Vec<String> = problem.classes.iter().zip(&solution.devices).map(used).collect();
    let what = match problem.objective {
        Objective::Throughput => format!("least throughput over weight {:.1} items/s", solution.objective),
        Objective::Cost { rate } => format!("cost {:.2} for {rate} items/s over weight", solution.objective),
    };
    format!("{what}; devices in use: {}", used.join(", "))
}

fn explanation(problem: &Problem, solution: &Solution) -> Vec<String> {
    let mut lines = vec![String::new()];
    for (plan, model) in solution.models.iter().zip(&problem.models) {
        let budget = model.slo.scale(1.0 - problem.margin);
        let kept = 100.0 * problem.margin;
        lines.push(format!(
            "{}: {budget} of its SLO of {} (margin {kept:.0} %)",
            plan.model, model.slo
        ));
        for pipeline in &plan.pipelines {
            lines.push(format!(
                "  {}",
                weir_planner::describe(pipeline, &model.blocks.boundary_bytes)
            ));
        }
    }
    lines.push("what binds:".to_owned());
    for bound in weir_planner::sensitivity(problem) {
        let change = 100.0 * (bound.objective / solution.objective - 1.0);
        let what = match bound.resource {
            Resource::Devices(class) => format!("10 % more {class} (1 at least)"),
            Resource::Slo(model) => format!("10 % more time for {model}"),
            Resource::Links => "links twice as fast".to_owned(),
        };
        let verdict = if change.abs() < 0.05 {
            "does not bind"
        } else {
            "binds"
        };
        lines.push(format!("  {what}: {change:+.1} %, {verdict}"));
    }
    let gap = 100.0 * weir_planner::gap(problem, solution);
    lines.push(format!("proved to be within {gap:.3} % of the optimum"));
    lines
}

fn write(plan: &weir_planner::Plan, path: &Path) -> anyhow::Result<()> {
    let text = planning::plan_text(plan).map_err(anyhow::Error::msg)?;
    write_whole(path, &text)
        .map_err(|error| write_error(format_args!("the plan {}", path.display()), &error).into())
}
