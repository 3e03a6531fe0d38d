//! Annotated video: objects and attributes drawn on the frames and encoded, one file for each stream.

mod annotate;
mod canvas;
mod font;
mod grid;
mod overlays;
mod palette;
mod png;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use weir_flow::{Delivery, KeyKind, KeySpec, Packet, PacketFormat, Settings, Sink, SinkError, SinkFactory};

use self::canvas::Canvas;
use super::target::{StreamFiles, Target, failed};
use super::{SinkKind, required_path};
use crate::ShownPicture;
use crate::media::{Encoding, Naming, PictureEncoder, Rgb, VideoFile, VideoPlace, part_path};
use crate::pixels::Sampler;

pub use self::grid::grid_png;
pub use self::png::annotated_png;

/// Concurrent encoders: each holds some megabytes and uses a share of a core.
const MAX_STREAMS: usize = 64;

pub(super) const KIND: SinkKind = SinkKind {
    name: "mp4",
    about: "the video with detected objects drawn on it, H.264",
    keys: KEYS,
    file_per_stream: true,
    create,
};

const KEYS: &[KeySpec] = &[
    KeySpec {
        name: "path",
        kind: KeyKind::Text,
        about: "file to write, one for each stream; `{stream}` in it stands for the stream's name (required)",
    },
    KeySpec {
        name: "overwrite",
        kind: KeyKind::Flag,
        about: "a file that is there already is replaced when the video is complete; default false: the video takes the next free name, `north-2.mp4`",
    },
    KeySpec {
        name: "crf",
        kind: KeyKind::Number { min: 0.0, max: 51.0 },
        about: "quality of H.264: lower is better and larger (default 23)",
    },
    KeySpec {
        name: "score_threshold",
        kind: KeyKind::Number { min: 0.0, max: 1.0 },
        about: "objects below this score are not drawn (default 0: all are)",
    },
];

fn create(settings: &Settings, streams: &[String]) -> Result<Box<dyn SinkFactory>, SinkError> {
    let path = required_path(&KIND, settings)?;
    Ok(Box::new(Mp4Factory::new(path, settings, streams)))
}

/// Opens an [`Mp4`].
struct Mp4Factory {
    target: Target,
    files: StreamFiles,
    naming: Naming,
    crf: f64,
    score_threshold: f32,
}

impl Mp4Factory {
    fn new(path: &str, settings: &Settings, streams: &[String]) -> Self {
        let target = Target::new(path);
        Self {
            files: StreamFiles::new(target.clone(), false, streams),
            target,
            naming: if settings.flag("overwrite", false) {
                Naming::Replace
            } else {
                Naming::Free
            },
            crf: settings.number("crf", 23.0),
            score_threshold: settings.number("score_threshold", 0.0) as f32,
        }
    }
}

impl SinkFactory for Mp4Factory {
    fn open(&self) -> Result<Box<dyn Sink>, SinkError> {
        let mut videos = BTreeMap::new();
        // A bad path is found before the run, not at the first frame, and all places are claimed.
        for (stream, path) in self.files.assigned().take(MAX_STREAMS) {
            let place = VideoPlace::claim(path, self.naming)?;
            videos.insert(stream.into(), Video::Place(place));
        }
        if videos.is_empty() {
            let some = self.files.clone().path_of("stream");
            if some.parent() == self.target.path().parent() {
                // Several engines may begin at once where none has a stream yet.
                VideoPlace::check(&some, self.naming)?;
            }
        }
        Ok(Box::new(Mp4 {
            files: self.files.clone(),
            naming: self.naming,
            crf: self.crf,
            score_threshold: self.score_threshold,
            videos,
            drawing: Drawing::default(),
        }))
    }

    fn targets(&self) -> Vec<PathBuf> {
        let each = |(_, path): (&str, &std::path::Path)| [path.to_owned(), part_path(path)];
        self.files.assigned().flat_map(each).collect()
    }
}

struct Mp4 {
    files: StreamFiles,
    naming: Naming,
    crf: f64,
    score_threshold: f32,
    videos: BTreeMap<Arc<str>, Video>,
    drawing: Drawing,
}

/// Frames with objects and overlays drawn on them.
#[derive(Default)]
pub(super) struct Drawing {
    sampler: Sampler,
    canvas: Canvas,
}

