//! The client's side of a WebSocket (RFC 6455), as far as tests need it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Longest time without any frame; the server pings every ten seconds.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A WebSocket on a path; the status where that is refused. Further header lines end with `\r\n` each.
pub(crate) fn upgrade(at: SocketAddr, path: &str, headers: &str) -> Result<TcpStream, u16> {
    let mut stream = TcpStream::connect(at).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {at}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{headers}\r\n"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.extend(take::<1>(&mut stream));
    }
    let head = String::from_utf8(head).unwrap();
    let status = head
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok())
        .unwrap();
    if status == 101 { Ok(stream) } else { Err(status) }
}

/// The next frame: its type, and what is in it.
pub(crate) fn frame(stream: &mut TcpStream) -> (u8, Vec<u8>) {
    let [kind, length] = take(stream);
    let length = match length {
        126 => u64::from(u16::from_be_bytes(take(stream))),
        127 => u64::from_be_bytes(take(stream)),
        length => length.into(),
    };
    let mut data = vec![0; usize::try_from(length).unwrap()];
    stream.read_exact(&mut data).unwrap();
    (kind & 15, data)
}

/// Sends a text of at most 125 bytes, masked with zeros.
pub(crate) fn send_text(stream: &mut TcpStream, text: &str) {
    let length = u8::try_from(text.len()).ok().filter(|length| *length < 126);
    let mut bytes = vec![0x81, 0x80 | length.unwrap(), 0, 0, 0, 0];
    bytes.extend_from_slice(text.as_bytes());
    stream.write_all(&bytes).unwrap();
}

fn take<const N: usize>(stream: &mut TcpStream) -> [u8; N] {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes).unwrap();
    bytes
}
