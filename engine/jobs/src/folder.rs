//! A queue in a folder, for one engine at a time: jobs come in, segments are committed, videos end.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::QueueError;
use crate::job::{
    FileIdentity, Job, JobView, MAX_ENDED_JOBS, MAX_OPEN_JOBS, Output, OutputForm, Pending, Segment,
    StagedOutput, Submission, Video, VideoState,
};
use crate::output::sync;
use crate::store::{Change, OpenStore, Store};

/// See the module. Any number of programs may have one of a folder.
#[derive(Debug)]
pub struct FolderQueue {
    folder: PathBuf,
    store: Store,
}

/// Held by the engine that works on a queue in a folder.
#[derive(Debug)]
pub struct EngineLock(
    #[expect(dead_code, reason = "the lock lasts as long as the file is open")] Option<File>,
);

impl EngineLock {
    /// Lock of a queue that any number of engines may open.
    #[cfg(feature = "nats")]
    pub(crate) fn none() -> Self {
        Self(None)
    }
}

fn job_key(job: u64) -> String {
    format!("job/{job:012}")
}

fn video_key(job: u64, video: usize) -> String {
    format!("video/{job:012}/{video:06}")
}

fn segments_key(job: u64, video: usize) -> String {
    format!("segments/{job:012}/{video:06}")
}

fn put(key: String, value: &impl Serialize) -> Result<Change, QueueError> {
    Ok((key, Some(serde_json::to_vec(value)?)))
}

fn read<T: DeserializeOwned>(store: &OpenStore<'_>, key: &str) -> Result<Option<T>, QueueError> {
    let row = store.get(key)?;
    Ok(row.map(|row| serde_json::from_slice(&row)).transpose()?)
}

impl FolderQueue {
    /// Opens the queue in `folder`, and creates it if it is missing.
    ///
    /// # Errors
    /// [`QueueError`] if the folder cannot be written, or its contents cannot be read.
    pub fn create(folder: &Path) -> Result<Self, QueueError> {
        std::fs::create_dir_all(folder).map_err(QueueError::file(folder))?;
        let queue = Self::of(folder);
        queue.store.open()?;
        Ok(queue)
    }

    /// Opens the queue in `folder`.
    ///
    /// # Errors
    /// [`QueueError::Missing`] where there is none, and as [`FolderQueue::create`].
    pub fn open(folder: &Path) -> Result<Self, QueueError> {
        if !Store::main_path(folder).exists() && !Store::copy_path(folder).exists() {
            return Err(QueueError::Missing(folder.to_owned()));
        }
        Self::create(folder)
    }

