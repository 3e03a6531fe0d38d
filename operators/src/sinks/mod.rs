//! Sinks: event lines, annotated videos, none.
//!
//! A sink is used by one thread and buffers little: a line, or an encoder for each stream. The runtime bounds the
//! deliveries that wait for it, and handles a slow sink.

mod check_writable;
mod event;
mod jsonl;
mod line_file;
mod mp4;
mod null;
pub(crate) mod target;

use weir_flow::{KeyKind, KeySpec, Settings, SinkError, SinkFactory, SinkSpec};

pub use check_writable::check_writable;
pub use event::{SCHEMA, event_line, write_event};
pub use null::CountingSink;

/// The sinks that a graph may name, with their keys.
#[must_use]
pub fn catalog() -> Vec<SinkSpec> {
    const JSONL: &[KeySpec] = &[
        KeySpec {
            name: "path",
            kind: KeyKind::Text,
            about: "file to append to, `-` for standard output; `{stream}` in it gives a file for each stream (required)",
        },
        KeySpec {
            name: "drops",
            kind: KeyKind::Flag,
            about: "lines for frames that were dropped and for states of streams, too; default false",
        },
        KeySpec {
            name: "rotate_size",
            kind: KeyKind::Bytes,
            about: "a file that would grow beyond this is renamed to `events.000001.jsonl` and so on, the newest with the highest number; default never",
        },
        KeySpec {
            name: "rotate_age",
            kind: KeyKind::Duration,
            about: "a file whose first line is older than this is renamed likewise; default never",
        },
        KeySpec {
            name: "keep",
            kind: KeyKind::Integer { min: 1, max: 100_000 },
            about: "how many renamed files are kept, the oldest are removed first; default all",
        },
    ];
    const MP4: &[KeySpec] = &[
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
    vec![
        SinkSpec {
            name: "jsonl",
            about: "one JSON line for each delivered frame, after a header line for each run (docs/events.md)",
            keys: JSONL,
        },
        SinkSpec {
            name: "mp4",
            about: "the video with what was found drawn on it, H.264",
            keys: MP4,
        },
        SinkSpec {
            name: "null",
            about: "only counts deliveries",
            keys: &[],
        },
    ]
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
    let path = || {
        settings
            .text("path")
            .filter(|path| !path.is_empty())
            .ok_or_else(|| SinkError {
                target: format!("a {kind} sink"),
                reason: "it has no `path`: name the file to write".to_owned(),
            })
    };
    Ok(match kind {
        "jsonl" => Box::new(jsonl::JsonlFactory::new(path()?, settings, streams)),
        "mp4" => Box::new(mp4::Mp4Factory::new(path()?, settings, streams)),
        "null" => Box::new(null::NullFactory),
        _ => {
            return Err(SinkError {
                target: format!("a sink of type {kind}"),
                reason: "there is none: use jsonl, mp4 or null".to_owned(),
            });
        }
    })
}
