//! Which errors the user can mend, and how all of them are shown.

use std::fmt;
use std::process::ExitCode;

/// Something the user can mend: a missing file, a bad setting, a graph with mistakes. Exit code 2.
#[derive(Debug)]
pub(crate) struct UserError(String);

impl UserError {
    /// Says what is wrong and what to do.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

impl fmt::Display for UserError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UserError {}

/// An error with all its causes, as one line where the causes are lines.
pub(crate) fn line(error: &anyhow::Error) -> String {
    format!("{error:#}")
}

/// 2 where the user can mend it, 1 for the rest.
pub(crate) fn exit_code(error: &anyhow::Error) -> ExitCode {
    let mendable = error
        .chain()
        .any(|cause| cause.is::<UserError>() || cause.is::<weir_graph::Problems>());
    ExitCode::from(if mendable { 2 } else { 1 })
}
