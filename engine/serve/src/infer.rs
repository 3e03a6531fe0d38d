//! A picture that a client sends: read within bounds, given to the backend, and answered once the modules of the graph have had it.

use std::sync::Arc;

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{DefaultBodyLimit, FromRequest, Multipart, Query, Request};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use tokio::sync::{Semaphore, oneshot};

use crate::error::{ApiError, Refusal};
use crate::requests::{Api, engine_failed, file};

/// The largest picture as it is sent: photographs of 40 megapixels take about as much.
const MAX_PICTURE_BYTES: usize = 16 << 20;

/// Room for the borders of a form around its picture.
const MAX_FORM_BYTES: usize = MAX_PICTURE_BYTES + (64 << 10);

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

/// A picture of a client, encoded as JPEG or PNG.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PictureRequest {
    /// The bytes of the file, 16 MiB at most.
    pub bytes: Vec<u8>,
    /// Source of the graph whose modules take it; `None`: those of all sources.
    pub like: Option<String>,
}

/// Draws the objects on the picture and encodes it as a PNG.
pub type Drawing = Box<dyn FnOnce() -> Result<Vec<u8>, String> + Send>;

/// The objects of a picture.
pub struct PictureAnswer {
    /// Event line of the frame, without a line break.
    pub line: String,
    /// The picture with its objects.
    pub drawing: Drawing,
}

/// Takes the answer to one picture. Where it is dropped without one, the client reads that the engine stopped.
#[derive(Debug)]
pub struct PictureSender(oneshot::Sender<Result<PictureAnswer, ApiError>>);

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

/// Answers a request with a picture, of a client that may ask.
pub(crate) async fn answer(api: &Api, request: Request) -> Result<Response, ApiError> {
    let asked = Query::<Asked>::try_from_uri(request.uri());
    let Query(asked) = asked.map_err(|error| {
        ApiError::new(Refusal::Invalid, error.body_text())
            .hint("?like=SOURCE names a source of the graph, ?draw=true asks for the drawn picture")
    })?;
    // Before the body is read, so that bodies are bounded together.
    let Ok(_place) = api.pictures.0.try_acquire() else {
        let error = ApiError::new(
            Refusal::Busy,
            format!("{MAX_PICTURES} pictures are being processed"),
        );
        return Err(error.retry_after(RETRY_AFTER_S));
    };
    let bytes = picture(request).await?;
    let (sender, receiver) = oneshot::channel();
    let picture = PictureRequest {
        bytes: bytes.into(),
        like: asked.like,
    };
    let backend = Arc::clone(&api.backend);
    let begun = tokio::task::spawn_blocking(move || backend.infer(picture, PictureSender(sender)));
    begun.await.map_err(engine_failed)??;
    let stopped = |_| {
        ApiError::new(
            Refusal::Unavailable,
            "the engine stopped before the picture had its results",
        )
    };
    let answer = receiver.await.map_err(stopped)??;
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

/// The bytes of the picture: the body, or the first file of a form.
async fn picture(request: Request) -> Result<Bytes, ApiError> {
    let kind = request.headers().get(header::CONTENT_TYPE);
    let is_form = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"multipart/form-data"));
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
        if field.file_name().is_some() {
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