impl Drawing {
    /// The picture of a delivery, with objects from that score on.
    fn draw(&mut self, delivery: &Delivery, score_threshold: f32) -> Rgb<'_> {
        let picture = ShownPicture::of(&delivery.frame);
        self.canvas.begin(&picture, &mut self.sampler);
        annotate::draw(
            &mut self.canvas,
            &delivery.objects,
            &delivery.overlays,
            score_threshold,
        );
        self.canvas.rgb()
    }
}

/// Packets of the frames of one stream, drawn on and encoded as they arrive.
pub(super) struct DrawnStream(PictureEncoder);

impl DrawnStream {
    /// In the size of that frame.
    ///
    /// # Errors
    /// The reason, if there is no encoder for it.
    pub(super) fn new(delivery: &Delivery, encoding: &Encoding) -> Result<Self, String> {
        let size = (delivery.frame.image.width, delivery.frame.image.height);
        PictureEncoder::new(size, encoding).map(Self)
    }

    pub(super) fn format(&self) -> &PacketFormat {
        self.0.format()
    }

    /// The packets of a frame.
    ///
    /// # Errors
    /// The reason of the encoder.
    pub(super) fn encode(
        &mut self,
        drawing: &mut Drawing,
        delivery: &Delivery,
        score_threshold: f32,
    ) -> Result<Vec<Packet>, String> {
        let picture = drawing.draw(delivery, score_threshold);
        self.0.encode(picture, delivery.frame.pts_ms)
    }
}

enum Video {
    /// No frame arrived yet.
    Place(VideoPlace),
    File(Box<VideoFile>),
    /// It takes no more frames: the reason, and the file if it was started.
    Broken {
        reason: String,
        file: Option<Box<VideoFile>>,
    },
}

impl Video {
    fn finish(self) -> Result<(), SinkError> {
        match self {
            Self::File(file) | Self::Broken { file: Some(file), .. } => file.finish().map(drop),
            Self::Place(_) | Self::Broken { file: None, .. } => Ok(()),
        }
    }
}

impl Mp4 {
    /// Starts the video of a stream at its first frame. A failed start is not retried at every frame.
    fn begin_video(&mut self, delivery: &Delivery) -> Result<(), SinkError> {
        let stream = &delivery.stream;
        let place = match self.videos.remove(stream) {
            Some(Video::Place(place)) => Ok(place),
            Some(begun) => {
                self.videos.insert(Arc::clone(stream), begun);
                return Ok(());
            }
            None if self.videos.len() >= MAX_STREAMS => {
                return Err(failed(
                    &self.files.path_of(stream),
                    format!("{MAX_STREAMS} videos are being written: take fewer streams"),
                ));
            }
            None => VideoPlace::claim(&self.files.path_of(stream), self.naming),
        };
        let size = (delivery.frame.image.width, delivery.frame.image.height);
        let video = match place.and_then(|place| VideoFile::begin(place, size, Encoding::live(self.crf))) {
            Ok(file) => Video::File(Box::new(file)),
            Err(SinkError { reason, .. }) => Video::Broken { reason, file: None },
        };
        self.videos.insert(Arc::clone(stream), video);
        Ok(())
    }
}

impl Sink for Mp4 {
    fn encodes_video(&self) -> bool {
        true
    }

    fn accept(&mut self, delivery: &Delivery) -> Result<(), SinkError> {
        self.begin_video(delivery)?;
        if let Some(Video::Broken { reason, .. }) = self.videos.get(&delivery.stream) {
            return Err(failed(&self.files.path_of(&delivery.stream), reason));
        }
        let Some(Video::File(mut file)) = self.videos.remove(&delivery.stream) else {
            return Ok(());
        };
        let picture = self.drawing.draw(delivery, self.score_threshold);
        let written = file.write(picture, delivery.frame.pts_ms);
        let video = match &written {
            Ok(()) => Video::File(file),
            Err(error) => Video::Broken {
                reason: error.reason.clone(),
                file: Some(file),
            },
        };
        self.videos.insert(Arc::clone(&delivery.stream), video);
        written
    }

    fn on_stream_removed(&mut self, stream: &str) -> Result<(), SinkError> {
        self.videos.remove(stream).map_or(Ok(()), Video::finish)
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        let mut first = Ok(());
        for (_, video) in std::mem::take(&mut self.videos) {
            first = first.and(video.finish());
        }
        first
    }
}
