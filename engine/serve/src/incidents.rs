//! Incidents: lists by filters, and marks of one.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::Json;
use axum::http::Uri;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};

use crate::error::{ApiError, Refusal};
use crate::limited;
use crate::requests::{Api, engine_failed, query_of};
use crate::role::Identity;

/// Filters of a list of incidents, as a client writes them. All of them hold; `None`: any.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IncidentQuery {
    /// Name of the stream.
    pub stream: Option<String>,
    /// Class of the object.
    pub class: Option<String>,
    /// Name of a zone that the object is in.
    pub zone: Option<String>,
    /// Name of the transform.
    pub rule: Option<String>,
    /// Type of the transform.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// Begin of a range of time, in RFC 3339 or in milliseconds since 1970 (UTC).
    pub from: Option<String>,
    /// End of the range.
    pub to: Option<String>,
    /// Part of a plate, a name, an attribute or an id, in any case.
    pub text: Option<String>,
    /// `true` or `false`.
    pub seen: Option<String>,
    /// `true` or `false`.
    pub pinned: Option<String>,
    /// Incidents at most.
    pub limit: Option<String>,
    /// `next` of a list that this one continues.
    pub before: Option<String>,
    /// Number of equal spans of the range that incidents are counted in.
    pub bins: Option<String>,
    /// Cameras that the client sees; `None`: all. No part of the query.
    #[serde(skip)]
    pub cameras: Option<BTreeSet<String>>,
}

/// Change of the marks of an incident; `None`: as before.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IncidentChange {
    /// Whether a person has seen it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen: Option<bool>,
    /// Whether it and its clip stay until the pin is taken off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pinned: Option<bool>,
}

impl IncidentChange {
    /// # Errors
    /// It changes nothing.
    pub(crate) fn checked(self) -> Result<Self, ApiError> {
        if self == Self::default() {
            let error = ApiError::new(Refusal::Invalid, "the body changes nothing");
            return Err(error.hint("such as {\"seen\": true} or {\"pinned\": true}"));
        }
        Ok(self)
    }
}

/// Answers a request for a list.
///
/// # Errors
/// [`ApiError`] of the backend, and of a query that is none.
pub(crate) async fn list(api: Arc<Api>, identity: Arc<Identity>, uri: &Uri) -> Result<Response, ApiError> {
    let mut query: IncidentQuery = query_of(uri, "such as ?stream=door&class=person&limit=20")?;
    query.cameras.clone_from(&identity.cameras);
    let listed = tokio::task::spawn_blocking(move || {
        let list = api.backend.incidents(&query)?;
        Ok::<Response, ApiError>(Json(limited::incidents(list, &identity)).into_response())
    });
    listed.await.map_err(engine_failed)?
}
