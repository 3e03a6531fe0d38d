//! Which errors the user can mend, and how a program ends with one.

use std::fmt;
use std::process::ExitCode;

use crate::output;

/// Something the user can mend: a missing file, a bad setting, a name that is taken. Exit code 2.
#[derive(Debug)]
pub struct UserError(String);

impl UserError {
    /// Says what is wrong and what to do.
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

/// Whether a [`UserError`] is among its causes.
#[must_use]
pub fn is_mendable(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| cause.is::<UserError>())
}

/// An error with all its causes, as one line where the causes are lines.
#[must_use]
pub fn error_line(error: &anyhow::Error) -> String {
    format!("{error:#}")
}

/// The exit code of a program that came to this: 0 where it is done, 2 where the user can mend the error, 1 for the
/// rest. The error is said. A reader of standard output that went away is none.
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
