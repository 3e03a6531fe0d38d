//! Takes videos out of the queues, adds each to the engine as a stream, and ends it when its results are committed.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use weir_flow::StopFlag;
use weir_graph::{SourceMode, SourceNode};
use weir_jobs::{
    Claim, FileIdentity, FilesToJoin, IndexedPicture, JobView, QueueError, Segment, Task, VideoState, cut,
};
use weir_operators::media::{concatenate, index_pictures};
use weir_runtime::{Clock, Control, NewStream, StreamPhase};
use weir_types::Span;

use super::progress::{JobStream, Problem, Standing, StreamSpec};
use super::room::Room;
use super::source::VideoFactory;
use super::{Jobs, OpenQueue};
use crate::lock::lock;

/// Time between two looks for new jobs, and at most between two at streams.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Largest number of starts of a video without a committed segment, over all runs; the video may crash the
/// engine and is then given up.
const MAX_BEGUN: u32 = 25;

/// Largest number of tries of a video in one run without a committed segment.
const MAX_TRIES: u32 = 3;

/// Time until results are tried again that could not be written, or a queue that could not be used, while an engine serves.
const STORAGE_RETRY_INTERVAL: Duration = Duration::from_secs(30);

/// Time until a server of a queue is asked again that is away, while an engine serves.
const ABSENCE_RETRY_INTERVAL: Duration = Duration::from_secs(2);

/// The wall clock in milliseconds since 1970: deadlines of jobs outlive the process.
pub(crate) fn now_ms() -> u64 {
    let clock = Clock::start();
    clock.utc_ms(clock.now())
}

/// A video that is processed.
struct Running {
    source: usize,
    stream: Arc<JobStream>,
}

/// A video that can be begun.
struct Next {
    view: JobView,
    video: usize,
}

type Key = (String, u64, usize);

/// Reason why the jobs of an engine that serves wait: a queue cannot be used, as on a full disk.
#[derive(Debug, Default)]
struct Trouble(Option<String>);

impl Trouble {
    /// Returns the time until the next try, and whether the reason is another one than at the last try.
    fn on_error(&mut self, error: &anyhow::Error) -> (Duration, bool) {
        let reason = error.to_string();
        let is_new = self.0.as_ref() != Some(&reason);
        self.0 = Some(reason);
        let wait = if is_absence(error) {
            ABSENCE_RETRY_INTERVAL
        } else {
            STORAGE_RETRY_INTERVAL
        };
        (wait, is_new)
    }

    /// The queues can be used; returns whether there was trouble until now.
    fn clear(&mut self) -> bool {
        self.0.take().is_some()
    }
}

/// Feeds until `stop` is raised. Where it does not wait for new jobs, raises it once all jobs have ended and no other stream
/// goes on.
///
/// # Errors
/// A queue that cannot be used any more, or results that cannot be written. Where it waits for new jobs, it tries again instead.
pub(super) fn feed(jobs: &Jobs, control: &Control, stop: &StopFlag, waits: bool) -> anyhow::Result<()> {
    let mut running: Vec<Running> = Vec::new();
    let mut tries: BTreeMap<Key, u32> = BTreeMap::new();
    let mut room = Room::default();
    let mut trouble = Trouble::default();
    let mut ended = Ok(());
    while !stop.is_raised() {
        let has_room = has_room(jobs, control, &mut room);
        match turn(jobs, control, stop, (&mut running, &mut tries), (waits, has_room)) {
            Ok(()) => {
                if trouble.clear() {
                    *lock(&jobs.stopped) = None;
                    tracing::warn!("the queues of jobs can be used again");
                }
            }
            // What an engine that serves does meanwhile goes on.
            Err(error) if waits => {
                let (wait, is_new) = trouble.on_error(&error);
                if is_new {
                    tracing::error!("{error}; jobs wait and will be retried");
                }
                if !is_absence(&error) {
                    *lock(&jobs.stopped) = Some(error.to_string());
                }
                sleep(wait, stop);
            }
            Err(error) => {
                ended = Err(error);
                break;
            }
        }
        match running.first() {
            Some(first) => first.stream.wait_for_end(POLL_INTERVAL),
            None => std::thread::sleep(POLL_INTERVAL),
        }
    }
    for one in running {
        one.stream.release();
    }
    ended
}

