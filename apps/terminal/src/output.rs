//! Output of programs: results go to standard output, errors and remarks to standard error. Control
//! characters in text from outside are escaped on the way ([`printable`]).

use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

use indicatif::ProgressBar;
use weir_files::io_reason;

use crate::error::UserError;
use crate::printable;

/// The progress bar that is drawn on the terminal; output appears above it.
static DRAWN: Mutex<Option<ProgressBar>> = Mutex::new(None);

/// Sets the bar that output appears above from now on; `None` for no bar.
pub fn set_bar(bar: Option<ProgressBar>) {
    *DRAWN.lock().unwrap_or_else(PoisonError::into_inner) = bar;
}

/// Writes text to standard error in one piece, above the progress bar.
///
/// # Errors
/// Errors of standard error.
pub fn to_stderr(words: &str) -> io::Result<()> {
    let write = || io::stderr().write_all(words.as_bytes());
    let drawn = DRAWN.lock().unwrap_or_else(PoisonError::into_inner).clone();
    match drawn {
        Some(bar) => bar.suspend(write),
        None => write(),
    }
}

/// Writes one result line to standard output.
///
/// # Errors
/// Errors of standard output, such as a closed pipe (see [`is_closed`]) or a full disk.
pub fn say(line: &str) -> anyhow::Result<()> {
    writeln!(io::stdout(), "{}", printable::text(line)).map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => error.into(),
        _ => UserError::new(format!("cannot write to standard output: {}", io_reason(&error))).into(),
    })
}

/// Writes an error message to standard error.
pub fn complain(line: &str) {
    remark(&format!("error: {line}"));
}

/// Writes a remark to standard error; without a reader there, the remark is lost.
pub fn remark(line: &str) {
    let _ = to_stderr(&format!("{}\n", printable::text(line)));
}

/// True if the reader of standard output went away (`weir models list | head -1`), which is not a failure.
#[must_use]
pub fn is_closed(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause
            .downcast_ref::<io::Error>()
            .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
    })
}
