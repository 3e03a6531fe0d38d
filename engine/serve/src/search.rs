//! Search of tracks: by words, by their meaning, and by a track that others look like.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::Json;
use axum::http::Uri;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;

use crate::clip::Place;
use crate::error::{ApiError, Refusal};
use crate::limited;
use crate::requests::{Api, engine_failed, query_of};
use crate::rights;
use crate::role::Identity;

/// Searches at a time: each reads all tracks from the disk.
pub const MAX_SEARCHES: usize = 2;

/// Seconds after which a client that was refused may try again.
const RETRY_AFTER_S: u64 = 1;

/// Longest text of a query in bytes.
const MAX_TEXT_BYTES: usize = 1_024;

/// A query as a client writes it. All conditions hold; `None`: any.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SearchQuery {
    /// Words, such as a class, a part of a plate, or a description of what is seen.
    pub text: Option<String>,
    /// Id of a track, or of an incident with a track: tracks that look like it.
    pub like: Option<String>,
    /// Names of streams, separated by commas.
    pub cameras: Option<String>,
    /// Class of the object.
    pub class: Option<String>,
    /// Begin of a range of time, in RFC 3339 or in milliseconds since 1970 (UTC).
    pub from: Option<String>,
    /// End of the range.
    pub to: Option<String>,
    /// Tracks at most.
    pub limit: Option<String>,
    /// Cameras that the client sees; `None`: all. No part of the query.
    #[serde(skip)]
    pub visible: Option<BTreeSet<String>>,
}

/// Answers a search.
///
/// # Errors
/// [`ApiError`] of the backend, of a query that is none, and where too many are in progress.
pub(crate) async fn answer(api: Arc<Api>, identity: Arc<Identity>, uri: &Uri) -> Result<Response, ApiError> {
    let mut query: SearchQuery = query_of(uri, "such as ?text=red%20van&cameras=door,yard&limit=20")?;
    if query.text.is_some() && query.like.is_some() {
        let error = ApiError::new(Refusal::Invalid, "`text` and `like` exclude each other");
        return Err(error.hint("search by one of them"));
    }
    let length = query.text.as_ref().map_or(0, String::len);
    if length > MAX_TEXT_BYTES {
        let what = format!("`text` has {length} bytes, more than {MAX_TEXT_BYTES}");
        return Err(ApiError::new(Refusal::Invalid, what));
    }
    query.visible.clone_from(&identity.cameras);
    let place = Place::take(&api.searches, MAX_SEARCHES).ok_or_else(|| {
        let what = format!("{MAX_SEARCHES} searches are in progress already");
        ApiError::new(Refusal::Busy, what).retry_after(RETRY_AFTER_S)
    })?;
    let found = tokio::task::spawn_blocking(move || {
        let _place = place;
        let found = api.backend.search(&query)?;
        Ok::<Response, ApiError>(Json(limited::search(found, &identity)).into_response())
    });
    found.await.map_err(engine_failed)?
}

/// Checks that a client sees the camera of a track by its id, `STREAM/NUMBER`.
///
/// # Errors
/// [`ApiError`] with status 403.
pub(crate) fn check_track(identity: &Identity, id: &str) -> Result<(), ApiError> {
    let stream = id.rsplit_once('/').map_or(id, |(stream, _)| stream);
    rights::check_stream(identity, stream)
}
