//! The engine beside the limit of the device: one detector on frames that cost nothing to decode, as fast as it goes, over what
//! its session alone does at its best batch.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use weir_policy::Report;
use weir_types::Span;

use super::models::ModelCheck;
use super::{device_name, write};
use crate::args::{GpuCheck, RunArgs, Speed};
use crate::catalog;
use crate::launch::{LaunchOptions, Observers, execute};
use crate::output;
use crate::settings::Settings;
use crate::zoo::{self, Zoo};

/// The engine does at least so much of what the session does alone.
const MIN_SHARE: f64 = 0.9;

/// One model in the engine.
#[derive(Debug, Serialize)]
pub(super) struct EngineCheck {
    pub(super) model: String,
    pub(super) batch: u32,
    /// Frames a second that were delivered.
    pub(super) frames_per_second: f64,
    /// The same over the items a second of the session alone.
    pub(super) share_of_limit: f64,
    /// Share of the time in which the slot ran a batch.
    pub(super) busy: f64,
    pub(super) mean_batch: f64,
}

impl EngineCheck {
    pub(super) fn failure(&self) -> Option<String> {
        let share = self.share_of_limit;
        (share < MIN_SHARE).then(|| {
            format!(
                "{} in the engine is at {share:.2} of the session alone, less than {MIN_SHARE}",
                self.model
            )
        })
    }
}

/// Runs each detector whose batches were measured.
///
/// # Errors
/// A graph that cannot be run.
pub(super) fn check(
    args: &GpuCheck,
    models: &[ModelCheck],
    each: Duration,
    settings: &Settings,
    zoo: &Zoo,
) -> anyhow::Result<Vec<EngineCheck>> {
    let mut checks = Vec::new();
    for model in models
        .iter()
        .filter(|model| model.error.is_none() && model.is_detector)
    {
        output::remark(&format!("the engine with {}", model.name));
        let frames = (model.best_items_per_second * each.as_secs_f64()).ceil().max(1.0);
        let source = format!(
            "[sources.frames]\nuri = \"emulated:uniform?rate=100000&frames={frames}&size=640x360\"\nmode = \"lossless\"\n"
        );
        let report = run(args, model, &source, ("10s", None), (settings, zoo))?;
        let module = report.modules.values().next();
        let seconds = report.run.duration_s.max(1e-6);
        let rate = (report.requests.delivered + report.requests.late) as f64 / seconds;
        checks.push(EngineCheck {
            model: model.name.clone(),
            batch: model.best_batch,
            frames_per_second: rate,
            share_of_limit: rate / model.best_items_per_second.max(1e-6),
            busy: module.map_or(0.0, |module| module.busy_s / seconds),
            mean_batch: module.map_or(0.0, |module| module.mean_batch),
        });
    }
    Ok(checks)
}

/// Runs `model` on the sources of the text `sources`, with this objective, until they end or the time is over.
///
/// # Errors
/// A graph that cannot be run.
pub(super) fn run(
    args: &GpuCheck,
    model: &ModelCheck,
    sources: &str,
    (slo, duration): (&str, Option<Span>),
    (settings, zoo): (&Settings, &Zoo),
) -> anyhow::Result<Report> {
    let path = args.out.join("graph.toml");
    write(&path, &graph(args, model, sources, slo))?;
    report(&path, duration, settings, zoo)
}

fn report(path: &Path, duration: Option<Span>, settings: &Settings, zoo: &Zoo) -> anyhow::Result<Report> {
    let graph = catalog::load(path, zoo)?;
    zoo::require(&graph, zoo)?;
    let run_args = RunArgs {
        duration,
        ..RunArgs::default()
    };
    let options = LaunchOptions {
        speed: if duration.is_some() {
            Speed::Own
        } else {
            Speed::Max
        },
        ..LaunchOptions::for_graph(run_args)
    };
    Ok(execute(graph, &options, Observers::default(), settings, zoo)?.report)
}

/// One detector on the device, in its measured batches.
fn graph(args: &GpuCheck, model: &ModelCheck, sources: &str, slo: &str) -> String {
    let names: Vec<String> = sources
        .lines()
        .filter_map(|line| line.strip_prefix("[sources.")?.strip_suffix(']'))
        .map(|name| format!("\"{name}\""))
        .collect();
    let sizes = model.profile.iter().filter(|(size, _)| *size <= model.best_batch);
    let sizes: Vec<String> = sizes.map(|(size, _)| size.to_string()).collect();
    let mut text = format!("[app]\nname = \"gpu-check\"\nslo = \"{slo}\"\n\n{sources}\n");
    let device = device_name(args.device);
    if device == "cpu" {
        // One slot, as the session that it is held against.
        let _ = writeln!(text, "[devices.cpu]\nslots = 1\n");
    }
    let _ = writeln!(
        text,
        "[models.detector]\nmodel = \"{}\"\ndevice = \"{device}\"\nbatch = [{}]\n",
        model.name,
        sizes.join(", ")
    );
    let _ = writeln!(
        text,
        "[modules.detect]\noperator = \"detect\"\nmodel = \"detector\"\ninputs = [{}]",
        names.join(", ")
    );
    text
}
