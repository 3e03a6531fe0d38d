//! Emulated streams of a graph: their keys, and the files of their traces, which are read whole once to check them.

use weir_config::{Problem, Spot, absolute, missing};

use super::Context;
use crate::emulated::{self, EmulatedStream, Load};
use crate::sources::Sources;
use crate::trace::{Trace, TraceError};

/// The URI with an absolute file; `None`, reported, where it cannot be used.
pub(super) fn read(uri: &Spot<String>, context: &mut Context<'_>) -> Option<String> {
    let stream = match EmulatedStream::parse(&uri.value) {
        Ok(stream) => stream,
        Err(bad) => {
            context.reports.add(uri.at, bad.message, bad.hint);
            return None;
        }
    };
    let Load::Trace { file, rate } = stream.load else {
        return Some(uri.value.clone());
    };
    let name = file.to_str()?;
    let path = absolute(context.folder, name);
    let placed = path.to_str().map(|path| emulated::with_file(&uri.value, path));
    if context.sources == Sources::Replaced {
        return placed;
    }
    if !path.exists() {
        let message = format!("`uri`: there is no trace \"{name}\"");
        missing(&message, &path, uri.at, context.reports);
        return None;
    }
    context.reports.note_file(&path);
    let trace = Trace::read(&path);
    let checked = trace.and_then(|trace| rate.map_or(Ok(trace.clone()), |rate| trace.scale_to(rate)));
    match checked {
        Ok(_) => placed,
        Err(TraceError::Line {
            path,
            line,
            message,
            hint,
        }) => {
            context.reports.adopt(Problem {
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
            context.reports.add(uri.at, format!("`uri`: {error}"), hint);
            None
        }
    }
}
