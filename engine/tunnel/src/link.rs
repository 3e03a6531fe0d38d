//! One connection: its first message, and what passes after it.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsStream;

use crate::certificates::Peer;
use crate::shared::{Opening, Place, Shared};

/// Time that a connection has until its first messages were admitted.
pub(crate) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// Time that the other end has to take the last bytes.
const LINGER: Duration = Duration::from_secs(1);
/// Bytes that one direction of a connection holds.
const BUFFER_BYTES: usize = 64 << 10;
/// Bytes of the length in front of a message.
pub(crate) const LENGTH_BYTES: usize = 2;
/// Longest time between two looks at the clock of the calendar, which may be set meanwhile.
const CLOCK_INTERVAL: Duration = Duration::from_secs(60);

/// Reads a message with the two bytes of its length in front, the lower one first.
pub(crate) async fn read_message(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Vec<u8>> {
    let mut message = vec![0; LENGTH_BYTES];
    from.read_exact(&mut message).await?;
    let bytes = usize::from(u16::from_le_bytes([message[0], message[1]]));
    message.resize(LENGTH_BYTES + bytes, 0);
    from.read_exact(&mut message[LENGTH_BYTES..]).await?;
    Ok(message)
}

/// Reads the first message of a peer, which the gate must admit. An error is a text for the log.
pub(crate) async fn read_opening(
    tls: &mut TlsStream<TcpStream>,
    shared: &Shared,
    peer: &Peer,
    opening: Opening,
) -> Result<Vec<u8>, String> {
    let message = read_message(tls).await;
    let message = message.map_err(|error| format!("{} sent no first message: {error}", peer.name))?;
    shared.gate.admit(&peer.name, opening, &message[LENGTH_BYTES..])?;
    Ok(message)
}

/// Passes bytes in both directions until an end closes or a certificate expires.
pub(crate) async fn carry(tls: TlsStream<TcpStream>, own: UnixStream, peer: Peer, _place: Place) {
    let (mut tls_read, mut tls_write) = tokio::io::split(tls);
    let (mut own_read, mut own_write) = own.into_split();
    let is_expired = tokio::select! {
        _ = copy(&mut own_read, &mut tls_write) => false,
        _ = copy(&mut tls_read, &mut own_write) => false,
        () = expiry(peer.expires_s) => true,
    };
    if is_expired {
        tracing::warn!(
            peer = peer.name,
            "a connection was closed: the certificate has expired"
        );
    }
    drop((own_read, own_write));
    // Bytes that are not read when a TCP socket is closed would take with them those that the other end has yet to read.
    let end = async {
        tls_write.shutdown().await?;
        tokio::io::copy(&mut tls_read, &mut tokio::io::sink()).await
    };
    let _ = timeout(LINGER, end).await;
}

async fn copy(from: &mut (impl AsyncRead + Unpin), to: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let bytes = from.read(&mut buffer).await?;
        if bytes == 0 {
            return Ok(());
        }
        to.write_all(&buffer[..bytes]).await?;
        to.flush().await?;
    }
}

/// Waits until certificates have expired.
async fn expiry(expires_s: i64) {
    loop {
        let left = expires_s.saturating_sub(unix_time_s());
        if left < 0 {
            return;
        }
        let left = Duration::from_secs(left.unsigned_abs() + 1);
        sleep(left.min(CLOCK_INTERVAL)).await;
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "certificates are valid until a time of the calendar"
)]
fn unix_time_s() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    i64::try_from(since.unwrap_or_default().as_secs()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

    use super::*;

    #[test]
    fn first_message_is_read_to_its_end_and_no_further() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let read = |mut bytes: &[u8]| {
            let message = runtime.block_on(read_message(&mut bytes)).ok();
            (message, bytes.len())
        };
        assert_eq!(read(&[2, 0, 7, 8, 9]), (Some(vec![2, 0, 7, 8]), 1));
        assert_eq!(read(&[0, 0]), (Some(vec![0, 0]), 0));
        for cut in [&[][..], &[2], &[2, 0, 7], &[255, 255, 1]] {
            assert_eq!(read(cut).0, None, "{cut:?}");
        }
    }
}
