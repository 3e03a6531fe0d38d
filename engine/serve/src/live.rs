//! Live streams over a WebSocket: their video and their results, such as detections.
//!
//! A browser cannot send a header with a WebSocket: it sends the cookie of its session, or a token as the first message,
//! `{"token": "..."}`; without these nothing is sent. If the engine needs no token, only pages of this engine itself may open
//! one. A socket shows the stream of its path, or those that its messages ask for: one is enough for all tiles of a page. What
//! waits is sent together, ten times a second and to all watchers at the same moments, since each write has its cost, and so has
//! each time that the threads which answer are woken. Pictures for browsers that do not play the video are sent thirty times a
//! second: each is shown when it arrives.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket, WebSocketUpgrade};
use axum::extract::{FromRequestParts, Path, Request};
use axum::http::{Method, StatusCode};
use axum::response::Response;
use futures_util::SinkExt;
use serde::Deserialize;
use serde_json::json;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at, timeout};

use crate::access::{Client, Head};
use crate::backend::Watching;
use crate::connections::Peer;
use crate::error::{ApiError, Refusal};
use crate::error_code::ErrorCode;
use crate::live_queue::{LiveMessage, LiveQueue, LiveView};
use crate::requests::{Api, head};
use crate::rights;
use crate::routes::{self, Operation};

/// Streams that are watched at a time, by all pages: eight tiles of 64 pages.
pub const MAX_WATCHED: usize = 512;

/// Streams that one socket shows: more tiles than a screen has.
const MAX_SHOWN: usize = 32;

/// The longest message of a watcher: one with the longest token.
const MAX_MESSAGE_BYTES: usize = 4 << 10;

/// Timeout for the first message of a client, which carries the token.
const TOKEN_TIMEOUT: Duration = Duration::from_secs(5);

/// Interval between two sends. Players buffer more than this.
const SEND_INTERVAL: Duration = Duration::from_millis(100);

/// Interval between two sends to a client that shows pictures as fast as they come.
const PICTURE_INTERVAL: Duration = Duration::from_millis(33);

/// Interval between pings to a client that is sent nothing else, so that its connection counts as alive.
const PING_INTERVAL: Duration = Duration::from_secs(10);

/// Interval at which the token of a watcher is looked up again.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// Close codes of applications (RFC 6455, 7.4.2): the token is wrong; the stream cannot be shown.
const WRONG_TOKEN: u16 = 4401;
const NOT_SHOWN: u16 = 4404;

/// Close code of a server that is busy (RFC 6455, 11.7).
const TRY_AGAIN: u16 = 1013;

/// Streams that are watched now.
pub(crate) type Watched = AtomicUsize;

/// A place among those that watch; free again when this is dropped.
struct Place(Arc<Api>);

impl Place {
    fn take(api: &Arc<Api>) -> Result<Self, ApiError> {
        let taken = api
            .watched
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |watched| {
                (watched < MAX_WATCHED).then_some(watched + 1)
            });
        let full = |_| {
            let what = format!("{MAX_WATCHED} streams are watched already");
            ApiError::with_status(StatusCode::SERVICE_UNAVAILABLE, what)
        };
        taken.map(|_| Self(Arc::clone(api))).map_err(full)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.watched.fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Deserialize)]
struct FirstMessage {
    token: String,
}

/// A message of a client, which selects the streams that a socket shows.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
enum Ask {
    /// Show the stream of that name.
    Watch(String),
    /// Show the stream of that name with its sound.
    Sound(String),
    /// Show the stream by pictures, for a browser that does not play its video.
    Pictures(String),
    /// A picture of the stream was shown: send the next one.
    Next(String),
    /// Show it no more.
    Leave(String),
}

/// Opens the WebSocket.
///
/// # Errors
/// Who may not ask; what is no WebSocket; too many watchers, unless they are still to send the token.
pub(crate) async fn watch(
    api: Arc<Api>,
    operation: Operation,
    request: Request,
    peer: Peer,
) -> Result<Response, ApiError> {
    let (mut parts, _) = request.into_parts();
    // As a change: pages of other sites must not look either, and browsers let them open WebSockets.
    let allowed = api.access.client(&Head {
        method: &Method::POST,
        ..head(&parts, &peer)
    });
    let name = Path::<String>::from_request_parts(&mut parts, &()).await;
    let name = name.ok().map(|Path(name)| name);
    let view = if asks_for_sound(parts.uri.query()) {
        LiveView::Sound
    } else {
        LiveView::Video
    };
    let upgrade = WebSocketUpgrade::from_request_parts(&mut parts, &()).await.ok();
    let client = match allowed {
        Ok(client) => Some(client),
        Err(_) if upgrade.is_some() && api.access.has_tokens() => None,
        Err(error) => return Err(error),
    };
    if let Some(client) = &client {
        check(operation, client, name.as_deref())?;
    }
    let upgrade = upgrade.ok_or_else(|| {
        let error = ApiError::new(Refusal::Invalid, "this path is for WebSocket connections");
        error.hint("the page at / shows what it sends")
    })?;
    let upgrade = upgrade.max_message_size(MAX_MESSAGE_BYTES);
    let Some(client) = client else {
        // Without a place among those that watch, which are for clients that may.
        peer.0.on_upgrade(true);
        return Ok(upgrade.on_upgrade(move |socket| identify(api, operation, socket, (name, view), peer)));
    };
    // One that shows nothing yet takes a place, too.
    let place = Place::take(&api)?;
    peer.0.trust();
    peer.0.on_upgrade(false);
    Ok(upgrade.on_upgrade(move |socket| serve(place, client, socket, (name, view))))
}

