//! Cache of the rows of a queue.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::part::Progress;
use crate::error::QueueError;
use crate::job::{Job, JobView, MAX_ENDED_JOBS, OutputForm, Video, VideoState};

/// Row of a committed segment. The engine that writes it first has committed the segment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SegmentRow {
    pub(super) frames: u64,
    pub(super) late: bool,
    /// Number of earlier starts without a commit.
    pub(super) repeated: u64,
    /// Number of times that its part had been delivered when the segment was committed.
    pub(super) given: u32,
    /// Staged results, by sink.
    pub(super) outputs: BTreeMap<String, SegmentFile>,
}

/// Results of a segment, whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SegmentFile {
    pub(super) form: OutputForm,
    pub(super) file: PathBuf,
    /// Path of the output file.
    pub(super) target: PathBuf,
    pub(super) bytes: u64,
}

/// A row as it was read.
#[derive(Debug, Clone)]
pub(super) struct Row<T> {
    pub(super) value: T,
    pub(super) revision: u64,
}

/// A job and the number of one of its videos.
pub(super) type VideoKey = (u64, usize);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Cache {
    /// Revision of the row that was read last.
    pub(super) last: u64,
    pub(super) jobs: BTreeMap<u64, Row<Job>>,
    videos: BTreeMap<VideoKey, Row<Video>>,
    /// Segments of videos that have not ended.
    segments: BTreeMap<VideoKey, BTreeMap<u32, SegmentRow>>,
}

pub(super) fn job_key(job: u64) -> String {
    format!("row.job.{job:012}")
}

pub(super) fn video_key((job, video): VideoKey) -> String {
    format!("row.video.{job:012}.{video:06}")
}

/// Common prefix of the keys of a job's videos.
pub(super) fn videos_key(job: u64) -> String {
    format!("row.video.{job:012}")
}

pub(super) fn segment_key(key: VideoKey, segment: u32) -> String {
    format!("{}.{segment:08}", segments_key(key))
}

/// Common prefix of the keys of a video's segments.
pub(super) fn segments_key((job, video): VideoKey) -> String {
    format!("row.segment.{job:012}.{video:06}")
}

/// Common prefix of the keys of all segments of a job.
pub(super) fn job_segments_key(job: u64) -> String {
    format!("row.segment.{job:012}")
}

impl Cache {
    /// Applies a row that was read.
    pub(super) fn apply(&mut self, key: &str, value: &[u8], revision: u64) -> Result<(), QueueError> {
        let mut parts = key.split('.').skip(1);
        let kind = parts.next().unwrap_or_default();
        let numbers: Vec<u64> = parts.filter_map(|part| part.parse().ok()).collect();
        match (kind, numbers.as_slice()) {
            ("job", [job]) => {
                let value = serde_json::from_slice(value)?;
                self.jobs.insert(*job, Row { value, revision });
            }
            ("video", [job, video]) => {
                let value: Video = serde_json::from_slice(value)?;
                let key = (*job, *video as usize);
                if value.state != VideoState::Open {
                    self.segments.remove(&key);
                }
                self.videos.insert(key, Row { value, revision });
            }
            ("segment", [job, video, segment]) => {
                let key = (*job, *video as usize);
                if !self.is_ended(key) {
                    let value = serde_json::from_slice(value)?;
                    self.segments
                        .entry(key)
                        .or_default()
                        .insert(*segment as u32, value);
                }
            }
            // Row of a later version, which declares itself compatible with this one.
            _ => {}
        }
        Ok(())
    }

    fn is_ended(&self, key: VideoKey) -> bool {
        let video = self.videos.get(&key);
        video.is_some_and(|video| video.value.state != VideoState::Open)
    }

    /// The row of a video of a job that is there.
    pub(super) fn video(&self, key: VideoKey) -> Result<Row<Video>, QueueError> {
        let job = self.jobs.get(&key.0).ok_or(QueueError::Unknown(key.0))?;
        if key.1 >= job.value.videos.len() {
            return Err(QueueError::Unknown(key.0));
        }
        let row = self.videos.get(&key).cloned();
        Ok(row.unwrap_or_else(|| Row {
            value: Video::default(),
            revision: 0,
        }))
    }

    /// The committed segments of a video that has not ended.
    pub(super) fn segments(&self, key: VideoKey) -> BTreeMap<u32, SegmentRow> {
        self.segments.get(&key).cloned().unwrap_or_default()
    }

