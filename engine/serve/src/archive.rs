//! Playback of archives: cameras and segments as JSON, the file of a segment or a part of it, and a range as one MP4.

use std::fs::File;
use std::io::Read;
use std::sync::Arc;

use axum::Json;
use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;

use crate::clip::{self, Place};
use crate::error::{ApiError, Refusal};
use crate::limited;
use crate::requests::{Api, engine_failed, query_of};
use crate::role::Identity;
use crate::routes::ArchiveOperation;

/// Exports at a time: each reads the disk as fast as its client takes it.
pub const MAX_EXPORTS: usize = 2;

/// Seconds after which a client that was refused may try again.
const RETRY_AFTER_S: u64 = 10;

/// A range of time as a client writes it: RFC 3339, or milliseconds since 1970 (UTC).
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct ArchiveRange {
    /// Begin of the range.
    pub from: Option<String>,
    /// End of the range.
    pub to: Option<String>,
}

/// The file of a segment.
#[derive(Debug)]
pub struct ArchiveSegment {
    /// The file, open for reading.
    pub file: File,
    /// Bytes from its beginning that can be played: fewer than it has while it is written.
    pub bytes: u64,
    /// Whether it is being written.
    pub unfinished: bool,
}

/// A range of an archive as one MP4.
pub struct ArchiveExport {
    /// Reader of the file.
    pub video: Box<dyn Read + Send>,
    /// Length of the file in bytes.
    pub bytes: u64,
    /// Name for the file of the client, in letters, digits, `-`, `_` and `.`.
    pub file_name: String,
}

/// Answers a request for an archive.
///
/// # Errors
/// [`ApiError`] of the backend, of a range that is none, and where too much is sent already.
pub(crate) async fn answer(
    api: Arc<Api>,
    operation: ArchiveOperation,
    identity: Arc<Identity>,
    mut parts: Parts,
) -> Result<Response, ApiError> {
    let names = Path::<Vec<(String, String)>>::from_request_parts(&mut parts, &()).await;
    let names = names.map_or_else(|_| Vec::new(), |Path(names)| names);
    let mut names = names.into_iter().map(|(_, name)| name);
    let (stream, segment) = (names.next().unwrap_or_default(), names.next().unwrap_or_default());
    let example = "such as ?from=2026-11-30T06:00:00Z&to=2026-11-30T07:00:00Z";
    let range: ArchiveRange = query_of(&parts.uri, example)?;
    let answered = tokio::task::spawn_blocking(move || {
        let backend = &api.backend;
        match operation {
            ArchiveOperation::Cameras => {
                let list = backend.archive_cameras()?;
                Ok(Json(limited::archives(list, &identity)).into_response())
            }
            ArchiveOperation::Segments => {
                let list = backend.archive_segments(&stream, &range)?;
                Ok(Json(list).into_response())
            }
            ArchiveOperation::Segment => {
                let segment = backend.archive_segment(&stream, &segment)?;
                send_segment(&api, &parts.headers, segment)
            }
            ArchiveOperation::Export => {
                // Before it is planned, which reads the disk as well.
                let place = Place::take(&api.exports, MAX_EXPORTS).ok_or_else(|| {
                    let what = format!("{MAX_EXPORTS} exports are being sent already");
                    ApiError::new(Refusal::Busy, what).retry_after(RETRY_AFTER_S)
                })?;
                let export = backend.archive_export(&stream, &range)?;
                let mut response = clip::send(place, export.video, export.bytes)?;
                let disposition = format!("attachment; filename=\"{}\"", export.file_name);
                if let Ok(disposition) = HeaderValue::from_str(&disposition) {
                    response
                        .headers_mut()
                        .insert(header::CONTENT_DISPOSITION, disposition);
                }
                Ok(response)
            }
        }
    });
    answered.await.map_err(engine_failed)?
}

/// Answers with a segment, or with the part of it that the header `Range` names.
fn send_segment(api: &Api, headers: &HeaderMap, segment: ArchiveSegment) -> Result<Response, ApiError> {
    let ArchiveSegment {
        file,
        bytes,
        unfinished,
    } = segment;
    let mut response = clip::answer_part(&api.clips, file, bytes, headers.get(header::RANGE))?;
    if unfinished {
        let headers = response.headers_mut();
        headers.insert("weir-unfinished", HeaderValue::from_static("true"));
    }
    Ok(response)
}
