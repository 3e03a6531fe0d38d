//! Archive jobs in a run: videos come out of the queues of the graph, each as a stream, and their results are committed by
//! segments. [`feeder`] adds and removes the streams, [`source`] counts what a video gives, [`sink`] stages results, and
//! [`progress`] says when a segment is whole.

mod feeder;
mod progress;
mod room;
mod sink;
mod source;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use weir_flow::{SinkFactory, StopFlag};
use weir_graph::{Graph, QueueNode, SinkNode, Vertex};
use weir_jobs::{EngineLock, JobState, OutputForm, Queue, QueueError, QueuePlace, ServerOptions, VideoState};
use weir_runtime::Control;

use crate::error::UserError;
use crate::hexadecimal::hexadecimal;
pub(crate) use feeder::now_ms;
use progress::Streams;

/// Outcome of the jobs of a run, in numbers.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct JobsReport {
    /// Jobs that wait or go on.
    pub(crate) open: u64,
    /// Jobs whose videos are all done.
    pub(crate) done: u64,
    /// Jobs of which a video failed.
    pub(crate) failed: u64,
    /// Jobs that were cancelled.
    pub(crate) cancelled: u64,
    /// Ended jobs that ended after their deadline, and open ones whose deadline is over.
    pub(crate) late: u64,
    /// Segments whose results were committed.
    pub(crate) segments: u64,
    /// Segments that were processed again because a run had not committed them.
    pub(crate) repeated: u64,
    /// Frames of committed segments.
    pub(crate) frames: u64,
    /// Those of them that were committed after the deadline of their job.
    pub(crate) late_frames: u64,
    /// Reasons of failed videos, the first [`MAX_REASONS`] of them.
    pub(crate) reasons: Vec<String>,
    /// Losses of a queue's damaged store, in words.
    pub(crate) lost: Vec<String>,
    /// The reason why the feeder gave up, or why its jobs wait, if they do.
    pub(crate) stopped: Option<String>,
}

impl JobsReport {
    /// In one line.
    pub(crate) fn line(&self) -> String {
        format!(
            "jobs: {} done, {} failed, {} cancelled, {} open, {} late; {} segments with {} frames committed, {} of them late, \
             {} segments repeated",
            self.done,
            self.failed,
            self.cancelled,
            self.open,
            self.late,
            self.segments,
            self.frames,
            self.late_frames,
            self.repeated
        )
    }
}

/// Reasons that a report has.
const MAX_REASONS: usize = 10;

/// The queues of a graph; those in folders are for this engine alone.
pub(crate) struct Jobs {
    queues: Vec<OpenQueue>,
    streams: Arc<Streams>,
    /// The reason why the feeder gave up, if it did.
    stopped: Mutex<Option<String>>,
}

/// A queued source with its queue.
struct OpenQueue {
    node: QueueNode,
    queue: Arc<Queue>,
    /// Names of the sinks that take its results.
    sinks: Vec<String>,
    /// The graph as jobs name it, and its digest.
    graph: String,
    digest: String,
    /// True if each run of a video starts at its first frame, since trackers and transforms depend on earlier
    /// frames.
    from_start: bool,
}

/// The graph as a job names it, and the digest of its bytes.
///
/// # Errors
/// [`UserError`] where it cannot be read.
pub(crate) fn identity(graph: &Path) -> anyhow::Result<(String, String)> {
    let wrong = |error: std::io::Error| UserError::new(format!("{}: {error}", graph.display()));
    let path = graph.canonicalize().map_err(wrong)?;
    let bytes = std::fs::read(&path).map_err(wrong)?;
    let digest = hexadecimal(&Sha256::digest(&bytes));
    let name = path.to_str().map(str::to_owned);
    let name = name.ok_or_else(|| UserError::new(format!("{}: its name is no text", path.display())))?;
    Ok((name, digest))
}

/// Form in which results of a sink type are committed. `None`: they cannot be committed; `Some(None)`: the
/// type writes nothing.
fn form(kind: &str) -> Option<Option<OutputForm>> {
    match kind {
        "jsonl" => Some(Some(OutputForm::Lines)),
        "mp4" => Some(Some(OutputForm::Files)),
        "null" => Some(None),
        _ => None,
    }
}

