//! Annotated video: what was found, drawn on the frames and encoded, one file for each stream.

mod annotate;
mod canvas;
mod font;
mod palette;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use weir_flow::{Delivery, Sink, SinkError, SinkFactory};

use self::canvas::Canvas;
use super::target::{Target, failed, look_whether_file};
use crate::media::{Encoding, VideoFile, part_of};
use crate::pixels::Sampler;

/// Encoders at once: each holds some megabytes and takes its share of a core.
const MAX_STREAMS: usize = 64;

/// Opens an [`Mp4`].
pub(super) struct Videos {
    target: Target,
    crf: f64,
    score_threshold: f32,
}

impl Videos {
    pub(super) fn new(path: &str, crf: f64, score_threshold: f32) -> Self {
        Self {
            target: Target::new(path),
            crf,
            score_threshold,
        }
    }
}

impl SinkFactory for Videos {
    fn open(&self) -> Result<Box<dyn Sink>, SinkError> {
        // A bad path is known before the run, not at the first frame.
        let some = self.target.of("stream");
        if some.parent() == self.target.path().parent() {
            look_whether_file(&some, &part_of(&some))?;
        }
        Ok(Box::new(Mp4 {
            target: self.target.clone(),
            crf: self.crf,
            score_threshold: self.score_threshold,
            videos: BTreeMap::new(),
            sampler: Sampler::new(),
            canvas: Canvas::default(),
        }))
    }
}

struct Mp4 {
    target: Target,
    crf: f64,
    score_threshold: f32,
    videos: BTreeMap<Arc<str>, Video>,
    sampler: Sampler,
    canvas: Canvas,
}

struct Video {
    path: PathBuf,
    /// None where it could not be begun.
    file: Option<VideoFile>,
    /// Why it takes no more frames.
    broken: Option<String>,
}

impl Mp4 {
    fn path(&self, stream: &str) -> PathBuf {
        if self.target.is_template() || self.videos.is_empty() {
            self.target.of(stream)
        } else {
            self.target.beside(stream)
        }
    }

    fn video(&mut self, delivery: &Delivery) -> Result<&mut Video, SinkError> {
        if !self.videos.contains_key(&delivery.stream) {
            let path = self.path(&delivery.stream);
            if self.videos.len() >= MAX_STREAMS {
                return Err(failed(
                    &path,
                    format!("{MAX_STREAMS} videos are being written: take fewer streams"),
                ));
            }
            let image = &delivery.frame.image;
            // What could not be begun is not tried again at every frame.
            let size = (image.width, image.height);
            let (file, broken) = match VideoFile::create(&path, size, Encoding::live(self.crf)) {
                Ok(file) => (Some(file), None),
                Err(error) => (None, Some(error.reason)),
            };
            let video = Video { path, file, broken };
            self.videos.insert(Arc::clone(&delivery.stream), video);
        }
        let target = &self.target;
        self.videos
            .get_mut(&delivery.stream)
            .ok_or_else(|| failed(&target.path(), "it is closed"))
    }
}

impl Sink for Mp4 {
    fn accept(&mut self, delivery: &Delivery) -> Result<(), SinkError> {
        let video = self.video(delivery)?;
        if let Some(reason) = &video.broken {
            return Err(failed(&video.path, reason));
        }
        let image = &delivery.frame.image;
        self.canvas.begin(image.width, image.height, |samples| {
            self.sampler.rgb(image, samples)
        });
        annotate::draw(&mut self.canvas, &delivery.objects, self.score_threshold);
        let Some(video) = self.videos.get_mut(&delivery.stream) else {
            return Ok(());
        };
        let Some(file) = &mut video.file else {
            return Ok(());
        };
        let written = file.write(self.canvas.rgb(), delivery.frame.pts_ms);
        if let Err(error) = &written {
            video.broken = Some(error.reason.clone());
        }
        written
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        let mut first = Ok(());
        for (_, video) in std::mem::take(&mut self.videos) {
            let Some(file) = video.file else { continue };
            first = first.and(file.finish());
        }
        first
    }
}
