//! Problems of a file, collected for its author: all of them at once, each with its position and a hint.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};

/// A problem of a file, or a warning about a likely mistake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// The file that it was found in.
    pub file: PathBuf,
    /// Line, from 1; 0 where it concerns the whole file.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: Option<usize>,
    /// Description of the problem, at most 2,000 characters.
    pub message: String,
    /// Advice on how to fix it, if there is any.
    pub hint: Option<String>,
}

impl fmt::Display for Diagnostic {
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

/// Maximum number of problems that are kept per file. No author fixes more at once, and each may cost a
/// search for the name that was meant; beyond this, reading stops early.
const MAX_PROBLEMS: usize = 200;

/// Maximum number of problems that are printed: a screen or two.
const MAX_SHOWN: usize = 50;

/// Characters of a message or a hint: they quote the text, which may be one line of megabytes.
const MAX_MESSAGE_CHARS: usize = 2_000;

/// Problems that make a file unusable, by line: all of them, or the first 200. There is at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    kept: Vec<Diagnostic>,
    /// Number of further problems, found after the limit of kept problems was reached.
    more: usize,
    /// Whether the file was read to its end.
    whole: bool,
}

impl ConfigError {
    /// One problem that concerns the whole file.
    #[must_use]
    pub fn for_file(file: &Path, message: impl Into<String>, hint: Option<String>) -> Self {
        let (file, message) = (file.to_owned(), message.into());
        let problem = Diagnostic {
            file,
            line: 0,
            column: None,
            message,
            hint,
        };
        Self {
            kept: vec![problem],
            more: 0,
            whole: true,
        }
    }

    /// Number of problems that were found, including those that were not kept.
    #[must_use]
    pub fn count(&self) -> usize {
        self.kept.len() + self.more
    }

    /// The problems that were kept, by line.
    pub fn iter(&self) -> std::slice::Iter<'_, Diagnostic> {
        self.kept.iter()
    }
}

impl IntoIterator for ConfigError {
    type Item = Diagnostic;
    type IntoIter = std::vec::IntoIter<Diagnostic>;

    fn into_iter(self) -> Self::IntoIter {
        self.kept.into_iter()
    }
}

impl<'a> IntoIterator for &'a ConfigError {
    type Item = &'a Diagnostic;
    type IntoIter = std::slice::Iter<'a, Diagnostic>;

    fn into_iter(self) -> Self::IntoIter {
        self.kept.iter()
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.kept.iter().take(MAX_SHOWN).enumerate() {
            let gap = if index == 0 { "" } else { "\n" };
            write!(f, "{gap}{problem}")?;
        }
        match self.count().saturating_sub(MAX_SHOWN) {
            0 => Ok(()),
            more if !self.whole => write!(f, "\nand at least {more} more: fix these first"),
            more => write!(f, "\nand {more} more: fix these first"),
        }
    }
}

impl std::error::Error for ConfigError {}

/// Collects problems while a file is read. Positions (`at`) are byte offsets into its text.
pub struct Diagnostics {
    file: PathBuf,
    /// Every file that was read, including this one.
    files: BTreeSet<PathBuf>,
    text: String,
    line_starts: Vec<usize>,
    problems: Vec<Diagnostic>,
    warnings: Vec<Diagnostic>,
    /// Problems that were found and not kept.
    more: usize,
    /// Lines that are not TOML: what was recovered from them is not checked.
    unparsed_lines: BTreeSet<usize>,
}

