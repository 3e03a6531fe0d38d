//! The graph file as clients of the API edit it: its text without secrets, checks, saves, and the way back. A text is put into
//! force before it is written, so the file never has a graph that the engine refused.

use std::sync::Mutex;

use serde::Serialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use weir_config::Diagnostic;
use weir_graph::{Graph, SourceNode, text_edit};
use weir_serve::{
    ApiError, ErrorCode, GraphCheck, GraphEdit, GraphSave, MAX_EDIT_PATH, MAX_GRAPH_EDITS, Refusal,
};

use super::Service;
use super::edit_rights;
use super::masked_text::{Restored, restored};
use super::refusals::{invalid, refused_graph};
use super::secrets::{Secrets, without_secrets};
use crate::hexadecimal::hexadecimal;
use crate::kept_streams::graph_file;
use crate::lock::lock;
use crate::reload::{self, Applied, Author, Problem};
use crate::{catalog, zoo};

/// Longest text that clients edit, in bytes; the body of a request has room for its escapes.
const MAX_TEXT_BYTES: usize = 256 << 10;

/// Saves that can be undone.
const MAX_UNDO: usize = 20;

/// Hexadecimal digits of a version.
const VERSION_DIGITS: usize = 32;

const NEED_ANY_SOURCE: &str = "edit the file on its machine, or start weir serve with --allow-any-source, which allows all that a graph file may name";

/// Saves of the graph file by clients.
#[derive(Default)]
pub(super) struct GraphEdits {
    /// Texts before each save, with the version that the save made; locked while a client checks or saves.
    undo: Mutex<Vec<(String, String)>>,
}

/// A problem or a warning of a text, with its place in the text of the client.
#[derive(Debug, Clone, Serialize)]
struct Finding {
    severity: &'static str,
    /// Line from 1; 0: the whole text.
    line: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    column: Option<usize>,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

/// A text that passed all checks.
struct Checked {
    text: String,
    warnings: Vec<Finding>,
}

impl Finding {
    fn error(line: usize, message: impl Into<String>, hint: Option<&str>) -> Self {
        Self {
            severity: "error",
            line,
            column: None,
            message: message.into(),
            hint: hint.map(str::to_owned),
        }
    }
}

/// Version of a text: a hash of its bytes.
fn version_of(text: &str) -> String {
    let digest = Sha256::digest(text.as_bytes());
    hexadecimal(&digest)[..VERSION_DIGITS].to_owned()
}

fn line_at(text: &str, at: usize) -> usize {
    1 + text.get(..at).map_or(0, |before| before.matches('\n').count())
}

/// The text with single keys set or removed.
fn with_edits(text: String, edits: Vec<GraphEdit>) -> Result<String, ApiError> {
    if text.len() > MAX_TEXT_BYTES {
        return Err(too_long());
    }
    if edits.len() > MAX_GRAPH_EDITS {
        return Err(invalid(format!(
            "at most {MAX_GRAPH_EDITS} edits are made at once"
        )));
    }
    edits
        .into_iter()
        .try_fold(text, |text, GraphEdit { path, value }| {
            let path: Vec<&str> = path.iter().map(String::as_str).collect();
            if path.len() > MAX_EDIT_PATH {
                return Err(invalid(format!("a path has at most {MAX_EDIT_PATH} names")));
            }
            let edited = if value.is_null() {
                text_edit::remove(&text, &path)
            } else {
                let value = toml::Value::try_from(value).map_err(|error| invalid(error.to_string()))?;
                text_edit::set(&text, &path, &value)
            };
            let edited = edited.map_err(|error| invalid(error.to_string()))?;
            if edited.len() > MAX_TEXT_BYTES {
                return Err(too_long());
            }
            Ok(edited)
        })
}

fn too_long() -> ApiError {
    invalid(format!(
        "the text is longer than {MAX_TEXT_BYTES} bytes, which clients may edit"
    ))
}

impl Service {
    /// The text of the file.
    ///
    /// # Errors
    /// The graph has no file, or the file cannot be read.
    fn file_text(&self) -> Result<String, ApiError> {
        if !self.graph.is_file() {
            let error = ApiError::new(Refusal::Conflict, "the graph has no file: it came from a pipe");
            return Err(error.hint("start weir serve with the path of a file"));
        }
        let text = weir_config::read_text(&self.graph).map_err(|reason| {
            let what = format!("the graph file cannot be read: {reason}");
            ApiError::new(Refusal::Conflict, what)
        })?;
        if text.len() > MAX_TEXT_BYTES {
            return Err(too_long());
        }
        Ok(text)
    }

    /// The text that edits begin with: that of the file, or of the graph in force where there is no file.
    fn text_to_edit(&self) -> Result<String, ApiError> {
        self.file_text().or_else(|error| match &*lock(&self.loaded) {
            Some(loaded) if !self.graph.is_file() => Ok(loaded.text.clone()),
            _ => Err(error),
        })
    }

