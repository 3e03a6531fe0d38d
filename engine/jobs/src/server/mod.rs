//! A queue on a server of NATS, for any number of engines: [`work`] shares parts of videos out, [`rows`] say what is committed,
//! and results lie in a folder that all engines have.

mod cache;
mod connection;
mod join;
mod part;
mod rows;
mod work;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use async_nats::jetstream::AckKind;

use self::cache::{Row, SegmentFile, SegmentRow, VideoKey};
use self::connection::Connection;
use self::join::{Lines, beside, remove_left};
use self::rows::Rows;
use self::work::{Held, Work, acknowledge};
use crate::claim::{Claim, Committed, FilesToJoin, Task};
use crate::error::QueueError;
use crate::job::{
    FileIdentity, Job, JobView, MAX_OPEN_JOBS, Output, OutputForm, Segment, StagedOutput, Submission, Video,
    VideoState,
};
use crate::output::sync;
use crate::place::{ServerOptions, ServerPlace};

/// Number of segments in one row. By default a server's message holds 1 MiB.
const SEGMENTS_PER_ROW: usize = 4_096;

/// Messages of a video that are looked at before one is found that is not done yet.
const MAX_LOOKS: u32 = 64;

/// See the module.
pub(crate) struct ServerQueue {
    connection: Connection,
    state: Arc<State>,
    /// Folder under which results of segments are staged.
    work_root: Mutex<PathBuf>,
}

/// State that tasks on the connection's thread use.
struct State {
    rows: Rows,
    work: Work,
}

impl std::fmt::Debug for ServerQueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerQueue").finish_non_exhaustive()
    }
}

impl ServerQueue {
    pub(crate) fn open(
        place: &ServerPlace,
        options: &ServerOptions,
        creates: bool,
    ) -> Result<Self, QueueError> {
        let connection = Connection::open(place, options)?;
        let (link, place) = (Arc::clone(connection.link()), place.clone());
        let state = connection.run(async move {
            let rows = Rows::open(&link, &place, creates).await?;
            let work = Work::open(&link, &place).await?;
            Ok(State { rows, work })
        })?;
        Ok(Self {
            connection,
            state: Arc::new(state),
            work_root: Mutex::default(),
        })
    }

    /// Runs `work` with the state.
    fn with<T, F>(&self, work: impl FnOnce(Arc<State>) -> F) -> Result<T, QueueError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, QueueError>> + Send + 'static,
    {
        self.connection.run(work(Arc::clone(&self.state)))
    }

    pub(crate) fn set_give_up(&self, give_up: Arc<dyn Fn() -> bool + Send + Sync>) {
        self.connection.link().set_give_up(give_up);
    }

    pub(crate) fn set_work_root(&self, root: &Path) {
        *self.work_root.lock().unwrap_or_else(PoisonError::into_inner) = root.to_owned();
    }

    fn work_root(&self) -> PathBuf {
        self.work_root
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub(crate) fn work_folder(&self, job: u64, video: usize) -> PathBuf {
        self.work_root().join(format!("{job}-{video}"))
    }

    pub(crate) fn jobs(&self) -> Result<Vec<JobView>, QueueError> {
        self.with(|state| async move { state.rows.now().await?.views() })
    }

    pub(crate) fn submit(&self, submission: &Submission, now_ms: u64) -> Result<u64, QueueError> {
        submission.check()?;
        let submission = submission.clone();
        self.with(|state| async move { state.submit(&submission, now_ms).await })
    }

    pub(crate) fn cancel(&self, job: u64, now_ms: u64) -> Result<bool, QueueError> {
        self.with(move |state| async move { state.cancel(job, now_ms).await })
    }

    pub(crate) fn segments(&self, job: u64, video: usize) -> Result<Option<Vec<Segment>>, QueueError> {
        self.with(move |state| async move { state.segments((job, video)).await })
    }

    pub(crate) fn record_cut(
        &self,
        key: VideoKey,
        file: FileIdentity,
        segments: &[Segment],
        truncation: Option<String>,
    ) -> Result<Video, QueueError> {
        let segments = segments.to_vec();
        self.with(move |state| async move { state.record_cut(key, file, &segments, truncation).await })
    }

    pub(crate) fn take(&self, job: u64, video: usize, whole: bool) -> Result<Option<Claim>, QueueError> {
        let handle = self.connection.handle().clone();
        let folder = self.work_folder(job, video);
        self.with(move |state| async move {
            let Some((given, task, video, begun)) = state.take((job, video), whole).await? else {
                return Ok(None);
            };
            Ok(Some(Claim {
                task,
                video,
                begun,
                given: given.times,
                work: folder.join(state.rows.unique()),
                held: Some(Box::new(Held::new(given.message, &handle))),
            }))
        })
    }

    /// Commits a segment asynchronously; the result arrives through the callback, so that processing
    /// continues while a server is unavailable.
    pub(crate) fn commit(
        &self,
        (job, video, segment): (u64, usize, u32),
        frames: u64,
        is_late: bool,
        (repeated, given): (u64, u32),
        staged: &[StagedOutput],
        committed: Committed,
    ) {
        let row = match segment_row(frames, is_late, (repeated, given), staged) {
            Ok(row) => row,
            Err(error) => return committed(Err(error)),
        };
        let state = Arc::clone(&self.state);
        self.connection.handle().spawn(async move {
            committed(state.commit((job, video), segment, &row).await);
        });
    }

    pub(crate) fn files(&self, job: u64, video: usize) -> Result<Vec<FilesToJoin>, QueueError> {
        self.with(move |state| async move { state.files((job, video)).await })
    }

    pub(crate) fn end(
        &self,
        job: u64,
        video: usize,
        state: VideoState,
        now_ms: u64,
    ) -> Result<(), QueueError> {
        let folder = self.work_folder(job, video);
        self.with(move |own| async move { own.end((job, video), state, now_ms).await })?;
        remove_folder(&folder)
    }

    /// Removes what was staged for jobs that have ended since.
    pub(crate) fn sweep(&self) -> Result<(), QueueError> {
        let root = self.work_root();
        let open: Vec<String> = self
            .jobs()?
            .iter()
            .filter(|view| !view.job.cancelled)
            .flat_map(|view| {
                let videos = view.progress.iter().enumerate();
                let open = videos.filter(|(_, video)| video.state == VideoState::Open);
                open.map(|(video, _)| format!("{}-{video}", view.job.id))
                    .collect::<Vec<_>>()
            })
            .collect();
        for entry in std::fs::read_dir(&root).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if !open.contains(&name) {
                remove_folder(&entry.path())?;
            }
        }
        Ok(())
    }
}

