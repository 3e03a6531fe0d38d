//! Errors of graphs, policies and streams as clients read them.

use weir_config::ConfigError;
use weir_runtime::StreamError;
use weir_serve::{ApiError, ErrorCode, Refusal};

use crate::reload::Problem;

pub(super) fn invalid(what: impl Into<String>) -> ApiError {
    ApiError::new(Refusal::Invalid, what)
}

/// The answer to a client that asks for pictures of a private stream.
pub(super) fn pictures_private(stream: &str) -> ApiError {
    let what = format!("the pictures of {stream} are private");
    let error = ApiError::new(Refusal::Forbidden, what).hint("the graph has `private = true` for it");
    error.code(ErrorCode::PicturesPrivate, [("name", stream)])
}

/// The answer to a refused graph: its text is invalid, or it cannot be changed at runtime.
pub(super) fn refused_graph(problems: &[Problem]) -> ApiError {
    let message = |problem: &Problem| match problem.line {
        Some(line) => format!("line {line}: {}", problem.message),
        None => problem.message.clone(),
    };
    let refusal = if problems.iter().any(|problem| problem.line.is_some()) {
        Refusal::Invalid
    } else {
        Refusal::Conflict
    };
    let messages: Vec<String> = problems.iter().map(message).collect();
    let hints: Vec<&str> = problems
        .iter()
        .filter_map(|problem| problem.hint.as_deref())
        .collect();
    let error = ApiError::new(refusal, messages.join("; "));
    if hints.is_empty() {
        error
    } else {
        error.hint(hints.join("; "))
    }
}

/// The answer to an invalid text, with all of its problems.
pub(super) fn refused_text(problems: &ConfigError) -> ApiError {
    let messages: Vec<&str> = problems.iter().map(|problem| &*problem.message).collect();
    let hints: Vec<&str> = problems
        .iter()
        .filter_map(|problem| problem.hint.as_deref())
        .collect();
    let error = invalid(messages.join("; "));
    if hints.is_empty() {
        error
    } else {
        error.hint(hints.join("; "))
    }
}

pub(super) fn refused(error: &StreamError) -> ApiError {
    let refusal = match error {
        StreamError::Unknown { .. } => Refusal::NotFound,
        StreamError::NameTaken { .. }
        | StreamError::Removing { .. }
        | StreamError::Ended { .. }
        | StreamError::FixedPolicy { .. }
        | StreamError::Graph(_)
        | StreamError::PlanChanged
        | StreamError::TooMany => Refusal::Conflict,
        StreamError::UnknownSource { .. }
        | StreamError::UnknownInput { .. }
        | StreamError::Share { .. }
        | StreamError::SloTooShort { .. }
        | StreamError::Source(_) => Refusal::Invalid,
        StreamError::Thread(_) | StreamError::Machine | StreamError::Stopping => Refusal::Unavailable,
    };
    let refused = ApiError::new(refusal, error.to_string());
    match error {
        StreamError::Unknown { name, .. } => refused.code(ErrorCode::StreamUnknown, [("name", &**name)]),
        _ => refused,
    }
}
