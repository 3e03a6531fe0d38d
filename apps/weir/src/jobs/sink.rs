//! Sinks that stage the results of job videos, one file per segment, and pass everything else on.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_flow::{
    Delivery, Frame, Notice, PacketObserver, RunHeader, Settings, Sink, SinkError, SinkFactory, StreamHeader,
    Value,
};
use weir_graph::SinkNode;
use weir_jobs::{OutputForm, StagedOutput};

use super::progress::{JobStream, Problem, Standing, Streams};

/// A factory of the sink of `node` that stages results of jobs; `inner` takes those of other streams.
pub(super) fn staging(
    node: &SinkNode,
    form: Option<OutputForm>,
    inner: Box<dyn SinkFactory>,
    streams: &Arc<Streams>,
) -> Box<dyn SinkFactory> {
    Box::new(StagingFactory {
        node: node.clone(),
        form,
        inner,
        streams: Arc::clone(streams),
    })
}

struct StagingFactory {
    node: SinkNode,
    form: Option<OutputForm>,
    inner: Box<dyn SinkFactory>,
    streams: Arc<Streams>,
}

impl SinkFactory for StagingFactory {
    fn open(&self) -> Result<Box<dyn Sink>, SinkError> {
        Ok(Box::new(StagingSink {
            node: self.node.clone(),
            form: self.form,
            inner: self.inner.open()?,
            streams: Arc::clone(&self.streams),
            open: BTreeMap::new(),
            header: None,
        }))
    }

    fn targets(&self) -> Vec<PathBuf> {
        self.inner.targets()
    }

    fn folder(&self) -> Option<PathBuf> {
        self.inner.folder()
    }

    fn stream_folders(&self) -> Option<PathBuf> {
        self.inner.stream_folders()
    }
}

struct StagingSink {
    node: SinkNode,
    form: Option<OutputForm>,
    inner: Box<dyn Sink>,
    streams: Arc<Streams>,
    /// The segment of each stream that is being staged.
    open: BTreeMap<Arc<str>, OpenSegment>,
    header: Option<RunHeader>,
}

struct OpenSegment {
    segment: u32,
    /// `None` where nothing is written.
    sink: Option<Box<dyn Sink>>,
    file: PathBuf,
    frames: u64,
}

impl StagingSink {
    /// Makes `segment` the open one of a stream: those before it are complete.
    fn advance(&mut self, stream: &Arc<JobStream>, segment: u32) -> Result<(), SinkError> {
        let name: Arc<str> = stream.spec.name.as_str().into();
        let next = match self.open.get(&name) {
            Some(open) if open.segment == segment => return Ok(()),
            Some(open) => open.segment + 1,
            None => stream.committed,
        };
        if let Some(open) = self.open.remove(&name) {
            self.complete(stream, open)?;
        }
        // Segments without a single frame that was decoded.
        for empty in next..segment {
            stream.on_segment(&self.node.name, empty, None, 0);
        }
        if segment < stream.until {
            let opened = self.begin_segment(stream, segment)?;
            self.open.insert(name, opened);
        }
        Ok(())
    }

    fn begin_segment(&self, stream: &JobStream, segment: u32) -> Result<OpenSegment, SinkError> {
        let extension = match self.form {
            Some(OutputForm::Lines) => "jsonl",
            Some(OutputForm::Files) => "mp4",
            None => {
                return Ok(OpenSegment {
                    segment,
                    sink: None,
                    file: PathBuf::new(),
                    frames: 0,
                });
            }
        };
        let folder = stream.work.join(&self.node.name);
        let file = folder.join(format!("{segment:06}.{extension}"));
        let failed = |error: std::io::Error| SinkError {
            target: file.display().to_string(),
            reason: error.to_string(),
        };
        std::fs::create_dir_all(&folder).map_err(failed)?;
        let mut settings: Settings = self.node.settings.clone();
        let path = file.to_string_lossy().into_owned();
        settings.0.insert("path".to_owned(), Value::Text(path));
        for key in ["rotate_age", "keep"] {
            settings.0.remove(key);
        }
        if self.form == Some(OutputForm::Lines) {
            // The lines of a segment stay in one file.
            settings
                .0
                .insert("rotate_size".to_owned(), Value::Number(u64::MAX as f64));
        }
        if self.form == Some(OutputForm::Files) {
            settings.0.insert("overwrite".to_owned(), Value::Flag(true));
        }
        let mut sink = weir_operators::sinks::sink(&self.node.kind, &settings)?.open()?;
        // A file of lines has one header, that of the run that wrote its first segment.
        let header = self
            .header
            .as_ref()
            .filter(|_| segment == 0 || self.form != Some(OutputForm::Lines));
        if let Some(header) = header {
            let mut header = header.clone();
            header.streams = vec![StreamHeader {
                name: stream.spec.name.clone(),
                source: stream.spec.path.clone(),
                detect_source: None,
            }];
            sink.begin(&header)?;
        }
        Ok(OpenSegment {
            segment,
            sink: Some(sink),
            file,
            frames: 0,
        })
    }

