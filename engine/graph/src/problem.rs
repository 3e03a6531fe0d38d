//! What is wrong with a graph, for the person who wrote it: all of it at once, each with its place and a hint.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};

/// One thing that is wrong, or that looks like a slip.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The file that it is in.
    pub file: PathBuf,
    /// Its line, from 1; 0 where the file as a whole could not be read.
    pub line: usize,
    /// Its column in characters, from 1.
    pub column: Option<usize>,
    /// What is wrong.
    pub message: String,
    /// What would mend it.
    pub hint: Option<String>,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.file.display())?;
        if self.line > 0 {
            write!(f, "{}:", self.line)?;
        }
        write!(f, " {}", self.message)?;
        if let Some(hint) = &self.hint {
            write!(f, "\n    hint: {hint}")?;
        }
        Ok(())
    }
}

/// Everything that is wrong with a graph, by line. Never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problems(Vec<Problem>);

impl Problems {
    /// One problem with a file as a whole.
    #[must_use]
    pub fn of_file(file: &Path, message: impl Into<String>, hint: Option<String>) -> Self {
        let (file, message) = (file.to_owned(), message.into());
        Self(vec![Problem {
            file,
            line: 0,
            column: None,
            message,
            hint,
        }])
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Each, by line.
    pub fn iter(&self) -> std::slice::Iter<'_, Problem> {
        self.0.iter()
    }
}

impl IntoIterator for Problems {
    type Item = Problem;
    type IntoIter = std::vec::IntoIter<Problem>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a> IntoIterator for &'a Problems {
    type Item = &'a Problem;
    type IntoIter = std::slice::Iter<'a, Problem>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().enumerate() {
            let gap = if index == 0 { "" } else { "\n" };
            write!(f, "{gap}{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

/// Gathers problems while a file is read. Places are byte offsets into its text.
pub struct Reports {
    file: PathBuf,
    /// Every file that was read on the way, this one among them.
    files: BTreeSet<PathBuf>,
    text: String,
    line_starts: Vec<usize>,
    problems: Vec<Problem>,
    warnings: Vec<Problem>,
    /// Lines that are no TOML: what was recovered from them is not judged.
    torn: BTreeSet<usize>,
}

impl Reports {
    /// Nothing found yet in `text`, which stands in `file`.
    #[must_use]
    pub fn new(file: &Path, text: &str) -> Self {
        let line_starts = std::iter::once(0)
            .chain(text.match_indices('\n').map(|(at, _)| at + 1))
            .collect();
        Self {
            file: file.to_owned(),
            files: [file.to_owned()].into(),
            text: text.to_owned(),
            line_starts,
            problems: Vec::new(),
            warnings: Vec::new(),
            torn: BTreeSet::new(),
        }
    }

    /// Notes a file that the text names and that was read.
    pub fn note_file(&mut self, file: &Path) {
        self.files.insert(file.to_owned());
    }

    /// Every file that was read until now: that of the text and those that it names.
    #[must_use]
    pub fn files(&self) -> Vec<PathBuf> {
        self.files.iter().cloned().collect()
    }

    /// The line that `at` is on, from 1.
    #[must_use]
    pub fn line(&self, at: usize) -> usize {
        self.line_starts.partition_point(|start| *start <= at)
    }

    /// The text of a line.
    #[must_use]
    pub fn line_text(&self, line: usize) -> &str {
        self.text.lines().nth(line.saturating_sub(1)).unwrap_or_default()
    }

    fn problem(&self, at: usize, message: String, hint: Option<String>) -> Problem {
        let line = self.line(at);
        let before = self.text.get(self.line_starts[line - 1]..at);
        let column = before.map(|before| before.chars().count() + 1);
        Problem {
            file: self.file.clone(),
            line,
            column,
            message,
            hint,
        }
    }

    /// Something is wrong at `at`, whatever the rest of the file says.
    pub fn add(&mut self, at: usize, message: impl Into<String>, hint: Option<String>) {
        let problem = self.problem(at, message.into(), hint);
        if !self.torn.contains(&problem.line) {
            self.problems.push(problem);
        }
    }

    /// Something is missing or does not fit together. Said only where the whole file could be read: what is missing may
    /// stand in a part that could not.
    pub fn add_whole(&mut self, at: usize, message: impl Into<String>, hint: Option<String>) {
        if self.torn.is_empty() {
            self.add(at, message, hint);
        }
    }

    /// A line is no TOML; said once a line.
    pub fn tear(&mut self, at: usize, message: impl Into<String>, hint: Option<String>) {
        let problem = self.problem(at, message.into(), hint);
        if self.torn.insert(problem.line) {
            self.problems.push(problem);
        }
    }

    /// Something that works but is probably a slip.
    pub fn warn(&mut self, at: usize, message: impl Into<String>, hint: Option<String>) {
        let problem = self.problem(at, message.into(), hint);
        self.warnings.push(problem);
    }

    /// Takes over what was found in another file.
    pub fn absorb(&mut self, other: Self) {
        self.files.extend(other.files);
        self.problems.extend(other.problems);
    }

    /// Takes over all that is wrong with another file.
    pub fn take_over(&mut self, problems: Problems) {
        self.problems.extend(problems);
    }

    /// Takes over one problem with another file.
    pub(crate) fn adopt(&mut self, problem: Problem) {
        self.problems.push(problem);
    }

    /// Whether no problem was found so far.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.problems.is_empty()
    }

    /// The warnings, or all the problems: those of this file first, each file's by line.
    ///
    /// # Errors
    /// [`Problems`] where there is one.
    pub fn finish(self) -> Result<Vec<Problem>, Problems> {
        let Self {
            file,
            mut problems,
            mut warnings,
            ..
        } = self;
        if problems.is_empty() {
            warnings.sort_by_key(|problem| (problem.line, problem.column));
            return Ok(warnings);
        }
        problems.sort_by(|a, b| {
            let key = |p: &Problem| (p.file != file, p.line, p.column);
            (key(a), &a.file).cmp(&(key(b), &b.file))
        });
        // A place that was read more than once says everything again, in the same order.
        let mut once: Vec<Problem> = Vec::with_capacity(problems.len());
        for problem in problems {
            let here = |other: &&Problem| other.line == problem.line && other.file == problem.file;
            if !once.iter().rev().take_while(here).any(|other| *other == problem) {
                once.push(problem);
            }
        }
        Err(Problems(once))
    }
}
