//! Progress of job streams: the frames of their sources, and the results of each sink by segment. A segment
//! is committed when all sinks have its complete results.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use weir_jobs::{Claim, CommitClaim, Output, Queue, StagedOutput};

use super::feeder::now_ms;

/// A video of a job, or some segments of it, while they are processed.
pub(super) struct JobStream {
    pub(super) spec: StreamSpec,
    /// The first segment that is to be committed.
    pub(super) committed: u32,
    /// The one after the last.
    pub(super) until: u32,
    /// Outputs that earlier runs chose, by sink.
    pub(super) outputs: BTreeMap<String, Output>,
    /// Folder for results of segments.
    pub(super) work: PathBuf,
    commits: CommitClaim,
    /// Claim on the video in the queue, until the video is done or given back.
    claim: Mutex<Option<Claim>>,
    progress: Mutex<Progress>,
    changed: Condvar,
}

#[derive(Default)]
struct Progress {
    /// Frames that its source gave.
    given: u64,
    /// End of the source, with the reason if it ended early; `None` while it runs.
    ended: Option<Result<(), String>>,
    /// Deliveries and drops by sink.
    seen: BTreeMap<String, u64>,
    /// By segment and sink: results, and how many frames.
    staged: BTreeMap<u32, BTreeMap<String, (Option<StagedOutput>, u64)>>,
    /// Sinks that have nothing more of it.
    removed: u32,
    committed: u32,
    /// Segments that the queue was asked to commit, and has not yet.
    committing: u32,
    /// The reason why no more segments are committed in this run, if there is one.
    problem: Option<Problem>,
}

/// The reason why a stream is not processed to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Problem {
    /// A frame, or the source: it is tried again some times.
    Video(String),
    /// Results cannot be written: no video can go on.
    Storage(String),
}

/// State of a job stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Standing {
    /// The source has frames left, or a sink has not seen all of them.
    Running,
    /// Its source has ended and all sinks have seen all of it.
    Complete,
    /// The stream cannot be completed, for this reason.
    Broken(Problem),
}

/// Job, video and segments that a stream processes.
pub(super) struct StreamSpec {
    pub(super) queue: Arc<Queue>,
    pub(super) job: u64,
    pub(super) video: usize,
    /// Name of the stream.
    pub(super) name: String,
    /// The path of the video.
    pub(super) path: String,
    /// Index of the first frame of each segment.
    pub(super) starts: Vec<u64>,
    pub(super) deadline_ms: u64,
    /// Names of the sinks that take its results.
    pub(super) sinks: Vec<String>,
}