    fn complete(&self, stream: &Arc<JobStream>, open: OpenSegment) -> Result<(), SinkError> {
        if let Some(mut sink) = open.sink {
            sink.finish()?;
        }
        let staged = self.form.filter(|_| open.file.exists()).map(|form| StagedOutput {
            sink: self.node.name.clone(),
            form,
            file: open.file,
            target: self.target(stream, form),
        });
        stream.on_segment(&self.node.name, open.segment, staged, open.frames);
        Ok(())
    }

    /// Path of the stream's results: the one an earlier run chose, or else the sink's path with its
    /// placeholders filled in.
    fn target(&self, stream: &JobStream, form: OutputForm) -> PathBuf {
        if let Some(output) = stream.outputs.get(&self.node.name) {
            return output.target.clone();
        }
        let path = self.node.settings.text("path").unwrap_or_default();
        let path = path.replace("{stream}", &stream.spec.name);
        let path = PathBuf::from(path.replace("{file}", &file_name(Path::new(&stream.spec.path))));
        if form == OutputForm::Lines || self.node.settings.flag("overwrite", false) {
            return path;
        }
        free_name(&path)
    }

    /// Writes to the open segment of a stream; a problem ends the stream, and is the feeder's to say: the sink has lost nothing by it,
    /// since what is not committed is processed again.
    fn write(
        &mut self,
        stream: &Arc<JobStream>,
        segment: u32,
        write: impl FnOnce(&mut OpenSegment) -> Result<(), SinkError>,
    ) {
        if stream.is_broken() {
            return;
        }
        let advanced = self.advance(stream, segment);
        let written = advanced.and_then(|()| match self.open.get_mut(stream.spec.name.as_str()) {
            Some(open) => write(open),
            None => Ok(()),
        });
        if let Err(error) = written {
            stream.on_problem(Problem::Storage(error.to_string()));
        }
    }
}

/// Name of a video for its results: that of its file without the extension, of letters, digits, dots, `-` and `_`.
fn file_name(video: &Path) -> String {
    let stem = video.file_stem().unwrap_or_default().to_string_lossy();
    let plain = |c: char| {
        if c.is_alphanumeric() || "-_.".contains(c) {
            c
        } else {
            '_'
        }
    };
    let name: String = stem.chars().map(plain).take(60).collect();
    let name = name.trim_start_matches('.');
    if name.is_empty() { "video" } else { name }.to_owned()
}

/// `path`, or with the first number that makes it free.
fn free_name(path: &Path) -> PathBuf {
    let stem = path
        .file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let extension = path
        .extension()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let numbered = (2..10_000).map(|number| path.with_file_name(format!("{stem}-{number}.{extension}")));
    let mut names = std::iter::once(path.to_owned()).chain(numbered);
    names
        .find(|name| !name.exists())
        .unwrap_or_else(|| path.to_owned())
}

/// The delivery with its time in the video, and late where the job is.
fn of_job(delivery: &Delivery, deadline_ms: u64) -> Delivery {
    let frame = &delivery.frame;
    let own = Frame {
        index: frame.index,
        pts_ms: frame.stamp_ms.unwrap_or(frame.pts_ms),
        stamp_ms: frame.stamp_ms,
        image: frame.image.clone(),
        concealed: frame.concealed,
        file: frame.file.clone(),
        stream: Arc::clone(&frame.stream),
        memory_guard: None,
        privacy: frame.privacy.clone(),
    };
    Delivery {
        frame: Arc::new(own),
        late: delivery.time_ms as f64 + delivery.latency_ms > deadline_ms as f64,
        ..delivery.clone()
    }
}

