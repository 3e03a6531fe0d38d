//! Connections to a host with several addresses, of which some may not be reached: those of IPv6 in a network that does not carry it.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::{TcpStream, lookup_host};
use tokio::task::JoinSet;

/// Addresses of a host that are tried.
const MAX_ADDRESSES: usize = 16;

/// Time after which the next address is tried beside those that have not answered.
const NEXT_ADDRESS_TIMEOUT: Duration = Duration::from_millis(500);

/// Connects to the first address of a host that answers.
///
/// # Errors
/// The host has no address, or none of them takes the connection.
pub(super) async fn connect(host: &str, port: u16) -> io::Result<TcpStream> {
    let addresses: Vec<SocketAddr> = lookup_host((host, port)).await?.take(MAX_ADDRESSES).collect();
    first_connected(alternating(&addresses), TcpStream::connect::<SocketAddr>).await
}

/// Addresses of both versions of IP in turn, each version in the order of the system.
fn alternating(addresses: &[SocketAddr]) -> Vec<SocketAddr> {
    let leads = addresses.first().is_some_and(SocketAddr::is_ipv6);
    let (leading, others): (Vec<SocketAddr>, Vec<SocketAddr>) =
        addresses.iter().partition(|address| address.is_ipv6() == leads);
    let mut turns: Vec<SocketAddr> = Vec::with_capacity(addresses.len());
    for index in 0..addresses.len() {
        turns.extend(leading.get(index));
        turns.extend(others.get(index));
    }
    turns
}

/// Result of the first address that `connect` succeeds for.
async fn first_connected<T, F, A>(addresses: Vec<SocketAddr>, connect: F) -> io::Result<T>
where
    T: Send + 'static,
    F: Fn(SocketAddr) -> A,
    A: Future<Output = io::Result<T>> + Send + 'static,
{
    let mut waiting = addresses.into_iter();
    let mut attempts = JoinSet::new();
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "it has no address");
    loop {
        if let Some(address) = waiting.next() {
            attempts.spawn(connect(address));
        } else if attempts.is_empty() {
            return Err(failure);
        }
        let ended = if waiting.as_slice().is_empty() {
            attempts.join_next().await
        } else {
            let next = tokio::time::timeout(NEXT_ADDRESS_TIMEOUT, attempts.join_next()).await;
            next.unwrap_or_default()
        };
        match ended {
            Some(Ok(Ok(connected))) => return Ok(connected),
            Some(Ok(Err(error))) => failure = error,
            Some(Err(_)) | None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(texts: &[&str]) -> Vec<SocketAddr> {
        let texts = texts.iter();
        texts.map(|text| text.parse().expect("an address")).collect()
    }

    fn first(texts: &[&str]) -> io::Result<SocketAddr> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        // Addresses of IPv6 do not answer, and port 1 is closed.
        let connect = |address: SocketAddr| async move {
            if address.is_ipv6() {
                std::future::pending::<()>().await;
            }
            if address.port() == 1 {
                return Err(io::Error::from(io::ErrorKind::ConnectionRefused));
            }
            Ok(address)
        };
        runtime
            .expect("a runtime")
            .block_on(first_connected(addresses(texts), connect))
    }

    #[test]
    fn an_address_that_does_not_answer_leaves_time_for_the_others() {
        let found = first(&["[2001:db8::1]:465", "192.0.2.1:1", "192.0.2.1:465"]);
        assert_eq!(found.expect("one answers").to_string(), "192.0.2.1:465");
    }

    #[test]
    fn the_last_failure_is_that_of_all() {
        let failed = first(&["192.0.2.1:1", "192.0.2.2:1"]).expect_err("none answers");
        assert_eq!(failed.kind(), io::ErrorKind::ConnectionRefused);
        assert_eq!(
            first(&[]).expect_err("no address").kind(),
            io::ErrorKind::NotFound
        );
    }

    #[test]
    fn both_versions_of_ip_take_turns() {
        let (a, b, c) = ("[2001:db8::1]:25", "[2001:db8::2]:25", "[2001:db8::3]:25");
        let (x, y) = ("192.0.2.1:25", "192.0.2.2:25");
        assert_eq!(
            alternating(&addresses(&[a, b, c, x, y])),
            addresses(&[a, x, b, y, c])
        );
        assert_eq!(alternating(&addresses(&[x, a, b])), addresses(&[x, a, b]));
        assert!(alternating(&[]).is_empty());
    }
}
