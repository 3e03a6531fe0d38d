//! Jobs, their videos, and how far each has come.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::error::QueueError;

/// Jobs that are not done yet.
pub const MAX_OPEN_JOBS: usize = 1_000;

/// Videos of a job.
pub const MAX_JOB_VIDEOS: usize = 1_000;

/// Jobs that ended and are still listed; the oldest are forgotten first.
pub(crate) const MAX_ENDED_JOBS: usize = 1_000;

/// What is submitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Submission {
    /// The graph, an absolute path.
    pub graph: String,
    /// Of the bytes of the graph: another graph gives other results.
    pub digest: String,
    /// The source of the graph that takes the videos.
    pub source: String,
    /// Absolute paths.
    pub videos: Vec<String>,
    /// Time from now until it should be done, in milliseconds.
    pub within_ms: Option<u64>,
}

impl Submission {
    /// Whether a queue takes it.
    pub(crate) fn check(&self) -> Result<(), QueueError> {
        if self.videos.is_empty() {
            return Err(QueueError::Refused("a job needs at least one video".to_owned()));
        }
        if self.videos.len() > MAX_JOB_VIDEOS {
            let words = format!("a job has {MAX_JOB_VIDEOS} videos at most: make several of it");
            return Err(QueueError::Refused(words));
        }
        if self.within_ms == Some(0) {
            let words =
                "the objective of the job is over before it begins: give it some time, such as --within 10m";
            return Err(QueueError::Refused(words.to_owned()));
        }
        Ok(())
    }

    /// The job that it becomes.
    pub(crate) fn job(&self, id: u64, now_ms: u64) -> Job {
        Job {
            id,
            graph: self.graph.clone(),
            digest: self.digest.clone(),
            source: self.source.clone(),
            submitted_ms: now_ms,
            deadline_ms: self.within_ms.map(|within| now_ms.saturating_add(within)),
            videos: self.videos.clone(),
            cancelled: false,
            finished_ms: None,
        }
    }
}

/// A job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// From 1, in the order of submission.
    pub id: u64,
    /// The graph, an absolute path.
    pub graph: String,
    /// Of the bytes of the graph when it was submitted.
    pub digest: String,
    /// The source of the graph that takes its videos.
    pub source: String,
    /// When it was submitted.
    pub submitted_ms: u64,
    /// When it should be done; `None`: the source says how long it may take.
    pub deadline_ms: Option<u64>,
    /// Absolute paths of its videos.
    pub videos: Vec<String>,
    /// Whether it was cancelled.
    pub cancelled: bool,
    /// When the last of its videos ended.
    pub finished_ms: Option<u64>,
}

/// What became of a video.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "state")]
pub enum VideoState {
    /// It has not begun, or goes on.
    #[default]
    Open,
    /// All of its segments are committed.
    Done,
    /// It cannot be processed to its end; what was committed stays.
    Failed {
        /// Why.
        reason: String,
    },
}

/// How far a video has come.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Video {
    /// What became of it.
    #[serde(flatten)]
    pub state: VideoState,
    /// The file when it was cut; `None` before that.
    pub file: Option<FileIdentity>,
    /// Segments that it is cut into.
    pub segments: u32,
    /// Segments that are committed.
    pub committed: u32,
    /// Frames in committed segments.
    pub frames: u64,
    /// Those of them that were committed after the deadline of the job.
    pub late_frames: u64,
    /// How often it was begun since a segment was committed last.
    pub begun: u32,
    /// How often a segment was processed again because a run had not committed it.
    pub repeated: u64,
    /// Why it ends earlier than its container says, if so.
    pub truncation: Option<String>,
    /// Where results go, by sink.
    pub outputs: BTreeMap<String, Output>,
    /// When it ended; of a queue on a server alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_ms: Option<u64>,
    /// Results of the last committed segment that may not be in their place yet.
    #[serde(default)]
    pub(crate) pending: Vec<Pending>,
}

/// A file as it was: another one of its name is another video.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileIdentity {
    /// Its size.
    pub bytes: u64,
    /// When it was written last.
    pub modified_ms: u64,
}

/// Where a segment begins.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Segment {
    /// Index of its first frame in the video, in the order of presentation.
    pub first_frame: u64,
    /// Media time of that frame in milliseconds.
    pub pts_ms: f64,
}

/// How the results of segments become those of the video.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OutputForm {
    /// They are appended to a file, one after the other.
    Lines,
    /// They stay files, which become one when the video is done.
    Files,
}

/// A file of results of a video.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Output {
    /// How results get there.
    pub form: OutputForm,
    /// The file.
    pub target: PathBuf,
    /// Bytes that it has with all that is committed; of [`OutputForm::Lines`] alone.
    pub bytes: u64,
}

/// The results of a sink for one segment, complete in a file of `work`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StagedOutput {
    /// The sink.
    pub sink: String,
    /// How they get where they belong.
    pub form: OutputForm,
    /// Where they are.
    pub file: PathBuf,
    /// Where they belong.
    pub target: PathBuf,
}

/// Committed results that are to be appended: `file` to the first `base` bytes of `target`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Pending {
    pub(crate) file: PathBuf,
    pub(crate) target: PathBuf,
    pub(crate) base: u64,
    pub(crate) bytes: u64,
}

/// What became of a job, by what became of its videos.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum JobState {
    /// No segment of it is committed yet.
    Waiting,
    /// Some are.
    Begun,
    /// All videos are done.
    Done,
    /// All videos ended, and some of them failed.
    Failed,
    /// It was cancelled.
    Cancelled,
}

/// A job with its videos.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct JobView {
    /// The job.
    #[serde(flatten)]
    pub job: Job,
    /// Its videos, in its order.
    pub progress: Vec<Video>,
}

impl JobView {
    /// What became of it.
    #[must_use]
    pub fn state(&self) -> JobState {
        let ended = |video: &Video| video.state != VideoState::Open;
        if self.job.cancelled {
            JobState::Cancelled
        } else if !self.progress.iter().all(ended) {
            let begun = self
                .progress
                .iter()
                .any(|video| video.committed > 0 || ended(video));
            if begun { JobState::Begun } else { JobState::Waiting }
        } else if self.progress.iter().all(|video| video.state == VideoState::Done) {
            JobState::Done
        } else {
            JobState::Failed
        }
    }

    /// Whether something of it is still to be done.
    #[must_use]
    pub fn is_open(&self) -> bool {
        matches!(self.state(), JobState::Waiting | JobState::Begun)
    }

    /// When it should be done, where the source allows `slo_ms`.
    #[must_use]
    pub fn deadline_ms(&self, slo_ms: u64) -> u64 {
        let by_source = self.job.submitted_ms.saturating_add(slo_ms);
        self.job.deadline_ms.unwrap_or(by_source)
    }
}
