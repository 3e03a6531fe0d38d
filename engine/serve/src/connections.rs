//! Connections within bounds: so many at a time, and none that makes no progress.

use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::serve::Listener;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::time::{Instant, Sleep, sleep};

/// Connections at a time: a page and its collectors have some tens; each takes a file handle and some kilobytes. For one more
/// the one is closed that has been idle for longest.
pub const MAX_CONNECTIONS: usize = 1_024;

/// What has neither sent nor taken anything for so long may be closed for another one.
const MIN_IDLE: Duration = Duration::from_secs(1);

/// How long a connection may neither send nor take anything.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// Before the next connection where the system has no handle for one.
const RETRY_INTERVAL: Duration = Duration::from_millis(200);

/// Accepts connections within bounds.
pub(crate) struct BoundedListener {
    listener: TcpListener,
    places: Arc<Places>,
}

impl BoundedListener {
    /// So many connections at a time.
    pub(crate) fn new(listener: TcpListener, max: usize) -> Self {
        let places = Places {
            max: max.max(1),
            taken: Mutex::default(),
        };
        Self {
            listener,
            places: Arc::new(places),
        }
    }
}

impl Listener for BoundedListener {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        loop {
            match self.listener.accept().await {
                Ok((stream, address)) => {
                    let Some(place) = Places::take(&self.places) else {
                        tracing::debug!(%address, "all connections are in use: one more is closed");
                        continue;
                    };
                    return (Connection::new(stream, place), address);
                }
                Err(error) => {
                    tracing::debug!("a connection cannot be accepted: {error}");
                    sleep(RETRY_INTERVAL).await;
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// The connections that there may be.
struct Places {
    max: usize,
    taken: Mutex<Taken>,
}

/// Those that there are, by number.
#[derive(Default)]
struct Taken {
    next: u64,
    holders: BTreeMap<u64, Holder>,
}

struct Holder {
    progress_at: Instant,
    /// Dropped where the connection has to give its place up.
    _keep: oneshot::Sender<()>,
}

/// The place of one connection; free again when this is dropped.
struct Place {
    places: Arc<Places>,
    number: u64,
    /// Ready once it has to be given up.
    given_up: oneshot::Receiver<()>,
}

impl Places {
    /// A place; where all are taken, that of the connection that has been idle for longest, as long as there is one that is:
    /// clients that only hold connections keep no one else from an answer.
    fn take(places: &Arc<Self>) -> Option<Place> {
        let now = Instant::now();
        let mut taken = places.lock();
        if taken.holders.len() >= places.max {
            let holders = taken.holders.iter();
            let (number, holder) = holders.min_by_key(|(_, holder)| holder.progress_at)?;
            if now.duration_since(holder.progress_at) < MIN_IDLE {
                return None;
            }
            let number = *number;
            taken.holders.remove(&number);
        }
        let number = taken.next;
        taken.next += 1;
        let (keep, given_up) = oneshot::channel();
        let holder = Holder {
            progress_at: now,
            _keep: keep,
        };
        taken.holders.insert(number, holder);
        drop(taken);
        Some(Place {
            places: Arc::clone(places),
            number,
            given_up,
        })
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    fn on_progress(&self, now: Instant) {
        if let Some(holder) = self.places.lock().holders.get_mut(&self.number) {
            holder.progress_at = now;
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.lock().holders.remove(&self.number);
    }
}

/// A connection that ends when it makes no progress.
pub(crate) struct Connection {
    stream: TcpStream,
    deadline: Pin<Box<Sleep>>,
    place: Place,
}

impl Connection {
    fn new(stream: TcpStream, place: Place) -> Self {
        Self {
            stream,
            deadline: Box::pin(sleep(IDLE_TIMEOUT)),
            place,
        }
    }

    /// The result of an operation; an error where it waits, and has done so for too long.
    fn within<T>(&mut self, context: &mut Context<'_>, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            let now = Instant::now();
            self.deadline.as_mut().reset(now + IDLE_TIMEOUT);
            self.place.on_progress(now);
            return polled;
        }
        if Pin::new(&mut self.place.given_up).poll(context).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        match self.deadline.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.within(context, polled)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.within(context, polled)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
