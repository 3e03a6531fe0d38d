//! Event lines into files, or to standard output.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use weir_flow::{Delivery, KeyKind, KeySpec, Notice, RunHeader, Settings, Sink, SinkError, SinkFactory};

use super::event::{write_analytics, write_event_with, write_header, write_notice};
use super::event_shapes::MaskForm;
use super::line_file::{LineFile, Rotation};
use super::target::{StreamFiles, Target, failed, io_failed};
use super::{SinkKind, required_path};

/// Open files; more streams must share one file.
const MAX_FILES: usize = 256;

pub(super) const KIND: SinkKind = SinkKind {
    name: "jsonl",
    about: "JSON lines of incidents, ended tracks and delivered frames, after a header line for each run (docs/reference/events.md)",
    keys: KEYS,
    file_per_stream: false,
    create,
};

const KEYS: &[KeySpec] = &[
    KeySpec {
        name: "path",
        kind: KeyKind::Text,
        about: "file to append to, `-` for standard output; `{stream}` in it gives a file for each stream (required)",
    },
    KeySpec {
        name: "frames",
        kind: KeyKind::Flag,
        about: "lines for delivered frames; `false` leaves incidents, ended tracks and states of streams; default true if `inputs` name a source, a module or a tracker, and false if they name transforms or `*` alone",
    },
    KeySpec {
        name: "drops",
        kind: KeyKind::Flag,
        about: "lines for frames that were dropped and for states of streams, too; default false",
    },
    KeySpec {
        name: "candidates",
        kind: KeyKind::Flag,
        about: "objects below the operating thresholds of their classes (`class_thresholds` of the model), too, marked as \
                candidates; default false",
    },
    KeySpec {
        name: "mask_form",
        kind: KeyKind::OneOf(&["rle", "polygon"]),
        about: "masks of objects: rle, the run-length encoding of COCO; polygon, outlines of at most 64 corners without holes; default rle",
    },
    KeySpec {
        name: "rotate_size",
        kind: KeyKind::Bytes,
        about: "a file that would grow beyond this is renamed to `events.000001.jsonl` and so on, the newest with the highest number; default `\"256MiB\"`",
    },
    KeySpec {
        name: "rotate_age",
        kind: KeyKind::Duration,
        about: "a file whose first line is older than this is renamed likewise; default never",
    },
    KeySpec {
        name: "keep",
        kind: KeyKind::Integer { min: 1, max: 100_000 },
        about: "number of renamed files that are kept, the oldest are removed first; default 16",
    },
];

/// Keys that an open sink takes over from another text of its graph.
const LIVE_KEYS: &[&str] = &["rotate_size", "rotate_age", "keep"];

/// Defaults of the rotation: 4 GiB in all.
const DEFAULT_ROTATE_BYTES: f64 = (256_u64 << 20) as f64;
const DEFAULT_KEEP: f64 = 16.0;

fn rotation(settings: &Settings) -> Rotation {
    let age_s = settings.number("rotate_age", 0.0);
    Rotation {
        bytes: Some(settings.number("rotate_size", DEFAULT_ROTATE_BYTES) as u64),
        age_ms: (age_s > 0.0).then_some((age_s * 1e3) as u64),
        keep: Some(settings.number("keep", DEFAULT_KEEP) as usize),
    }
}

fn create(settings: &Settings, streams: &[String]) -> Result<Box<dyn SinkFactory>, SinkError> {
    let path = required_path(&KIND, settings)?;
    Ok(Box::new(JsonlFactory::new(path, settings, streams)))
}

/// Opens a [`Jsonl`].
struct JsonlFactory {
    target: Target,
    files: StreamFiles,
    rotation: Rotation,
    frames: bool,
    drops: bool,
    candidates: bool,
    masks: MaskForm,
}

impl JsonlFactory {
    fn new(path: &str, settings: &Settings, streams: &[String]) -> Self {
        let target = Target::new(path);
        Self {
            files: StreamFiles::new(target.clone(), true, streams),
            target,
            rotation: rotation(settings),
            frames: settings.flag("frames", true),
            drops: settings.flag("drops", false),
            candidates: settings.flag("candidates", false),
            masks: match settings.text("mask_form") {
                Some("polygon") => MaskForm::Polygons,
                _ => MaskForm::Runs,
            },
        }
    }
}

