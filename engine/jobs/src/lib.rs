//! A queue of archive jobs that survives a crash of the engine or of the machine.
//!
//! A [`Job`] has videos, and each video is cut into segments at key frames. The results of a segment are committed once and whole
//! ([`Queue::commit`]): what was not committed is processed again.
//!
//! A [`FolderQueue`] has one engine at a time, and everything that is known of it lies in one folder: the store (`queue.redb` and its
//! copy), the locks, and `work`, where results of segments are staged. A queue on a server of NATS has any number of engines (feature
//! `nats`).
//!
//! It decodes nothing and knows no graph: times are milliseconds since 1970 (UTC) and are arguments.

mod claim;
mod error;
mod folder;
mod job;
mod output;
mod place;
mod queue;
mod segments;
#[cfg(feature = "nats")]
mod server;
mod store;

pub use claim::{Claim, CommitClaim, Committed, FilesToJoin, Task};
pub use error::QueueError;
pub use folder::{EngineLock, FolderQueue};
pub use job::{
    FileIdentity, Job, JobState, JobView, MAX_JOB_VIDEOS, MAX_OPEN_JOBS, Output, OutputForm, Segment,
    StagedOutput, Submission, Video, VideoState,
};
pub use place::{QueuePlace, ServerOptions, ServerPlace};
pub use queue::Queue;
pub use segments::{IndexedPicture, cut};
