//! Claims: work that an engine has taken from a queue.

use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::error::QueueError;
use crate::job::Video;

/// Callback that receives the result of a commit, once.
pub type Committed = Box<dyn FnOnce(Result<(), QueueError>) + Send>;

/// Next task for a video.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Task {
    /// Cut the video into segments.
    Cut,
    /// Process these segments.
    Segments(Range<u32>),
    /// Move the results to their targets; all segments are committed.
    Finish,
}

/// Something that this engine has taken. A server gives it to another engine once it is dropped.
#[derive(Debug)]
pub struct Claim {
    pub(crate) task: Task,
    pub(crate) video: Video,
    pub(crate) begun: u32,
    pub(crate) given: u32,
    pub(crate) work: PathBuf,
    pub(crate) held: Option<Box<dyn Hold>>,
}

/// Keeps something for this engine until it is dropped.
pub(crate) trait Hold: std::fmt::Debug + Send {
    /// Marks the task as done, so that no other engine gets it.
    fn done(self: Box<Self>);
}

/// Part of a claim that a commit needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommitClaim {
    /// Number of the job.
    pub job: u64,
    /// Index of the video within the job.
    pub video: usize,
    /// First segment of the claim.
    pub first: u32,
    /// Number of starts since a segment of the video was committed last.
    pub begun: u32,
    /// Number of times that a server delivered the task.
    pub given: u32,
}

/// Files of segments that are to become one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilesToJoin {
    /// Staged file of each segment: `(segment, path)`.
    pub parts: Vec<(u32, PathBuf)>,
    /// File that the parts form together.
    pub target: PathBuf,
    /// Temporary file, which is renamed to the target when it is complete. If it differs from the target, its
    /// name is unique to this engine.
    pub written: PathBuf,
}

impl Claim {
    /// Task of the claim.
    #[must_use]
    pub fn task(&self) -> &Task {
        &self.task
    }

    /// The video as it was when this was taken.
    #[must_use]
    pub fn video(&self) -> &Video {
        &self.video
    }

    /// Number of starts since a segment of the video was committed last, including this one.
    #[must_use]
    pub fn begun(&self) -> u32 {
        self.begun
    }

    /// Number of times that a server delivered the task, including this one.
    #[must_use]
    pub fn given(&self) -> u32 {
        self.given
    }

    /// The folder where results of its segments are staged.
    #[must_use]
    pub fn work(&self) -> &Path {
        &self.work
    }

    /// Marks the task as done, so that no other engine gets it.
    pub fn done(self) {
        if let Some(held) = self.held {
            held.done();
        }
    }
}
