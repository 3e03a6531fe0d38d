//! Errors as exceptions of the package.

use pyo3::import_exception;
use pyo3::prelude::*;
use weir::runtime::StreamError as Refused;
use weir_config::ConfigError;

import_exception!(weir._errors, EngineError);
import_exception!(weir._errors, GraphError);
import_exception!(weir._errors, StreamError);

/// A problem as the package takes it: file, line, column, message, hint.
pub(crate) type Problem = (String, usize, Option<usize>, String, Option<String>);

/// The problems of a graph with their places, or another reason why nothing runs.
pub(crate) fn raised(error: &anyhow::Error) -> PyErr {
    match error.chain().find_map(|cause| cause.downcast_ref()) {
        Some(problems) => graph_error(problems),
        None => EngineError::new_err(weir_terminal::error_line(error)),
    }
}

pub(crate) fn graph_error(error: &ConfigError) -> PyErr {
    let problems = error.iter().map(|problem| -> Problem {
        let (message, hint) = (problem.message.clone(), problem.hint.clone());
        let file = problem.file.display().to_string();
        (file, problem.line, problem.column, message, hint)
    });
    GraphError::new_err((error.to_string(), problems.collect::<Vec<_>>()))
}

pub(crate) fn refused(error: &Refused) -> PyErr {
    StreamError::new_err(error.to_string())
}
