//! The live view of a service over its WebSocket, as pages use it (RFC 6455).

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};

/// Longest time without any message; the service pings every ten seconds.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A message of the service.
pub(crate) enum Message {
    Text(Value),
    Bytes(Vec<u8>),
    Ping,
}

/// See the module.
pub(crate) struct LiveSocket(TcpStream);

impl LiveSocket {
    /// Opens the socket of all streams of a service at an address.
    pub(crate) fn open(at: &str) -> Self {
        let mut stream = TcpStream::connect(at).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        let head = format!(
            "GET /api/live HTTP/1.1\r\nHost: {at}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            answer.push(byte[0]);
        }
        assert!(answer.starts_with(b"HTTP/1.1 101"), "{}", answer.escape_ascii());
        Self(stream)
    }

    /// Sends a message such as `{"watch": "north"}`.
    pub(crate) fn ask(&mut self, kind: &str, name: &str) {
        let text = json!({ kind: name }).to_string();
        // Masked with zeros.
        let mut bytes = vec![0x81, 0x80 | u8::try_from(text.len()).unwrap(), 0, 0, 0, 0];
        bytes.extend_from_slice(text.as_bytes());
        self.0.write_all(&bytes).unwrap();
    }

    /// The next message.
    pub(crate) fn next(&mut self) -> Message {
        let [kind, length] = self.take();
        let length = match length {
            126 => u64::from(u16::from_be_bytes(self.take())),
            127 => u64::from_be_bytes(self.take()),
            length => length.into(),
        };
        let mut data = vec![0; usize::try_from(length).unwrap()];
        self.0.read_exact(&mut data).unwrap();
        match kind & 15 {
            1 => Message::Text(serde_json::from_slice(&data).unwrap()),
            2 => Message::Bytes(data),
            9 => Message::Ping,
            other => panic!("frame {other}: {}", data.escape_ascii()),
        }
    }

    fn take<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        self.0.read_exact(&mut bytes).unwrap();
        bytes
    }
}