impl SinkFactory for JsonlFactory {
    fn open(&self) -> Result<Box<dyn Sink>, SinkError> {
        let mut sink = Jsonl {
            shared: !self.target.is_template(),
            to_output: self.target.is_standard_output(),
            files: self.files.clone(),
            rotation: self.rotation,
            frames: self.frames,
            drops: self.drops,
            candidates: self.candidates,
            masks: self.masks,
            header: None,
            outputs: BTreeMap::new(),
            line: Vec::new(),
            reader_gone: false,
        };
        // Opened now, so that a bad path is found before the run, and all files are locked.
        if sink.shared {
            sink.output("")?;
        } else {
            let streams: Vec<String> = self
                .files
                .assigned()
                .map(|(stream, _)| stream.to_owned())
                .collect();
            for stream in streams {
                sink.output(&stream)?;
            }
        }
        Ok(Box::new(sink))
    }

    fn live_keys(&self) -> &'static [&'static str] {
        LIVE_KEYS
    }

    fn targets(&self) -> Vec<PathBuf> {
        if self.target.is_standard_output() {
            Vec::new()
        } else if self.target.is_template() {
            self.files.assigned().map(|(_, path)| path.to_owned()).collect()
        } else {
            vec![self.target.path()]
        }
    }
}

struct Jsonl {
    /// Whether all streams share one file.
    shared: bool,
    to_output: bool,
    files: StreamFiles,
    rotation: Rotation,
    /// Whether delivered frames are written.
    frames: bool,
    /// Whether drops and states of streams are written.
    drops: bool,
    /// Whether events have candidates.
    candidates: bool,
    masks: MaskForm,
    /// Header of the files.
    header: Option<Arc<RunHeader>>,
    /// By stream, or under the empty name if all share one. Lines are not buffered: each accepted line is in the file,
    /// and each that a full disk refused is known.
    outputs: BTreeMap<String, LineFile>,
    /// Buffer of the line that is being written, reused.
    line: Vec<u8>,
    /// Whether the reader of standard output closed it.
    reader_gone: bool,
}

impl Jsonl {
    fn output(&mut self, stream: &str) -> Result<&mut LineFile, SinkError> {
        let key = if self.shared { "" } else { stream };
        if !self.outputs.contains_key(key) {
            let path = self.files.path_of(stream);
            if self.outputs.len() >= MAX_FILES {
                return Err(failed(
                    &path,
                    format!("{MAX_FILES} files are open: leave `{{stream}}` out of the path"),
                ));
            }
            let output = if self.to_output {
                LineFile::standard_output()
            } else {
                LineFile::open(&path, self.rotation)?
            };
            self.outputs.insert(key.to_owned(), output);
        }
        self.outputs
            .get_mut(key)
            .ok_or_else(|| failed(&self.files.path_of(stream), "it is closed"))
    }

    /// Appends the line that `say` writes; rotates the file before if it is full.
    fn append(
        &mut self,
        stream: &str,
        time_ms: u64,
        say: impl FnOnce(&mut Vec<u8>) -> io::Result<()>,
    ) -> Result<(), SinkError> {
        let mut line = std::mem::take(&mut self.line);
        line.clear();
        let header = self.header.clone();
        let header = header.as_deref().map(|header| (header, self.own_stream(stream)));
        let output = self.output(stream)?;
        if let Err(error) = output.reopen_if_asked() {
            tracing::warn!("{error}; the file that was open is written to");
        }
        let written = say(&mut line).and_then(|()| {
            if output.is_full(line.len(), time_ms) {
                rotate(output, time_ms);
            }
            if let Some((header, stream)) = header {
                head(output, header, stream)?;
            }
            output.write(&line, time_ms)
        });
        let written = written.map_err(|error| (io_failed(output.path(), &error), error.kind()));
        self.line = line;
        written.map_err(|(error, kind)| self.failed(error, kind))
    }