/// Whether the query of a socket of one stream asks for its sound.
fn asks_for_sound(query: Option<&str>) -> bool {
    query.is_some_and(|query| query.split('&').any(|pair| pair == "sound=1"))
}

/// Checks that a client may watch, and may watch this stream.
fn check(operation: Operation, client: &Client, name: Option<&str>) -> Result<(), ApiError> {
    rights::check(routes::right_of(operation), &client.identity)?;
    name.map_or(Ok(()), |name| rights::check_stream(&client.identity, name))
}

/// Serves a watcher once it has sent the token.
async fn identify(
    api: Arc<Api>,
    operation: Operation,
    mut socket: WebSocket,
    (name, view): (Option<String>, LiveView),
    peer: Peer,
) {
    let Some(client) = client_of_first_message(&api, &mut socket).await else {
        return close(socket, WRONG_TOKEN, "the first message is {\"token\": \"...\"}").await;
    };
    if let Err(error) = check(operation, &client, name.as_deref()) {
        return close(socket, NOT_SHOWN, error.what()).await;
    }
    peer.0.trust();
    peer.0.on_upgrade(false);
    match Place::take(&api) {
        Ok(place) => serve(place, client, socket, (name, view)).await,
        Err(error) => close(socket, TRY_AGAIN, error.what()).await,
    }
}

async fn serve(
    place: Place,
    client: Client,
    mut socket: WebSocket,
    (name, view): (Option<String>, LiveView),
) {
    let api = Arc::clone(&place.0);
    let mut shown = Shown {
        api,
        client,
        streams: Vec::new(),
        last: None,
        refused: Vec::new(),
    };
    let is_one = name.is_some();
    if let Some(name) = name {
        // Its messages need not say which stream they are of.
        shown.last = Some(name.clone());
        if let Err(error) = shown.open(name, view, Some(place)).await {
            return close(socket, NOT_SHOWN, error.what()).await;
        }
    }
    // Whole intervals since the engine began to answer: of all watchers at once.
    let mut moments = interval_at(shown.api.started, SEND_INTERVAL);
    moments.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut picture_moments = interval_at(shown.api.started, PICTURE_INTERVAL);
    picture_moments.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut pings = interval_at(Instant::now() + PING_INTERVAL, PING_INTERVAL);
    pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut ticks = interval_at(Instant::now() + CHECK_INTERVAL, CHECK_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = due(&mut moments, &mut picture_moments, shown.has_pictures()) => {
                let messages = shown.take();
                if is_one && shown.streams.is_empty() {
                    return close(socket, NOT_SHOWN, "the stream was removed").await;
                }
                if messages.is_empty() {
                    continue;
                }
                if send(&mut socket, messages).await.is_err() {
                    return;
                }
                pings.reset();
            }
            received = socket.recv() => match received {
                Some(Ok(Message::Text(text))) => shown.answer(&text, is_one).await,
                Some(Ok(Message::Binary(_) | Message::Ping(_) | Message::Pong(_))) => {}
                Some(Ok(Message::Close(_)) | Err(_)) | None => return,
            },
            _ = ticks.tick() => {
                if !shown.api.access.is_current(&shown.client) {
                    return close(socket, WRONG_TOKEN, "the token has changed or was removed").await;
                }
            }
            _ = pings.tick() => {
                if socket.send(Message::Ping(axum::body::Bytes::new())).await.is_err() {
                    return;
                }
            }
        }
    }
}

/// Waits for the next moment at which messages are sent.
async fn due(moments: &mut Interval, picture_moments: &mut Interval, has_pictures: bool) {
    tokio::select! {
        _ = moments.tick() => {}
        _ = picture_moments.tick(), if has_pictures => {}
    }
}

/// Sends messages by as few writes as they fit in.
async fn send(socket: &mut WebSocket, messages: Vec<Message>) -> Result<(), axum::Error> {
    for message in messages {
        socket.feed(message).await?;
    }
    socket.flush().await
}

