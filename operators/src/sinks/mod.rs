//! Where deliveries go: event lines, annotated videos, nowhere.
//!
//! A sink is used by one thread and holds little: a line buffer, an encoder a stream. How many deliveries may wait
//! before it, and what happens when it is slow, is the runtime's matter.

mod event;
mod jsonl;
mod mp4;
mod null;
mod probe;
pub(crate) mod target;

use weir_flow::{KeyKind, KeySpec, Settings, SinkError, SinkFactory, SinkSpec};

pub use event::{event_line, write_event};
pub use null::Counted;
pub use probe::probe;

/// The sinks that a graph may name, with their keys.
#[must_use]
pub fn catalog() -> Vec<SinkSpec> {
    const JSONL: &[KeySpec] = &[KeySpec {
        name: "path",
        kind: KeyKind::Text,
        about: "file to write, `-` for standard output; `{stream}` in it gives a file for each stream (required)",
    }];
    const MP4: &[KeySpec] = &[
        KeySpec {
            name: "path",
            kind: KeyKind::Text,
            about: "file to write, one for each stream; `{stream}` in it stands for the stream's name (required)",
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
            about: "one JSON line for each delivered frame",
            keys: JSONL,
        },
        SinkSpec {
            name: "mp4",
            about: "the video with what was found drawn on it, H.264",
            keys: MP4,
        },
        SinkSpec {
            name: "null",
            about: "counts and forgets",
            keys: &[],
        },
    ]
}

/// A factory for a sink of `kind` with checked `settings`.
///
/// # Errors
/// [`SinkError`] for an unknown kind or a missing `path`.
pub fn sink(kind: &str, settings: &Settings) -> Result<Box<dyn SinkFactory>, SinkError> {
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
        "jsonl" => Box::new(jsonl::Lines::new(path()?)),
        "mp4" => Box::new(mp4::Videos::new(
            path()?,
            settings.number("crf", 23.0),
            settings.number("score_threshold", 0.0) as f32,
        )),
        "null" => Box::new(null::Null),
        _ => {
            return Err(SinkError {
                target: format!("a sink of type {kind}"),
                reason: "there is none: use jsonl, mp4 or null".to_owned(),
            });
        }
    })
}
