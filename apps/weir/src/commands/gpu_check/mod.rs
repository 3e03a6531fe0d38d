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
use crate::error::UserError;
use crate::gpu::facts::GpuFacts;
use crate::output;
use crate::settings::Settings;
use crate::whole_file::write_whole;
use crate::zoo::Zoo;
use cameras::CameraCheck;
use engine::EngineCheck;
use models::ModelCheck;

/// All that was found.
#[derive(Debug, Serialize)]
pub(super) struct GpuReport {
    version: &'static str,
    device: String,
    facts: GpuFacts,
    models: Vec<ModelCheck>,
    engine: Vec<EngineCheck>,
    /// `None` where there was no clip.
    cameras: Option<CameraCheck>,
    /// What does not hold, in words.
    failures: Vec<String>,
}

/// Runs all checks, and writes what was found.
///
/// # Errors
/// Something does not hold, or what was found cannot be written.
pub(super) fn gpu_check(args: &GpuCheck, settings: &Settings, zoo: &Zoo) -> anyhow::Result<()> {
    let facts = GpuFacts::gather();
    if matches!(args.device, DeviceKind::Cuda(_))
        && let Some(problem) = facts.problems().first()
    {
        return output::say(&format!("gpu-check: nothing was checked: {problem}"));
    }
    std::fs::create_dir_all(&args.out)
        .map_err(|error| UserError::new(format!("cannot make {}: {error}", args.out.display())))?;
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
        failures => Err(UserError::new(format!("does not hold: {}", failures.join("; "))).into()),
    }
}

impl GpuReport {
    /// What does not hold of what every GPU is to show. Speeds are reported, not judged, but for the engine beside the
    /// limit of the device.
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
    write_whole(path, text)
        .map_err(|error| UserError::new(format!("cannot write {}: {error}", path.display())).into())
}
