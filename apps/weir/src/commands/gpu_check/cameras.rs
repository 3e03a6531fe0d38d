//! Finds the number of cameras that a device sustains: the clip is played as that many live cameras, more and
//! more of them, until fewer than 99 % of the frames are in time.

use std::fmt::Write as _;

use serde::Serialize;
use weir_types::Span;

use super::engine::run;
use super::models::ModelCheck;
use crate::args::GpuCheck;
use crate::output;
use crate::settings::Settings;
use crate::zoo::Zoo;

/// Number of cameras in the first run.
const FIRST: u32 = 16;
/// Share of frames that must be in time; the first batches are late because sessions open then.
const ALL_IN_TIME: f64 = 0.99;
/// Relative gap between the largest number that works and the smallest that fails, at which the search stops.
const NEAR: f64 = 0.1;
const SLO: &str = "500ms";

/// Runs with cameras.
#[derive(Debug, Serialize)]
pub(super) struct CameraCheck {
    pub(super) model: String,
    pub(super) clip: String,
    /// The most cameras whose frames were all in time; 0 where the first number was too many.
    pub(super) held: u32,
    /// The same over the session's items a second divided by 30.
    pub(super) share_of_limit: f64,
    pub(super) runs: Vec<CameraRun>,
}

/// One number of cameras.
#[derive(Debug, Clone, Serialize)]
pub(super) struct CameraRun {
    pub(super) cameras: u32,
    /// Share of frames that were delivered in time.
    pub(super) in_time: f64,
    pub(super) goodput_fps: f64,
    pub(super) invalid_rate: f64,
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
    /// Processor cores that decoding took.
    pub(super) decoding_cores: f64,
}

/// Runs the fastest detector on more and more cameras; `None` without a clip or a detector.
///
/// # Errors
/// A graph that cannot be run.
pub(super) fn check(
    args: &GpuCheck,
    models: &[ModelCheck],
    settings: &Settings,
    zoo: &Zoo,
) -> anyhow::Result<Option<CameraCheck>> {
    let detectors = models
        .iter()
        .filter(|model| model.error.is_none() && model.is_detector);
    let fastest = detectors.max_by(|a, b| a.best_items_per_second.total_cmp(&b.best_items_per_second));
    let (Some(model), Some(clip)) = (fastest, &args.clip) else {
        return Ok(None);
    };
    let clip = std::path::absolute(clip)?.to_string_lossy().into_owned();
    let mut runs: Vec<CameraRun> = Vec::new();
    let (mut held, mut too_many) = (0, None);
    let mut next = Some(FIRST.min(args.cameras));
    while let Some(cameras) = next {
        output::remark(&format!("{cameras} cameras"));
        let mut sources = String::new();
        for camera in 0..cameras {
            let _ = writeln!(
                sources,
                "[sources.c{camera}]\nuri = {clip:?}\nmode = \"live\"\nloop = true"
            );
        }
        let duration = Some(Span::from_secs(args.seconds.into()));
        let report = run(args, model, &sources, (SLO, duration), (settings, zoo))?;
        let seconds = report.run.duration_s.max(1e-6);
        let in_time = report.requests.delivered as f64 / (report.requests.arrived as f64).max(1.0);
        runs.push(CameraRun {
            cameras,
            in_time,
            goodput_fps: report.goodput_rps,
            invalid_rate: report.invalid_rate,
            p50_ms: report.latency_ms.p50,
            p99_ms: report.latency_ms.p99,
            decoding_cores: report
                .processor
                .map_or(0.0, |processor| processor.decoding_s / seconds),
        });
        if in_time >= ALL_IN_TIME {
            held = held.max(cameras);
        } else {
            too_many = Some(too_many.map_or(cameras, |most: u32| most.min(cameras)));
        }
        next = next_cameras(held, too_many, args.cameras);
    }
    let limit = model.best_items_per_second / 30.0;
    Ok(Some(CameraCheck {
        model: model.name.clone(),
        clip,
        held,
        share_of_limit: f64::from(held) / limit.max(1e-6),
        runs,
    }))
}

/// The number to try after `held` were held and `too_many` were not: twice as many, then the middle, until they are near.
fn next_cameras(held: u32, too_many: Option<u32>, max: u32) -> Option<u32> {
    match too_many {
        None => (held < max).then(|| (held * 2).min(max)),
        Some(_) if held == 0 => None,
        Some(most) => {
            let apart = most - held;
            (f64::from(apart) > (NEAR * f64::from(held)).max(1.0)).then(|| held + apart / 2)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_double_until_one_is_too_many_and_then_halve_the_gap() {
        assert_eq!(next_cameras(16, None, 512), Some(32));
        assert_eq!(next_cameras(400, None, 512), Some(512));
        assert_eq!(next_cameras(512, None, 512), None);
        assert_eq!(next_cameras(64, Some(128), 512), Some(96));
        assert_eq!(next_cameras(120, Some(128), 512), None);
        assert_eq!(next_cameras(0, Some(16), 512), None, "the first was too many");
    }
}
