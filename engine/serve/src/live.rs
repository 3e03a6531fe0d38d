//! A stream as it is now, over a WebSocket: its video, and what was found in it.
//!
//! A browser cannot send a header with a WebSocket, so a token is the first message: `{"token": "..."}`; without it nothing is
//! sent. Without a token, only pages of this engine itself may open one.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade};
use axum::extract::{FromRequestParts, Path, Request};
use axum::http::{Method, StatusCode};
use axum::response::Response;
use serde::Deserialize;

use crate::access;
use crate::error::{ApiError, Refusal};
use crate::live_queue::LiveQueue;
use crate::requests::Api;

/// Streams that are watched at a time, by all pages: eight tiles of 64 pages.
pub const MAX_WATCHED: usize = 512;

/// The longest message of a watcher: one with the longest token.
const MAX_MESSAGE_BYTES: usize = 4 << 10;

/// How long a watcher may take to send the token.
const TOKEN_TIMEOUT: Duration = Duration::from_secs(5);

/// How often a watcher without news is sent something, so that its connection counts as alive.
const PING_INTERVAL: Duration = Duration::from_secs(10);

/// Close codes of applications (RFC 6455, 7.4.2): the token is wrong; the stream cannot be shown.
const WRONG_TOKEN: u16 = 4401;
const NOT_SHOWN: u16 = 4404;

/// A place among those that watch; free again when this is dropped.
struct Place(Arc<Api>);

impl Place {
    fn take(api: &Arc<Api>) -> Option<Self> {
        let taken = api
            .watched
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |watched| {
                (watched < MAX_WATCHED).then_some(watched + 1)
            });
        taken.is_ok().then(|| Self(Arc::clone(api)))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.watched.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Streams that are watched now.
pub(crate) type Watched = AtomicUsize;

#[derive(Deserialize)]
struct FirstMessage {
    token: String,
}

/// Opens the WebSocket.
///
/// # Errors
/// Who may not ask; what is no WebSocket; too many watchers.
pub(crate) async fn watch(api: Arc<Api>, request: Request) -> Result<Response, ApiError> {
    let (mut parts, _) = request.into_parts();
    // As a change: pages of other sites must not look either, and browsers let them open WebSockets.
    let allowed = access::check(&Method::POST, &parts.uri, &parts.headers, api.token.as_ref());
    let name = Path::<String>::from_request_parts(&mut parts, &()).await;
    let name = name.map_or_else(|_| String::new(), |Path(name)| name);
    let upgrade = WebSocketUpgrade::from_request_parts(&mut parts, &()).await.ok();
    let needs_token = match allowed {
        Ok(()) => false,
        Err(_) if upgrade.is_some() && api.token.is_some() => true,
        Err(error) => return Err(error),
    };
    let upgrade = upgrade.ok_or_else(|| {
        let error = ApiError::new(Refusal::Invalid, "this path is a WebSocket");
        error.hint("the page at / shows what it sends")
    })?;
    let full = || {
        let what = format!("{MAX_WATCHED} streams are watched already");
        ApiError::with_status(StatusCode::SERVICE_UNAVAILABLE, what)
    };
    let place = Place::take(&api).ok_or_else(full)?;
    let upgrade = upgrade.max_message_size(MAX_MESSAGE_BYTES);
    Ok(upgrade.on_upgrade(move |socket| serve(place, socket, name, needs_token)))
}

async fn serve(place: Place, mut socket: WebSocket, name: String, needs_token: bool) {
    let api = Arc::clone(&place.0);
    if needs_token && !has_token(&api, &mut socket).await {
        close(socket, WRONG_TOKEN, "the first message is {\"token\": \"...\"}").await;
        return;
    }
    let queue = Arc::new(LiveQueue::default());
    let (backend, shown) = (Arc::clone(&api.backend), Arc::clone(&queue));
    let watching = tokio::task::spawn_blocking(move || backend.watch(&name, shown)).await;
    // Dropped when the watcher is gone: what it is shown by ends then.
    let _watching = match watching {
        Ok(Ok(watching)) => watching,
        Ok(Err(error)) => return close(socket, NOT_SHOWN, error.what()).await,
        Err(_) => return close(socket, NOT_SHOWN, "the engine failed").await,
    };
    loop {
        let message = tokio::select! {
            next = queue.next() => match next {
                Some(message) => message,
                None => break close(socket, NOT_SHOWN, "the stream was removed").await,
            },
            received = socket.recv() => match received {
                // It has nothing more to say.
                Some(Ok(Message::Text(_) | Message::Binary(_) | Message::Ping(_) | Message::Pong(_))) => continue,
                Some(Ok(Message::Close(_)) | Err(_)) | None => break,
            },
            () = tokio::time::sleep(PING_INTERVAL) => Message::Ping(axum::body::Bytes::new()),
        };
        if socket.send(message).await.is_err() {
            break;
        }
    }
}

async fn has_token(api: &Api, socket: &mut WebSocket) -> bool {
    let received = tokio::time::timeout(TOKEN_TIMEOUT, socket.recv()).await;
    let (Ok(Some(Ok(Message::Text(text)))), Some(token)) = (received, &api.token) else {
        return false;
    };
    let first = serde_json::from_str::<FirstMessage>(&text);
    first.is_ok_and(|first| token.is(first.token.as_bytes()))
}

/// Closes it with a reason, of which a frame holds 123 bytes.
async fn close(mut socket: WebSocket, code: u16, reason: &str) {
    let mut end = reason.len().min(123);
    while !reason.is_char_boundary(end) {
        end -= 1;
    }
    let frame = CloseFrame {
        code,
        reason: reason[..end].into(),
    };
    // Who is gone needs no reason.
    let _ = socket.send(Message::Close(Some(frame))).await;
}
