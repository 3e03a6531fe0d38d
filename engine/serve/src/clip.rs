//! A video as it is read: piece by piece, as fast as its client takes it.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::body::{Body, Bytes};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream;

use crate::error::{ApiError, Refusal};

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

/// The answer whose body is that file.
///
/// # Errors
/// Too many clips are sent already, or the file cannot be read.
pub(crate) fn answer(clips: &Clips, file: File) -> Result<Response, ApiError> {
    let bytes = file.metadata().map_err(unreadable)?.len();
    let place = Place::take(clips, MAX_CLIPS).ok_or_else(too_many)?;
    send(place, Box::new(file), bytes)
}

/// The answer whose body is a part of a file: bytes from the first to the one before the last.
///
/// # Errors
/// As [`answer`].
pub(crate) fn answer_part(
    clips: &Clips,
    mut file: File,
    (from, to): (u64, u64),
) -> Result<Response, ApiError> {
    let place = Place::take(clips, MAX_CLIPS).ok_or_else(too_many)?;
    file.seek(SeekFrom::Start(from)).map_err(unreadable)?;
    send(place, Box::new(file), to.saturating_sub(from))
}

fn too_many() -> ApiError {
    let what = format!("{MAX_CLIPS} clips are being sent already");
    ApiError::with_status(StatusCode::SERVICE_UNAVAILABLE, what)
        .hint("ask again once one of them is complete")
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
