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

/// Errors that do not hang together, so that all are told at once and not one a try.
#[derive(Debug, Default)]
pub(crate) struct Collected(Vec<anyhow::Error>);

/// Errors that are told at once; a screen of them.
const MAX_TOLD: usize = 50;

impl Collected {
    /// What came of something, its error kept.
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
            let line = line(error);
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
        let more = lines.len().saturating_sub(MAX_TOLD);
        lines.truncate(MAX_TOLD);
        if more > 0 {
            lines.push(format!("and {more} more: mend these first"));
        }
        let all = lines.join("\n");
        Err(if self.0.iter().all(is_mendable) {
            UserError::new(all).into()
        } else {
            anyhow::anyhow!(all)
        })
    }
}

/// An error with all its causes, as one line where the causes are lines.
pub(crate) fn line(error: &anyhow::Error) -> String {
    format!("{error:#}")
}

/// 2 where the user can mend it, 1 for the rest.
pub(crate) fn exit_code(error: &anyhow::Error) -> ExitCode {
    ExitCode::from(if is_mendable(error) { 2 } else { 1 })
}

fn is_mendable(error: &anyhow::Error) -> bool {
    error
        .chain()
        .any(|cause| cause.is::<UserError>() || cause.is::<weir_config::ConfigError>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_errors_are_told_each_once() {
        let user = |text: &str| Err::<(), _>(UserError::new(text).into());
        let mut errors = Collected::default();
        assert!(errors.0.is_empty() && errors.take(Ok(1)) == Some(1));
        for text in ["a", "b", "a"] {
            assert_eq!(errors.take(user(text)), None);
        }
        let told = errors.finish().unwrap_err();
        assert_eq!((line(&told).as_str(), is_mendable(&told)), ("a\nb", true));
        let mut errors = Collected::default();
        errors.take(user("a"));
        errors.take(Err::<(), _>(anyhow::anyhow!("the disk is on fire")));
        assert!(!is_mendable(&errors.finish().unwrap_err()));
        assert!(Collected::default().finish().is_ok());
    }
}
