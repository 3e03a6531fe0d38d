//! A queue, wherever it is.

use std::path::Path;
use std::sync::Arc;

use crate::claim::{Claim, CommitClaim, Committed, FilesToJoin, Task};
use crate::error::QueueError;
use crate::folder::{EngineLock, FolderQueue};
use crate::job::{FileIdentity, JobView, OutputForm, Segment, StagedOutput, Submission, Video, VideoState};
use crate::place::{QueuePlace, ServerOptions};
#[cfg(feature = "nats")]
use crate::server::ServerQueue;

/// A queue. Any number of programs may have one of the same place.
#[derive(Debug)]
pub struct Queue {
    place: QueuePlace,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Folder(FolderQueue),
    #[cfg(feature = "nats")]
    Server(ServerQueue),
}

/// Calls the same of either kind.
macro_rules! either {
    ($self:ident, $queue:ident => $call:expr) => {
        match &$self.kind {
            Kind::Folder($queue) => $call,
            #[cfg(feature = "nats")]
            Kind::Server($queue) => $call,
        }
    };
}

impl Queue {
    /// Opens the queue in `place`, and creates it if it is missing.
    ///
    /// # Errors
    /// [`QueueError`] if the folder cannot be written, the server is unavailable or refuses the connection,
    /// or the contents cannot be read.
    pub fn create(place: &QueuePlace, options: &ServerOptions) -> Result<Self, QueueError> {
        Self::at(place, options, true)
    }

    /// Opens the queue in `place`.
    ///
    /// # Errors
    /// [`QueueError::Missing`] where there is none, and as [`Queue::create`].
    pub fn open(place: &QueuePlace, options: &ServerOptions) -> Result<Self, QueueError> {
        Self::at(place, options, false)
    }

    fn at(place: &QueuePlace, options: &ServerOptions, creates: bool) -> Result<Self, QueueError> {
        let kind = match place {
            QueuePlace::Folder(folder) if creates => Kind::Folder(FolderQueue::create(folder)?),
            QueuePlace::Folder(folder) => Kind::Folder(FolderQueue::open(folder)?),
            #[cfg(feature = "nats")]
            QueuePlace::Server(server) => Kind::Server(ServerQueue::open(server, options, creates)?),
            #[cfg(not(feature = "nats"))]
            QueuePlace::Server(server) => {
                let _ = options;
                return Err(QueueError::NotBuilt(server.to_string()));
            }
        };
        Ok(Self {
            place: place.clone(),
            kind,
        })
    }

    /// Location of the queue.
    #[must_use]
    pub fn place(&self) -> &QueuePlace {
        &self.place
    }

