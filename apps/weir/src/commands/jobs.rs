//! `weir jobs`: the jobs of a queue, and how far each has come. It works beside an engine.

use serde_json::json;
use weir_jobs::{JobState, JobView, Queue, QueuePlace, VideoState};

use crate::args::Jobs;
use crate::jobs::{mendable, now_ms, server_options};
use crate::output;
use crate::printable::line;
use crate::report::plain_table;

/// Lists the jobs, or cancels one.
///
/// # Errors
/// A queue or a job that is not there.
pub(crate) fn jobs(args: &Jobs) -> anyhow::Result<()> {
    let place = QueuePlace::of(&args.queue).map_err(mendable)?;
    let queue = Queue::open(&place, &server_options()).map_err(mendable)?;
    if let Some(job) = args.cancel {
        let cancelled = queue.cancel(job, now_ms()).map_err(mendable)?;
        let what = if cancelled {
            "cancelled"
        } else {
            "has ended before"
        };
        return output::say(&format!("job {job}: {what}"));
    }
    let jobs = queue.jobs().map_err(mendable)?;
    let loss = queue.loss().map_err(mendable)?;
    if args.json {
        let jobs: Vec<_> = jobs
            .iter()
            .map(|view| json!({ "state": view.state(), "job": view }))
            .collect();
        let all = json!({ "jobs": jobs, "lost": loss });
        return output::say(&serde_json::to_string_pretty(&all)?);
    }
    if let Some(loss) = loss {
        output::remark(&loss);
    }
    output::say(&table(&jobs))
}

fn table(jobs: &[JobView]) -> String {
    if jobs.is_empty() {
        return "no jobs".to_owned();
    }
    let mut table = plain_table(&["job", "state", "videos", "segments", "frames", "late", "reason"]);
    for view in jobs {
        let ended = view
            .progress
            .iter()
            .filter(|video| video.state != VideoState::Open)
            .count();
        let sum = |count: fn(&weir_jobs::Video) -> u64| view.progress.iter().map(count).sum::<u64>();
        let segments = sum(|video| u64::from(video.segments));
        let reason = view.progress.iter().find_map(|video| match &video.state {
            VideoState::Failed { reason } => Some(line(reason)),
            VideoState::Open | VideoState::Done => None,
        });
        let state = match view.state() {
            JobState::Waiting => "waiting",
            JobState::Begun => "begun",
            JobState::Done => "done",
            JobState::Failed => "failed",
            JobState::Cancelled => "cancelled",
        };
        table.add_row([
            view.job.id.to_string(),
            state.to_owned(),
            format!("{ended}/{}", view.job.videos.len()),
            format!("{}/{segments}", sum(|video| u64::from(video.committed))),
            sum(|video| video.frames).to_string(),
            sum(|video| video.late_frames).to_string(),
            reason.map(|reason| reason.to_string()).unwrap_or_default(),
        ]);
    }
    table.trim_fmt()
}