/// True if the cameras of this engine leave room for jobs that other engines could process as well.
fn has_room(jobs: &Jobs, control: &Control, room: &mut Room) -> bool {
    if !jobs.queues.iter().any(|open| open.queue.is_shared()) {
        return true;
    }
    let Ok(snapshot) = control.snapshot() else {
        return true;
    };
    let cameras = snapshot
        .streams
        .iter()
        .filter(|stream| stream.state != StreamPhase::Gone && jobs.streams.get(&stream.name).is_none());
    let lost = cameras
        .map(|stream| stream.requests.late + stream.requests.dropped)
        .sum();
    room.see(lost, now_ms())
}

fn is_absence(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<QueueError>()
        .is_some_and(QueueError::is_absence)
}

/// Starts videos as far as there is room, and finishes those that have ended.
fn turn(
    jobs: &Jobs,
    control: &Control,
    stop: &StopFlag,
    (running, tries): (&mut Vec<Running>, &mut BTreeMap<Key, u32>),
    (waits, has_room): (bool, bool),
) -> anyhow::Result<()> {
    let mut open = false;
    for (source, queue) in jobs.queues.iter().enumerate() {
        let views = queue.queue.jobs()?;
        remove_cancelled(jobs, control, &views, (source, running))?;
        for next in next_videos(queue, views, running, source) {
            open = true;
            let busy = running.iter().filter(|running| running.source == source).count();
            let may_begin = has_room || !queue.queue.is_shared();
            if may_begin && busy < queue.node.streams as usize && !stop.is_raised() {
                running.extend(begin(jobs, (source, queue), &next, control, stop)?);
            }
        }
    }
    // What ends now may leave more of its video to be done.
    let is_idle = running.is_empty() && !open;
    let mut index = 0;
    while index < running.len() {
        let standing = running[index].stream.standing();
        if standing == Standing::Running {
            index += 1;
            continue;
        }
        let ended = running.swap_remove(index);
        if let Some(problem) = end(jobs, ended, control, stop, tries)? {
            if !waits {
                return Err(anyhow::anyhow!("{problem}"));
            }
            tracing::error!("{problem}; jobs wait and will be retried");
            sleep(STORAGE_RETRY_INTERVAL, stop);
        }
    }
    if is_idle && !waits {
        let others = control
            .snapshot()
            .map(|snapshot| snapshot.streams)
            .unwrap_or_default();
        if others.iter().all(|stream| stream.state == StreamPhase::Gone) {
            stop.raise();
        }
    }
    Ok(())
}

fn sleep(span: Duration, stop: &StopFlag) {
    let mut left = span;
    while !left.is_zero() && !stop.is_raised() {
        std::thread::sleep(POLL_INTERVAL.min(left));
        left = left.saturating_sub(POLL_INTERVAL);
    }
}

fn remove_cancelled(
    jobs: &Jobs,
    control: &Control,
    views: &[JobView],
    (source, running): (usize, &mut Vec<Running>),
) -> Result<(), QueueError> {
    running.retain(|one| {
        let is_open = |view: &JobView| view.job.id != one.stream.spec.job || !view.job.cancelled;
        let goes_on = one.source != source || views.iter().all(is_open);
        if !goes_on {
            one.stream
                .on_problem(Problem::Video("its job was cancelled".to_owned()));
            let _ = control.remove_stream(&one.stream.spec.name);
            jobs.streams.remove(&one.stream.spec.name);
            one.stream.release();
            // Where several engines have it, what is committed is still to get into its place.
            if !one.stream.spec.queue.is_shared() {
                let _ = fs::remove_dir_all(&one.stream.work);
            }
        }
        goes_on
    });
    let queue = &jobs.queues[source].queue;
    // What is committed stays: where several engines have it, it gets into its place with the end of the video.
    for view in views
        .iter()
        .filter(|view| queue.is_shared() && view.job.cancelled)
    {
        for (video, row) in view.progress.iter().enumerate() {
            if row.state == VideoState::Open && row.committed > 0 {
                let reason = "its job was cancelled".to_owned();
                queue.end(view.job.id, video, VideoState::Failed { reason }, now_ms())?;
            }
        }
    }
    Ok(())
}

