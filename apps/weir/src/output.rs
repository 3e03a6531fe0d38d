//! Where words go: results to standard output, complaints and remarks to standard error.

use std::io::{self, Write};

/// Writes one result line.
///
/// # Errors
/// What standard output says; see [`is_closed`].
pub(crate) fn say(line: &str) -> io::Result<()> {
    writeln!(io::stdout(), "{line}")
}

/// Writes a complaint.
pub(crate) fn complain(line: &str) {
    remark(&format!("error: {line}"));
}

/// Writes a remark. Where nobody reads standard error there is nobody to tell.
pub(crate) fn remark(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Whether the reader of standard output went away (`weir models list | head -1`): that is no failure.
pub(crate) fn is_closed(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause
            .downcast_ref::<io::Error>()
            .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
    })
}