impl Sink for StagingSink {
    fn begin(&mut self, run: &RunHeader) -> Result<(), SinkError> {
        self.header = Some(run.clone());
        self.inner.begin(run)
    }

    fn accept(&mut self, delivery: &Delivery) -> Result<(), SinkError> {
        let Some(stream) = self.streams.get(&delivery.stream) else {
            return self.inner.accept(delivery);
        };
        let segment = stream.segment_of(delivery.frame.index);
        if segment >= stream.committed {
            self.write(&stream, segment, |open| {
                open.frames += 1;
                match &mut open.sink {
                    Some(sink) => sink.accept(&of_job(delivery, stream.spec.deadline_ms)),
                    None => Ok(()),
                }
            });
        }
        stream.on_seen(&self.node.name);
        Ok(())
    }

    fn on_notice(&mut self, notice: &Notice) -> Result<(), SinkError> {
        let stream = match notice {
            Notice::Dropped { stream, .. }
            | Notice::Still { stream, .. }
            | Notice::State { stream, .. }
            | Notice::Analytics { stream, .. } => self.streams.get(stream),
            Notice::Described { description, .. } => self.streams.get(&description.stream),
            Notice::Sink { .. } => None,
        };
        let Some(stream) = stream else {
            let passes = self.inner.wants_notices() || matches!(notice, Notice::Analytics { .. });
            return if passes {
                self.inner.on_notice(notice)
            } else {
                Ok(())
            };
        };
        match notice {
            Notice::Dropped { frame, reason, .. } => {
                if *frame >= stream.first_open_frame() {
                    stream.on_problem(Problem::Video(format!("frame {frame} was dropped: {reason}")));
                }
                stream.on_seen(&self.node.name);
                Ok(())
            }
            // When a stream begins is no result.
            Notice::Still { .. } | Notice::State { .. } | Notice::Sink { .. } => Ok(()),
            Notice::Analytics { .. } | Notice::Described { .. } => {
                match self.open.get_mut(stream.spec.name.as_str()) {
                    Some(OpenSegment { sink: Some(sink), .. }) => sink.on_notice(notice),
                    _ => Ok(()),
                }
            }
        }
    }

    fn wants_notices(&self) -> bool {
        true
    }

    fn packet_observer(&self) -> Option<Arc<dyn PacketObserver>> {
        self.inner.packet_observer()
    }

    fn wants_candidates(&self) -> bool {
        self.inner.wants_candidates()
    }

    fn encodes_video(&self) -> bool {
        self.inner.encodes_video()
    }

    fn on_stream_removed(&mut self, name: &str) -> Result<(), SinkError> {
        let Some(stream) = self.streams.get(name) else {
            return self.inner.on_stream_removed(name);
        };
        let completed = if stream.standing() == Standing::Complete {
            self.advance(&stream, stream.until)
        } else {
            Ok(())
        };
        self.open.remove(name);
        if let Err(error) = completed {
            stream.on_problem(Problem::Storage(error.to_string()));
        }
        stream.on_removed();
        Ok(())
    }

    fn counts(&self) -> BTreeMap<&'static str, u64> {
        self.inner.counts()
    }

    fn outage(&self) -> Option<String> {
        self.inner.outage()
    }

    fn is_reader_gone(&self) -> bool {
        self.inner.is_reader_gone()
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        // What is not whole is processed again.
        self.open.clear();
        self.inner.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_named_after_the_file_of_the_video() {
        for (video, expected) in [
            ("/videos/monday morning.mp4", "monday_morning"),
            ("gate.2026-11-28.mkv", "gate.2026-11-28"),
            ("..", "video"),
            ("/videos/", "videos"),
            ("a/.hidden/..x.mp4", "x"),
            ("https://server/clip.mp4?a=b/../c", "c"),
        ] {
            assert_eq!(file_name(Path::new(video)), expected, "{video}");
        }
        assert_eq!(file_name(Path::new(&"\u{e4}".repeat(300))).chars().count(), 60);
    }
}
