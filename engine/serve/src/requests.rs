//! A request: checked, passed to the backend on a thread that may block, and answered.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::{Bytes, to_bytes};
use axum::extract::{FromRequestParts, Path, Request};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::task::JoinError;
use tokio::time::Instant;

use crate::access;
use crate::backend::{Backend, GraphRequest, StreamRequest};
use crate::clip::{self, Clips};
use crate::connections::Peer;
use crate::error::{ApiError, Refusal};
use crate::infer::{self, PicturePlaces};
use crate::kept::Kept;
use crate::kserve;
use crate::live::{self, Watched};
use crate::page;
use crate::routes::{OPENAPI, Operation};
use crate::token::Token;

/// The largest body: a stream takes some hundred bytes.
const MAX_BODY_BYTES: usize = 64 << 10;

/// Timeout of a request; the slowest request removes a stream whose source hangs.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// The state that all requests share.
pub(crate) struct Api {
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) token: Option<Token>,
    pub(crate) watched: Watched,
    pub(crate) clips: Clips,
    pub(crate) pictures: PicturePlaces,
    /// Time at which the server began to answer: messages to clients are sent at whole intervals from then
    /// on.
    pub(crate) started: Instant,
}

impl Api {
    /// Answers a request for `operation`.
    pub(crate) async fn answer(
        self: Arc<Self>,
        operation: Operation,
        request: Request,
        peer: Peer,
    ) -> Response {
        let handled = tokio::time::timeout(REQUEST_TIMEOUT, self.handle(operation, request, peer));
        let error = match handled.await {
            Ok(Ok(response)) => return response,
            Ok(Err(error)) => error,
            Err(_) => {
                let what = format!("it was not answered within {} s", REQUEST_TIMEOUT.as_secs());
                ApiError::with_status(StatusCode::GATEWAY_TIMEOUT, what)
            }
        };
        match operation {
            Operation::KServe(_) => error.in_one_text().into_response(),
            _ => error.into_response(),
        }
    }

    /// A file of the page. It holds nothing of this engine, so whoever may ask for anything gets it.
    pub(crate) fn page(&self, request: &Request, peer: &Peer) -> Result<Response, ApiError> {
        if self.token.is_none() {
            access::check(request.method(), request.uri(), request.headers(), None)?;
            peer.0.trust();
        }
        let unknown = || ApiError::with_status(StatusCode::NOT_FOUND, "there is nothing at this path");
        page::file(request.uri().path()).ok_or_else(unknown)
    }

    /// Refuses a request that no route is for; who may not ask learns no more than that.
    pub(crate) fn refuse(&self, request: &Request, peer: &Peer, status: StatusCode, what: &str) -> ApiError {
        let (method, uri, headers) = (request.method(), request.uri(), request.headers());
        let allowed = access::check(method, uri, headers, self.token.as_ref());
        let denied = allowed.map(|()| peer.0.trust()).err();
        denied.unwrap_or_else(|| {
            ApiError::with_status(status, what).hint("GET /api/openapi.json describes all paths")
        })
    }

    async fn handle(
        self: Arc<Self>,
        operation: Operation,
        request: Request,
        peer: Peer,
    ) -> Result<Response, ApiError> {
        if operation == Operation::Health {
            return Ok(Json(json!({ "status": "ok" })).into_response());
        }
        if matches!(operation, Operation::Watch | Operation::WatchAll) {
            return live::watch(self, request, peer).await;
        }
        let (method, uri, headers) = (request.method(), request.uri(), request.headers());
        access::check(method, uri, headers, self.token.as_ref())?;
        peer.0.trust();
        if operation == Operation::Infer {
            return infer::answer(&self, request).await;
        }
        if let Operation::KServe(operation) = operation {
            return kserve::answer(self, operation, request).await;
        }
        let kind = headers.get(header::CONTENT_TYPE).map(|kind| kind.as_bytes());
        let is_text = kind.is_some_and(|kind| kind.starts_with(b"text/plain"));
        let (mut parts, body) = request.into_parts();
        let name = Path::<String>::from_request_parts(&mut parts, &()).await;
        let name = name.map_or_else(|_| String::new(), |Path(name)| name);
        let body = to_bytes(body, MAX_BODY_BYTES).await.map_err(|_| {
            ApiError::with_status(
                StatusCode::PAYLOAD_TOO_LARGE,
                format!("the body is cut off, or longer than {MAX_BODY_BYTES} bytes"),
            )
        })?;
        let answered = tokio::task::spawn_blocking(move || self.carry_out(operation, &name, &body, is_text));
        answered.await.map_err(engine_failed)?
    }

