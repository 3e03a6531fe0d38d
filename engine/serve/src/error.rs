//! Errors as clients receive them: a status, a description of the problem, and a hint on what to do.

use std::collections::BTreeMap;

use axum::Json;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::Value;

use crate::error_code::ErrorCode;

/// Class of a refusal, which clients can act on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The request says something that cannot be.
    Invalid,
    /// There is nothing of that name.
    NotFound,
    /// It does not fit the present state: a name that is taken, a stream that has ended.
    Conflict,
    /// It is not allowed.
    Forbidden,
    /// The engine is starting or stopping.
    Unavailable,
    /// As much as there may be of it is in progress.
    Busy,
    /// The engine cannot do it, whatever is asked: a file cannot be read.
    Failed,
}

/// Kind of an error, with the values in its texts by name.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Coded {
    code: ErrorCode,
    values: BTreeMap<&'static str, String>,
}

/// A request that is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiError {
    status: StatusCode,
    what: String,
    hint: Option<String>,
    /// In a box, since results stay small by that.
    code: Option<Box<Coded>>,
    /// Problems of a text with their lines.
    diagnostics: Option<Value>,
    /// Seconds after which a client may try again.
    retry_after_s: Option<u64>,
}

impl ApiError {
    /// Creates an error with the status of `refusal`; `what` describes the problem.
    pub fn new(refusal: Refusal, what: impl Into<String>) -> Self {
        let status = match refusal {
            Refusal::Invalid => StatusCode::BAD_REQUEST,
            Refusal::NotFound => StatusCode::NOT_FOUND,
            Refusal::Conflict => StatusCode::CONFLICT,
            Refusal::Forbidden => StatusCode::FORBIDDEN,
            Refusal::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            Refusal::Busy => StatusCode::TOO_MANY_REQUESTS,
            Refusal::Failed => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self::with_status(status, what)
    }

    /// Returns the description of the problem, without the hint.
    #[must_use]
    pub fn what(&self) -> &str {
        &self.what
    }

    pub(crate) fn with_status(status: StatusCode, what: impl Into<String>) -> Self {
        Self {
            status,
            what: what.into(),
            hint: None,
            code: None,
            diagnostics: None,
            retry_after_s: None,
        }
    }

    /// Adds what to do about it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds the kind of the error, with the values in its texts by name, for clients that word it themselves.
    #[must_use]
    pub fn code<const N: usize>(mut self, code: ErrorCode, values: [(&'static str, &str); N]) -> Self {
        let values = values.map(|(name, value)| (name, value.to_owned())).into();
        self.code = Some(Box::new(Coded { code, values }));
        self
    }

    /// Returns the name of the code and the values in its texts, if the error has a code.
    pub(crate) fn coded(&self) -> Option<(&'static str, &BTreeMap<&'static str, String>)> {
        let coded = self.code.as_ref()?;
        Some((coded.code.name(), &coded.values))
    }

    /// Adds the problems of a text with their lines, a list of objects.
    #[must_use]
    pub fn diagnostics(mut self, diagnostics: Value) -> Self {
        self.diagnostics = Some(diagnostics);
        self
    }

    /// Moves the hint into the description of the problem, for clients that read nothing else.
    pub(crate) fn in_one_text(mut self) -> Self {
        if let Some(hint) = self.hint.take() {
            self.what = format!("{}: {hint}", self.what);
        }
        self
    }

    /// Adds the seconds after which the client may try again, as the header `Retry-After`.
    #[must_use]
    pub fn retry_after(mut self, seconds: u64) -> Self {
        self.retry_after_s = Some(seconds);
        self
    }
}

#[derive(Serialize)]
struct Body<'a> {
    error: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    values: Option<&'a BTreeMap<&'static str, String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    diagnostics: Option<&'a Value>,
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let (code, values) = self.coded().unzip();
        let body = Body {
            error: &self.what,
            hint: self.hint.as_deref(),
            code,
            values: values.filter(|values| !values.is_empty()),
            diagnostics: self.diagnostics.as_ref(),
        };
        let mut response = (self.status, Json(&body)).into_response();
        if let Some(seconds) = self.retry_after_s {
            response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
        }
        response
    }
}