    /// The stream whose file it is; `None` if all share one.
    fn own_stream<'a>(&self, stream: &'a str) -> Option<&'a str> {
        (!self.shared).then_some(stream)
    }

    /// Notes a closed reader before the error is returned.
    fn failed(&mut self, error: SinkError, kind: io::ErrorKind) -> SinkError {
        self.reader_gone |= self.to_output && kind == io::ErrorKind::BrokenPipe;
        error
    }
}

/// Rotates the file before the line of that time. If that fails, lines are appended to the present one.
fn rotate(output: &mut LineFile, time_ms: u64) {
    if let Err(error) = output.rotate()
        && output.on_unrotated(time_ms)
    {
        tracing::warn!(
            "{} cannot be rotated: {error}; it grows, and its rotation is tried again each minute",
            output.path().display()
        );
    }
}

/// Writes the header line of this run, unless the file has it.
fn head(output: &mut LineFile, header: &RunHeader, stream: Option<&str>) -> io::Result<()> {
    if output.is_headed() {
        return Ok(());
    }
    let mut line = Vec::new();
    write_header(header, stream, &mut line)?;
    output.write_header(&line)
}

impl Sink for Jsonl {
    fn begin(&mut self, run: &RunHeader) -> Result<(), SinkError> {
        self.header = Some(Arc::new(run.clone()));
        let mut failure = None;
        for (stream, output) in &mut self.outputs {
            let stream = (!self.shared).then_some(stream.as_str());
            if let Err(error) = head(output, run, stream) {
                failure = Some((io_failed(output.path(), &error), error.kind()));
            }
        }
        failure.map_or(Ok(()), |(error, kind)| Err(self.failed(error, kind)))
    }

    fn accept(&mut self, delivery: &Delivery) -> Result<(), SinkError> {
        let (frames, masks) = (self.frames, self.masks);
        if !frames && delivery.ended_tracks.is_empty() && delivery.incidents.is_empty() {
            return Ok(());
        }
        self.append(&delivery.stream, delivery.time_ms, |line| {
            if frames {
                write_event_with(delivery, masks, &mut *line)?;
            }
            write_analytics(
                &delivery.stream,
                &delivery.ended_tracks,
                &delivery.incidents,
                line,
            )
        })
    }

    fn on_notice(&mut self, notice: &Notice) -> Result<(), SinkError> {
        let (stream, time_ms) = match notice {
            Notice::Dropped { .. } | Notice::Still { .. } if !self.drops => return Ok(()),
            Notice::Dropped { stream, time_ms, .. }
            | Notice::Still { stream, time_ms, .. }
            | Notice::State { stream, time_ms, .. } => (stream, *time_ms),
            Notice::Analytics {
                stream,
                ended_tracks,
                incidents,
            } => {
                let ended = ended_tracks.iter().map(|track| track.last_seen_ms);
                let newest = ended
                    .chain(incidents.iter().map(|incident| incident.time_ms))
                    .max();
                let Some(newest) = newest else { return Ok(()) };
                (stream, newest)
            }
            Notice::Described { description, .. } => (&description.stream, description.time_ms),
            Notice::Sink { time_ms, .. } => {
                let mut written = Ok(());
                for file in self.outputs.keys().cloned().collect::<Vec<_>>() {
                    let appended = self.append(&file, *time_ms, |line| write_notice(notice, line));
                    written = written.and(appended);
                }
                return written;
            }
        };
        self.append(stream, time_ms, |line| write_notice(notice, line))
    }

    fn wants_notices(&self) -> bool {
        self.drops || !self.frames
    }

    fn wants_candidates(&self) -> bool {
        self.candidates
    }

    fn set_settings(&mut self, settings: &Settings) {
        self.rotation = rotation(settings);
        for output in self.outputs.values_mut() {
            output.set_rotation(self.rotation);
        }
    }

    fn on_stream_removed(&mut self, stream: &str) -> Result<(), SinkError> {
        if !self.shared
            && let Some(mut output) = self.outputs.remove(stream)
        {
            output.finish();
        }
        Ok(())
    }

    fn is_reader_gone(&self) -> bool {
        self.reader_gone
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        for output in self.outputs.values_mut() {
            output.finish();
        }
        self.outputs.clear();
        Ok(())
    }
}