impl JobStream {
    /// The segments from `first` until `until`, as `claim` has them.
    pub(super) fn new(spec: StreamSpec, claim: Claim, (first, until): (u32, u32)) -> Self {
        let progress = Progress {
            committed: first,
            ..Progress::default()
        };
        Self {
            committed: first,
            until,
            outputs: claim.video().outputs.clone(),
            work: claim.work().to_owned(),
            commits: CommitClaim {
                job: spec.job,
                video: spec.video,
                first,
                begun: claim.begun(),
                given: claim.given(),
            },
            spec,
            claim: Mutex::new(Some(claim)),
            progress: Mutex::new(progress),
            changed: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Index of the first frame that is not committed.
    pub(super) fn first_open_frame(&self) -> u64 {
        self.spec
            .starts
            .get(self.committed as usize)
            .copied()
            .unwrap_or(u64::MAX)
    }

    /// The segment of a frame.
    pub(super) fn segment_of(&self, frame: u64) -> u32 {
        let after = self.spec.starts.partition_point(|start| *start <= frame);
        after.saturating_sub(1) as u32
    }

    /// Index of the first frame that is not to be given; `None`: the video is gone through to its end.
    pub(super) fn end_frame(&self) -> Option<u64> {
        self.spec.starts.get(self.until as usize).copied()
    }

    /// Releases what was taken for it: it is done, or others may have it.
    pub(super) fn release(&self) {
        let claim = self.claim.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(claim) = claim.filter(|_| self.is_committed()) {
            claim.done();
        }
    }

    pub(super) fn on_given(&self) {
        self.lock().given += 1;
    }

    /// Its source has ended.
    pub(super) fn on_source_end(&self, ended: Result<(), String>) {
        self.lock().ended.get_or_insert(ended);
        self.changed.notify_all();
    }

    /// A sink has seen a frame, delivered or dropped.
    pub(super) fn on_seen(&self, sink: &str) {
        let mut progress = self.lock();
        *progress.seen.entry(sink.to_owned()).or_default() += 1;
        drop(progress);
        self.changed.notify_all();
    }

    pub(super) fn on_problem(&self, problem: Problem) {
        self.lock().problem.get_or_insert(problem);
        self.changed.notify_all();
    }

    pub(super) fn is_broken(&self) -> bool {
        self.lock().problem.is_some()
    }

    /// A sink has the results of a segment whole. The last one to have them commits the segment.
    pub(super) fn on_segment(
        self: &Arc<Self>,
        sink: &str,
        segment: u32,
        staged: Option<StagedOutput>,
        frames: u64,
    ) {
        let mut progress = self.lock();
        if progress.problem.is_some() {
            return;
        }
        let by_sink = progress.staged.entry(segment).or_default();
        by_sink.insert(sink.to_owned(), (staged, frames));
        if by_sink.len() < self.spec.sinks.len() {
            return;
        }
        let by_sink = progress.staged.remove(&segment).unwrap_or_default();
        progress.committing += 1;
        drop(progress);
        let frames = by_sink.values().map(|(_, frames)| *frames).max().unwrap_or(0);
        let outputs: Vec<StagedOutput> = by_sink.into_values().filter_map(|(staged, _)| staged).collect();
        let is_late = now_ms() > self.spec.deadline_ms;
        let stream = Arc::clone(self);
        let committed = Box::new(move |committed: Result<(), weir_jobs::QueueError>| {
            let mut progress = stream.lock();
            progress.committing -= 1;
            match committed {
                Ok(()) => progress.committed += 1,
                Err(error) => {
                    progress
                        .problem
                        .get_or_insert(Problem::Storage(error.to_string()));
                }
            }
            drop(progress);
            stream.changed.notify_all();
        });
        self.spec
            .queue
            .commit(&self.commits, segment, frames, is_late, &outputs, committed);
    }

    /// A sink has nothing more of it.
    pub(super) fn on_removed(&self) {
        self.lock().removed += 1;
        self.changed.notify_all();
    }

    /// True if no sink has anything left of the stream.
    pub(super) fn is_removed(&self) -> bool {
        self.lock().removed as usize >= self.spec.sinks.len()
    }

    /// True if all segments of the stream are committed.
    pub(super) fn is_committed(&self) -> bool {
        self.lock().committed == self.until
    }

    /// True if a commit waits for its result from the queue.
    pub(super) fn is_committing(&self) -> bool {
        self.lock().committing > 0
    }

    /// True if a segment was committed since the stream began.
    pub(super) fn has_advanced(&self) -> bool {
        self.lock().committed > self.committed
    }

    pub(super) fn problem(&self) -> Option<Problem> {
        self.lock().problem.clone()
    }

    pub(super) fn standing(&self) -> Standing {
        self.standing_of(&self.lock())
    }

    fn standing_of(&self, progress: &Progress) -> Standing {
        if let Some(problem) = &progress.problem {
            return Standing::Broken(problem.clone());
        }
        match &progress.ended {
            None => Standing::Running,
            Some(Err(reason)) => Standing::Broken(Problem::Video(reason.clone())),
            Some(Ok(())) => {
                let seen = |sink: &String| progress.seen.get(sink).copied().unwrap_or(0);
                let all = self.spec.sinks.iter().all(|sink| seen(sink) >= progress.given);
                if all {
                    Standing::Complete
                } else {
                    Standing::Running
                }
            }
        }
    }

    /// Waits until it does not go on.
    pub(super) fn wait_for_end(&self, at_most: Duration) {
        let is_running = |progress: &mut Progress| self.standing_of(progress) == Standing::Running;
        let waited = self.changed.wait_timeout_while(self.lock(), at_most, is_running);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// Waits a little for a change.
    pub(super) fn wait(&self, at_most: Duration) {
        let waited = self.changed.wait_timeout(self.lock(), at_most);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }
}

/// The streams of jobs that are processed, by name.
#[derive(Default)]
pub(super) struct Streams(Mutex<BTreeMap<String, Arc<JobStream>>>);

impl Streams {
    pub(super) fn get(&self, name: &str) -> Option<Arc<JobStream>> {
        let streams = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        streams.get(name).map(Arc::clone)
    }

    pub(super) fn insert(&self, stream: &Arc<JobStream>) {
        let mut streams = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        streams.insert(stream.spec.name.clone(), Arc::clone(stream));
    }

    pub(super) fn remove(&self, name: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
    }
}
