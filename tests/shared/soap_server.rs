//! A server on loopback for tests of several crates, which answers as a test wants: over HTTP, and to a search over UDP at the same
//! port.

#![allow(dead_code, reason = "each test program needs some of it")]
#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

/// A request over HTTP.
#[derive(Debug, Clone, Default)]
pub(crate) struct Request {
    pub(crate) path: String,
    /// Request line and headers.
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Request {
    /// Value of a header; empty without it.
    pub(crate) fn header(&self, name: &str) -> &str {
        let headers = self.head.lines().filter_map(|line| line.split_once(':'));
        let mut found = headers.filter(|(key, _)| key.eq_ignore_ascii_case(name));
        found.next().map_or("", |(_, value)| value.trim())
    }
}

/// Answer of a server.
pub(crate) enum Reply {
    /// The bytes of a response.
    Bytes(Vec<u8>),
    /// A response whose body has no end.
    Endless,
    /// Nothing, until the client closes the connection.
    Silence,
}

impl Reply {
    /// A response with a status line such as `200 OK`, headers with line ends, and a body.
    pub(crate) fn with(status: &str, headers: &str, body: &str) -> Self {
        let length = body.len();
        let text = format!(
            "HTTP/1.1 {status}\r\n{headers}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        );
        Self::Bytes(text.into_bytes())
    }

    /// An envelope of SOAP with this element in it.
    pub(crate) fn soap(status: &str, body: &str) -> Self {
        let envelope = format!(
            "<?xml version=\"1.0\"?><SOAP-ENV:Envelope xmlns:SOAP-ENV=\"http://www.w3.org/2003/05/soap-envelope\"><SOAP-ENV:Body>{body}\
             </SOAP-ENV:Body></SOAP-ENV:Envelope>"
        );
        Self::with(status, "Content-Type: application/soap+xml\r\n", &envelope)
    }

    /// The time by the clock of a device.
    pub(crate) fn soap_time(now: SystemTime) -> Self {
        let text = humantime::format_rfc3339_seconds(now).to_string();
        let parts: Vec<&str> = text.split(['-', 'T', ':', 'Z']).collect();
        let [year, month, day, hour, minute, second, _] = parts[..] else {
            panic!("{text}");
        };
        let answer = format!(
            "<tds:GetSystemDateAndTimeResponse><tds:SystemDateAndTime><tt:UTCDateTime><tt:Time><tt:Hour>{hour}</tt:Hour><tt:Minute>\
             {minute}</tt:Minute><tt:Second>{second}</tt:Second></tt:Time><tt:Date><tt:Year>{year}</tt:Year><tt:Month>{month}</tt:Month>\
             <tt:Day>{day}</tt:Day></tt:Date></tt:UTCDateTime></tds:SystemDateAndTime></tds:GetSystemDateAndTimeResponse>"
        );
        Self::soap("200 OK", &answer)
    }
}

/// A server that runs until the tests end.
pub(crate) struct Server {
    pub(crate) port: u16,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Server {
    /// Starts a server; `answer` has a request and the port of the server.
    pub(crate) fn start(answer: impl Fn(&Request, u16) -> Reply + Send + 'static) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        Self::on(listener, answer)
    }

    /// As [`Server::start`], with a device that answers searches: `matched` is its `ProbeMatch`.
    pub(crate) fn with_search(
        answer: impl Fn(&Request, u16) -> Reply + Send + 'static,
        matched: impl Fn(u16) -> String + Send + 'static,
    ) -> Self {
        // The same port must be free for both.
        let (listener, socket) = (0..100)
            .find_map(|_| {
                let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
                let port = listener.local_addr().unwrap().port();
                Some((listener, UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).ok()?))
            })
            .unwrap();
        let server = Self::on(listener, answer);
        let matched = matched(server.port);
        std::thread::spawn(move || answer_searches(&socket, &matched));
        server
    }

    fn on(listener: TcpListener, answer: impl Fn(&Request, u16) -> Reply + Send + 'static) -> Self {
        let port = listener.local_addr().unwrap().port();
        let requests = Arc::<Mutex<Vec<Request>>>::default();
        let seen = Arc::clone(&requests);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                serve(stream, &seen, |request| answer(request, port));
            }
        });
        Self { port, requests }
    }

    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// All requests so far.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.requests
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

fn serve(mut stream: TcpStream, seen: &Mutex<Vec<Request>>, answer: impl Fn(&Request) -> Reply) {
    let Some(request) = read(&mut stream) else {
        return;
    };
    seen.lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push(request.clone());
    match answer(&request) {
        Reply::Bytes(bytes) => {
            let _ = stream.write_all(&bytes);
        }
        Reply::Endless => {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n<a>");
            while stream.write_all(&[b' '; 65_536]).is_ok() {}
        }
        Reply::Silence => while stream.read(&mut [0; 1_024]).is_ok_and(|length| length > 0) {},
    }
}

fn read(stream: &mut TcpStream) -> Option<Request> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4_096];
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let request = Request {
                path: head.split(' ').nth(1).unwrap_or_default().to_owned(),
                head: head.to_owned(),
                body: body.to_owned(),
            };
            let length: usize = request.header("Content-Length").parse().unwrap_or(0);
            if body.len() >= length {
                return Some(request);
            }
        }
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => return None,
            Ok(length) => bytes.extend_from_slice(&buffer[..length]),
        }
    }
}

fn answer_searches(socket: &UdpSocket, matched: &str) {
    let mut buffer = [0; 65_535];
    while let Ok((length, from)) = socket.recv_from(&mut buffer) {
        let question = String::from_utf8_lossy(&buffer[..length]).into_owned();
        if !question.contains("<d:Types>dn:NetworkVideoTransmitter</d:Types>") {
            continue;
        }
        let answer = format!(
            "<s:Envelope xmlns:s=\"http://www.w3.org/2003/05/soap-envelope\"><s:Body><d:ProbeMatches \
             xmlns:d=\"http://schemas.xmlsoap.org/ws/2005/04/discovery\" \
             xmlns:a=\"http://schemas.xmlsoap.org/ws/2004/08/addressing\"><d:ProbeMatch>{matched}</d:ProbeMatch></d:ProbeMatches></s:Body>\
             </s:Envelope>"
        );
        // Devices repeat their answers.
        for _ in 0..2 {
            let _ = socket.send_to(answer.as_bytes(), from);
        }
    }
}
