//! A picture that a client sends: read within bounds, given to the backend, and answered once the modules of the graph have had it.

use std::sync::Arc;

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{DefaultBodyLimit, FromRequest, Multipart, Query, Request};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use serde::Deserialize;
use tokio::sync::{Semaphore, SemaphorePermit, oneshot};

use crate::error::{ApiError, Refusal};
use crate::requests::{Api, engine_failed, file, is_media_type};

/// The largest picture as it is sent: photographs of 40 megapixels take about as much.
const MAX_PICTURE_BYTES: usize = 16 << 20;

/// Room for the borders of a form around its picture, or for the header of a KServe request before it.
pub(crate) const MAX_FORM_BYTES: usize = MAX_PICTURE_BYTES + (64 << 10);

/// Pictures that are read or wait for their results at a time; 512 MiB of bodies at most.
const MAX_PICTURES: usize = 32;

/// Seconds after which a client that was refused may try again.
const RETRY_AFTER_S: u64 = 1;

/// Places for pictures.
pub(crate) struct PicturePlaces(Semaphore);

impl Default for PicturePlaces {
    fn default() -> Self {
        Self(Semaphore::new(MAX_PICTURES))
    }
}

impl PicturePlaces {
    /// Takes a place before a body is read, so that bodies are bounded together.
    ///
    /// # Errors
    /// All are taken.
    pub(crate) fn take(&self) -> Result<SemaphorePermit<'_>, ApiError> {
        self.0.try_acquire().map_err(|_| {
            let what = format!("{MAX_PICTURES} pictures are being processed");
            ApiError::new(Refusal::Busy, what).retry_after(RETRY_AFTER_S)
        })
    }
}

/// A picture that a client sends.
#[derive(Clone, PartialEq, Eq)]
pub enum Picture {
    /// The bytes of a JPEG or PNG file, 16 MiB at most.
    File(Vec<u8>),
    /// Pixels, as a client decoded or drew them.
    Rgb {
        /// Width in pixels, at least 1.
        width: u32,
        /// Height in pixels, at least 1.
        height: u32,
        /// Red, green and blue of each pixel, row by row.
        samples: Vec<u8>,
    },
}

/// Modules of the graph that take the picture of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PictureInput {
    /// Those that take frames of any source.
    AnySource,
    /// Those that take frames of this source.
    Source(String),
    /// This module, one of [`Backend::models`](crate::Backend::models).
    Module(String),
}

/// A request for the objects of a picture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PictureRequest {
    /// A file or pixels.
    pub picture: Picture,
    /// Modules that take it; the modules behind these follow.
    pub input: PictureInput,
}

/// Draws the objects on the picture and encodes it as a PNG.
pub type Drawing = Box<dyn FnOnce() -> Result<Vec<u8>, String> + Send>;

/// An object of a picture.
#[derive(Debug, Clone, PartialEq)]
pub struct PictureObject {
    /// Name of its class.
    pub class: Arc<str>,
    /// Confidence, 0 to 1.
    pub score: f32,
    /// Left, top, right and bottom edge of its box in pixels of the picture.
    pub corners: [f32; 4],
}

/// The objects of a picture.
pub struct PictureAnswer {
    /// Event line of the frame, without a line break.
    pub line: String,
    /// Objects in the order of the line.
    pub objects: Vec<PictureObject>,
    /// The picture with its objects.
    pub drawing: Drawing,
}

/// Takes the answer to one picture. Where it is dropped without one, the client reads that the engine stopped.
#[derive(Debug)]
pub struct PictureSender(oneshot::Sender<Result<PictureAnswer, ApiError>>);

impl std::fmt::Debug for Picture {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File(bytes) => write!(f, "File({} bytes)", bytes.len()),
            Self::Rgb { width, height, .. } => write!(f, "Rgb({width}x{height})"),
        }
    }
}

impl std::fmt::Debug for PictureAnswer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PictureAnswer")
            .field("line", &self.line)
            .finish_non_exhaustive()
    }
}

