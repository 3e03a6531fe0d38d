//! Errors that the user can fix, and the message and exit code that a program ends with.

use std::fmt;
use std::process::ExitCode;

use crate::output;

/// An error that the user can fix, such as a missing file, a bad setting or a name in use. Exit code 2.
#[derive(Debug)]
pub struct UserError(String);

impl UserError {
    /// Makes an error from a message that names the problem and the remedy.
    #[must_use]
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

impl fmt::Display for UserError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UserError {}

/// True if the user can fix the error: a [`UserError`] is among its causes.
#[must_use]
pub fn is_mendable(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| cause.is::<UserError>())
}

/// The error with all its causes; one line if every cause is one line.
#[must_use]
pub fn error_line(error: &anyhow::Error) -> String {
    format!("{error:#}")
}

/// Prints the error, if any, and returns the exit code: 0 for success, 2 for an error that the user can fix,
/// 1 for others. A reader of standard output that went away is not an error.
pub fn finish(result: anyhow::Result<()>, is_mendable: impl Fn(&anyhow::Error) -> bool) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if output::is_closed(&error) => ExitCode::SUCCESS,
        Err(error) => {
            output::complain(&error_line(&error));
            ExitCode::from(if is_mendable(&error) { 2 } else { 1 })
        }
    }
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;

    use super::*;

    #[test]
    fn what_the_user_can_mend_is_found_among_the_causes_and_said_with_them() {
        let error: anyhow::Result<()> = Err(UserError::new("choose another name").into());
        let error = error.context("cannot write clip.mp4").unwrap_err();
        assert!(is_mendable(&error));
        assert_eq!(error_line(&error), "cannot write clip.mp4: choose another name");
        assert!(!is_mendable(&anyhow::anyhow!("interrupted")));
    }

    #[test]
    fn exit_codes_tell_who_can_mend_it() {
        let code = |result| finish(result, is_mendable);
        assert_eq!(code(Ok(())), ExitCode::SUCCESS);
        assert_eq!(code(Err(UserError::new("a bad name").into())), ExitCode::from(2));
        assert_eq!(code(Err(anyhow::anyhow!("the disk is gone"))), ExitCode::from(1));
        let closed = std::io::Error::from(std::io::ErrorKind::BrokenPipe);
        assert_eq!(code(Err(closed.into())), ExitCode::SUCCESS);
    }
}
