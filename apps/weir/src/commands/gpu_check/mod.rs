//! `weir gpu-check`: whether models give the same on a device as on the CPU, how long they take there, what the engine makes of
//! it, and how many cameras it holds; one JSON and one page. On a machine without a GPU that can be used it says why, in a
//! line, and checks nothing.

mod cameras;
mod engine;
mod models;
mod page;

use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use weir_flow::DeviceKind;

use crate::args::GpuCheck;
use crate::error::{UserError, write_error};
use crate::gpu::facts::GpuFacts;
use crate::output;
use crate::settings::Settings;
use crate::whole_file::write_whole;
use crate::zoo::Zoo;
use cameras::CameraCheck;
use engine::EngineCheck;
use models::ModelCheck;

#[derive(Debug, Serialize)]
pub(super) struct GpuReport {
    version: &'static str,
    device: String,
    facts: GpuFacts,
    models: Vec<ModelCheck>,
    engine: Vec<EngineCheck>,
    /// Result of the runs with cameras; `None` without a clip or a detector.
    cameras: Option<CameraCheck>,
    /// Checks that failed, in words; the command fails if there is one.
    failures: Vec<String>,
}

/// Runs all checks, and writes the results as `gpu-check.json` and `gpu-check.md`.
///
/// # Errors
/// A check failed, or a result cannot be written.
pub(super) fn gpu_check(args: &GpuCheck, settings: &Settings, zoo: &Zoo) -> anyhow::Result<()> {
    let facts = GpuFacts::gather();
    if matches!(args.device, DeviceKind::Cuda(_))
        && let Some(problem) = facts.problems().first()
    {
        return output::say(&format!("gpu-check: nothing was checked: {problem}"));
    }
    std::fs::create_dir_all(&args.out).map_err(|error| {
        let reason = weir_files::io_reason(&error);
        UserError::new(format!("cannot make the folder {}: {reason}", args.out.display()))
    })?;
    output::remark(&facts.summary());
    let mut models = models::check(args, zoo)?;
    models.sort_by(|a, b| a.name.cmp(&b.name));
    let seconds = Duration::from_secs(args.seconds.into());
    let engine = engine::check(args, &models, seconds, settings, zoo)?;
    let cameras = cameras::check(args, &models, settings, zoo)?;
    let mut report = GpuReport {
        version: crate::version::SHORT,
        device: device_name(args.device),
        facts,
        models,
        engine,
        cameras,
        failures: Vec::new(),
    };
    report.failures = report.failures();
    write(
        &args.out.join("gpu-check.json"),
        &(serde_json::to_string_pretty(&report)? + "\n"),
    )?;
    let page = page::page(&report);
    write(&args.out.join("gpu-check.md"), &page)?;
    output::say(page.trim_end())?;
    match report.failures.as_slice() {
        [] => Ok(()),
        failures => Err(UserError::new(format!("checks failed: {}", failures.join("; "))).into()),
    }
}

impl GpuReport {
    /// Checks that failed. Speeds are reported and not judged, except that of the engine against the limit of
    /// the device.
    fn failures(&self) -> Vec<String> {
        let mut failures: Vec<String> = self.models.iter().flat_map(ModelCheck::failures).collect();
        // On cores the engine and the model share the device.
        if self.device != device_name(DeviceKind::Cpu) {
            failures.extend(self.engine.iter().filter_map(EngineCheck::failure));
        }
        failures
    }
}

/// As graphs name it.
fn device_name(device: DeviceKind) -> String {
    match device {
        DeviceKind::Cpu => "cpu".to_owned(),
        DeviceKind::Cuda(ordinal) => format!("cuda:{ordinal}"),
        DeviceKind::Server(server) => format!("server {server}"),
    }
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    write_whole(path, text).map_err(|error| write_error(path.display(), &error).into())
}