    /// Progress of a video, from the cached rows.
    pub(super) fn progress(&self, key: VideoKey) -> Result<Progress, QueueError> {
        let row = self.video(key)?.value;
        let is_cancelled = self.jobs.get(&key.0).is_some_and(|job| job.value.cancelled);
        let segments = self.segments.get(&key);
        Ok(Progress {
            is_over: is_cancelled || row.state != VideoState::Open,
            segments: row.file.map(|_| row.segments),
            committed: segments
                .map(|rows| rows.keys().copied().collect())
                .unwrap_or_default(),
        })
    }

    /// The video, with what is committed of it.
    pub(super) fn view_of(&self, key: VideoKey) -> Result<Video, QueueError> {
        let mut video = self.video(key)?.value;
        if video.state == VideoState::Open
            && let Some(segments) = self.segments.get(&key)
        {
            add(&mut video, segments.values());
        }
        Ok(video)
    }

    /// All jobs, in the order of submission. The oldest of the ended jobs are forgotten.
    pub(super) fn views(&mut self) -> Result<Vec<JobView>, QueueError> {
        let mut views = Vec::new();
        for (id, row) in &self.jobs {
            let mut job = row.value.clone();
            let videos = 0..job.videos.len();
            let progress = videos.map(|video| self.view_of((*id, video)));
            let progress = progress.collect::<Result<Vec<Video>, _>>()?;
            if !job.cancelled && progress.iter().all(|video| video.state != VideoState::Open) {
                job.finished_ms = progress.iter().filter_map(|video| video.ended_ms).max();
            }
            views.push(JobView { job, progress });
        }
        for id in forgotten(&views) {
            views.retain(|view| view.job.id != id);
            self.jobs.remove(&id);
            self.videos.retain(|key, _| key.0 != id);
            self.segments.retain(|key, _| key.0 != id);
        }
        Ok(views)
    }
}

/// The jobs that are listed no more.
pub(super) fn forgotten(views: &[JobView]) -> Vec<u64> {
    let ended: Vec<u64> = views
        .iter()
        .filter(|view| !view.is_open())
        .map(|view| view.job.id)
        .collect();
    let too_many = ended.len().saturating_sub(MAX_ENDED_JOBS);
    ended[..too_many].to_vec()
}

/// Counts committed segments.
pub(super) fn add<'a>(video: &mut Video, segments: impl Iterator<Item = &'a SegmentRow>) {
    for segment in segments {
        video.committed += 1;
        video.frames += segment.frames;
        video.late_frames += if segment.late { segment.frames } else { 0 };
        video.repeated += segment.repeated;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_video_is_its_row_and_its_committed_segments_until_it_ends() {
        let mut cache = Cache::default();
        let job = serde_json::json!({
            "id": 1, "graph": "/g", "digest": "d", "source": "s", "submitted_ms": 1, "deadline_ms": null,
            "videos": ["/a", "/b"], "cancelled": false, "finished_ms": null
        });
        cache
            .apply("row.job.000000000001", job.to_string().as_bytes(), 3)
            .expect("a row");
        let segment =
            serde_json::json!({"frames": 10, "late": true, "repeated": 1, "given": 2, "outputs": {}});
        let key = segment_key((1, 1), 4);
        assert_eq!(key, "row.segment.000000000001.000001.00000004");
        cache
            .apply(&key, segment.to_string().as_bytes(), 4)
            .expect("a row");
        let view = cache.views().expect("views").remove(0);
        let video = &view.progress[1];
        assert_eq!(
            (video.committed, video.frames, video.late_frames, video.repeated),
            (1, 10, 10, 1)
        );
        let mut ended = Video {
            state: VideoState::Done,
            ended_ms: Some(7),
            ..Video::default()
        };
        for index in [0, 1] {
            let text = serde_json::to_vec(&ended).expect("json");
            cache.apply(&video_key((1, index)), &text, 5).expect("a row");
            ended.ended_ms = Some(9);
        }
        // The segment was read after its video had ended.
        cache
            .apply(&key, segment.to_string().as_bytes(), 6)
            .expect("a row");
        let view = cache.views().expect("views").remove(0);
        assert_eq!((view.progress[1].committed, view.job.finished_ms), (0, Some(9)));
        assert!(!view.is_open());
        assert!(matches!(cache.video((1, 2)), Err(QueueError::Unknown(1))));
        assert!(cache.apply("row.job.1", b"{", 7).is_err());
    }
}