    fn of(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
            store: Store::new(folder),
        }
    }

    /// Folder in which the queue is stored.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Folder in which results of a video's segments are staged.
    #[must_use]
    pub fn work_folder(&self, job: u64, video: usize) -> PathBuf {
        self.folder.join("work").join(format!("{job}-{video}"))
    }

    /// Rows that were lost when the store was damaged, as text; `None` if it never was.
    ///
    /// # Errors
    /// As [`FolderQueue::create`].
    pub fn loss(&self) -> Result<Option<String>, QueueError> {
        self.store.open()?.loss()
    }

    /// Makes this process the one engine that works on it.
    ///
    /// # Errors
    /// [`QueueError::InUse`] where another one does.
    pub fn lock_for_engine(&self) -> Result<EngineLock, QueueError> {
        let path = self.folder.join("engine.lock");
        let file = File::create(&path).map_err(QueueError::file(&path))?;
        match file.try_lock() {
            Ok(()) => Ok(EngineLock(Some(file))),
            Err(TryLockError::WouldBlock) => Err(QueueError::InUse(self.folder.clone())),
            Err(TryLockError::Error(error)) => Err(QueueError::file(&path)(error)),
        }
    }

    /// All jobs, in the order of their submission.
    ///
    /// # Errors
    /// As [`FolderQueue::create`].
    pub fn jobs(&self) -> Result<Vec<JobView>, QueueError> {
        jobs(&self.store.open()?)
    }

    /// Adds a job and returns its number.
    ///
    /// # Errors
    /// [`QueueError::Full`], [`QueueError::Refused`], and as [`FolderQueue::create`].
    pub fn submit(&self, submission: &Submission, now_ms: u64) -> Result<u64, QueueError> {
        submission.check()?;
        let store = self.store.open()?;
        let jobs = jobs(&store)?;
        let open = jobs.iter().filter(|job| job.is_open()).count();
        if open >= MAX_OPEN_JOBS {
            return Err(QueueError::Full(open));
        }
        let id = read::<u64>(&store, "meta/last-job")?.unwrap_or(0) + 1;
        let job = submission.job(id, now_ms);
        let mut changes = vec![put("meta/last-job".to_owned(), &id)?, put(job_key(id), &job)?];
        for video in 0..job.videos.len() {
            changes.push(put(video_key(id, video), &Video::default())?);
        }
        let ended: Vec<&JobView> = jobs.iter().filter(|job| !job.is_open()).collect();
        for view in ended.iter().take(ended.len().saturating_sub(MAX_ENDED_JOBS)) {
            changes.push((job_key(view.job.id), None));
            let videos = 0..view.job.videos.len();
            changes.extend(videos.clone().map(|video| (video_key(view.job.id, video), None)));
            changes.extend(videos.map(|video| (segments_key(view.job.id, video), None)));
        }
        store.change(&changes)?;
        Ok(id)
    }

    /// Cancels a job: committed results stay, and no further segment is processed. Returns true if the job
    /// was open.
    ///
    /// # Errors
    /// [`QueueError::Unknown`], and as [`FolderQueue::create`].
    pub fn cancel(&self, job: u64, now_ms: u64) -> Result<bool, QueueError> {
        let store = self.store.open()?;
        let jobs = jobs(&store)?;
        let view = jobs.into_iter().find(|view| view.job.id == job);
        let view = view.ok_or(QueueError::Unknown(job))?;
        if !view.is_open() {
            return Ok(false);
        }
        let cancelled = Job {
            cancelled: true,
            finished_ms: Some(now_ms),
            ..view.job
        };
        store.change(&[put(job_key(job), &cancelled)?])?;
        Ok(true)
    }

    /// Segments of a video; `None` before it was cut.
    ///
    /// # Errors
    /// As [`FolderQueue::create`].
    pub fn segments(&self, job: u64, video: usize) -> Result<Option<Vec<Segment>>, QueueError> {
        read(&self.store.open()?, &segments_key(job, video))
    }

    /// Progress of a video.
    ///
    /// # Errors
    /// [`QueueError::Unknown`], and as [`FolderQueue::create`].
    pub fn video(&self, job: u64, video: usize) -> Result<Video, QueueError> {
        video_row(&self.store.open()?, job, video)
    }

    /// Records how a video is cut.
    ///
    /// # Errors
    /// As [`FolderQueue::create`].
    pub fn record_cut(
        &self,
        (job, video): (u64, usize),
        file: FileIdentity,
        segments: &[Segment],
        truncation: Option<String>,
    ) -> Result<Video, QueueError> {
        let store = self.store.open()?;
        let mut row = video_row(&store, job, video)?;
        row.file = Some(file);
        row.segments = segments.len() as u32;
        row.truncation = truncation;
        store.change(&[
            put(video_key(job, video), &row)?,
            put(segments_key(job, video), &segments)?,
        ])?;
        Ok(row)
    }

    /// Starts or resumes a video: moves committed results to their outputs, removes results without a commit,
    /// and counts the start.
    ///
    /// # Errors
    /// [`QueueError::OutputChanged`], and as [`FolderQueue::create`].
    pub fn begin(&self, job: u64, video: usize) -> Result<Video, QueueError> {
        let store = self.store.open()?;
        let mut row = video_row(&store, job, video)?;
        for pending in &row.pending {
            pending.publish()?;
        }
        row.begun += 1;
        row.repeated += u64::from(row.begun > 1);
        store.change(&[put(video_key(job, video), &row)?])?;
        Ok(row)
    }

    /// Commits the complete results of a segment: first they are synced to the disk, then the segment is
    /// recorded, then lines are appended to the output. After a crash between the last two steps,
    /// [`FolderQueue::begin`] appends them.
    ///
    /// # Errors
    /// [`QueueError::OutOfOrder`], [`QueueError::OutputChanged`], and as [`FolderQueue::create`]. Unless the
    /// last step failed, nothing is committed.
    pub fn commit(
        &self,
        (job, video, segment): (u64, usize, u32),
        frames: u64,
        is_late: bool,
        staged: &[StagedOutput],
    ) -> Result<(), QueueError> {
        let mut sizes = Vec::new();
        for output in staged {
            sizes.push(sync(&output.file)?);
        }
        let store = self.store.open()?;
        let mut row = video_row(&store, job, video)?;
        if row.committed != segment {
            return Err(QueueError::OutOfOrder {
                job,
                segment,
                committed: row.committed,
            });
        }
        row.pending.clear();
        for (output, bytes) in staged.iter().zip(sizes) {
            let there = || match output.form {
                OutputForm::Lines => std::fs::metadata(&output.target).map_or(0, |target| target.len()),
                OutputForm::Files => 0,
            };
            let entry = row.outputs.entry(output.sink.clone()).or_insert_with(|| Output {
                form: output.form,
                target: output.target.clone(),
                bytes: there(),
            });
            if output.form == OutputForm::Lines {
                row.pending.push(Pending {
                    file: output.file.clone(),
                    target: entry.target.clone(),
                    base: entry.bytes,
                    bytes,
                });
                entry.bytes += bytes;
            }
        }
        row.committed += 1;
        row.frames += frames;
        row.late_frames += if is_late { frames } else { 0 };
        row.begun = 0;
        store.change(&[put(video_key(job, video), &row)?])?;
        drop(store);
        row.pending.iter().try_for_each(Pending::publish)
    }

    /// A video ended, and its job with its last video. What was staged of it is removed.
    ///
    /// # Errors
    /// As [`FolderQueue::create`].
    pub fn end(&self, job: u64, video: usize, state: VideoState, now_ms: u64) -> Result<(), QueueError> {
        let store = self.store.open()?;
        let mut row = video_row(&store, job, video)?;
        for pending in &row.pending {
            pending.publish()?;
        }
        row.pending.clear();
        row.state = state;
        let mut changes = vec![put(video_key(job, video), &row)?];
        let views = jobs(&store)?;
        let view = views.into_iter().find(|view| view.job.id == job);
        let mut view = view.ok_or(QueueError::Unknown(job))?;
        view.progress[video] = row;
        if !view.is_open() && view.job.finished_ms.is_none() {
            view.job.finished_ms = Some(now_ms);
            changes.push(put(job_key(job), &view.job)?);
        }
        store.change(&changes)?;
        drop(store);
        match std::fs::remove_dir_all(self.work_folder(job, video)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(QueueError::file(&self.work_folder(job, video))(error))
            }
            _ => Ok(()),
        }
    }
}

fn video_row(store: &OpenStore<'_>, job: u64, video: usize) -> Result<Video, QueueError> {
    read(store, &video_key(job, video))?.ok_or(QueueError::Unknown(job))
}

fn jobs(store: &OpenStore<'_>) -> Result<Vec<JobView>, QueueError> {
    let mut views = Vec::new();
    for (_, row) in store.with_prefix("job/")? {
        let job: Job = serde_json::from_slice(&row)?;
        let videos = store.with_prefix(&format!("video/{:012}/", job.id))?;
        let videos = videos.iter().map(|(_, row)| serde_json::from_slice(row));
        let progress = videos.collect::<Result<Vec<Video>, _>>()?;
        views.push(JobView { job, progress });
    }
    Ok(views)
}
