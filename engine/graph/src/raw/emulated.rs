//! Emulated streams of a graph: their keys, and their trace files, which are read once to check them.

use weir_config::{Diagnostic, Spanned, absolute, report_missing};

use super::context::Context;
use crate::emulated::{self, EmulatedLoad, EmulatedStream};
use crate::sources::Sources;
use crate::trace::{Trace, TraceError};

/// The URI with its file made absolute; `None`, reported, where it cannot be used.
pub(super) fn read(uri: &Spanned<String>, context: &mut Context<'_>) -> Option<String> {
    let stream = match EmulatedStream::parse(&uri.value) {
        Ok(stream) => stream,
        Err(bad) => {
            context.diagnostics.add(uri.at, bad.message, bad.hint);
            return None;
        }
    };
    let EmulatedLoad::Trace { file, rate } = stream.load else {
        return Some(uri.value.clone());
    };
    let name = file.to_str()?;
    let path = absolute(context.folder, name);
    let resolved = path.to_str().map(|path| emulated::with_file(&uri.value, path));
    if context.sources == Sources::Replaced {
        return resolved;
    }
    if !path.exists() {
        let message = format!("`uri`: there is no trace \"{name}\"");
        report_missing(&message, &path, uri.at, context.diagnostics);
        return None;
    }
    context.diagnostics.record_file(&path);
    let trace = Trace::read(&path);
    let checked = trace.and_then(|trace| rate.map_or(Ok(trace.clone()), |rate| trace.scale_to(rate)));
    match checked {
        Ok(_) => resolved,
        Err(TraceError::Line {
            path,
            line,
            message,
            hint,
        }) => {
            context.diagnostics.add_foreign(Diagnostic {
                file: path,
                line,
                column: None,
                message,
                hint: Some(hint),
            });
            None
        }
        Err(error) => {
            let hint = Some("a trace is a CSV file with the header t_s,rate_rps".to_owned());
            context.diagnostics.add(uri.at, format!("`uri`: {error}"), hint);
            None
        }
    }
}
