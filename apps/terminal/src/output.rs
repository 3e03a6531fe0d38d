//! Where words go: results to standard output, complaints and remarks to standard error. What others wrote is made fit
//! for a terminal on the way ([`printable`]).

use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

use indicatif::ProgressBar;
use weir_files::io_reason;

use crate::error::UserError;
use crate::printable;

/// The progress that is drawn on the terminal: words go above it.
static DRAWN: Mutex<Option<ProgressBar>> = Mutex::new(None);

/// Words go above this bar from now on; above none, where none is given.
pub fn set_bar(bar: Option<ProgressBar>) {
    *DRAWN.lock().unwrap_or_else(PoisonError::into_inner) = bar;
}

/// Writes to standard error, in one piece and beside what is drawn there.
///
/// # Errors
/// What standard error says.
pub fn to_stderr(words: &str) -> io::Result<()> {
    let write = || io::stderr().write_all(words.as_bytes());
    let drawn = DRAWN.lock().unwrap_or_else(PoisonError::into_inner).clone();
    match drawn {
        Some(bar) => bar.suspend(write),
        None => write(),
    }
}

/// Writes one result line.
///
/// # Errors
/// What standard output says: that it has no reader, see [`is_closed`], or why it takes nothing.
pub fn say(line: &str) -> anyhow::Result<()> {
    writeln!(io::stdout(), "{}", printable::text(line)).map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => error.into(),
        _ => UserError::new(format!("cannot write to standard output: {}", io_reason(&error))).into(),
    })
}

/// Writes a complaint.
pub fn complain(line: &str) {
    remark(&format!("error: {line}"));
}

/// Writes a remark. Where standard error has no reader, the remark is lost.
pub fn remark(line: &str) {
    let _ = to_stderr(&format!("{}\n", printable::text(line)));
}

/// Whether the reader of standard output went away (`weir models list | head -1`): that is no failure.
#[must_use]
pub fn is_closed(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause
            .downcast_ref::<io::Error>()
            .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
    })
}