/// The sinks that receive the results of a queued source's videos.
fn sinks_of<'a>(graph: &'a Graph, node: &QueueNode) -> Vec<&'a SinkNode> {
    let Some(source) = graph.source_index(&node.source) else {
        return Vec::new();
    };
    let passed = graph.reachable_from(source);
    let takes = |sink: &&SinkNode| {
        sink.inputs.iter().any(|input| match input {
            Vertex::Source(other) => *other == source,
            Vertex::Module(module) => passed.contains(module),
        })
    };
    graph.sinks().iter().filter(takes).collect()
}

/// Checks that the sinks of every queued source can commit results.
///
/// # Errors
/// [`UserError`] for the first that cannot.
pub(crate) fn check(graph: &Graph) -> Result<(), UserError> {
    for node in graph.queues() {
        let sinks = sinks_of(graph, node);
        if sinks.is_empty() {
            let words = "no sink takes its results: add one of type jsonl or mp4";
            return Err(UserError::new(format!("source {}: {words}", node.source)));
        }
        for sink in sinks {
            let Some(form) = form(&sink.kind) else {
                return Err(UserError::new(format!(
                    "sink {}: a sink of type {} cannot store results of the queued source {}, because it cannot undo them \
                     after a crash: use jsonl or mp4",
                    sink.name, sink.kind, node.source
                )));
            };
            let path = sink.settings.text("path").unwrap_or_default();
            if form.is_some() && !path.contains("{stream}") {
                return Err(UserError::new(format!(
                    "sink {}: its path needs {{stream}} in it, since each video of a job has a file of its own",
                    sink.name
                )));
            }
        }
    }
    Ok(())
}

impl Jobs {
    /// Opens the queues of the graph in `file`, those in folders for this engine alone; `None` where it has none.
    ///
    /// # Errors
    /// [`UserError`]: a queue that cannot be opened, or that another engine works on.
    pub(crate) fn open(graph: &Graph, file: &Path) -> anyhow::Result<Option<(Arc<Self>, Vec<EngineLock>)>> {
        if graph.queues().is_empty() {
            return Ok(None);
        }
        check(graph)?;
        let (name, digest) = identity(file)?;
        let mut places: BTreeMap<QueuePlace, Arc<Queue>> = BTreeMap::new();
        let mut locks = Vec::new();
        let mut queues = Vec::new();
        for node in graph.queues() {
            let place = QueuePlace::of(&node.queue).map_err(mendable)?;
            let queue = match places.get(&place) {
                Some(queue) => Arc::clone(queue),
                None => {
                    let queue = Arc::new(Queue::create(&place, &server_options()).map_err(mendable)?);
                    if let (QueuePlace::Server(server), Some(folder)) = (&place, Path::new(&name).parent()) {
                        queue.set_work_root(&folder.join(format!("{}.work", server.name())));
                    }
                    locks.push(queue.lock_for_engine().map_err(mendable)?);
                    places.insert(place, Arc::clone(&queue));
                    queue
                }
            };
            queues.push(OpenQueue {
                node: node.clone(),
                queue,
                sinks: sinks_of(graph, node)
                    .iter()
                    .map(|sink| sink.name.clone())
                    .collect(),
                graph: name.clone(),
                digest: digest.clone(),
                from_start: !graph.trackers().is_empty() || !graph.transforms().is_empty(),
            });
        }
        let jobs = Self {
            queues,
            streams: Arc::default(),
            stopped: Mutex::default(),
        };
        Ok(Some((Arc::new(jobs), locks)))
    }

