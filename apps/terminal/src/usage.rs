//! Output for help and version requests, and errors of command lines.

use std::process::ExitCode;

use crate::{output, printable};

/// Prints help, the version, or the problem with a command line; returns the matching exit code.
pub fn refuse(error: &clap::Error) -> ExitCode {
    let words = error.render().to_string();
    if error.use_stderr() && printable::text(&words) != words {
        // A name that was expanded by the shell (`weir check *`) may hold what a terminal obeys; so do clap's colours.
        output::remark(words.trim_end());
    } else {
        // Without a reader there is nothing to do about it.
        let _ = error.print();
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}