    pub(super) fn graph_file_state(&self) -> Result<Value, ApiError> {
        self.control()?;
        let text = self.text_to_edit()?;
        let why = match &*lock(&self.loaded) {
            Some(loaded) => self.check_file_editable(&loaded.graph).err(),
            None => None,
        };
        let version = version_of(&text);
        let undo = lock(&self.edits.undo);
        let can_undo = undo.last().is_some_and(|(_, made)| *made == version);
        let file = self.graph.is_file().then(|| self.graph.display().to_string());
        Ok(json!({
            "text": without_secrets(&text),
            "version": version,
            "file": file,
            "writable": why.is_none(),
            "why": why,
            "can_undo": can_undo && why.is_none(),
        }))
    }

    pub(super) fn check_graph_text(&self, GraphCheck { text, edits }: GraphCheck) -> Result<Value, ApiError> {
        self.control()?;
        // One client at a time, so that checks take at most one core from the streams.
        let _turn = lock(&self.edits.undo);
        let text = with_edits(text, edits)?;
        let (findings, is_valid) = match self.checked(&self.text_to_edit()?, &text) {
            Ok(checked) => (checked.warnings, true),
            Err(findings) => (findings, false),
        };
        let document = text.parse::<toml::Table>().ok();
        Ok(json!({
            "text": text,
            "document": document,
            "diagnostics": findings,
            "is_valid": is_valid,
        }))
    }

    pub(super) fn save_graph_text(&self, GraphSave { text, version }: GraphSave) -> Result<Value, ApiError> {
        self.control()?;
        let mut undo = lock(&self.edits.undo);
        let before = self.file_text()?;
        check_version(&before, &version)?;
        let checked = self
            .checked(&before, &text)
            .map_err(|findings| refused(&findings))?;
        let applied = self.write(&before, &checked.text)?;
        let version = version_of(&checked.text);
        if checked.text != before {
            undo.push((before, version.clone()));
            let surplus = undo.len().saturating_sub(MAX_UNDO);
            undo.drain(..surplus);
        }
        Ok(json!({ "version": version, "applied": applied, "diagnostics": checked.warnings }))
    }

    pub(super) fn undo_save(&self, version: &str) -> Result<Value, ApiError> {
        self.control()?;
        let mut undo = lock(&self.edits.undo);
        let now = self.file_text()?;
        check_version(&now, version)?;
        let Some((before, _)) = undo.last().filter(|(_, made)| made == version) else {
            return Err(ApiError::new(
                Refusal::Conflict,
                "there is no save of this version to undo",
            ));
        };
        let before = before.clone();
        let applied = self.write(&now, &before)?;
        undo.pop();
        Ok(json!({ "version": version_of(&before), "applied": applied }))
    }

    /// Puts a text into force, and into the file in place of `before`.
    fn write(&self, before: &str, text: &str) -> Result<Applied, ApiError> {
        let conflict = |why: String| ApiError::new(Refusal::Conflict, why);
        if let Some(loaded) = &*lock(&self.loaded) {
            self.check_file_editable(&loaded.graph).map_err(conflict)?;
        }
        reload::probe_models(text, Author::File, self).map_err(|problems| refused_graph(&problems))?;
        let mut written = Ok(());
        let applied = self.with_loaded(|loaded| {
            graph_file::check_text(&self.graph, before).map_err(|why| vec![Problem::new(why, None)])?;
            let applied = loaded.apply(text.to_owned(), Author::File, self)?;
            written = graph_file::replace(&self.graph, before, text);
            loaded.edits += u64::from(written.is_ok());
            Ok(applied)
        });
        let applied = applied.map_err(|problems| refused_graph(&problems))?;
        written.map_err(|why| {
            let what = format!("the text is in force, but was not saved: {why}");
            ApiError::new(Refusal::Conflict, what)
        })?;
        Ok(applied)
    }

    /// Checks a text that a client made of `file`.
    ///
    /// # Errors
    /// All problems, without secrets.
    fn checked(&self, file: &str, text: &str) -> Result<Checked, Vec<Finding>> {
        if text.len() > MAX_TEXT_BYTES {
            return Err(vec![Finding::error(0, too_long().what(), None)]);
        }
        let whole = restored(file, text).map_err(|unknown| {
            let hint = "write the secret itself, or a variable such as ${CAMERA_PASSWORD}";
            let findings = unknown.into_iter().map(|mask| {
                let message = format!("`{}` has a masked secret that is not the file's", mask.key);
                Finding::error(line_at(text, mask.at), message, Some(hint))
            });
            findings.collect::<Vec<_>>()
        })?;
        let secrets = Secrets::of(&whole.text, &|name| std::env::var(name).ok());
        let shown = |finding: Finding| Finding {
            message: secrets.mask(&finding.message),
            hint: finding.hint.map(|hint| secrets.mask(&hint)),
            ..finding
        };
        let parsed = self.parse_checked(file, &whole);
        let warnings = parsed.map_err(|findings| findings.into_iter().map(shown).collect::<Vec<_>>())?;
        Ok(Checked {
            warnings: warnings.into_iter().map(shown).collect(),
            text: whole.text,
        })
    }

