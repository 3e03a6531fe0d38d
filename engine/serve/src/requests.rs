//! A request: checked, passed to the backend on a thread that may block, and answered.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::{Bytes, to_bytes};
use axum::extract::{FromRequestParts, Path, Query, Request};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::task::JoinError;
use tokio::time::Instant;

use crate::access::{Access, Client, Head, Means};
use crate::archive;
use crate::audit::{Audit, Record};
use crate::backend::{Backend, DiscoverRequest, GraphRequest, GraphUndo, StreamRequest};
use crate::clip::{self, Clips};
use crate::connections::Peer;
use crate::description::openapi;
use crate::error::{ApiError, Refusal};
use crate::error_code::ErrorCode;
use crate::incidents::{self, IncidentChange};
use crate::infer::{self, PicturePlaces};
use crate::kept::Kept;
use crate::kserve;
use crate::limited;
use crate::limits::MAX_BODY_BYTES;
use crate::live::{self, Watched};
use crate::page;
use crate::rights::{self, Scope};
use crate::role::Identity;
use crate::routes::{self, GRAPH_SCHEMA, Operation};
use crate::search;

/// Content type of the metrics: the text format of Prometheus.
const METRICS_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Content type of texts that are JSON already.
const JSON_TYPE: &str = "application/json";

