//! A queue of archive jobs that survives a crash of the engine or of the machine.
//!
//! A [`Job`] has videos, and each video is cut into segments at key frames. The complete results of a segment
//! are committed once ([`Queue::commit`]); segments without a commit are processed again.
//!
//! A [`FolderQueue`] serves one engine at a time, and one folder holds all of its state: the store
//! (`queue.redb` and its copy), the locks, and `work`, where results of segments are staged. A queue on a
//! NATS server serves any number of engines (feature `nats`).
//!
//! The crate decodes nothing and knows no graph: times are milliseconds since 1970 (UTC) and are arguments.

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