/// Videos that are open and not processed yet: those of the job with the earliest deadline first.
fn next_videos(queue: &OpenQueue, views: Vec<JobView>, running: &[Running], source: usize) -> Vec<Next> {
    let slo_ms = queue.node.slo.micros() / 1_000;
    let mut views: Vec<JobView> = views
        .into_iter()
        .filter(|view| {
            view.is_open() && view.job.graph == queue.graph && view.job.source == queue.node.source
        })
        .collect();
    views.sort_by_key(|view| (view.deadline_ms(slo_ms), view.job.id));
    let mut found = Vec::new();
    for view in views {
        for video in 0..view.progress.len() {
            let is_running = running.iter().any(|one| {
                one.source == source && (one.stream.spec.job, one.stream.spec.video) == (view.job.id, video)
            });
            if view.progress[video].state == VideoState::Open && !is_running {
                found.push(Next {
                    view: view.clone(),
                    video,
                });
            }
        }
    }
    found
}

/// Begins a video, or goes on with it; `None` where nothing of it is to be processed now.
fn begin(
    jobs: &Jobs,
    (source, queue): (usize, &OpenQueue),
    next: &Next,
    control: &Control,
    stop: &StopFlag,
) -> anyhow::Result<Option<Running>> {
    let (job, video) = (next.view.job.id, next.video);
    let path = &next.view.job.videos[video];
    let fail = |reason: String| -> anyhow::Result<Option<Running>> {
        queue
            .queue
            .end(job, video, VideoState::Failed { reason }, now_ms())?;
        Ok(None)
    };
    if next.view.job.digest != queue.digest {
        return fail("the graph changed since the job was submitted: submit it again".to_owned());
    }
    let identity = match file_identity(Path::new(path)) {
        Ok(identity) => identity,
        Err(error) => return fail(format!("the video cannot be read: {error}")),
    };
    loop {
        let Some(claim) = queue.queue.take(job, video, queue.from_start)? else {
            return Ok(None);
        };
        if claim.video().file.is_some_and(|before| before != identity) {
            return fail("the video changed since it was begun: submit the job again".to_owned());
        }
        if claim.begun() > MAX_BEGUN {
            return fail(format!(
                "the engine ended {MAX_BEGUN} times at segment {}",
                claim.video().committed
            ));
        }
        match claim.task().clone() {
            Task::Cut => {
                let index = match index_pictures(Path::new(path), stop) {
                    Ok(_) if stop.is_raised() => return Ok(None),
                    Ok(index) if index.pictures.is_empty() => {
                        return fail("the video has no pictures".to_owned());
                    }
                    Ok(index) => index,
                    Err(_) if stop.is_raised() => return Ok(None),
                    Err(error) => return fail(error.to_string()),
                };
                let segments = segments(&index.pictures, queue.node.segment);
                queue
                    .queue
                    .record_cut((job, video), identity, &segments, index.truncation)?;
                claim.done();
            }
            Task::Segments(range) => {
                let added = add(jobs, queue, next, claim, (range.start, range.end), control);
                return match added {
                    Ok(stream) => Ok(stream.map(|stream| Running { source, stream })),
                    Err(_) if stop.is_raised() => Ok(None),
                    Err(error) => Err(error),
                };
            }
            Task::Finish => {
                finish(queue, (job, video), &claim)?;
                claim.done();
                return Ok(None);
            }
        }
    }
}