impl PictureSender {
    /// Answers the client, who may be gone.
    pub fn send(self, answer: Result<PictureAnswer, ApiError>) {
        let _ = self.0.send(answer);
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    #[serde(default)]
    like: Option<String>,
    #[serde(default)]
    draw: bool,
}

/// # Errors
/// The body is compressed.
pub(crate) fn check_encoding(headers: &HeaderMap) -> Result<(), ApiError> {
    let Some(encoding) = headers.get(header::CONTENT_ENCODING) else {
        return Ok(());
    };
    if encoding.as_bytes().eq_ignore_ascii_case(b"identity") {
        return Ok(());
    }
    let error = ApiError::with_status(StatusCode::UNSUPPORTED_MEDIA_TYPE, "the request is compressed");
    Err(error.hint("send it as it is: pictures in JPEG files are small already"))
}

/// Passes a picture through modules; returns their results.
///
/// # Errors
/// It is refused or dropped, or the engine stops.
pub(crate) async fn pass(api: &Api, picture: PictureRequest) -> Result<PictureAnswer, ApiError> {
    let (sender, receiver) = oneshot::channel();
    let backend = Arc::clone(&api.backend);
    let begun = tokio::task::spawn_blocking(move || backend.infer(picture, PictureSender(sender)));
    begun.await.map_err(engine_failed)??;
    let stopped = |_| {
        ApiError::new(
            Refusal::Unavailable,
            "the engine stopped before the picture had its results",
        )
    };
    receiver.await.map_err(stopped)?
}

/// Reads a body to its end without keeping it. Clients that write all of it before they read would lose an answer that comes
/// earlier, with their connection.
pub(crate) async fn discard(body: Body) {
    let mut left = MAX_FORM_BYTES;
    let mut data = body.into_data_stream();
    while let Some(Ok(bytes)) = data.next().await {
        match left.checked_sub(bytes.len()) {
            Some(rest) => left = rest,
            None => break,
        }
    }
}

/// Answers a request with a picture, of a client that may ask.
pub(crate) async fn answer(api: &Api, request: Request) -> Result<Response, ApiError> {
    let asked = Query::<Asked>::try_from_uri(request.uri());
    let Query(asked) = asked.map_err(|error| {
        ApiError::new(Refusal::Invalid, error.body_text())
            .hint("?like=SOURCE names a source of the graph, ?draw=true asks for the drawn picture")
    })?;
    let admitted = check_encoding(request.headers()).and_then(|()| api.pictures.take());
    let _place = match admitted {
        Ok(place) => place,
        Err(error) => {
            discard(request.into_body()).await;
            return Err(error);
        }
    };
    let bytes = picture(request).await?;
    let request = PictureRequest {
        picture: Picture::File(bytes.into()),
        input: asked.like.map_or(PictureInput::AnySource, PictureInput::Source),
    };
    let answer = pass(api, request).await?;
    if !asked.draw {
        return Ok(([(header::CONTENT_TYPE, "application/json")], answer.line).into_response());
    }
    let png = tokio::task::spawn_blocking(answer.drawing)
        .await
        .map_err(engine_failed)?;
    let png = png.map_err(|reason| {
        ApiError::new(
            Refusal::Failed,
            format!("the drawn picture cannot be encoded: {reason}"),
        )
    })?;
    Ok(file("image/png", png))
}

/// Whether a part of a form with this media type is a file, which needs no name (RFC 7578, 4.2).
fn is_file_type(kind: &str) -> bool {
    is_media_type(kind.as_bytes(), "image/") || is_media_type(kind.as_bytes(), "application/octet-stream")
}

/// The bytes of the picture: the body, or the first file of a form.
async fn picture(request: Request) -> Result<Bytes, ApiError> {
    let kind = request.headers().get(header::CONTENT_TYPE);
    let is_form = kind.is_some_and(|kind| is_media_type(kind.as_bytes(), "multipart/form-data"));
    let too_long = || {
        let what = format!(
            "the picture is cut off, or longer than {} MiB",
            MAX_PICTURE_BYTES >> 20
        );
        ApiError::with_status(StatusCode::PAYLOAD_TOO_LARGE, what)
    };
    let (parts, body) = request.into_parts();
    let limit = if is_form {
        MAX_FORM_BYTES
    } else {
        MAX_PICTURE_BYTES
    };
    let body = to_bytes(body, limit).await.map_err(|_| too_long())?;
    if !is_form {
        return Ok(body);
    }
    let wrong = |what: String| {
        let error = ApiError::new(Refusal::Invalid, format!("the form cannot be read: {what}"));
        error.hint("send one file, such as by curl -F picture=@car.jpg")
    };
    let mut request = Request::from_parts(parts, Body::from(body));
    DefaultBodyLimit::max(MAX_FORM_BYTES).apply(&mut request);
    let form = Multipart::from_request(request, &()).await;
    let mut form = form.map_err(|error| wrong(error.body_text()))?;
    while let Some(field) = form
        .next_field()
        .await
        .map_err(|error| wrong(error.body_text()))?
    {
        if field.file_name().is_some() || field.content_type().is_some_and(is_file_type) {
            let bytes = field.bytes().await.map_err(|error| wrong(error.body_text()))?;
            return if bytes.len() > MAX_PICTURE_BYTES {
                Err(too_long())
            } else {
                Ok(bytes)
            };
        }
    }
    Err(wrong("it has no file".to_owned()))
}
