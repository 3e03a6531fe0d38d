//! Playback of archives: cameras and segments as JSON, the file of a segment or a part of it, and a range as one MP4.

use std::fs::File;
use std::io::Read;
use std::sync::Arc;

use axum::Json;
use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
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
    let asked = headers.get(header::RANGE).and_then(|range| range.to_str().ok());
    let part = asked.map_or(Part::Whole, |range| part_of(range, bytes));
    let content_range = match part {
        Part::Whole => None,
        Part::Some(from, to) => Some(format!("bytes {from}-{}/{bytes}", to - 1)),
        Part::None => {
            let what = format!("the segment has {bytes} bytes, and none of that range");
            let mut response = ApiError::with_status(StatusCode::RANGE_NOT_SATISFIABLE, what).into_response();
            if let Ok(range) = HeaderValue::from_str(&format!("bytes */{bytes}")) {
                response.headers_mut().insert(header::CONTENT_RANGE, range);
            }
            return Ok(response);
        }
    };
    let ends = match part {
        Part::Some(from, to) => (from, to),
        _ => (0, bytes),
    };
    let mut response = clip::answer_part(&api.clips, file, ends)?;
    let headers = response.headers_mut();
    headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    if unfinished {
        headers.insert("weir-unfinished", HeaderValue::from_static("true"));
    }
    if let Some(range) = content_range.and_then(|range| HeaderValue::from_str(&range).ok()) {
        headers.insert(header::CONTENT_RANGE, range);
        *response.status_mut() = StatusCode::PARTIAL_CONTENT;
    }
    Ok(response)
}

/// The part of a file that a client asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Whole,
    /// From the first byte to the one behind the last.
    Some(u64, u64),
    /// A range that the file does not have.
    None,
}

/// Reads the header `Range` (RFC 9110, 14.2) of a file of that length. Anything but one range of bytes is the whole file.
fn part_of(range: &str, length: u64) -> Part {
    let read = || {
        let (first, last) = range.strip_prefix("bytes=")?.trim().split_once('-')?;
        let number = |text: &str| -> Option<Option<u64>> {
            match text {
                "" => Some(None),
                text => text.parse().ok().map(Some),
            }
        };
        let (from, to) = match (number(first)?, number(last)?) {
            (Some(from), Some(last)) if last < from => return None,
            (Some(from), Some(last)) => (from, last.saturating_add(1).min(length)),
            (Some(from), None) => (from, length),
            (None, Some(last)) => (length.saturating_sub(last), length),
            (None, None) => return None,
        };
        Some(if from < to {
            Part::Some(from, to)
        } else {
            Part::None
        })
    };
    read().unwrap_or(Part::Whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_those_of_the_file() {
        for (range, expected) in [
            ("bytes=0-3", Part::Some(0, 4)),
            ("bytes=2-", Part::Some(2, 10)),
            ("bytes=2-99", Part::Some(2, 10)),
            ("bytes=-3", Part::Some(7, 10)),
            ("bytes=-30", Part::Some(0, 10)),
            ("bytes=10-", Part::None),
            ("bytes=-0", Part::None),
            ("bytes=3-2", Part::Whole),
            ("bytes=0-1,4-5", Part::Whole),
            ("bytes=-", Part::Whole),
            ("items=0-3", Part::Whole),
            ("bytes=0-18446744073709551615", Part::Some(0, 10)),
            ("", Part::Whole),
        ] {
            assert_eq!(part_of(range, 10), expected, "{range}");
        }
        assert_eq!(part_of("bytes=0-", 0), Part::None);
    }
}