/// Timeout of a request; the slowest request removes a stream whose source hangs.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// The state that all requests share.
pub(crate) struct Api {
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) access: Access,
    pub(crate) audit: Audit,
    pub(crate) watched: Watched,
    pub(crate) clips: Clips,
    pub(crate) exports: Clips,
    pub(crate) searches: Clips,
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
        let (mut parts, body) = request.into_parts();
        let names = Path::<Vec<(String, String)>>::from_request_parts(&mut parts, &()).await;
        let name = names.map(|Path(names)| names.into_iter().next());
        let record = Record {
            method: parts.method.as_str().to_owned(),
            path: parts.uri.path().to_owned(),
            name: name.ok().flatten().map_or_else(String::new, |(_, name)| name),
            right: routes::right_of(operation),
        };
        let from = self.access.address(&head(&parts, &peer)).to_string();
        let request = Request::from_parts(parts, body);
        let mut client = None;
        let handled = Arc::clone(&self).handle(operation, &record.name, request, (&peer, &mut client));
        let response = match tokio::time::timeout(REQUEST_TIMEOUT, handled).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => match operation {
                Operation::KServe(_) => error.in_one_text().into_response(),
                _ => error.into_response(),
            },
            Err(_) => {
                let what = format!("it was not answered within {} s", REQUEST_TIMEOUT.as_secs());
                ApiError::with_status(StatusCode::GATEWAY_TIMEOUT, what).into_response()
            }
        };
        match client {
            Some(client) if client.means != Means::Open => {
                self.audit.on_answered(&record, &client, &from, response.status());
            }
            None if self.access.authenticates() && is_denied(response.status()) => {
                self.audit
                    .on_unknown(&record, &from, response.status(), Instant::now());
            }
            _ => {}
        }
        response
    }

    /// A file of the page. It holds nothing of this engine, so any client that reaches the address gets it.
    pub(crate) fn page(&self, request: &Request, peer: &Peer, path: &str) -> Result<Response, ApiError> {
        if !self.access.authenticates() {
            self.access.client(&Head {
                method: request.method(),
                uri: request.uri(),
                headers: request.headers(),
                peer: peer.0.address(),
            })?;
            peer.0.trust();
        }
        let unknown = || ApiError::with_status(StatusCode::NOT_FOUND, "there is nothing at this path");
        page::file(path).ok_or_else(unknown)
    }

    /// Refuses a request that no route is for. A client that may not ask learns no more than that.
    pub(crate) fn refuse(&self, request: &Request, peer: &Peer, status: StatusCode, what: &str) -> ApiError {
        let allowed = self.access.client(&Head {
            method: request.method(),
            uri: request.uri(),
            headers: request.headers(),
            peer: peer.0.address(),
        });
        let denied = allowed.map(|_| peer.0.trust()).err();
        denied.unwrap_or_else(|| {
            ApiError::with_status(status, what).hint("GET /api/openapi.json describes all paths")
        })
    }

    /// Carries out a request; `client` is set once its client is known.
    async fn handle(
        self: Arc<Self>,
        operation: Operation,
        name: &str,
        request: Request,
        (peer, client): (&Peer, &mut Option<Client>),
    ) -> Result<Response, ApiError> {
        if operation == Operation::Health {
            return Ok(Json(json!({ "status": "ok" })).into_response());
        }
        if matches!(operation, Operation::Watch | Operation::WatchAll) {
            return live::watch(self, operation, request, peer.clone()).await;
        }
        let (parts, body) = request.into_parts();
        let head = head(&parts, peer);
        let asking = client.insert(self.access.client(&head)?);
        peer.0.trust();
        let right = routes::right_of(operation);
        rights::check(right, &asking.identity)?;
        if right.scope == Scope::Stream {
            rights::check_stream(&asking.identity, name)?;
        }
        if right.scope == Scope::Track {
            search::check_track(&asking.identity, name)?;
        }
        match operation {
            Operation::Infer => return infer::answer(&self, Request::from_parts(parts, body)).await,
            Operation::KServe(operation) => {
                return kserve::answer(self, operation, Request::from_parts(parts, body)).await;
            }
            Operation::Archive(operation) => {
                let identity = Arc::clone(&asking.identity);
                return archive::answer(self, operation, identity, parts).await;
            }
            Operation::Incidents => {
                let identity = Arc::clone(&asking.identity);
                return incidents::list(self, identity, &parts.uri).await;
            }
            Operation::Search => {
                let identity = Arc::clone(&asking.identity);
                return search::answer(self, identity, &parts.uri).await;
            }
            Operation::Session => return Ok(answer(shown(asking))),
            Operation::SignOut => return Ok(self.sign_out(&head)),
            _ => {}
        }
        let headers = &parts.headers;
        let kind = headers.get(header::CONTENT_TYPE).map(|kind| kind.as_bytes());
        let is_text = kind.is_some_and(|kind| is_media_type(kind, "text/plain"));
        let range = headers.get(header::RANGE).cloned();
        let described = routes::of(operation).and_then(|route| route.body);
        let limit = described.map_or(MAX_BODY_BYTES, |body| body.max_bytes);
        let body = to_bytes(body, limit).await.map_err(|_| {
            ApiError::with_status(
                StatusCode::PAYLOAD_TOO_LARGE,
                format!("the body is cut off, or longer than {limit} bytes"),
            )
        })?;
        if operation == Operation::SignIn {
            return self.sign_in(&head, asking, &body);
        }
        let (name, identity) = (name.to_owned(), Arc::clone(&asking.identity));
        let answered = tokio::task::spawn_blocking(move || {
            self.check_incident(right.scope, &name, &identity)?;
            self.carry_out(operation, (&name, &identity), &body, is_text, range.as_ref())
        });
        answered.await.map_err(engine_failed)?
    }

    /// Checks that a client that is limited to some cameras sees the one of an incident.
    fn check_incident(&self, scope: Scope, id: &str, identity: &Identity) -> Result<(), ApiError> {
        if scope != Scope::Incident || identity.cameras.is_none() {
            return Ok(());
        }
        let stream = self.backend.incident_stream(id);
        let none = || {
            let error = ApiError::new(Refusal::NotFound, "there is no such incident any more");
            error.code(ErrorCode::IncidentGone, [])
        };
        rights::check_stream(identity, &stream.ok_or_else(none)?)
    }

    /// Opens a session for a client that sent its token.
    fn sign_in(&self, head: &Head<'_>, client: &Client, body: &Bytes) -> Result<Response, ApiError> {
        let asked: SignInRequest = if body.is_empty() {
            SignInRequest::default()
        } else {
            read(body, "no session", "such as {\"keep\": true}")?
        };
        let Means::Token(token) = client.means else {
            let error = ApiError::new(Refusal::Conflict, "a session is opened with a token");
            return Err(error.hint("send the header Authorization: Bearer TOKEN"));
        };
        let opened = self.access.sessions.open(token, asked.keep, Instant::now());
        let opened = opened.map_err(|error| {
            ApiError::new(
                Refusal::Failed,
                format!("the machine gives no randomness: {error}"),
            )
        })?;
        let max_age_s = opened.kept.map(|kept| kept.as_secs());
        let cookie = self.access.set_cookie(head, &opened.secret, max_age_s);
        Ok(([(header::SET_COOKIE, cookie)], answer(shown(client))).into_response())
    }

    /// Ends the session of a browser, if it has one.
    fn sign_out(&self, head: &Head<'_>) -> Response {
        if let Some(secret) = self.access.cookie_of(head.headers) {
            self.access.sessions.close(secret);
        }
        let cookie = self.access.set_cookie(head, "", Some(0));
        ([(header::SET_COOKIE, cookie)], answer(json!({ "status": "ok" }))).into_response()
    }

    /// Carries out an operation on a thread that may block. `is_text`: the body is plain text rather than JSON. `range` is the header
    /// `Range`.
    fn carry_out(
        &self,
        operation: Operation,
        (name, identity): (&str, &Identity),
        body: &Bytes,
        is_text: bool,
        range: Option<&HeaderValue>,
    ) -> Result<Response, ApiError> {
        let backend = &self.backend;
        match operation {
            // Answered before.
            Operation::Health
            | Operation::Session
            | Operation::SignIn
            | Operation::SignOut
            | Operation::Watch
            | Operation::WatchAll
            | Operation::Incidents
            | Operation::Search
            | Operation::Infer
            | Operation::Archive(_)
            | Operation::KServe(_) => Ok(Json(json!({ "status": "ok" })).into_response()),
            Operation::Readiness => Ok(self.readiness()),
            Operation::Metrics => Ok(with_type(METRICS_TYPE, backend.metrics())),
            Operation::Description => Ok(with_type(JSON_TYPE, openapi())),
            Operation::State => self.state(identity),
            Operation::Drops => backend.drops().map(answer),
            Operation::Timeline => backend.timeline().map(answer),
            Operation::Fleet => backend.fleet().map(answer),
            Operation::StreamDrops => backend.stream_drops(name).map(answer),
            Operation::ListStreams => backend
                .streams()
                .map(|list| answer_to(identity, list, limited::streams)),
            Operation::AddStream => self.add_stream(body),
            Operation::Discover => {
                let hint = "such as {} for all networks of the engine, or {\"address\": \"192.0.2.7\"}";
                let request: DiscoverRequest = read(body, "no search for cameras", hint)?;
                request.check_lengths()?;
                backend.discover(&request).map(answer)
            }
            Operation::RemoveStream => backend.remove_stream(name).map(answer),
            Operation::PauseStream => backend.pause_stream(name).map(|kept| changed(name, Some(kept))),
            Operation::ResumeStream => backend.resume_stream(name).map(|kept| changed(name, kept)),
            Operation::ChangeStream => self.change_stream(name, body),
            Operation::Incident => backend.incident(name).map(answer),
            Operation::ChangeIncident => {
                let change: IncidentChange =
                    read(body, "no change of an incident", "such as {\"seen\": true}")?;
                backend.change_incident(name, change.checked()?).map(answer)
            }
            Operation::IncidentPicture => backend.incident_picture(name).map(jpeg),
            Operation::TrackPicture => backend.track_picture(name).map(jpeg),
            Operation::IncidentClip => clip::answer(&self.clips, backend.incident_clip(name)?, range),
            Operation::Policy => backend.policy().map(answer),
            Operation::ApplyPolicy => {
                backend.apply_policy(read(body, "no policy", "such as {\"preset\": \"weir\"}")?)?;
                backend.policy().map(answer)
            }
            Operation::Graph => backend.graph().map(answer),
            Operation::GraphSchema => Ok(with_type(JSON_TYPE, GRAPH_SCHEMA)),
            Operation::StreamPicture => backend.stream_picture(name).map(jpeg),
            Operation::GraphFile => backend.read_graph_file().map(answer),
            Operation::CheckGraph => {
                let check = read(body, "no check of a graph", "send {\"text\": \"...\"}")?;
                backend.check_graph(check).map(answer)
            }
            Operation::SaveGraph => {
                let hint = "send {\"text\": \"...\", \"version\": \"...\"} with the version that GET /api/graph/file gives";
                backend
                    .save_graph(read(body, "no text of a graph file", hint)?)
                    .map(answer)
            }
            Operation::UndoGraph => {
                let hint = "send {\"version\": \"...\"} with the version that GET /api/graph/file gives";
                let undo: GraphUndo = read(body, "no version of a graph file", hint)?;
                backend.undo_graph(&undo.version).map(answer)
            }
            Operation::ApplyGraph => self.apply_graph(body, is_text),
        }
    }

    /// Readiness of the engine, with parts that are not ready, and parts that fail while it is ready.
    fn readiness(&self) -> Response {
        let not_ready = self.backend.not_ready();
        let is_ready = not_ready.is_empty();
        let status = if is_ready {
            StatusCode::OK
        } else {
            StatusCode::SERVICE_UNAVAILABLE
        };
        let mut body = json!({ "ready": is_ready, "not_ready": not_ready });
        let degraded = self.backend.degraded();
        if !degraded.is_empty() {
            body["degraded"] = json!(degraded);
        }
        (status, Json(body)).into_response()
    }

    /// The state of the engine; a client that is limited to some cameras gets its part of the state.
    fn state(&self, identity: &Identity) -> Result<Response, ApiError> {
        let state = SharedText(self.backend.state()?);
        if identity.cameras.is_some() {
            let state = serde_json::from_slice(state.as_ref()).unwrap_or_default();
            return Ok(answer(limited::state(state, identity)));
        }
        Ok(with_type(JSON_TYPE, Bytes::from_owner(state)))
    }

    /// Adds the stream that the body describes.
    fn add_stream(&self, body: &Bytes) -> Result<Response, ApiError> {
        let hint = "such as {\"name\": \"north\", \"uri\": \"rtsp://camera/stream\"}";
        let stream: StreamRequest = read(body, "no stream", hint)?;
        let name = stream.name.clone();
        let kept = self.backend.add_stream(stream)?;
        Ok((StatusCode::CREATED, changed(&name, Some(kept))).into_response())
    }

    /// Changes a stream as the body describes.
    fn change_stream(&self, name: &str, body: &Bytes) -> Result<Response, ApiError> {
        let change = read(body, "no change of a stream", "such as {\"weight\": 3}")?;
        let kept = self.backend.change_stream(name, change)?;
        Ok(changed(name, Some(kept)))
    }

    /// Puts a graph into force. The body is the text of the graph if `is_text`, else an object with that text.
    fn apply_graph(&self, body: &Bytes, is_text: bool) -> Result<Response, ApiError> {
        let text = if is_text {
            let text = String::from_utf8(body.to_vec());
            text.map_err(|_| ApiError::new(Refusal::Invalid, "the body is no UTF-8 text"))?
        } else {
            let hint = "send {\"text\": \"...\"}, or the text as text/plain";
            let request: GraphRequest = read(body, "no graph", hint)?;
            request.text
        };
        self.backend.apply_graph(text).map(answer)
    }
}

