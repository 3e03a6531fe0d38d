//! Trace of a run: by name, from a file, or constant; scaled to the requested rate.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use weir_config::{Diagnostics, Spanned, absolute, report_missing, spelling};
use weir_graph::{Trace, TraceError};
use weir_types::Span;

use crate::traces::{RequestRecording, TokenTrace, TraceKind, build};

/// A constant rate.
const CONSTANT: &str = "constant";

/// Trace, and a description of its origin.
type NamedTrace = (Trace, String);
/// Requests with tokens, and the recording that they are, if they are one.
pub(super) type RequestTrace = (TokenTrace, Option<RequestRecording>);

/// Traces by name, seed and length, each built once.
pub(super) struct Traces {
    /// Folder of recordings, if there is one.
    assets: Option<PathBuf>,
    built: BTreeMap<(TraceKind, u64, Span), Result<NamedTrace, String>>,
    recorded: BTreeMap<RequestRecording, Result<TokenTrace, String>>,
}

/// Name and parameters of a trace.
pub(super) struct TraceQuery<'a> {
    /// Name in the experiment file; `None`: constant rate.
    pub(super) name: Option<&'a Spanned<String>>,
    pub(super) seed: u64,
    pub(super) length: Span,
    /// Mean rate in requests per second; `None`: that of the file.
    pub(super) rate: Option<f64>,
    /// Folder to which relative paths refer.
    pub(super) folder: &'a Path,
}

impl Traces {
    /// Creates the cache without traces; recordings are read from `assets`.
    pub(super) fn new(assets: Option<PathBuf>) -> Self {
        let (built, recorded) = (BTreeMap::new(), BTreeMap::new());
        Self {
            assets,
            built,
            recorded,
        }
    }

    /// Reads the requests with tokens of a trace; `None` if the name does not refer to such a trace.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn requests(
        &mut self,
        name: &str,
        folder: &Path,
        diagnostics: &mut Diagnostics,
    ) -> Result<Option<RequestTrace>, String> {
        let recording = RequestRecording::ALL
            .into_iter()
            .find(|recording| recording.name() == name);
        let found = match recording {
            Some(recording) => {
                let assets = self.assets.as_deref();
                let read = || TokenTrace::recorded(recording, assets).map_err(|error| error.to_string());
                self.recorded.entry(recording).or_insert_with(read).clone()
            }
            None => {
                let path = absolute(folder, name);
                if !is_file_name(name) {
                    return Ok(None);
                }
                let trace = match TokenTrace::read(&path) {
                    // What cannot be read is reported where traces of rates are.
                    Ok(None) | Err(TraceError::Unreadable { .. }) => return Ok(None),
                    Ok(Some(trace)) => Ok(trace),
                    Err(error) => Err(error.to_string()),
                };
                diagnostics.record_file(&path);
                trace
            }
        };
        found.map(|trace| Some((trace, recording)))
    }

    /// Finds the trace and describes its origin; `None` if a problem was reported.
    pub(super) fn find(
        &mut self,
        query: &TraceQuery<'_>,
        diagnostics: &mut Diagnostics,
    ) -> Option<NamedTrace> {
        let at = query.name.map_or(0, |spanned| spanned.at);
        let found = match query.name.map(|spanned| spanned.value.as_str()) {
            None | Some(CONSTANT) => {
                let rate = query.rate.unwrap_or(1.0);
                Trace::constant(rate, query.length)
                    .map(|trace| (trace, format!("constant {rate:.1}/s")))
                    .map_err(|error| error.to_string())
            }
            Some(file) if is_file_name(file) => {
                let path = absolute(query.folder, file);
                if !path.is_file() {
                    report_missing(
                        &format!("`trace`: there is no file \"{file}\""),
                        &path,
                        at,
                        diagnostics,
                    );
                    return None;
                }
                diagnostics.record_file(&path);
                from_file(&path, query).map(|trace| (trace, file.to_owned()))
            }
            Some(name) => match name.parse::<TraceKind>() {
                Ok(kind) => self.named_trace(kind, query),
                Err(_) => {
                    let recorded = RequestRecording::ALL.into_iter().map(RequestRecording::name);
                    let names = TraceKind::ALL.into_iter().map(TraceKind::name);
                    let names = names.chain(recorded).chain([CONSTANT]);
                    let hint = spelling::hint(name, "traces", names)
                        .map(|hint| format!("{hint}; or a file that ends in .csv"));
                    diagnostics.add(at, format!("there is no trace \"{name}\""), hint);
                    return None;
                }
            },
        };
        found
            .map_err(|reason| diagnostics.add(at, format!("`trace`: {reason}"), None))
            .ok()
    }

    fn named_trace(&mut self, kind: TraceKind, query: &TraceQuery<'_>) -> Result<NamedTrace, String> {
        let key = (kind, query.seed, query.length);
        let assets = self.assets.as_deref();
        let built = self.built.entry(key).or_insert_with(|| {
            build(kind, assets, query.seed, query.length, 1.0).map_err(|error| error.to_string())
        });
        let (trace, origin) = built.clone()?;
        let scaled = trace.scale_to(query.rate.unwrap_or(1.0));
        Ok((scaled.map_err(|error| error.to_string())?, origin))
    }
}

/// True if a text names a file.
pub(super) fn is_file_name(text: &str) -> bool {
    Path::new(text).extension().is_some_and(|end| end == "csv")
}

fn from_file(path: &Path, query: &TraceQuery<'_>) -> Result<Trace, String> {
    let trace = Trace::read(path)
        .and_then(|trace| trace.cut(Span::ZERO, query.length))
        .and_then(|trace| match query.rate {
            Some(rate) => trace.scale_to(rate),
            None => Ok(trace),
        });
    trace.map_err(|error| error.to_string())
}
