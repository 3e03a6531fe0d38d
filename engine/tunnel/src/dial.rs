//! Connections to other nodes.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::{TcpStream, UnixListener, UnixStream};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsStream;
use tokio_rustls::rustls::pki_types::ServerName;

use crate::address::Address;
use crate::certificates::Peer;
use crate::link::{HANDSHAKE_TIMEOUT, carry, read_message, read_opening};
use crate::shared::{Opening, Shared};

/// Pause after an error of the system, such as too few file handles.
const PAUSE: Duration = Duration::from_millis(100);

/// Connects to an address each time that the transport does, for as long as it is polled.
pub(crate) async fn dial_all(shared: Arc<Shared>, listener: UnixListener, address: Address) {
    let mut latest = String::new();
    loop {
        let own = match listener.accept().await {
            Ok((own, _)) => own,
            Err(error) => {
                tracing::warn!(%error, "the transport cannot be accepted");
                sleep(PAUSE).await;
                continue;
            }
        };
        let dialled = timeout(HANDSHAKE_TIMEOUT, dial(&shared, own, &address)).await;
        match dialled.unwrap_or_else(|_| Err(Failure::Absent("it does not answer".to_owned()))) {
            Ok(()) => latest.clear(),
            Err(Failure::Absent(reason)) => tracing::debug!(%address, reason, "a node is not there"),
            Err(Failure::Refused(reason)) => {
                // The transport tries again and again: each reason is logged once.
                if reason != latest {
                    tracing::warn!(%address, reason, "a node is not connected to");
                    latest = reason;
                }
            }
        }
    }
}

enum Failure {
    /// A node that is not there, or leaves: it is for others to wait.
    Absent(String),
    /// A node that this one does not trust.
    Refused(String),
}

async fn dial(shared: &Shared, mut own: UnixStream, address: &Address) -> Result<(), Failure> {
    let absent = |error: std::io::Error| Failure::Absent(error.to_string());
    let refused = |error: std::io::Error| Failure::Refused(error.to_string());
    let message = read_message(&mut own).await.map_err(absent)?;
    let stream = TcpStream::connect((address.host.as_str(), address.port)).await;
    let stream = stream.map_err(absent)?;
    stream.set_nodelay(true).map_err(absent)?;
    let host = ServerName::try_from(address.host.clone());
    let host = host.map_err(|error| Failure::Refused(error.to_string()))?;
    let tls = shared.credentials.connector.connect(host, stream).await;
    let mut tls = TlsStream::Client(tls.map_err(refused)?);
    let peer = Peer::read(tls.get_ref().1.peer_certificates()).map_err(Failure::Refused)?;
    tls.write_all(&message).await.map_err(absent)?;
    tls.flush().await.map_err(absent)?;
    let reply = read_opening(&mut tls, shared, &peer, Opening::Reply).await;
    let reply = reply.map_err(Failure::Refused)?;
    let place = shared.place().map_err(Failure::Absent)?;
    own.write_all(&reply).await.map_err(absent)?;
    tokio::spawn(carry(tls, own, peer, place));
    Ok(())
}
