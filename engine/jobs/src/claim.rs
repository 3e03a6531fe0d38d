//! What an engine has taken from a queue to do.

use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::error::QueueError;
use crate::job::Video;

/// Says what came of a commit.
pub type Committed = Box<dyn FnOnce(Result<(), QueueError>) + Send>;

/// What is to be done next for a video.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Task {
    /// It is to be cut.
    Cut,
    /// These segments of it are to be processed.
    Segments(Range<u32>),
    /// All of its segments are committed: its results are to be put where they belong.
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
    /// It is done.
    fn done(self: Box<Self>);
}

/// What of a claim a commit needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommitClaim {
    /// The job.
    pub job: u64,
    /// The number of the video in it.
    pub video: usize,
    /// The first segment that was taken.
    pub first: u32,
    /// How often it was begun since something of it was committed last.
    pub begun: u32,
    /// How often a server gave it.
    pub given: u32,
}

/// Files of segments that are to become one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilesToJoin {
    /// By segment.
    pub parts: Vec<(u32, PathBuf)>,
    /// What they become.
    pub target: PathBuf,
    /// What is written until it is whole, and then renamed; where that is not the target, its name is this engine's own.
    pub written: PathBuf,
}

impl Claim {
    /// What is to be done.
    #[must_use]
    pub fn task(&self) -> &Task {
        &self.task
    }

    /// The video as it was when this was taken.
    #[must_use]
    pub fn video(&self) -> &Video {
        &self.video
    }

    /// How often it was begun since something of it was committed last, this time included.
    #[must_use]
    pub fn begun(&self) -> u32 {
        self.begun
    }

    /// How often a server gave it, this time included.
    #[must_use]
    pub fn given(&self) -> u32 {
        self.given
    }

    /// The folder where results of its segments are staged.
    #[must_use]
    pub fn work(&self) -> &Path {
        &self.work
    }

    /// It is done.
    pub fn done(self) {
        if let Some(held) = self.held {
            held.done();
        }
    }
}