fn remove_folder(folder: &Path) -> Result<(), QueueError> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(QueueError::file(folder)(error)),
        _ => Ok(()),
    }
}

/// Row of a segment whose results are synced to the disk.
fn segment_row(
    frames: u64,
    late: bool,
    (repeated, given): (u64, u32),
    staged: &[StagedOutput],
) -> Result<SegmentRow, QueueError> {
    let mut outputs = BTreeMap::new();
    for output in staged {
        let absolute = |path: &Path| std::path::absolute(path).map_err(QueueError::file(path));
        let file = SegmentFile {
            form: output.form,
            file: absolute(&output.file)?,
            target: absolute(&output.target)?,
            bytes: sync(&output.file)?,
        };
        outputs.insert(output.sink.clone(), file);
    }
    Ok(SegmentRow {
        frames,
        late,
        repeated,
        given,
        outputs,
    })
}

/// Number of starts of a part since a segment of it was committed last. A part that was sent again counts
/// from 1.
fn begun_since(times: u32, committed: Option<u32>) -> u32 {
    match committed {
        Some(before) if before < times => times - before,
        _ => times,
    }
}

fn cut_key((job, video): VideoKey, file: FileIdentity, row: usize) -> String {
    format!(
        "cut.{job:012}.{video:06}.{}-{}.{row:06}",
        file.bytes, file.modified_ms
    )
}

/// Rows that are written once, and small.
impl State {
    async fn submit(&self, submission: &Submission, now_ms: u64) -> Result<u64, QueueError> {
        loop {
            let (id, open, forgotten) = {
                let mut cache = self.rows.now().await?;
                let id = cache.jobs.keys().next_back().copied().unwrap_or(0) + 1;
                let before: Vec<u64> = cache.jobs.keys().copied().collect();
                let views = cache.views()?;
                let kept = |id: &u64| views.iter().any(|view| view.job.id == *id);
                let forgotten: Vec<u64> = before.into_iter().filter(|id| !kept(id)).collect();
                (id, views.iter().filter(|view| view.is_open()).count(), forgotten)
            };
            for job in forgotten {
                self.forget(job).await?;
            }
            if open >= MAX_OPEN_JOBS {
                return Err(QueueError::Full(open));
            }
            let row = serde_json::to_vec(&submission.job(id, now_ms))?;
            if self.rows.write(&cache::job_key(id), row, 0).await? {
                return Ok(id);
            }
        }
    }

    async fn forget(&self, job: u64) -> Result<(), QueueError> {
        self.work.remove_job(job).await?;
        self.rows.purge(&cache::job_segments_key(job)).await?;
        self.rows.purge(&format!("cut.{job:012}")).await?;
        self.rows.purge(&cache::videos_key(job)).await?;
        self.rows.purge_one(&cache::job_key(job)).await
    }

