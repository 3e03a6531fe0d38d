//! A queue of archive jobs that survives a crash of the engine or of the machine.
//!
//! A [`Job`] has videos, and each video is cut into segments at key frames. The results of a segment are committed once,
//! whole and in order ([`Queue::commit`]): what was not committed is processed again. Everything that is known of a queue
//! lies in one folder: the store (`queue.redb` and its copy), the locks, and `work`, where results of segments are staged.
//!
//! It reads no clock, decodes nothing and knows no graph: times are milliseconds since 1970 (UTC) and are arguments.

mod error;
mod job;
mod output;
mod queue;
mod segments;
mod store;

pub use error::QueueError;
pub use job::{
    FileIdentity, Job, JobState, JobView, Output, OutputForm, Segment, StagedOutput, Submission, Video,
    VideoState,
};
pub use queue::{EngineLock, MAX_JOB_VIDEOS, MAX_OPEN_JOBS, Queue};
pub use segments::{IndexedPicture, cut};