    /// True if several engines may use the queue; its server may then be unavailable at times.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        matches!(self.place, QueuePlace::Server(_))
    }

    /// Results of segments of a queue on a server are staged in `root`, which all its engines have under this name.
    #[cfg_attr(not(feature = "nats"), expect(unused_variables, reason = "a server's alone"))]
    pub fn set_work_root(&self, root: &Path) {
        match &self.kind {
            Kind::Folder(_) => {}
            #[cfg(feature = "nats")]
            Kind::Server(queue) => queue.set_work_root(root),
        }
    }

    /// Sets a condition under which operations stop waiting for a server that is unavailable.
    #[cfg_attr(not(feature = "nats"), expect(unused_variables, reason = "a server's alone"))]
    pub fn set_give_up(&self, give_up: &Arc<dyn Fn() -> bool + Send + Sync>) {
        match &self.kind {
            Kind::Folder(_) => {}
            #[cfg(feature = "nats")]
            Kind::Server(queue) => queue.set_give_up(Arc::clone(give_up)),
        }
    }

    /// Rows that were lost when the store was damaged, as text; `None` if it never was, and for servers.
    ///
    /// # Errors
    /// As [`Queue::create`].
    pub fn loss(&self) -> Result<Option<String>, QueueError> {
        match &self.kind {
            Kind::Folder(queue) => queue.loss(),
            #[cfg(feature = "nats")]
            Kind::Server(_) => Ok(None),
        }
    }

    /// Locks the queue for this engine. A queue in a folder allows only one engine.
    ///
    /// # Errors
    /// [`QueueError::InUse`] if another engine holds the lock.
    pub fn lock_for_engine(&self) -> Result<EngineLock, QueueError> {
        match &self.kind {
            Kind::Folder(queue) => queue.lock_for_engine(),
            #[cfg(feature = "nats")]
            Kind::Server(queue) => queue.sweep().map(|()| EngineLock::none()),
        }
    }

    /// All jobs, in the order of their submission.
    ///
    /// # Errors
    /// As [`Queue::create`].
    pub fn jobs(&self) -> Result<Vec<JobView>, QueueError> {
        either!(self, queue => queue.jobs())
    }

    /// Adds a job and returns its number.
    ///
    /// # Errors
    /// [`QueueError::Full`], [`QueueError::Refused`], and as [`Queue::create`].
    pub fn submit(&self, submission: &Submission, now_ms: u64) -> Result<u64, QueueError> {
        either!(self, queue => queue.submit(submission, now_ms))
    }

    /// Cancels a job: committed results stay, and no further segment is processed. Returns true if the job
    /// was open.
    ///
    /// # Errors
    /// [`QueueError::Unknown`], and as [`Queue::create`].
    pub fn cancel(&self, job: u64, now_ms: u64) -> Result<bool, QueueError> {
        either!(self, queue => queue.cancel(job, now_ms))
    }

    /// Segments of a video; `None` before it was cut.
    ///
    /// # Errors
    /// As [`Queue::create`].
    pub fn segments(&self, job: u64, video: usize) -> Result<Option<Vec<Segment>>, QueueError> {
        either!(self, queue => queue.segments(job, video))
    }

    /// Records how a video is cut. Of several engines, the first one does.
    ///
    /// # Errors
    /// As [`Queue::create`].
    pub fn record_cut(
        &self,
        key: (u64, usize),
        file: FileIdentity,
        segments: &[Segment],
        truncation: Option<String>,
    ) -> Result<Video, QueueError> {
        either!(self, queue => queue.record_cut(key, file, segments, truncation))
    }

    /// Takes the next task of a video; `None` if there is none, or if other engines have it. With `whole`,
    /// one engine takes all segments of the video.
    ///
    /// # Errors
    /// [`QueueError::OutputChanged`], and as [`Queue::create`].
    #[cfg_attr(not(feature = "nats"), expect(unused_variables, reason = "a server's alone"))]
    pub fn take(&self, job: u64, video: usize, whole: bool) -> Result<Option<Claim>, QueueError> {
        match &self.kind {
            Kind::Folder(queue) => take_of_folder(queue, job, video).map(Some),
            #[cfg(feature = "nats")]
            Kind::Server(queue) => queue.take(job, video, whole),
        }
    }

    /// Commits the complete results of a segment: first they are synced to the disk, then the segment is
    /// recorded. If several engines have processed the same segment, one of them commits it, and the others
    /// succeed without effect. The result is passed to `committed`, at once for a folder, or later when a
    /// server has recorded it.
    ///
    /// It fails by [`QueueError::OutOfOrder`], [`QueueError::OutputChanged`], and as [`Queue::create`].
    pub fn commit(
        &self,
        claim: &CommitClaim,
        segment: u32,
        frames: u64,
        is_late: bool,
        staged: &[StagedOutput],
        committed: Committed,
    ) {
        let key = (claim.job, claim.video, segment);
        match &self.kind {
            Kind::Folder(queue) => committed(queue.commit(key, frames, is_late, staged)),
            #[cfg(feature = "nats")]
            Kind::Server(queue) => {
                let first = segment == claim.first;
                let repeated = if first {
                    u64::from(claim.begun.saturating_sub(1))
                } else {
                    0
                };
                queue.commit(key, frames, is_late, (repeated, claim.given), staged, committed);
            }
        }
    }

    /// Files of a video that are to be joined, once all its segments are committed.
    ///
    /// # Errors
    /// As [`Queue::create`].
    pub fn files(&self, job: u64, video: usize) -> Result<Vec<FilesToJoin>, QueueError> {
        match &self.kind {
            Kind::Folder(queue) => files_of_folder(queue, job, video),
            #[cfg(feature = "nats")]
            Kind::Server(queue) => queue.files(job, video),
        }
    }

    /// Records that a video ended, and its job with the last video. Committed lines are appended to their
    /// outputs, and staged files are removed. Without effect if the video ended before.
    ///
    /// # Errors
    /// As [`Queue::create`].
    pub fn end(&self, job: u64, video: usize, state: VideoState, now_ms: u64) -> Result<(), QueueError> {
        either!(self, queue => queue.end(job, video, state, now_ms))
    }
}

fn take_of_folder(queue: &FolderQueue, job: u64, video: usize) -> Result<Claim, QueueError> {
    let work = queue.work_folder(job, video);
    let claim = |task: Task, video: Video| Claim {
        task,
        begun: video.begun,
        given: 0,
        video,
        work,
        held: None,
    };
    let before = queue.video(job, video)?;
    if before.file.is_none() {
        return Ok(claim(Task::Cut, before));
    }
    let row = queue.begin(job, video)?;
    let task = if row.committed < row.segments {
        Task::Segments(row.committed..row.segments)
    } else {
        Task::Finish
    };
    Ok(claim(task, row))
}

fn files_of_folder(queue: &FolderQueue, job: u64, video: usize) -> Result<Vec<FilesToJoin>, QueueError> {
    let row = queue.video(job, video)?;
    let work = queue.work_folder(job, video);
    let outputs = row.outputs.iter();
    let files = outputs.filter(|(_, output)| output.form == OutputForm::Files);
    Ok(files
        .map(|(sink, output)| {
            let part = |segment: u32| (segment, work.join(sink).join(format!("{segment:06}.mp4")));
            FilesToJoin {
                parts: (0..row.segments)
                    .map(part)
                    .filter(|(_, part)| part.exists())
                    .collect(),
                target: output.target.clone(),
                written: output.target.clone(),
            }
        })
        .collect())
}
