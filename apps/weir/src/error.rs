//! Errors that the user can fix, and lists of errors that are reported together.

use std::fmt::Display;
use std::io;

use weir_files::io_reason;
pub(crate) use weir_terminal::UserError;
use weir_terminal::error_line;

/// Independent errors that are collected, so that one try reports all of them.
#[derive(Debug, Default)]
pub(crate) struct ErrorList(Vec<anyhow::Error>);

/// Largest number of reported lines: about a screen.
const MAX_LINES: usize = 50;

impl ErrorList {
    /// Keeps the error of a result; returns its value otherwise.
    pub(crate) fn take<T>(&mut self, result: anyhow::Result<T>) -> Option<T> {
        result.map_err(|error| self.0.push(error)).ok()
    }

    /// All of them as one, each once and on a line of its own.
    ///
    /// # Errors
    /// Where there is one; a [`UserError`] where each is something that the user can mend.
    pub(crate) fn finish(mut self) -> anyhow::Result<()> {
        if self.0.len() < 2 {
            return self.0.pop().map_or(Ok(()), Err);
        }
        let mut lines: Vec<String> = Vec::new();
        for error in &self.0 {
            let line = error_line(error);
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
        let more = lines.len().saturating_sub(MAX_LINES);
        lines.truncate(MAX_LINES);
        if more > 0 {
            lines.push(format!("and {more} more: fix these first"));
        }
        let all = lines.join("\n");
        Err(if self.0.iter().all(is_mendable) {
            UserError::new(all).into()
        } else {
            anyhow::anyhow!(all)
        })
    }
}

/// Error of a file that cannot be written, with the reason in words. `file` names it, such as `the plan out.toml`.
pub(crate) fn write_error(file: impl Display, error: &io::Error) -> UserError {
    UserError::new(format!("cannot write {file}: {}", io_reason(error)))
}

/// Reason of a failed request over HTTP, without the name of its kind and the code of the system.
pub(crate) fn request_reason(error: &ureq::Error) -> String {
    match error {
        ureq::Error::Io(error) => io_reason(error),
        error => error.to_string(),
    }
}

/// True if the user can fix the error: a [`UserError`], or problems of a graph.
pub(crate) fn is_mendable(error: &anyhow::Error) -> bool {
    weir_terminal::is_mendable(error) || error.chain().any(|cause| cause.is::<weir_config::ConfigError>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_errors_are_reported_each_once() {
        let user = |text: &str| Err::<(), _>(UserError::new(text).into());
        let mut errors = ErrorList::default();
        assert!(errors.0.is_empty() && errors.take(Ok(1)) == Some(1));
        for text in ["a", "b", "a"] {
            assert_eq!(errors.take(user(text)), None);
        }
        let all = errors.finish().unwrap_err();
        assert_eq!((error_line(&all).as_str(), is_mendable(&all)), ("a\nb", true));
        let mut errors = ErrorList::default();
        errors.take(user("a"));
        errors.take(Err::<(), _>(anyhow::anyhow!("the disk is on fire")));
        assert!(!is_mendable(&errors.finish().unwrap_err()));
        assert!(ErrorList::default().finish().is_ok());
    }
}
