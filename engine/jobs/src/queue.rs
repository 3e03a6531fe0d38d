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
    /// The queue in `place`, which is made where it is not there.
    ///
    /// # Errors
    /// [`QueueError`]: the folder cannot be written, the server is not there or refuses the connection, or what is there cannot be
    /// read.
    pub fn create(place: &QueuePlace, options: &ServerOptions) -> Result<Self, QueueError> {
        Self::at(place, options, true)
    }

    /// The queue in `place`.
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

    /// Where it is.
    #[must_use]
    pub fn place(&self) -> &QueuePlace {
        &self.place
    }

    /// Whether several engines work on it at once, and its server may be away.
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

    /// A server that is away is waited for no longer once `give_up` says so.
    #[cfg_attr(not(feature = "nats"), expect(unused_variables, reason = "a server's alone"))]
    pub fn set_give_up(&self, give_up: &Arc<dyn Fn() -> bool + Send + Sync>) {
        match &self.kind {
            Kind::Folder(_) => {}
            #[cfg(feature = "nats")]
            Kind::Server(queue) => queue.set_give_up(Arc::clone(give_up)),
        }
    }

    /// What its store lost when it was damaged, if it was.
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

    /// Makes this process an engine that works on it: the only one, where it is in a folder.
    ///
    /// # Errors
    /// [`QueueError::InUse`] where another one is.
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

    /// Takes a job in, and gives its id.
    ///
    /// # Errors
    /// [`QueueError::Full`], [`QueueError::Refused`], and as [`Queue::create`].
    pub fn submit(&self, submission: &Submission, now_ms: u64) -> Result<u64, QueueError> {
        either!(self, queue => queue.submit(submission, now_ms))
    }

    /// Cancels a job: what is committed stays, and nothing more of it is done. Says whether it was open.
    ///
    /// # Errors
    /// [`QueueError::Unknown`], and as [`Queue::create`].
    pub fn cancel(&self, job: u64, now_ms: u64) -> Result<bool, QueueError> {
        either!(self, queue => queue.cancel(job, now_ms))
    }

    /// How a video was cut; `None` where it was not yet.
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

    /// Takes what is to be done next for a video; `None`: nothing, or other engines do it. Where one engine is to go through all of
    /// it, it is taken as a `whole`.
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

    /// Commits the results of a segment, whole: first they are made sure to be on the disk, then the segment is recorded. Of
    /// several engines that have the same segment, one commits it, and the others succeed without. `committed` hears what came of it,
    /// at once or, where a server is to record it, later.
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

    /// Files of a video whose segments are all committed that are to become one.
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

    /// A video ended, and its job with its last video. Lines that are committed get where they belong, and what was staged of it is
    /// removed. Where it has ended before, nothing happens.
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
