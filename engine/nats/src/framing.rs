//! Lines and messages of NATS as a server sends them: what is passed on, and what is refused.

use serde_json::Value;

/// Bounds of the bytes that a server may send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of headers and payload of one message.
    pub max_message_bytes: u64,
}

/// Bytes of a line: the greeting of a cluster names its servers.
pub(crate) const MAX_LINE_BYTES: usize = 64 << 10;

/// Bytes after a payload.
const END: &[u8] = b"\r\n";

/// Reads the bytes of a server piece by piece. Lines are kept until they are whole, payloads are passed on as they come.
#[derive(Debug)]
pub(crate) struct Framing {
    limits: Limits,
    /// The line that is not whole.
    line: Vec<u8>,
    /// Bytes of a payload and its end that are still to come.
    left: u64,
}

impl Framing {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            line: Vec::new(),
            left: 0,
        }
    }

    /// Adds what may be passed on of `input` to `out`.
    ///
    /// # Errors
    /// The reason why nothing further of this server may be read.
    pub(crate) fn push(&mut self, mut input: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
        while !input.is_empty() {
            if self.left > 0 {
                let length = usize::try_from(self.left).unwrap_or(usize::MAX).min(input.len());
                let (payload, rest) = input.split_at(length);
                out.extend_from_slice(payload);
                (self.left, input) = (self.left - length as u64, rest);
                continue;
            }
            let (part, rest) = match input.iter().position(|byte| *byte == b'\n') {
                Some(at) => input.split_at(at + 1),
                None => (input, &[][..]),
            };
            if self.line.len() + part.len() > MAX_LINE_BYTES {
                return Err(format!(
                    "the server sends a line of more than {} KiB",
                    MAX_LINE_BYTES >> 10
                ));
            }
            self.line.extend_from_slice(part);
            input = rest;
            if self.line.ends_with(END) {
                let line = std::mem::take(&mut self.line);
                self.left = self.pass(&line, out)?;
            }
        }
        Ok(())
    }

    /// Passes a line on, and gives how many bytes follow as its payload.
    fn pass(&self, line: &[u8], out: &mut Vec<u8>) -> Result<u64, String> {
        let text = &line[..line.len() - END.len()];
        if let Some(info) = text.strip_prefix(b"INFO ") {
            out.extend(plain_info(&parse_info(info)?));
            return Ok(0);
        }
        let size = match payload_bytes(text)? {
            Some(size) => size,
            None => {
                out.extend_from_slice(line);
                return Ok(0);
            }
        };
        if size > self.limits.max_message_bytes {
            return Err(format!(
                "the server sends a message of {size} bytes, and more than {} are not accepted",
                self.limits.max_message_bytes
            ));
        }
        out.extend_from_slice(line);
        Ok(size + END.len() as u64)
    }
}

/// Bytes of the payload after that line; `None` for lines without one.
fn payload_bytes(line: &[u8]) -> Result<Option<u64>, String> {
    let unknown = || "the server sends what is no message of NATS".to_owned();
    let counts: [usize; 2] = if line.starts_with(b"MSG ") {
        [3, 4]
    } else if line.starts_with(b"HMSG ") {
        [4, 5]
    } else if [&b"PING"[..], b"PONG", b"+OK", b"-ERR "]
        .iter()
        .any(|start| line.starts_with(start))
    {
        return Ok(None);
    } else {
        return Err(unknown());
    };
    // Subjects have no spaces and no control characters, so that all who read the line find the same words.
    let text = std::str::from_utf8(line).map_err(|_| unknown())?;
    if text.contains(|c: char| c != ' ' && (c.is_whitespace() || c.is_control())) {
        return Err(unknown());
    }
    let words: Vec<&str> = text.split(' ').skip(1).filter(|word| !word.is_empty()).collect();
    let size = words.last().and_then(|size| size.parse::<u64>().ok());
    match size {
        Some(size) if counts.contains(&words.len()) => Ok(Some(size)),
        _ => Err(unknown()),
    }
}

/// The greeting of a server.
///
/// # Errors
/// It is none.
pub(crate) fn parse_info(json: &[u8]) -> Result<Value, String> {
    let info: Option<Value> = serde_json::from_slice(json).ok();
    info.filter(Value::is_object)
        .ok_or_else(|| "the server does not speak NATS: its greeting is no INFO".to_owned())
}

