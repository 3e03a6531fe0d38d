//! Messages of RTSP within a stream of bytes (RFC 2326): heads of requests and responses, and between them their bodies and
//! packets, which pass as they are.

/// Largest head of a message, in bytes. A camera that sends more without an end of it has lost its framing.
const MAX_HEAD: usize = 16 << 10;

/// Part of a stream.
#[derive(Debug, PartialEq)]
pub(super) enum Piece {
    Head(Head),
    /// Part of a packet or a body.
    Bytes(Vec<u8>),
}

/// First line and headers of a message. Each character stands for one byte (ISO 8859-1), so that any bytes stay as they are.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Head {
    first: String,
    headers: Vec<String>,
}

impl Head {
    fn read(bytes: &[u8]) -> Self {
        let text: String = bytes.iter().copied().map(char::from).collect();
        let mut lines = text
            .split('\n')
            .map(|line| line.trim_end_matches('\r').to_owned());
        Self {
            first: lines.next().unwrap_or_default(),
            headers: lines.filter(|line| !line.is_empty()).collect(),
        }
    }

    /// Appends the bytes of the head to `out`.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        for line in [&self.first].into_iter().chain(&self.headers) {
            out.extend(line.chars().map(|c| u8::try_from(c).unwrap_or(b'?')));
            out.extend(b"\r\n");
        }
        out.extend(b"\r\n");
    }

    /// Status of a response; `None` for a request.
    pub(super) fn status(&self) -> Option<u16> {
        let mut words = self.first.split_ascii_whitespace();
        words.next().filter(|version| version.starts_with("RTSP/"))?;
        words.next()?.parse().ok()
    }

    fn is_response(&self) -> bool {
        self.first.starts_with("RTSP/")
    }

    /// Method and address of a request.
    pub(super) fn request(&self) -> Option<(&str, &str)> {
        let mut words = self.first.split_ascii_whitespace();
        match (words.next(), words.next(), words.next()) {
            (Some(method), Some(address), Some(version))
                if version.starts_with("RTSP/") && !self.is_response() =>
            {
                Some((method, address))
            }
            _ => None,
        }
    }

    pub(super) fn set_address(&mut self, address: &str) {
        if let Some((method, _)) = self.request() {
            self.first = format!("{method} {address} RTSP/1.0");
        }
    }

    /// Values of the headers with this name.
    pub(super) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.headers.iter().filter_map(move |line| {
            let (found, value) = line.split_once(':')?;
            found.trim().eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    pub(super) fn header<'a>(&'a self, name: &'a str) -> Option<&'a str> {
        self.all(name).next()
    }

    /// Takes out the headers with this name.
    pub(super) fn remove(&mut self, name: &str) {
        self.headers.retain(|line| {
            let found = line.split_once(':').map_or("", |(found, _)| found.trim());
            !found.eq_ignore_ascii_case(name)
        });
    }

    /// Replaces the headers with this name by one.
    pub(super) fn set(&mut self, name: &str, value: &str) {
        self.remove(name);
        self.headers.push(format!("{name}: {value}"));
    }

    /// Length in bytes of the body that follows.
    pub(super) fn body(&self) -> u64 {
        self.header("Content-Length")
            .and_then(|length| length.parse().ok())
            .unwrap_or(0)
    }
}

/// Splits a stream into its messages. A stream whose framing is lost passes as it is from there on.
#[derive(Debug, Default)]
pub(super) struct Messages {
    held: Vec<u8>,
    /// Bytes to come of a packet or a body.
    rest: u64,
    is_lost: bool,
}

impl Messages {
    /// Takes the next bytes of the stream.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.held.extend_from_slice(bytes);
    }

    /// The next part, as far as it is there.
    pub(super) fn next(&mut self) -> Option<Piece> {
        loop {
            let first = *self.held.first()?;
            if self.is_lost {
                return Some(Piece::Bytes(std::mem::take(&mut self.held)));
            }
            if self.rest > 0 {
                let length =
                    usize::try_from(self.rest).map_or(self.held.len(), |rest| rest.min(self.held.len()));
                self.rest -= length as u64;
                return Some(self.take(length));
            }
            match first {
                b'$' => {
                    let [_, _, high, low] = *self.held.first_chunk()?;
                    self.rest = 4 + u64::from(u16::from_be_bytes([high, low]));
                }
                b'\r' | b'\n' => return Some(self.take(1)),
                b'A'..=b'Z' | b'a'..=b'z' => match end_of_head(&self.held) {
                    Some(end) if end <= MAX_HEAD => {
                        let head = Head::read(&self.held[..end]);
                        self.held.drain(..end);
                        if !head.is_response() && head.request().is_none() {
                            self.is_lost = true;
                        }
                        self.rest = head.body();
                        return Some(Piece::Head(head));
                    }
                    None if self.held.len() <= MAX_HEAD => return None,
                    _ => self.is_lost = true,
                },
                _ => self.is_lost = true,
            }
        }
    }

    fn take(&mut self, length: usize) -> Piece {
        let rest = self.held.split_off(length);
        Piece::Bytes(std::mem::replace(&mut self.held, rest))
    }
}