    /// `is_text`: the body is plain text rather than JSON.
    fn carry_out(
        &self,
        operation: Operation,
        name: &str,
        body: &Bytes,
        is_text: bool,
    ) -> Result<Response, ApiError> {
        let backend = &self.backend;
        match operation {
            // Answered before.
            Operation::Health
            | Operation::Watch
            | Operation::WatchAll
            | Operation::Infer
            | Operation::KServe(_) => Ok(Json(json!({ "status": "ok" })).into_response()),
            Operation::Readiness => {
                let not_ready = backend.not_ready();
                let is_ready = not_ready.is_empty();
                let status = if is_ready {
                    StatusCode::OK
                } else {
                    StatusCode::SERVICE_UNAVAILABLE
                };
                let mut body = json!({ "ready": is_ready, "not_ready": not_ready });
                let degraded = backend.degraded();
                if !degraded.is_empty() {
                    body["degraded"] = json!(degraded);
                }
                Ok((status, Json(body)).into_response())
            }
            Operation::Metrics => {
                let kind = [(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")];
                Ok((kind, backend.metrics()).into_response())
            }
            Operation::Description => {
                let kind = [(header::CONTENT_TYPE, "application/json")];
                Ok((kind, OPENAPI).into_response())
            }
            Operation::State => {
                let kind = [(header::CONTENT_TYPE, "application/json")];
                let state = SharedText(backend.state()?);
                Ok((kind, Bytes::from_owner(state)).into_response())
            }
            Operation::Drops => backend.drops().map(answer),
            Operation::Timeline => backend.timeline().map(answer),
            Operation::Fleet => backend.fleet().map(answer),
            Operation::StreamDrops => backend.stream_drops(name).map(answer),
            Operation::ListStreams => backend.streams().map(answer),
            Operation::AddStream => {
                let hint = "such as {\"name\": \"north\", \"uri\": \"rtsp://camera/stream\"}";
                let stream: StreamRequest = read(body, "no stream", hint)?;
                let name = stream.name.clone();
                let kept = backend.add_stream(stream)?;
                Ok((StatusCode::CREATED, changed(&name, Some(kept))).into_response())
            }
            Operation::RemoveStream => backend.remove_stream(name).map(answer),
            Operation::PauseStream => backend.pause_stream(name).map(|kept| changed(name, Some(kept))),
            Operation::ResumeStream => backend.resume_stream(name).map(|kept| changed(name, kept)),
            Operation::ChangeStream => {
                let change = read(body, "no change of a stream", "such as {\"weight\": 3}")?;
                let kept = backend.change_stream(name, change)?;
                Ok(changed(name, Some(kept)))
            }
            Operation::Incidents => backend.incidents().map(answer),
            Operation::IncidentPicture => backend
                .incident_picture(name)
                .map(|picture| file("image/jpeg", picture)),
            Operation::IncidentClip => clip::answer(&self.clips, backend.incident_clip(name)?),
            Operation::Policy => backend.policy().map(answer),
            Operation::ApplyPolicy => {
                backend.apply_policy(read(body, "no policy", "such as {\"preset\": \"weir\"}")?)?;
                backend.policy().map(answer)
            }
            Operation::Graph => backend.graph().map(answer),
            Operation::ApplyGraph if is_text => {
                let text = String::from_utf8(body.to_vec());
                let text = text.map_err(|_| ApiError::new(Refusal::Invalid, "the body is no UTF-8 text"))?;
                backend.apply_graph(text).map(answer)
            }
            Operation::ApplyGraph => {
                let hint = "send {\"text\": \"...\"}, or the text as text/plain";
                let request: GraphRequest = read(body, "no graph", hint)?;
                backend.apply_graph(request.text).map(answer)
            }
        }
    }
}

/// The thread of a request panicked.
pub(crate) fn engine_failed(_: JoinError) -> ApiError {
    ApiError::new(Refusal::Failed, "the engine failed")
}

/// A text whose bytes all who ask share.
struct SharedText(Arc<str>);

impl AsRef<[u8]> for SharedText {
    fn as_ref(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

/// Returns a picture or a video as a response that no client may cache.
pub(crate) fn file(kind: &'static str, bytes: Vec<u8>) -> Response {
    let headers = [
        (header::CONTENT_TYPE, kind),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    (headers, bytes).into_response()
}

/// A stream was changed, which is kept there.
fn changed(name: &str, kept: Option<Kept>) -> Response {
    let mut body = json!({ "name": name });
    if let Some(kept) = kept {
        body["kept"] = json!(kept);
    }
    answer(body)
}

fn answer(value: Value) -> Response {
    Json(value).into_response()
}

fn read<T: DeserializeOwned>(body: &Bytes, wrong: &str, hint: &str) -> Result<T, ApiError> {
    serde_json::from_slice(body).map_err(|error| {
        let error = ApiError::new(Refusal::Invalid, format!("the body describes {wrong}: {error}"));
        error.hint(hint)
    })
}