impl Diagnostics {
    /// No problems yet in `text`, the content of `file`.
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
            more: 0,
            unparsed_lines: BTreeSet::new(),
        }
    }

    /// Records that a file named by the text was read.
    pub fn record_file(&mut self, file: &Path) {
        self.files.insert(file.to_owned());
    }

    /// Every file that was read so far: that of the text and those that it names.
    #[must_use]
    pub fn files(&self) -> Vec<PathBuf> {
        self.files.iter().cloned().collect()
    }

    /// The line of `at`, from 1.
    #[must_use]
    pub fn line(&self, at: usize) -> usize {
        self.line_starts.partition_point(|start| *start <= at)
    }

    /// The text of a line.
    #[must_use]
    pub fn line_text(&self, line: usize) -> &str {
        let Some(&begin) = self.line_starts.get(line.saturating_sub(1)) else {
            return "";
        };
        let end = self.line_starts.get(line).copied().unwrap_or(self.text.len());
        let line = self.text.get(begin..end).unwrap_or_default();
        line.trim_end_matches(['\n', '\r'])
    }

    fn problem(&self, at: usize, message: String, hint: Option<String>) -> Diagnostic {
        let line = self.line(at);
        let before = self.text.get(self.line_starts[line - 1]..at);
        let column = before.map(|before| before.chars().count() + 1);
        Diagnostic {
            file: self.file.clone(),
            line,
            column,
            message: truncate(message),
            hint: hint.map(truncate),
        }
    }

    /// Whether 200 problems were found. Further problems are only counted: a reader may stop early, and need not
    /// search for hints.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.problems.len() >= MAX_PROBLEMS
    }

    fn push(&mut self, problem: Diagnostic) {
        if self.is_full() {
            self.more += 1;
        } else {
            self.problems.push(problem);
        }
    }

    /// Adds a problem at `at` that does not depend on the rest of the file.
    pub fn add(&mut self, at: usize, message: impl Into<String>, hint: Option<String>) {
        if self.is_full() {
            self.more += 1;
        } else if !self.unparsed_lines.contains(&self.line(at)) {
            self.problems.push(self.problem(at, message.into(), hint));
        }
    }

    /// Adds something that is missing or inconsistent. Reported only where the whole file could be parsed: what is
    /// missing may be in a line that could not.
    pub fn add_if_parsed(&mut self, at: usize, message: impl Into<String>, hint: Option<String>) {
        if self.unparsed_lines.is_empty() {
            self.add(at, message, hint);
        }
    }

    /// Adds a syntax error, once a line.
    pub fn add_syntax_error(&mut self, at: usize, message: impl Into<String>, hint: Option<String>) {
        if self.is_full() {
            self.more += 1;
        } else if self.unparsed_lines.insert(self.line(at)) {
            self.problems.push(self.problem(at, message.into(), hint));
        }
    }

    /// Adds a warning: something that works but is probably a mistake.
    pub fn warn(&mut self, at: usize, message: impl Into<String>, hint: Option<String>) {
        if self.warnings.len() < MAX_PROBLEMS {
            self.warnings.push(self.problem(at, message.into(), hint));
        }
    }

    /// Adds the problems of another file.
    pub fn absorb(&mut self, other: Self) {
        self.files.extend(other.files);
        self.more += other.more;
        other.problems.into_iter().for_each(|problem| self.push(problem));
    }

    /// Adds the problems of a file that could not be used.
    pub fn absorb_error(&mut self, problems: ConfigError) {
        self.more += problems.more;
        problems.kept.into_iter().for_each(|problem| self.push(problem));
    }

    /// Adds a problem of another file.
    pub fn add_foreign(&mut self, problem: Diagnostic) {
        self.push(problem);
    }

    /// Whether no problem was found so far.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.problems.is_empty()
    }

    /// The warnings, or all problems: those of this file first, each file's by line.
    ///
    /// # Errors
    /// [`ConfigError`] where there is a problem.
    pub fn finish(self) -> Result<Vec<Diagnostic>, ConfigError> {
        let Self {
            file,
            mut problems,
            mut warnings,
            more,
            ..
        } = self;
        if problems.is_empty() {
            warnings.sort_by_key(|problem| (problem.line, problem.column));
            return Ok(warnings);
        }
        problems.sort_by(|a, b| {
            let key = |p: &Diagnostic| (p.file != file, p.line, p.column);
            (key(a), &a.file).cmp(&(key(b), &b.file))
        });
        let whole = problems.len() < MAX_PROBLEMS;
        // A file that was read more than once reports everything again, in the same order.
        let mut once: Vec<Diagnostic> = Vec::with_capacity(problems.len());
        for problem in problems {
            let here = |other: &&Diagnostic| other.line == problem.line && other.file == problem.file;
            if !once.iter().rev().take_while(here).any(|other| *other == problem) {
                once.push(problem);
            }
        }
        Err(ConfigError {
            kept: once,
            more,
            whole,
        })
    }
}

/// The text, or its beginning where it is too long.
fn truncate(text: String) -> String {
    match text.char_indices().nth(MAX_MESSAGE_CHARS) {
        Some((end, _)) => format!("{} ...", &text[..end]),
        None => text,
    }
}