    async fn cancel(&self, job: u64, now_ms: u64) -> Result<bool, QueueError> {
        loop {
            let (row, is_open) = {
                let mut cache = self.rows.now().await?;
                let views = cache.views()?;
                let view = views.iter().find(|view| view.job.id == job);
                let is_open = view.ok_or(QueueError::Unknown(job))?.is_open();
                (cache.jobs.get(&job).cloned(), is_open)
            };
            let row = row.ok_or(QueueError::Unknown(job))?;
            if !is_open {
                return Ok(false);
            }
            let cancelled = Job {
                cancelled: true,
                finished_ms: Some(now_ms),
                ..row.value
            };
            let value = serde_json::to_vec(&cancelled)?;
            if self.rows.write(&cache::job_key(job), value, row.revision).await? {
                self.work.remove_job(job).await?;
                return Ok(true);
            }
        }
    }

    async fn segments(&self, key: VideoKey) -> Result<Option<Vec<Segment>>, QueueError> {
        let row = self.rows.now().await?.video(key)?.value;
        let Some(file) = row.file else { return Ok(None) };
        let mut segments: Vec<Segment> = Vec::new();
        while segments.len() < row.segments as usize {
            let number = segments.len() / SEGMENTS_PER_ROW;
            let found = self.rows.read(&cut_key(key, file, number)).await?;
            let Some(found) = found else { return Ok(None) };
            let found: Vec<Segment> = serde_json::from_slice(&found.payload)?;
            if found.is_empty() {
                return Ok(None);
            }
            segments.extend(found);
        }
        Ok(Some(segments))
    }

    async fn record_cut(
        &self,
        key: VideoKey,
        file: FileIdentity,
        segments: &[Segment],
        truncation: Option<String>,
    ) -> Result<Video, QueueError> {
        // All engines that cut the same file write the same rows.
        for (number, rows) in segments.chunks(SEGMENTS_PER_ROW).enumerate() {
            let value = serde_json::to_vec(rows)?;
            self.rows.write(&cut_key(key, file, number), value, 0).await?;
        }
        loop {
            let row = self.rows.now().await?.video(key)?;
            if row.value.file.is_some() || row.value.state != VideoState::Open {
                return Ok(row.value);
            }
            let cut = Video {
                file: Some(file),
                segments: segments.len() as u32,
                truncation: truncation.clone(),
                ..row.value
            };
            if self.write_video(key, &cut, row.revision).await? {
                return Ok(cut);
            }
        }
    }

    async fn write_video(&self, key: VideoKey, video: &Video, revision: u64) -> Result<bool, QueueError> {
        let value = serde_json::to_vec(video)?;
        self.rows.write(&cache::video_key(key), value, revision).await
    }

    async fn commit(&self, key: VideoKey, segment: u32, row: &SegmentRow) -> Result<(), QueueError> {
        let value = serde_json::to_vec(row)?;
        if !self
            .rows
            .write(&cache::segment_key(key, segment), value, 0)
            .await?
        {
            // Another engine committed it, with the same results.
            let there = self.rows.read(&cache::segment_key(key, segment)).await?;
            let there = there.and_then(|there| serde_json::from_slice::<SegmentRow>(&there.payload).ok());
            for (sink, output) in &row.outputs {
                let is_named = |there: &SegmentRow| {
                    there.outputs.get(sink).map(|there| &there.file) == Some(&output.file)
                };
                if !there.as_ref().is_some_and(is_named) {
                    let _ = std::fs::remove_file(&output.file);
                }
            }
        }
        Ok(())
    }
}

/// Parts of videos, and their ends.
impl State {
    async fn take(
        &self,
        key: VideoKey,
        whole: bool,
    ) -> Result<Option<(work::Given, Task, Video, u32)>, QueueError> {
        if self.work.rests(key) || self.rows.now().await?.progress(key)?.is_over {
            return Ok(None);
        }
        for _ in 0..MAX_LOOKS {
            let given = self.work.next(key).await?;
            let Some(given) = given else {
                // The order of these requests matters: an acknowledged part was committed before.
                let is_busy = self.work.is_busy(key).await?;
                let progress = self.rows.now().await?.progress(key)?;
                let needed = progress.needed(whole);
                if is_busy || needed.is_empty() {
                    break;
                }
                for part in needed {
                    self.work.send(key, &part).await?;
                }
                if self.work.is_busy(key).await? {
                    continue;
                }
                // The server takes them for ones that were sent before, for a while.
                break;
            };
            let (progress, video, segments) = {
                let cache = self.rows.now().await?;
                (cache.progress(key)?, cache.view_of(key)?, cache.segments(key))
            };
            let Some(part) = &given.part else {
                let _ = given.message.ack_with(AckKind::Term).await;
                continue;
            };
            match progress.task(part) {
                Some(task) => {
                    let committed = part
                        .range()
                        .and_then(|range| segments.range(range).map(|(_, segment)| segment.given).max());
                    let begun = begun_since(given.times, committed);
                    return Ok(Some((given, task, video, begun)));
                }
                None => acknowledge(&given.message).await,
            }
        }
        self.work.rest(key);
        Ok(None)
    }