/// Bytes of the head at the beginning, with the empty line that ends it.
fn end_of_head(bytes: &[u8]) -> Option<usize> {
    let ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
    for (at, _) in ends {
        let before = bytes[..at].strip_suffix(b"\r").unwrap_or(&bytes[..at]);
        if before.last() == Some(&b'\n') {
            return Some(at + 1);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(stream: &[u8], size: usize) -> (Vec<Head>, Vec<u8>, Vec<u8>) {
        let (mut messages, mut heads) = (Messages::default(), Vec::new());
        let (mut bytes, mut all) = (Vec::new(), Vec::new());
        for part in stream.chunks(size) {
            messages.push(part);
            while let Some(piece) = messages.next() {
                match piece {
                    Piece::Head(head) => {
                        head.write(&mut all);
                        heads.push(head);
                    }
                    Piece::Bytes(part) => {
                        all.extend(&part);
                        bytes.extend(part);
                    }
                }
            }
        }
        (heads, bytes, all)
    }

    #[test]
    fn messages_and_packets_are_distinguished_in_pieces_of_any_size() {
        let stream = [
            &b"RTSP/1.0 200 OK\r\nCSeq: 1\r\ncontent-length: 6\r\nX: \xff\xfe\r\n\r\nv=0$\r\n"[..],
            b"$\x00\x00\x05RTSP/$\x01\x00\x00\r\n",
            b"OPTIONS * RTSP/1.0\r\nCSeq: 9\r\n\r\n",
        ]
        .concat();
        for size in 1..stream.len() {
            let (heads, bytes, all) = pieces(&stream, size);
            assert_eq!(all, stream, "{size}");
            assert_eq!(bytes, b"v=0$\r\n$\x00\x00\x05RTSP/$\x01\x00\x00\r\n");
            assert_eq!(heads.len(), 2);
            assert_eq!((heads[0].status(), heads[0].body()), (Some(200), 6));
            assert_eq!(heads[0].header("cseq"), Some("1"));
            assert_eq!(heads[1].request(), Some(("OPTIONS", "*")));
        }
    }

    #[test]
    fn a_stream_without_framing_passes_unchanged() {
        let long = [b"R".repeat(MAX_HEAD), b"\r\n\r\nRTSP/1.0 200 OK\r\n\r\n".to_vec()].concat();
        for stream in [b"\x00\xff$$\r\n\r\nRTSP/1.0 200 OK\r\n\r\n".to_vec(), long] {
            for size in [61, 4096, stream.len()] {
                assert_eq!(pieces(&stream, size).2, stream);
            }
        }
        let (heads, _, all) = pieces(b"nonsense\r\n\r\nRTSP/1.0 200 OK\r\n\r\n", 5);
        assert_eq!((heads.len(), &all[..12]), (1, &b"nonsense\r\n\r\n"[..]));
        let (heads, _, _) = pieces(b"RTSP/1.0 200 OK\nCSeq: 2\n\nRTSP/1.0 404 No\r\n\r\n", 3);
        assert_eq!(heads[1].status(), Some(404));
        assert_eq!(Head::read(b"RTSP/1.0 x\r\nContent-Length: -1\r\n").body(), 0);
    }

    #[test]
    fn headers_are_replaced_whatever_the_case_of_their_names() {
        let mut head =
            Head::read(b"SETUP rtsp://a/b RTSP/1.0\r\nAUTHORIZATION: x\r\nauthorization: y\r\nCSeq:3\r\n");
        head.set("Authorization", "z");
        head.set_address("rtsp://c/d");
        let mut bytes = Vec::new();
        head.write(&mut bytes);
        assert_eq!(
            bytes,
            b"SETUP rtsp://c/d RTSP/1.0\r\nCSeq:3\r\nAuthorization: z\r\n\r\n"
        );
    }
}
