//! Connections from other nodes.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsStream;

use crate::certificates::Peer;
use crate::link::{HANDSHAKE_TIMEOUT, carry, read_opening};
use crate::shared::{Opening, Place, Shared};

/// Handshakes at a time.
const MAX_HANDSHAKES: usize = 64;
/// Pause after an error of the system, such as too few file handles.
const PAUSE: Duration = Duration::from_millis(100);
/// Interval at which the tunnel looks for the socket of the transport.
const READY_INTERVAL: Duration = Duration::from_millis(10);

/// Accepts connections for as long as it is polled, from the moment on at which the transport does.
pub(crate) async fn accept_all(shared: Arc<Shared>, listener: TcpListener) {
    while !shared.inner.exists() {
        sleep(READY_INTERVAL).await;
    }
    let mut handshakes: VecDeque<(AbortHandle, SocketAddr)> = VecDeque::new();
    loop {
        let (stream, from) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "no connection can be accepted");
                sleep(PAUSE).await;
                continue;
            }
        };
        handshakes.retain(|(handshake, _)| !handshake.is_finished());
        if handshakes.len() >= MAX_HANDSHAKES {
            // The oldest has had the most time: one that does not go on keeps nobody out.
            if let Some((oldest, from)) = handshakes.pop_front() {
                oldest.abort();
                shared.refuse(&from, "newer connections took the place of its handshake");
            }
        }
        let handshake = tokio::spawn(take(Arc::clone(&shared), stream, from));
        handshakes.push_back((handshake.abort_handle(), from));
    }
}

async fn take(shared: Arc<Shared>, stream: TcpStream, from: SocketAddr) {
    let ready = timeout(HANDSHAKE_TIMEOUT, handshake(&shared, stream)).await;
    match ready.unwrap_or_else(|_| Err("its handshake took too long".to_owned())) {
        Ok(Ready {
            tls,
            own,
            peer,
            place,
        }) => {
            // A task of its own: this one is ended with its handshake.
            tokio::spawn(carry(tls, own, peer, place));
        }
        Err(reason) => shared.refuse(&from, &reason),
    }
}

/// A connection that was admitted.
struct Ready {
    tls: TlsStream<TcpStream>,
    own: UnixStream,
    peer: Peer,
    place: Place,
}

async fn handshake(shared: &Shared, stream: TcpStream) -> Result<Ready, String> {
    stream.set_nodelay(true).map_err(|error| error.to_string())?;
    let tls = shared.credentials.acceptor.accept(stream).await;
    let mut tls = TlsStream::Server(tls.map_err(|error| error.to_string())?);
    let peer = Peer::read(tls.get_ref().1.peer_certificates())?;
    let message = read_opening(&mut tls, shared, &peer, Opening::Call).await?;
    let place = shared.place()?;
    let own = async {
        let mut own = UnixStream::connect(&shared.inner).await?;
        own.write_all(&message).await?;
        std::io::Result::Ok(own)
    };
    let own = own
        .await
        .map_err(|error| format!("this node is not ready: {error}"))?;
    Ok(Ready {
        tls,
        own,
        peer,
        place,
    })
}
