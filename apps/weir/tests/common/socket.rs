//! The live view of a service over its WebSocket, as pages use it.

use std::net::TcpStream;

use serde_json::{Value, json};

use crate::web_socket::{frame, send_text, upgrade};

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
        Self(upgrade(at.parse().unwrap(), "/api/live", "").unwrap())
    }

    /// Sends a message such as `{"watch": "north"}`.
    pub(crate) fn ask(&mut self, kind: &str, name: &str) {
        send_text(&mut self.0, &json!({ kind: name }).to_string());
    }

    /// The next message.
    pub(crate) fn next(&mut self) -> Message {
        let (kind, data) = frame(&mut self.0);
        match kind {
            1 => Message::Text(serde_json::from_slice(&data).unwrap()),
            2 => Message::Bytes(data),
            9 => Message::Ping,
            other => panic!("frame {other}: {}", data.escape_ascii()),
        }
    }
}