/// The streams that a socket shows.
struct Shown {
    api: Arc<Api>,
    client: Client,
    streams: Vec<Stream>,
    /// The one that the messages before were of.
    last: Option<String>,
    /// Those that are not shown any more or were not to be had, and why.
    refused: Vec<(String, ApiError)>,
}

struct Stream {
    name: String,
    queue: Arc<LiveQueue>,
    /// Guard of the subscription: dropping it ends the messages of the stream.
    _watching: Watching,
    _place: Option<Place>,
}

impl Shown {
    /// Carries out what a client asks for. A socket of one stream has nothing to ask for but the next picture.
    async fn answer(&mut self, text: &str, is_one: bool) {
        let (name, view) = match serde_json::from_str(text) {
            Ok(Ask::Next(name)) => {
                let mut shown = self.streams.iter();
                if let Some(stream) = shown.find(|stream| stream.name == name) {
                    stream.queue.acknowledge();
                }
                return;
            }
            Ok(_) if is_one => return,
            Ok(Ask::Watch(name)) => (name, LiveView::Video),
            Ok(Ask::Sound(name)) => (name, LiveView::Sound),
            Ok(Ask::Pictures(name)) => (name, LiveView::Pictures),
            Ok(Ask::Leave(name)) => return self.streams.retain(|stream| stream.name != name),
            // The token comes from pages that do not know whether it is needed.
            Err(_) => return,
        };
        self.streams.retain(|stream| stream.name != name);
        let place = if self.streams.is_empty() {
            // The socket itself has one.
            Ok(None)
        } else if self.streams.len() >= MAX_SHOWN {
            let what = format!("a connection shows {MAX_SHOWN} streams at most");
            Err(ApiError::new(Refusal::Conflict, what))
        } else {
            Place::take(&self.api).map(Some)
        };
        let opened = match place {
            Ok(place) => self.open(name.clone(), view, place).await,
            Err(error) => Err(error),
        };
        if let Err(error) = opened {
            self.refused.push((name, error));
        }
    }

    async fn open(&mut self, name: String, view: LiveView, place: Option<Place>) -> Result<(), ApiError> {
        rights::check_stream(&self.client.identity, &name)?;
        let queue = Arc::new(LiveQueue::default());
        let (backend, to_fill, of) = (Arc::clone(&self.api.backend), Arc::clone(&queue), name.clone());
        let watching = tokio::task::spawn_blocking(move || backend.watch(&of, view, to_fill)).await;
        let failed = |_| ApiError::with_status(StatusCode::INTERNAL_SERVER_ERROR, "the engine failed");
        self.streams.push(Stream {
            name,
            queue,
            _watching: watching.map_err(failed)??,
            _place: place,
        });
        Ok(())
    }

    /// True if a stream is shown by pictures that the client acknowledges.
    fn has_pictures(&self) -> bool {
        self.streams
            .iter()
            .any(|stream| stream.queue.has_paced_pictures())
    }

    /// All that waits, stream by stream, with a text where the messages that follow are of another one.
    fn take(&mut self) -> Vec<Message> {
        let mut all = Vec::new();
        let mut closed = Vec::new();
        for stream in &self.streams {
            let (messages, is_open) = stream.queue.take();
            if !messages.is_empty() && self.last.as_deref() != Some(&*stream.name) {
                self.last = Some(stream.name.clone());
                all.push(text(&json!({ "type": "stream", "stream": stream.name })));
            }
            all.extend(messages.into_iter().map(LiveMessage::into_message));
            if !is_open {
                closed.push(stream.name.clone());
            }
        }
        self.streams.retain(|stream| !closed.contains(&stream.name));
        let removed = closed.into_iter().map(|name| (name, was_removed()));
        for (name, error) in self.refused.drain(..).chain(removed) {
            let mut note = json!({ "type": "closed", "stream": name, "reason": error.what() });
            if let Some((code, values)) = error.coded() {
                note["cause"] = json!({ "code": code, "values": values });
            }
            all.push(text(&note));
        }
        all
    }
}

/// The reason for which a stream that was shown ends.
fn was_removed() -> ApiError {
    ApiError::new(Refusal::NotFound, "the stream was removed").code(ErrorCode::StreamRemoved, [])
}

fn text(value: &serde_json::Value) -> Message {
    Message::Text(Utf8Bytes::from(value.to_string()))
}

async fn client_of_first_message(api: &Api, socket: &mut WebSocket) -> Option<Client> {
    let received = timeout(TOKEN_TIMEOUT, socket.recv()).await;
    let Ok(Some(Ok(Message::Text(text)))) = received else {
        return None;
    };
    let first = serde_json::from_str::<FirstMessage>(&text).ok()?;
    api.access.client_of_token(first.token.as_bytes())
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
    // A client that has left needs no reason.
    let _ = socket.send(Message::Close(Some(frame))).await;
}