    /// Wraps the sinks of the graph that receive results of jobs, so that they stage these results.
    pub(crate) fn stage(&self, graph: &Graph, sinks: Vec<Box<dyn SinkFactory>>) -> Vec<Box<dyn SinkFactory>> {
        let staged = |(node, factory): (&SinkNode, Box<dyn SinkFactory>)| {
            let takes = self.queues.iter().any(|queue| queue.sinks.contains(&node.name));
            match form(&node.kind) {
                Some(form) if takes => sink::staging(node, form, factory, &self.streams),
                _ => factory,
            }
        };
        // What is behind those of the graph is shown the run, and writes nothing.
        let nodes = graph.sinks().len();
        let mut sinks = sinks.into_iter();
        let mut all: Vec<_> = graph
            .sinks()
            .iter()
            .zip(sinks.by_ref().take(nodes))
            .map(staged)
            .collect();
        all.extend(sinks);
        all
    }

    /// Feeds the videos of jobs to an engine, on a thread of its own, until `stop` is raised; raises it when nothing is left to
    /// do, unless it `waits` for new jobs.
    ///
    /// # Errors
    /// Where the machine gives no thread.
    pub(crate) fn start(
        self: &Arc<Self>,
        control: Control,
        stop: &StopFlag,
        waits: bool,
    ) -> std::io::Result<std::thread::JoinHandle<()>> {
        let (jobs, stop) = (Arc::clone(self), stop.clone());
        for open in &jobs.queues {
            let stop = stop.clone();
            let give_up: Arc<dyn Fn() -> bool + Send + Sync> = Arc::new(move || stop.is_raised());
            open.queue.set_give_up(&give_up);
        }
        let builder = std::thread::Builder::new().name("weir-jobs".to_owned());
        builder.spawn(move || {
            let fed = feeder::feed(&jobs, &control, &stop, waits);
            if let Err(error) = fed {
                *jobs.stopped.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.to_string());
                if !waits {
                    stop.raise();
                }
            }
        })
    }

    /// Counts the outcomes of all jobs in the queues of this run.
    pub(crate) fn report(&self) -> JobsReport {
        let mut report = JobsReport {
            stopped: self
                .stopped
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone(),
            ..JobsReport::default()
        };
        let now_ms = feeder::now_ms();
        let mut seen = Vec::new();
        for open in &self.queues {
            if seen.contains(&open.queue.place()) {
                continue;
            }
            seen.push(open.queue.place());
            report.lost.extend(open.queue.loss().ok().flatten());
            for view in open.queue.jobs().unwrap_or_default() {
                match view.state() {
                    JobState::Waiting | JobState::Begun => report.open += 1,
                    JobState::Done => report.done += 1,
                    JobState::Failed => report.failed += 1,
                    JobState::Cancelled => report.cancelled += 1,
                }
                let end = view.job.finished_ms.unwrap_or(now_ms);
                let slo_ms = open.node.slo.micros() / 1_000;
                report.late += u64::from(!view.job.cancelled && end > view.deadline_ms(slo_ms));
                for (video, path) in view.progress.iter().zip(&view.job.videos) {
                    report.segments += u64::from(video.committed);
                    report.repeated += video.repeated;
                    report.frames += video.frames;
                    report.late_frames += video.late_frames;
                    if let VideoState::Failed { reason } = &video.state
                        && report.reasons.len() < MAX_REASONS
                    {
                        report
                            .reasons
                            .push(format!("job {}, {path}: {reason}", view.job.id));
                    }
                }
            }
        }
        report
    }
}

/// Exit code 2 for what the user can mend.
#[expect(clippy::needless_pass_by_value, reason = "it is given to `map_err`")]
pub(crate) fn mendable(error: QueueError) -> UserError {
    UserError::new(error.to_string())
}

/// Credentials for servers of queues, from environment variables `WEIR_NATS_...`.
pub(crate) fn server_options() -> ServerOptions {
    let text = |name: &str| std::env::var(name).ok().filter(|text| !text.is_empty());
    ServerOptions {
        username: text("WEIR_NATS_USERNAME"),
        password_file: text("WEIR_NATS_PASSWORD_FILE").map(Into::into),
        credentials_file: text("WEIR_NATS_CREDENTIALS_FILE").map(Into::into),
        ca_file: text("WEIR_NATS_CA_FILE").map(Into::into),
        certificate_file: text("WEIR_NATS_CERTIFICATE_FILE").map(Into::into),
        key_file: text("WEIR_NATS_KEY_FILE").map(Into::into),
    }
}