/// A request, as far as access depends on it.
pub(crate) fn head<'a>(parts: &'a Parts, peer: &Peer) -> Head<'a> {
    Head {
        method: &parts.method,
        uri: &parts.uri,
        headers: &parts.headers,
        peer: peer.0.address(),
    }
}

fn is_denied(status: StatusCode) -> bool {
    matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN)
}

/// The body of a request that opens a session.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct SignInRequest {
    /// Whether the browser stays signed in after it was closed.
    #[serde(default)]
    keep: bool,
}

/// Whether the header `Content-Type` has this media type, whose name has no case (RFC 9110, 8.3.1).
pub(crate) fn is_media_type(kind: &[u8], name: &str) -> bool {
    let own = kind.get(..name.len());
    own.is_some_and(|own| own.eq_ignore_ascii_case(name.as_bytes()))
}

/// Reads the query of a request; `example` is the hint of the refusal.
///
/// # Errors
/// [`ApiError`]: the query is invalid.
pub(crate) fn query_of<T: DeserializeOwned>(uri: &Uri, example: &str) -> Result<T, ApiError> {
    let query = Query::try_from_uri(uri).map_err(|error| {
        let error = ApiError::new(Refusal::Invalid, format!("the query is invalid: {error}"));
        error.hint(example)
    })?;
    Ok(query.0)
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

/// Returns a picture as a response.
fn jpeg(picture: Vec<u8>) -> Response {
    file("image/jpeg", picture)
}

/// Returns a text of the content type `kind` as a response.
fn with_type(kind: &'static str, text: impl IntoResponse) -> Response {
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}

/// A stream was changed, which is kept there.
fn changed(name: &str, kept: Option<Kept>) -> Response {
    let mut body = json!({ "name": name });
    if let Some(kept) = kept {
        body["kept"] = json!(kept);
    }
    answer(body)
}

/// The client of a request, as it sees itself.
fn shown(client: &Client) -> Value {
    let Identity { name, role, cameras } = &*client.identity;
    let mut shown = json!({ "name": name, "role": role, "by": client.means.name() });
    if let Some(cameras) = cameras {
        shown["cameras"] = json!(cameras);
    }
    shown
}

/// Answers with a value, of which a client that is limited to some cameras gets what `limit` keeps.
fn answer_to(identity: &Identity, value: Value, limit: fn(Value, &Identity) -> Value) -> Response {
    answer(match identity.cameras {
        Some(_) => limit(value, identity),
        None => value,
    })
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
