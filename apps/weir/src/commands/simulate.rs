//! `weir simulate`: an experiment in virtual time.

use std::path::Path;

use comfy_table::CellAlignment;
use weir_flow::StopFlag;
use weir_sim::BoundCache;
use weir_sim::experiment::{self, Estimate, ExperimentReport, Row, RunReport};

use crate::args::Simulate;
use crate::error::{UserError, write_error};
use crate::outputs::Files;
use crate::process::cores;
use crate::report::plain_table;
use crate::whole_file::write_whole;
use crate::zoo::Zoo;
use crate::{catalog, interrupt, output};

/// Runs all that the experiment asks for; prints a row for each combination, and writes the report where it is asked for.
///
/// # Errors
/// All problems of the experiment at once, and a report that cannot be written.
pub(crate) fn simulate(args: &Simulate, zoo: &Zoo) -> anyhow::Result<()> {
    let catalog = catalog::catalog(zoo);
    let seeds = args.seed.map(|seed| [seed]);
    let environment = |name: &str| std::env::var(name).ok();
    let seeds = seeds.as_ref().map(<[u64; 1]>::as_slice);
    let experiment = experiment::load(&args.experiment, &catalog, &environment, seeds)?;
    if let Some(path) = &args.report {
        let mut files = Files::default();
        experiment
            .files()
            .iter()
            .for_each(|file| files.read("the experiment", file));
        files.write("--report", path);
        files.check()?;
        writable(path)?;
    }
    let runs = experiment.runs();
    let threads = args.threads.map_or_else(cores, |threads| threads as usize);
    let bar = weir_terminal::progress::steps("simulating", runs.len() as u64);
    let bounds = BoundCache::default();
    let reduce = |run: &experiment::Run, ran| RunReport::new(run, &ran, &bounds);
    let stop = StopFlag::default();
    interrupt::watch(
        &stop,
        "stopping: finishing the runs in progress; press Ctrl-C again to quit now",
    )?;
    let shown = |done| bar.set_position(done as u64);
    let reports = experiment::run_while(runs, threads, &reduce, &shown, &|| !stop.is_raised());
    bar.finish_and_clear();
    if reports.len() < runs.len() {
        output::remark(&format!(
            "stopped: {} of {} runs are in the table and the report",
            reports.len(),
            runs.len()
        ));
    }
    let report = ExperimentReport {
        experiment: experiment.name().to_owned(),
        runs: reports,
    };
    output::say(&table(&experiment::rows(&report.runs)))?;
    args.report.as_deref().map_or(Ok(()), |path| write(&report, path))
}

/// Says before many runs, not after them, that their report has no place.
fn writable(path: &Path) -> anyhow::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let problem = if path.is_dir() {
        "it is a folder"
    } else if folder.is_some_and(|folder| !folder.is_dir()) {
        "its folder is not there"
    } else {
        return Ok(());
    };
    Err(UserError::new(format!("cannot write the report {}: {problem}", path.display())).into())
}

fn write(report: &ExperimentReport, path: &Path) -> anyhow::Result<()> {
    let text = serde_json::to_string_pretty(report)? + "\n";
    write_whole(path, &text)
        .map_err(|error| write_error(format_args!("the report {}", path.display()), &error).into())
}

fn table(rows: &[Row]) -> String {
    let mut keys: Vec<&str> = Vec::new();
    for (key, _) in rows.iter().flat_map(|row| &row.labels) {
        if !keys.contains(&key.as_str()) {
            keys.push(key);
        }
    }
    let mut figures = vec![
        "seeds",
        "drop rate %",
        "bound %",
        "invalid rate %",
        "goodput/s",
        "p99 ms",
    ];
    let has_accuracy = rows.iter().any(|row| row.accuracy.is_some());
    if has_accuracy {
        figures.extend(["accuracy %", "right/s"]);
    }
    let header: Vec<&str> = keys.iter().copied().chain(figures).collect();
    let mut table = plain_table(&header);
    table.column_iter_mut().skip(keys.len()).for_each(|column| {
        column.set_cell_alignment(CellAlignment::Right);
    });
    for row in rows {
        let label = |key: &&str| {
            let found = row.labels.iter().find(|(name, _)| name == key);
            found.map(|(_, label)| label.to_string()).unwrap_or_default()
        };
        let known = |estimate: Option<Estimate>, scale, digits| {
            estimate.map_or_else(String::new, |estimate| format_estimate(estimate, scale, digits))
        };
        let mut figures = vec![
            row.seeds.to_string(),
            format_estimate(row.drop_rate, 100.0, 2),
            known(row.bound, 100.0, 2),
            format_estimate(row.invalid_rate, 100.0, 2),
            format_estimate(row.goodput_rps, 1.0, 1),
            format_estimate(row.p99_ms, 1.0, 1),
        ];
        if has_accuracy {
            figures.push(known(row.accuracy, 100.0, 2));
            figures.push(known(row.right_rps, 1.0, 1));
        }
        table.add_row(keys.iter().map(label).chain(figures));
    }
    let table = table.trim_fmt();
    if keys.contains(&"policy") {
        table
    } else {
        format!("{}\n\n{table}", policies(rows))
    }
}

/// Names the policies of the rows in a line, for tables without a column `policy`.
fn policies(rows: &[Row]) -> String {
    let mut policies: Vec<&str> = Vec::new();
    for row in rows {
        if !policies.contains(&row.policy.as_str()) {
            policies.push(&row.policy);
        }
    }
    let word = if policies.len() > 1 { "policies" } else { "policy" };
    format!("{word} {}", policies.join(", "))
}

/// A mean with its 95 % confidence interval where it has one.
fn format_estimate(estimate: Estimate, scale: f64, digits: usize) -> String {
    let (mean, half) = (estimate.mean * scale, estimate.half * scale);
    if half > 0.0 {
        format!("{mean:.digits$} ± {half:.digits$}")
    } else {
        format!("{mean:.digits$}")
    }
}
