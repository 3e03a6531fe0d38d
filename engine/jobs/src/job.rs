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

/// Job as it is submitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Submission {
    /// Absolute path of the graph.
    pub graph: String,
    /// Digest of the graph's bytes, since another graph would give other results.
    pub digest: String,
    /// Source of the graph that reads the videos.
    pub source: String,
    /// Absolute paths of the videos.
    pub videos: Vec<String>,
    /// Time in milliseconds from now until the job should be done.
    pub within_ms: Option<u64>,
}

impl Submission {
    /// Checks that a queue can accept it.
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

/// Job as the queue stores it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// Number of the job, from 1, in the order of submission.
    pub id: u64,
    /// Absolute path of the graph.
    pub graph: String,
    /// Digest of the graph's bytes at submission.
    pub digest: String,
    /// Source of the graph that reads the videos.
    pub source: String,
    /// Time of submission, in milliseconds since the Unix epoch.
    pub submitted_ms: u64,
    /// Deadline in milliseconds since the Unix epoch; `None`: the time limit of the source applies.
    pub deadline_ms: Option<u64>,
    /// Absolute paths of its videos.
    pub videos: Vec<String>,
    /// True if the job was cancelled.
    pub cancelled: bool,
    /// Time at which its last video ended, in milliseconds since the Unix epoch.
    pub finished_ms: Option<u64>,
}

/// State of a video.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "state")]
pub enum VideoState {
    /// The video has not started or is in progress.
    #[default]
    Open,
    /// All segments are committed.
    Done,
    /// The video could not be processed to its end; committed results stay.
    Failed {
        /// Reason, for users.
        reason: String,
    },
}

/// Progress of a video.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Video {
    /// State, with a reason if it failed.
    #[serde(flatten)]
    pub state: VideoState,
    /// Size and time of the file when it was cut; `None` before that.
    pub file: Option<FileIdentity>,
    /// Number of segments into which it was cut.
    pub segments: u32,
    /// Number of committed segments.
    pub committed: u32,
    /// Number of frames in committed segments.
    pub frames: u64,
    /// Number of frames that were committed after the deadline of the job.
    pub late_frames: u64,
    /// Number of starts since a segment was committed last.
    pub begun: u32,
    /// Number of times that a segment was processed again because an earlier run had not committed it.
    pub repeated: u64,
    /// Reason why the video ends earlier than its container announces; `None` if it does not.
    pub truncation: Option<String>,
    /// Output files, by sink.
    pub outputs: BTreeMap<String, Output>,
    /// Time at which it ended, in milliseconds since the Unix epoch; only for queues on a server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_ms: Option<u64>,
    /// Results of the last committed segment that may not have reached their target yet.
    #[serde(default)]
    pub(crate) pending: Vec<Pending>,
}

/// A file as it was: another one of its name is another video.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileIdentity {
    /// Size of the file in bytes.
    pub bytes: u64,
    /// Time of the last modification, in milliseconds since the Unix epoch.
    pub modified_ms: u64,
}

/// Start of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Segment {
    /// Index of its first frame in the video, in the order of presentation.
    pub first_frame: u64,
    /// Media time of that frame in milliseconds.
    pub pts_ms: f64,
}

/// Form in which results of segments become the result of a video.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OutputForm {
    /// Results are appended to one file, in order.
    Lines,
    /// Results stay files, which are joined when the video is done.
    Files,
}

/// A file of results of a video.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Output {
    /// Form in which results are joined.
    pub form: OutputForm,
    /// Path of the output file.
    pub target: PathBuf,
    /// Length in bytes with everything committed so far; only for [`OutputForm::Lines`].
    pub bytes: u64,
}

/// The results of a sink for one segment, complete in a file of `work`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StagedOutput {
    /// Name of the sink that wrote it.
    pub sink: String,
    /// Form in which results are joined.
    pub form: OutputForm,
    /// Path of the staged file.
    pub file: PathBuf,
    /// Path of the output file.
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

/// State of a job, derived from its videos.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum JobState {
    /// No segment is committed yet.
    Waiting,
    /// Some segments are committed.
    Begun,
    /// All videos are done.
    Done,
    /// All videos ended, and at least one failed.
    Failed,
    /// The job was cancelled.
    Cancelled,
}

/// A job with its videos.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct JobView {
    /// Job as it was submitted.
    #[serde(flatten)]
    pub job: Job,
    /// Progress of its videos, in the order of the job.
    pub progress: Vec<Video>,
}

impl JobView {
    /// State of the job, derived from its videos.
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

    /// True if a video of the job is still to be processed.
    #[must_use]
    pub fn is_open(&self) -> bool {
        matches!(self.state(), JobState::Waiting | JobState::Begun)
    }

    /// Deadline of the job, if the source allows `slo_ms` milliseconds; in milliseconds since the Unix epoch.
    #[must_use]
    pub fn deadline_ms(&self, slo_ms: u64) -> u64 {
        let by_source = self.job.submitted_ms.saturating_add(slo_ms);
        self.job.deadline_ms.unwrap_or(by_source)
    }
}
