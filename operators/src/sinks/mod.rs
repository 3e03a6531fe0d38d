//! Sinks: event lines, annotated videos, recordings, tables, other programs, none.
//!
//! A sink is used by one thread and buffers little: a line, or an encoder for each stream. The runtime bounds the
//! deliveries that wait for it, and handles a slow sink.

mod addresses;
mod alarm_keys;
mod broker_keys;
mod check_writable;
mod describe;
mod event;
mod event_shapes;
mod event_sink;
mod feature;
mod jsonl;
mod kafka;
mod line_file;
#[cfg(any(feature = "kafka", feature = "mail", feature = "nats"))]
mod local_runtime;
mod mail;
mod mp4;
mod mqtt;
mod nats;
mod null;
mod outbox;
mod outbox_keys;
mod parquet;
mod ptz;
mod push;
mod python;
mod recording;
mod renewed;
mod search;
mod secret;
mod tables;
pub(crate) mod target;
mod tls;
mod webhook;

use weir_flow::{
    KeyKind, KeySpec, PYTHON_FUNCTION, Settings, SinkCheck, SinkError, SinkFactory, SinkSpec, catalog_name,
};

pub use check_writable::check_writable;
pub use event::{SCHEMA, attributes_value, event_line, incident_value, state_name, track_value, write_event};
pub use mp4::{annotated_png, grid_png};
pub use null::CountingSink;
pub(crate) use outbox::Backoff;
pub use ptz::with_ptz_camera;
pub use recording::{
    ArchiveReader, ClipOf, Export, ExportError, Listing, MAX_EXPORT_MS, MAX_LISTED, Segment, SegmentCache,
    SegmentFile, SegmentName, clip_start_ms, has_clip, open_clip, pin_clip, recordings_overlap,
};

pub use search::{
    EMBED, EMBED_ATTRIBUTE, EMBED_DIGEST, EMBED_MODEL, Findings, FoundTrack, QueryVector, SearchBy,
    SearchFilter, SearchReader, SearchWords, TextEncoderFiles, TrackRecord, TrackVector,
};

/// All sinks: one is registered by one line here.
static KINDS: &[SinkKind] = &[
    jsonl::KIND,
    mp4::KIND,
    recording::CLIPS,
    recording::ARCHIVE,
    push::KIND,
    mqtt::KIND,
    webhook::KIND,
    mail::KIND,
    nats::KIND,
    kafka::KIND,
    ptz::KIND,
    describe::KIND,
    tables::CSV,
    tables::MOT,
    tables::COCO,
    parquet::KIND,
    search::KIND,
    null::KIND,
    python::KIND,
];

/// A sink's name, its keys, and how it is created.
struct SinkKind {
    name: &'static str,
    about: &'static str,
    keys: &'static [KeySpec],
    /// Whether each stream has a file of its own, which is put in its place when it is complete. If not, files are appended
    /// to, and streams may share one.
    file_per_stream: bool,
    create: Create,
}

/// A key of a sink.
const fn key(name: &'static str, kind: KeyKind, about: &'static str) -> KeySpec {
    KeySpec { name, kind, about }
}

/// Creates a sink from validated keys, for streams whose names are known. It opens nothing.
type Create = fn(&Settings, &[String]) -> Result<Box<dyn SinkFactory>, SinkError>;

impl SinkKind {
    /// # Errors
    /// [`SinkError`] that names all sinks if there is none of that name.
    fn named(name: &str) -> Result<&'static Self, SinkError> {
        let known = catalog_name(name);
        KINDS.iter().find(|kind| kind.name == known).ok_or_else(|| {
            let known: Vec<&str> = KINDS.iter().map(|kind| kind.name).collect();
            SinkError {
                target: format!("a sink of type {name}"),
                reason: format!("there is none: use one of {}", known.join(", ")),
            }
        })
    }
}

/// The sinks that a graph may name, with their keys.
#[must_use]
pub fn catalog() -> Vec<SinkSpec> {
    let spec = |kind: &SinkKind| SinkSpec {
        name: kind.name,
        about: kind.about,
        keys: kind.keys,
        check: check_of(kind.name),
    };
    KINDS.iter().map(spec).collect()
}

/// The check of the keys of a sink together, which opens nothing.
fn check_of(kind: &str) -> SinkCheck {
    match kind {
        "archive" | "clips" => SinkCheck(recording::hours_faults),
        "webhook" => SinkCheck(webhook::faults),
        "mail" => SinkCheck(mail::faults),
        "push" => SinkCheck(push::faults),
        "ptz" => SinkCheck(ptz::faults),
        "describe" => SinkCheck(describe::faults),
        "search" => SinkCheck(search::faults),
        "mqtt" => SinkCheck(broker_keys::mqtt_faults),
        "nats" | "kafka" => SinkCheck(broker_keys::faults),
        PYTHON_FUNCTION => SinkCheck(python::faults),
        _ => SinkCheck::default(),
    }
}

/// Server of models that a sink of `kind` sends pictures to, as messages show it, and the name of the model; `None`: there is none.
#[must_use]
pub fn model_server(kind: &str, settings: &Settings) -> Option<(String, String)> {
    (kind == describe::KIND.name).then(|| describe::server_of(settings))?
}

/// Model that a sink of `kind` runs on this machine, in words: its files, bounds and memory. It is opened, and not run. `None`: there is
/// none.
///
/// # Errors
/// [`SinkError`] with the file of the model that does not fit.
#[must_use]
pub fn local_model(kind: &str, settings: &Settings) -> Option<Result<String, SinkError>> {
    (kind == describe::KIND.name).then(|| describe::local_model(settings))?
}

/// Whether each stream has a file of its own in a sink of `kind`, also where its `path` does not contain `{stream}`.
#[must_use]
pub fn has_file_per_stream(kind: &str) -> bool {
    SinkKind::named(kind).is_ok_and(|kind| kind.file_per_stream)
}

/// A factory for a sink of `kind` with validated `settings`; streams are added with their first frame.
///
/// # Errors
/// [`SinkError`] for an unknown kind or a missing `path`.
pub fn sink(kind: &str, settings: &Settings) -> Result<Box<dyn SinkFactory>, SinkError> {
    sink_for(kind, settings, &[])
}

/// The same for known `streams`, whose files are opened and locked before the run starts.
///
/// # Errors
/// As [`sink`].
pub fn sink_for(
    kind: &str,
    settings: &Settings,
    streams: &[String],
) -> Result<Box<dyn SinkFactory>, SinkError> {
    (SinkKind::named(kind)?.create)(settings, streams)
}

/// The key `path` of a sink of `kind` that writes files.
///
/// # Errors
/// [`SinkError`] if it is missing or empty.
fn required_path<'a>(kind: &SinkKind, settings: &'a Settings) -> Result<&'a str, SinkError> {
    let path = settings.text("path").filter(|path| !path.is_empty());
    path.ok_or_else(|| SinkError {
        target: format!("a {} sink", kind.name),
        reason: "it has no `path`: name the file to write".to_owned(),
    })
}