/// The greeting for a client that is connected already: encrypted, and to this server alone.
pub(crate) fn plain_info(info: &Value) -> Vec<u8> {
    let mut info = info.clone();
    if let Some(keys) = info.as_object_mut() {
        keys.retain(|key, _| !matches!(key.as_str(), "connect_urls" | "ws_connect_urls" | "tls_available"));
        keys.insert("tls_required".to_owned(), Value::Bool(false));
    }
    format!("INFO {info}\r\n").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        max_message_bytes: 64,
    };

    /// The bytes that are passed on of an input in pieces of that length.
    fn passed(bytes: &[u8], piece: usize) -> Result<Vec<u8>, String> {
        let (mut framing, mut out) = (Framing::new(LIMITS), Vec::new());
        for piece in bytes.chunks(piece) {
            framing.push(piece, &mut out)?;
        }
        Ok(out)
    }

    #[test]
    fn what_keeps_to_the_protocol_is_passed_on_unchanged() {
        let bytes = b"+OK\r\nPING\r\nMSG a.b 1 5\r\nhe\r\no\r\nMSG a 1 reply 0\r\n\r\nHMSG a 2 12 14\r\nNATS/1.0\r\n\r\nhi\r\n\
            -ERR 'slow'\r\nMSG  a   1  2\r\n\0\xff\r\nPONG\r\n";
        for piece in [1, 2, 3, 7, 1_000] {
            assert_eq!(passed(bytes, piece).unwrap(), bytes, "{piece}");
        }
    }

    #[test]
    fn messages_and_lines_beyond_their_bounds_are_refused_before_they_come() {
        for (bytes, reason) in [
            (&b"MSG a 1 99999999999\r\n"[..], "a message of 99999999999 bytes"),
            (b"MSG a 1 65\r\n", "a message of 65 bytes"),
            (b"HMSG a 1 12 99999999999\r\n", "a message of 99999999999 bytes"),
            (b"MSG a 1 -1\r\n", "no message of NATS"),
            (b"MSG a 1 99999999999999999999\r\n", "no message of NATS"),
            (b"MSG 5\r\n", "no message of NATS"),
            (b"-ERR\r\n", "no message of NATS"),
            (b"MSG a\t1 r 5\r\n", "no message of NATS"),
            (b"MSG a\n 1 5\r\n", "no message of NATS"),
            (b"HTTP/1.1 400 Bad Request\r\n", "no message of NATS"),
            (b"INFO [1]\r\n", "its greeting is no INFO"),
        ] {
            for piece in [1, 1_000] {
                let refused = passed(bytes, piece).unwrap_err();
                assert!(refused.contains(reason), "{refused}");
            }
        }
        let endless = [b"INFO {\"x\":\"".to_vec(), vec![b'a'; MAX_LINE_BYTES]].concat();
        for bytes in [&endless[..], &vec![b'\n'; MAX_LINE_BYTES + 1]] {
            assert!(passed(bytes, 4_096).unwrap_err().contains("more than 64 KiB"));
        }
    }

    #[test]
    fn a_greeting_names_no_other_servers_and_asks_for_no_encryption() {
        let info =
            b"INFO {\"nonce\":\"n\",\"tls_required\":true,\"connect_urls\":[\"b:1\"],\"max_payload\":9}\r\n";
        let plain = String::from_utf8(passed(info, 5).unwrap()).unwrap();
        assert_eq!(
            plain,
            "INFO {\"max_payload\":9,\"nonce\":\"n\",\"tls_required\":false}\r\n"
        );
    }

    #[test]
    fn fuzz_nats_frames() {
        use crate::edited::{MemoryBound, fuzz};
        let seeds = [
            &b"INFO {\"server_id\":\"x\",\"max_payload\":1048576,\"headers\":true,\"proto\":1}\r\nPONG\r\n"[..],
            b"MSG a.b 1 5\r\nhello\r\nMSG a 1 reply 0\r\n\r\nPING\r\n",
            b"HMSG a 2 12 14\r\nNATS/1.0\r\n\r\nhi\r\n-ERR 'x'\r\n+OK\r\n",
        ];
        let words: [&[u8]; 8] = [
            b"\r\n",
            b"\r",
            b"MSG ",
            b"HMSG ",
            b" ",
            b"99999999999",
            b"+5",
            b"\t",
        ];
        let seeds = seeds.map(<[u8]>::to_vec).into();
        fuzz(
            "nats-frames",
            2_000,
            MemoryBound::default(),
            seeds,
            &words,
            |bytes| {
                let whole = passed(bytes, usize::MAX);
                assert_eq!(passed(bytes, 3), whole, "pieces make no difference");
                // The output is passed on again as it is: the next reader finds the same messages.
                if let Ok(out) = whole {
                    assert_eq!(passed(&out, 5).as_ref(), Ok(&out));
                }
            },
        );
    }
}
