//! Connections within bounds: so many at a time, and none that makes no progress or does not say what it asks for.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpListener;
use tokio::time::{Instant, Sleep, sleep};

use crate::places::{GivenUp, Place, Places};
use crate::tls::{Stream, Tls};

/// Connections at a time: a page and its collectors have some tens; each takes a file handle and some kilobytes. One more takes
/// the place of another one: of a client without the token that has most of them, else of the one that has been idle for longest.
pub const MAX_CONNECTIONS: usize = 1_024;

/// Before the next connection where the system has no handle for one.
const RETRY_INTERVAL: Duration = Duration::from_millis(200);

/// Accepts connections within bounds.
pub(crate) struct BoundedListener {
    listener: TcpListener,
    places: Arc<Places>,
    tls: Option<Tls>,
}

impl BoundedListener {
    /// So many connections at a time, by TLS if there is a certificate.
    pub(crate) fn new(listener: TcpListener, max: usize, tls: Option<Tls>) -> Self {
        Self {
            listener,
            places: Arc::new(Places::new(max)),
            tls,
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
                    let Some((place, given_up)) = Places::take(&self.places, address.ip(), Instant::now())
                    else {
                        tracing::debug!(%address, "all connections are in use: a new connection was closed");
                        continue;
                    };
                    let stream = match &self.tls {
                        Some(tls) => tls.accept(stream),
                        None => Stream::Plain(stream),
                    };
                    return (Connection::new(stream, place, given_up), address);
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

/// The connection that a request came by.
#[derive(Clone)]
pub(crate) struct Peer(pub(crate) Arc<Place>);

impl Connected<IncomingStream<'_, BoundedListener>> for Peer {
    fn connect_info(stream: IncomingStream<'_, BoundedListener>) -> Self {
        Self(Arc::clone(&stream.io().place))
    }
}

/// A connection that ends when it makes no progress.
pub(crate) struct Connection {
    stream: Stream,
    deadline: Pin<Box<Sleep>>,
    place: Arc<Place>,
    given_up: GivenUp,
}

impl Drop for Connection {
    fn drop(&mut self) {
        // Requests that it brought may still hold the place.
        self.place.free();
    }
}

impl Connection {
    fn new(stream: Stream, place: Place, given_up: GivenUp) -> Self {
        Self {
            stream,
            deadline: Box::pin(tokio::time::sleep_until(place.deadline())),
            place: Arc::new(place),
            given_up,
        }
    }

    /// The result of an operation; an error where it waits, and has done so for too long.
    fn within<T>(&mut self, context: &mut Context<'_>, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            return polled;
        }
        if Pin::new(&mut self.given_up).poll(context).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        while self.deadline.as_mut().poll(context).is_ready() {
            // It may have been put off by what was done meanwhile.
            let deadline = self.place.deadline();
            if deadline <= Instant::now() {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            self.deadline.as_mut().reset(deadline);
        }
        Poll::Pending
    }

    /// An operation made progress; an error where the head of a request took too long.
    fn on_progress(&mut self, has_read: bool) -> io::Result<()> {
        let now = Instant::now();
        if has_read {
            self.place.on_read(now);
        } else {
            self.place.on_written(now);
        }
        let deadline = self.place.deadline();
        if deadline <= now {
            return Err(io::ErrorKind::TimedOut.into());
        }
        // A deadline that is later is looked up when the timer is over.
        if deadline < self.deadline.deadline() {
            self.deadline.as_mut().reset(deadline);
        }
        Ok(())
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        if matches!(polled, Poll::Ready(Ok(()))) {
            self.on_progress(true)?;
        }
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
        if matches!(polled, Poll::Ready(Ok(_))) {
            self.on_progress(false)?;
        }
        self.within(context, polled)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