/// Adds the stream of some segments to the engine; `None` where the segments are not known any more, since the video has ended.
fn add(
    jobs: &Jobs,
    queue: &OpenQueue,
    next: &Next,
    claim: Claim,
    (first, until): (u32, u32),
    control: &Control,
) -> anyhow::Result<Option<Arc<JobStream>>> {
    let (job, video) = (next.view.job.id, next.video);
    let Some(segments) = queue.queue.segments(job, video)? else {
        return Ok(None);
    };
    // Of a queue that several engines share, each claim has a folder of its own.
    if !queue.queue.is_shared() {
        remove_uncommitted(claim.work(), first)?;
    }
    let is_truncated = claim.video().truncation.is_some();
    let spec = StreamSpec {
        queue: Arc::clone(&queue.queue),
        job,
        video,
        name: format!("{}-{job}-{}", queue.node.source, video + 1),
        path: next.view.job.videos[video].clone(),
        starts: segments.iter().map(|segment| segment.first_frame).collect(),
        deadline_ms: next.view.deadline_ms(queue.node.slo.micros() / 1_000),
        sinks: queue.sinks.clone(),
    };
    let stream = Arc::new(JobStream::new(spec, claim, (first, until)));
    jobs.streams.insert(&stream);
    let left_ms = stream.spec.deadline_ms.saturating_sub(now_ms()).max(1);
    let node = SourceNode {
        mode: SourceMode::Lossless,
        mode_given: true,
        slo: Some(Span::from_millis(left_ms)),
        paced: false,
        ..SourceNode::new(stream.spec.name.clone(), stream.spec.path.clone())
    };
    let from = if queue.from_start {
        0
    } else {
        stream.first_open_frame()
    };
    let factory = VideoFactory {
        stream: Arc::clone(&stream),
        from,
        is_truncated,
    };
    let added = control.add_stream(NewStream {
        node,
        factory: Some(Box::new(factory)),
        like: Some(queue.node.source.clone()),
    });
    if let Err(error) = added {
        jobs.streams.remove(&stream.spec.name);
        stream.release();
        return Err(error.into());
    }
    Ok(Some(stream))
}

fn file_identity(path: &Path) -> std::io::Result<FileIdentity> {
    let found = fs::metadata(path)?;
    if !found.is_file() {
        return Err(std::io::Error::other("it is no file"));
    }
    let modified = found.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
    Ok(FileIdentity {
        bytes: found.len(),
        modified_ms: u64::try_from(modified.as_millis()).unwrap_or(u64::MAX),
    })
}

fn segments(pictures: &[(f64, bool)], length: Span) -> Vec<Segment> {
    let indexed = pictures.iter().map(|(pts_ms, key)| IndexedPicture {
        pts_ms: *pts_ms,
        key: *key,
    });
    let indexed: Vec<IndexedPicture> = indexed.collect();
    let cuts = cut(&indexed, length.as_millis_f64());
    let segment = |first: usize| Segment {
        first_frame: first as u64,
        pts_ms: indexed[first].pts_ms,
    };
    cuts.into_iter().map(segment).collect()
}

/// Removes staged results of segments that are not committed: a run that ended left them.
fn remove_uncommitted(work: &Path, committed: u32) -> std::io::Result<()> {
    let Ok(sinks) = fs::read_dir(work) else {
        return Ok(());
    };
    for sink in sinks {
        for file in fs::read_dir(sink?.path())? {
            let path = file?.path();
            let name = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            let segment = name
                .split('.')
                .next()
                .and_then(|number| number.parse::<u32>().ok());
            let is_whole = name.matches('.').count() == 1;
            if !is_whole || segment.is_none_or(|segment| segment >= committed) {
                fs::remove_file(&path)?;
            }
        }
    }
    Ok(())
}

/// All segments of a video are committed: makes its files, and ends it.
fn finish(queue: &OpenQueue, (job, video): (u64, usize), claim: &Claim) -> anyhow::Result<()> {
    let segments = queue.queue.segments(job, video)?.unwrap_or_default();
    for files in queue.queue.files(job, video)? {
        if let Err(error) = join(&files, &segments) {
            let views = queue.queue.jobs()?;
            let view = views.iter().find(|view| view.job.id == job);
            let row = view.and_then(|view| view.progress.get(video));
            // Another engine may have ended it, and removed what it was made of.
            if row.is_some_and(|row| row.state == VideoState::Open) {
                return Err(error);
            }
            return Ok(());
        }
    }
    let state = match &claim.video().truncation {
        None => VideoState::Done,
        Some(how) => VideoState::Failed {
            reason: format!("the video was cut off ({how}): the part before the cut was processed"),
        },
    };
    queue.queue.end(job, video, state, now_ms())?;
    Ok(())
}

fn join(files: &FilesToJoin, segments: &[Segment]) -> anyhow::Result<()> {
    let part = |(segment, file): &(u32, std::path::PathBuf)| {
        let from = segments.get(*segment as usize)?;
        Some((from.pts_ms, file.clone()))
    };
    let parts: Vec<_> = files.parts.iter().filter_map(part).collect();
    if parts.is_empty() {
        return Ok(());
    }
    concatenate(&parts, &files.written)?;
    if files.written != files.target {
        fs::rename(&files.written, &files.target)?;
    }
    Ok(())
}

