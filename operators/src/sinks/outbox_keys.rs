//! Keys that sinks share which deliver events to other programs.

use std::path::Path;
use std::time::Duration;

use weir_flow::{KeyKind, KeySpec, Settings, SinkError};

use super::outbox::{DeadLetters, OutboxOptions};

pub(super) const PATH: KeySpec = KeySpec {
    name: "path",
    kind: KeyKind::Text,
    about: "file for events that could not be delivered, a JSON line each (dead letters); without it they are lost, and counted",
};

pub(super) const DEAD_LETTER_BYTES: KeySpec = KeySpec {
    name: "dead_letter_bytes",
    kind: KeyKind::Bytes,
    about: "largest size of that file; beyond it events are lost, and counted (default `\"64MiB\"`)",
};

pub(super) const QUEUE: KeySpec = KeySpec {
    name: "queue",
    kind: KeyKind::Integer {
        min: 1,
        max: 1_000_000,
    },
    about: "maximum number of events that wait while the receiver is slow or offline, at most 64 MiB of them; further events are given up (default 10000)",
};

pub(super) const GIVE_UP_AFTER: KeySpec = KeySpec {
    name: "give_up_after",
    kind: KeyKind::Duration,
    about: "time for which delivery of an event is retried (default `\"10m\"`)",
};

/// Bytes of events that may wait.
const MAX_BYTES: usize = 64 << 20;

/// Reads the bounds of an outbox from `settings`, and opens the file of dead letters.
///
/// # Errors
/// The file cannot be written.
pub(super) fn outbox_options(settings: &Settings) -> Result<OutboxOptions, SinkError> {
    let path = settings.text("path").filter(|path| !path.is_empty());
    let max_bytes = settings.number("dead_letter_bytes", f64::from(64 << 20)) as u64;
    let dead_letters = path.map(|path| DeadLetters::open(Path::new(path), max_bytes));
    Ok(OutboxOptions {
        max_messages: settings.number("queue", 10_000.0) as usize,
        max_bytes: MAX_BYTES,
        give_up_after: Duration::from_secs_f64(settings.number("give_up_after", 600.0)),
        dead_letters: dead_letters.transpose()?,
    })
}

/// The file of dead letters, if there is one.
pub(super) fn path(settings: &Settings) -> Option<std::path::PathBuf> {
    let path = settings.text("path").filter(|path| !path.is_empty());
    path.map(std::path::PathBuf::from)
}
