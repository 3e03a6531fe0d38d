//! A video as it is read: whole or in part, piece by piece, as fast as its client takes it.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::body::{Body, Bytes};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream;

use crate::error::{ApiError, Refusal};
use crate::error_code::ErrorCode;

/// Clips and segments that are sent at a time: each takes a file handle, and what the connection holds of it.
pub const MAX_CLIPS: usize = 32;

/// Bytes that are read at a time.
const PIECE_BYTES: u64 = 64 << 10;

/// Videos that are sent now.
pub(crate) type Clips = Arc<AtomicUsize>;

/// A place among those that are sent; free again when this is dropped.
pub(crate) struct Place(Clips);

impl Place {
    /// Takes a place; `None` if so many are taken.
    pub(crate) fn take(clips: &Clips, max: usize) -> Option<Self> {
        let taken = clips.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |sent| {
            (sent < max).then_some(sent + 1)
        });
        taken.ok().map(|_| Self(Arc::clone(clips)))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A video of which the rest is still to be sent.
struct Rest {
    video: Box<dyn Read + Send>,
    bytes: u64,
    _place: Place,
}

/// The answer whose body is that file, or the part of it that the header `Range` names.
///
/// # Errors
/// Too many clips are sent already, or the file cannot be read.
pub(crate) fn answer(clips: &Clips, file: File, range: Option<&HeaderValue>) -> Result<Response, ApiError> {
    let bytes = file.metadata().map_err(unreadable)?.len();
    answer_part(clips, file, bytes, range)
}

/// The answer whose body are the first `bytes` of a file, or the part of them that the header `Range` names. Players such as Safari play
/// nothing of a server without parts.
///
/// # Errors
/// As [`answer`].
pub(crate) fn answer_part(
    clips: &Clips,
    mut file: File,
    bytes: u64,
    range: Option<&HeaderValue>,
) -> Result<Response, ApiError> {
    let asked = range.and_then(|range| range.to_str().ok());
    let part = asked.map_or(Part::Whole, |range| part_of(range, bytes));
    let (from, to) = match part {
        Part::Whole => (0, bytes),
        Part::Some(from, to) => (from, to),
        Part::None => {
            let what = format!("the video has {bytes} bytes, and none of that range");
            let mut response = ApiError::with_status(StatusCode::RANGE_NOT_SATISFIABLE, what).into_response();
            set(&mut response, header::CONTENT_RANGE, &format!("bytes */{bytes}"));
            return Ok(response);
        }
    };
    let place = Place::take(clips, MAX_CLIPS).ok_or_else(too_many)?;
    file.seek(SeekFrom::Start(from)).map_err(unreadable)?;
    let mut response = send(place, Box::new(file), to.saturating_sub(from))?;
    set(&mut response, header::ACCEPT_RANGES, "bytes");
    if part != Part::Whole {
        let sent = format!("bytes {from}-{}/{bytes}", to.saturating_sub(1));
        set(&mut response, header::CONTENT_RANGE, &sent);
        *response.status_mut() = StatusCode::PARTIAL_CONTENT;
    }
    Ok(response)
}

fn set(response: &mut Response, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
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

fn too_many() -> ApiError {
    let what = format!("{MAX_CLIPS} clips are being sent already");
    ApiError::with_status(StatusCode::SERVICE_UNAVAILABLE, what)
        .hint("ask again once one of them is complete")
        .code(ErrorCode::ClipsBusy, [])
}

#[expect(clippy::needless_pass_by_value, reason = "it is given to `map_err`")]
fn unreadable(error: io::Error) -> ApiError {
    tracing::warn!("a clip cannot be read: {error}");
    ApiError::new(Refusal::Failed, format!("the clip cannot be read: {error}"))
}

/// The answer whose body is a video of that many bytes.
///
/// # Errors
/// Its first bytes cannot be read.
pub(crate) fn send(place: Place, video: Box<dyn Read + Send>, bytes: u64) -> Result<Response, ApiError> {
    let mut rest = Rest {
        video,
        bytes,
        _place: place,
    };
    // While there is still another answer.
    let first = rest.read().map_err(unreadable)?;
    let pieces = stream::unfold(Some((first, rest)), async |state| {
        let (piece, mut rest) = state?;
        if piece.is_empty() {
            return None;
        }
        let next = tokio::task::spawn_blocking(move || (rest.read(), rest)).await;
        Some(match next {
            Ok((Ok(next), rest)) => (Ok(piece), Some((next, rest))),
            // The answer is cut off, which its length shows.
            Ok((Err(error), _)) => (Err(error), None),
            Err(_) => (Err(io::Error::other("the engine failed")), None),
        })
    });
    let headers = [
        (header::CONTENT_TYPE, "video/mp4".to_owned()),
        (header::CONTENT_LENGTH, bytes.to_string()),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
        (header::CACHE_CONTROL, "no-store".to_owned()),
    ];
    Ok((headers, Body::from_stream(pieces)).into_response())
}

impl Rest {
    /// The next piece; empty at the end.
    fn read(&mut self) -> io::Result<Bytes> {
        let mut piece = Vec::with_capacity(self.bytes.min(PIECE_BYTES) as usize);
        let wanted = self.bytes.min(PIECE_BYTES);
        self.video.by_ref().take(wanted).read_to_end(&mut piece)?;
        if piece.is_empty() && wanted > 0 {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the file has become shorter",
            ));
        }
        self.bytes -= piece.len() as u64;
        Ok(piece.into())
    }
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