    /// Fixes the outputs of a video, once for all engines, and returns its row.
    async fn fix_outputs(
        &self,
        key: VideoKey,
    ) -> Result<(Row<Video>, BTreeMap<u32, SegmentRow>), QueueError> {
        loop {
            let (row, segments) = {
                let cache = self.rows.now().await?;
                (cache.video(key)?, cache.segments(key))
            };
            let mut video = row.value.clone();
            for (sink, file) in segments.values().flat_map(|segment| &segment.outputs) {
                let there = || match file.form {
                    OutputForm::Lines => std::fs::metadata(&file.target).map_or(0, |target| target.len()),
                    OutputForm::Files => 0,
                };
                let outputs = video.outputs.entry(sink.clone());
                outputs.or_insert_with(|| Output {
                    form: file.form,
                    target: file.target.clone(),
                    bytes: there(),
                });
            }
            if video == row.value || video.state != VideoState::Open {
                return Ok((row, segments));
            }
            self.write_video(key, &video, row.revision).await?;
        }
    }

    async fn files(&self, key: VideoKey) -> Result<Vec<FilesToJoin>, QueueError> {
        let (row, segments) = self.fix_outputs(key).await?;
        if row.value.state != VideoState::Open {
            return Ok(Vec::new());
        }
        let outputs = row.value.outputs.iter();
        let files = outputs.filter(|(_, output)| output.form == OutputForm::Files);
        Ok(files
            .map(|(sink, output)| {
                let parts = segments.iter().filter_map(|(segment, row)| {
                    let file = row.outputs.get(sink)?;
                    Some((*segment, file.file.clone()))
                });
                FilesToJoin {
                    parts: parts.collect(),
                    target: output.target.clone(),
                    written: beside(&output.target, &self.rows.unique()),
                }
            })
            .collect())
    }

    /// Puts lines into their place, up to the first segment that is not committed, and records the end.
    async fn end(&self, key: VideoKey, state: VideoState, now_ms: u64) -> Result<(), QueueError> {
        loop {
            let (row, mut segments) = self.fix_outputs(key).await?;
            if row.value.state != VideoState::Open {
                return Ok(());
            }
            let prefix = (0..)
                .zip(segments.keys())
                .take_while(|(at, segment)| at == *segment)
                .count();
            segments.retain(|segment, _| (*segment as usize) < prefix);
            let joined = self.join(&row.value, &segments).await;
            if let Err(error) = joined {
                // Another engine may have ended it, and removed what it was made of.
                let now = self.rows.now().await?.video(key)?.value;
                return if now.state == VideoState::Open {
                    Err(error)
                } else {
                    Ok(())
                };
            }
            let mut ended = Video {
                state: state.clone(),
                ended_ms: Some(now_ms),
                ..row.value.clone()
            };
            cache::add(&mut ended, segments.values());
            for (sink, output) in &mut ended.outputs {
                let files = segments.values().filter_map(|segment| segment.outputs.get(sink));
                if output.form == OutputForm::Lines {
                    output.bytes += files.map(|file| file.bytes).sum::<u64>();
                }
            }
            if !self.write_video(key, &ended, row.revision).await? {
                continue;
            }
            self.work.remove(key).await;
            // What is left of these is removed with the job.
            let _ = self.rows.purge(&cache::segments_key(key)).await;
            let _ = self.rows.purge(&format!("cut.{:012}.{:06}", key.0, key.1)).await;
            ended
                .outputs
                .values()
                .for_each(|output| remove_left(&output.target));
            return Ok(());
        }
    }

    async fn join(&self, video: &Video, segments: &BTreeMap<u32, SegmentRow>) -> Result<(), QueueError> {
        let lines = video
            .outputs
            .iter()
            .filter(|(_, output)| output.form == OutputForm::Lines);
        for (sink, output) in lines {
            let files = segments.values().filter_map(|segment| segment.outputs.get(sink));
            let lines = Lines {
                target: output.target.clone(),
                base: output.bytes,
                parts: files.map(|file| (file.file.clone(), file.bytes)).collect(),
            };
            let unique = self.rows.unique();
            let joined = tokio::task::spawn_blocking(move || lines.join(&unique)).await;
            joined.unwrap_or_else(|_| Err(QueueError::OutputChanged(output.target.clone())))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::begun_since;

    #[test]
    fn what_was_committed_counts_anew() {
        for (times, committed, expected) in [(3, None, 3), (4, Some(3), 1), (2, Some(2), 2), (1, Some(7), 1)]
        {
            assert_eq!(begun_since(times, committed), expected);
        }
    }
}