    /// The warnings about a text.
    fn parse_checked(&self, file: &str, whole: &Restored) -> Result<Vec<Finding>, Vec<Finding>> {
        let text = whole.text.as_str();
        if !self.allow_any_source {
            self.check_rights(file, whole)?;
        }
        let find = |severity: &'static str| {
            move |problem: &Diagnostic| {
                let is_here = problem.file == self.graph;
                let other = (!is_here).then(|| format!("{}: ", problem.file.display()));
                Finding {
                    severity,
                    line: if is_here { whole.line(problem.line) } else { 0 },
                    column: problem.column.filter(|_| is_here),
                    message: format!("{}{}", other.unwrap_or_default(), problem.message),
                    hint: problem.hint.clone(),
                }
            }
        };
        let variable = |name: &str| std::env::var(name).ok();
        let graph = weir_graph::parse(text, &self.graph, &catalog::catalog(&self.zoo), &variable)
            .map_err(|problems| problems.iter().map(find("error")).collect::<Vec<_>>())?;
        zoo::require(&graph, &self.zoo).map_err(|error| vec![Finding::error(0, error.to_string(), None)])?;
        self.check_addresses(&graph, whole)?;
        Ok(graph.warnings().iter().map(find("warning")).collect())
    }

    /// Checks that a client may make the changes of a text, before any file that it names is read.
    fn check_rights(&self, file: &str, whole: &Restored) -> Result<(), Vec<Finding>> {
        let may_name = |file: &str| self.check_password_file(file).is_ok();
        let Some(refused) = edit_rights::refused(file, &whole.text, &may_name) else {
            return Err(syntax_errors(whole));
        };
        let findings = refused.into_iter().map(|refused| {
            let line = whole.line(line_at(&whole.text, refused.at));
            Finding::error(line, refused.message, Some(NEED_ANY_SOURCE))
        });
        let findings: Vec<Finding> = findings.collect();
        if findings.is_empty() {
            Ok(())
        } else {
            Err(findings)
        }
    }

    /// Checks the addresses of streams that are new, as those of streams that clients add.
    fn check_addresses(&self, graph: &Graph, whole: &Restored) -> Result<(), Vec<Finding>> {
        let known: Vec<SourceNode> = match &*lock(&self.loaded) {
            Some(loaded) => loaded.graph.sources().to_vec(),
            None => Vec::new(),
        };
        let is_known = |node: &&SourceNode| {
            let mut same = known.iter().filter(|known| known.name == node.name);
            same.any(|known| known.uris().eq(node.uris()) && known.connection == node.connection)
        };
        let new = graph.sources().iter().filter(|node| !is_known(node));
        let line = |name: &str| {
            let at = ["cameras", "sources"].map(|table| edit_rights::position(&whole.text, &[table, name]));
            whole.line(line_at(&whole.text, at.into_iter().max().unwrap_or(0)))
        };
        let refused = new.filter_map(|node| {
            let error = self.check_allowed(node).err()?;
            Some(Finding::error(line(&node.name), error.what(), None))
        });
        let findings: Vec<Finding> = refused.collect();
        if findings.is_empty() {
            Ok(())
        } else {
            Err(findings)
        }
    }
}

/// Lines of a text that are not TOML; nothing that the text names is read.
fn syntax_errors(whole: &Restored) -> Vec<Finding> {
    let error = whole.text.parse::<toml::Table>().err();
    let found = error.map(|error| {
        let at = error.span().map_or(0, |span| span.start);
        let line = whole.line(line_at(&whole.text, at));
        Finding::error(line, format!("not TOML: {}", error.message()), None)
    });
    let of_file = || {
        let message = "the graph file is not TOML, so changes cannot be compared with it";
        Finding::error(0, message, Some("correct the file on its machine"))
    };
    vec![found.unwrap_or_else(of_file)]
}

fn check_version(text: &str, version: &str) -> Result<(), ApiError> {
    if version_of(text) == version {
        return Ok(());
    }
    let error = ApiError::new(Refusal::Conflict, "the graph file has changed since it was read");
    let error = error.code(ErrorCode::FileChanged, []);
    Err(error.hint("read it again, and make the edit in the new text"))
}

/// The answer to a text that does not pass.
fn refused(findings: &[Finding]) -> ApiError {
    let message = |finding: &Finding| match finding.line {
        0 => finding.message.clone(),
        line => format!("line {line}: {}", finding.message),
    };
    let messages: Vec<String> = findings.iter().map(message).collect();
    invalid(messages.join("; ")).diagnostics(json!(findings))
}