/// Ends a stream whose source has ended, or that has a problem. Gives the problem where no video can go on.
fn end(
    jobs: &Jobs,
    running: Running,
    control: &Control,
    stop: &StopFlag,
    tries: &mut BTreeMap<Key, u32>,
) -> anyhow::Result<Option<String>> {
    let Running { source, stream } = running;
    // Refused where the engine is stopping: then the next run goes on with it.
    let removed = control.remove_stream(&stream.spec.name).is_ok();
    while removed && !stream.is_removed() && !stop.is_raised() {
        stream.wait(POLL_INTERVAL);
    }
    jobs.streams.remove(&stream.spec.name);
    // A server that is away is given up after a while.
    while stream.is_committing() && !stop.is_raised() {
        stream.wait(POLL_INTERVAL);
    }
    stream.release();
    if stream.is_committed() {
        let queue = &jobs.queues[source];
        return match finish_committed(queue, &stream) {
            Ok(()) => Ok(None),
            Err(error) if is_absence(&error) => Err(error),
            Err(error) => Ok(Some(error.to_string())),
        };
    }
    if stop.is_raised() {
        return Ok(None);
    }
    let reason = match (stream.problem(), stream.standing()) {
        (Some(Problem::Storage(reason)), _) => return Ok(Some(reason)),
        (Some(Problem::Video(reason)), _) | (None, Standing::Broken(Problem::Video(reason))) => reason,
        _ => "not all of its segments were processed".to_owned(),
    };
    let key = (
        stream.spec.queue.place().to_string(),
        stream.spec.job,
        stream.spec.video,
    );
    let count = tries.entry(key).or_default();
    *count = if stream.has_advanced() { 1 } else { *count + 1 };
    if *count >= MAX_TRIES {
        let state = VideoState::Failed { reason };
        stream
            .spec
            .queue
            .end(stream.spec.job, stream.spec.video, state, now_ms())?;
    }
    Ok(None)
}

/// All that was taken of a video is committed: makes its files where that was the rest of it. Of several engines, the one does that
/// takes that next.
fn finish_committed(queue: &OpenQueue, stream: &JobStream) -> anyhow::Result<()> {
    if queue.queue.is_shared() {
        return Ok(());
    }
    match queue
        .queue
        .take(stream.spec.job, stream.spec.video, queue.from_start)?
    {
        Some(claim) if *claim.task() == Task::Finish => {
            finish(queue, (stream.spec.job, stream.spec.video), &claim)
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queue_that_cannot_be_used_is_tried_again_and_logged_once() {
        let full = || {
            let error = std::io::ErrorKind::StorageFull.into();
            let path = "jobs/store.lock".into();
            anyhow::Error::from(QueueError::File { path, error })
        };
        let away = anyhow::Error::from(QueueError::Server {
            place: "nats://queue/a".to_owned(),
            reason: "it is away".to_owned(),
        });
        let mut trouble = Trouble::default();
        assert!(!trouble.clear());
        assert_eq!(trouble.on_error(&full()), (STORAGE_RETRY_INTERVAL, true));
        assert_eq!(trouble.on_error(&full()), (STORAGE_RETRY_INTERVAL, false));
        assert_eq!(trouble.on_error(&away), (ABSENCE_RETRY_INTERVAL, true));
        assert!(trouble.clear());
        assert_eq!(trouble.on_error(&away), (ABSENCE_RETRY_INTERVAL, true));
    }

    #[test]
    fn what_a_run_left_of_segments_that_are_not_committed_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let work = folder.path().join("events");
        fs::create_dir_all(&work).unwrap();
        for name in ["000000.mp4", "000001.mp4", "000002.mp4", "000001.mp4.part", "odd"] {
            fs::write(work.join(name), "").unwrap();
        }
        remove_uncommitted(folder.path(), 1).unwrap();
        let left: Vec<_> = fs::read_dir(&work)
            .unwrap()
            .map(|file| file.unwrap().file_name())
            .collect();
        assert_eq!(left, ["000000.mp4"]);
        remove_uncommitted(&folder.path().join("none"), 0).unwrap();
    }
}
