//! A server of chat completions for tests of several crates. It answers each request as the test says.

#![allow(dead_code, reason = "each test program needs some of it")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

/// Way in which a request is answered.
#[derive(Debug, Clone)]
pub(crate) enum Act {
    /// Words of the model, with 100 tokens of the request and 7 of the answer.
    Say(String),
    /// A status with further headers, each with its line break, and a body.
    Status(u16, &'static str, String),
    /// No answer, until the client or the test has given up.
    Stall,
    /// The connection is closed without an answer.
    Close,
    /// Bytes that are no HTTP.
    Garbage,
    /// An answer that never ends.
    Flood,
}

/// A request as it came.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) path: String,
    pub(crate) authorization: Option<String>,
    pub(crate) body: Value,
}

/// See the module. It is gone once it is dropped.
pub(crate) struct ChatServer {
    pub(crate) address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

/// State that the threads of a server share.
struct Shared<A> {
    act: A,
    number: AtomicUsize,
    asked: Arc<Mutex<Vec<Asked>>>,
    stop: Arc<AtomicBool>,
}

impl ChatServer {
    /// Starts on a free port; `act` gets the number of the request and its body.
    pub(crate) fn start(act: impl Fn(usize, &Value) -> Act + Send + Sync + 'static) -> Self {
        Self::start_at(SocketAddr::from(([127, 0, 0, 1], 0)), act)
    }

    pub(crate) fn start_at(
        address: SocketAddr,
        act: impl Fn(usize, &Value) -> Act + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind(address).unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let (asked, stop) = (Arc::default(), Arc::new(AtomicBool::new(false)));
        let shared = Arc::new(Shared {
            act,
            number: AtomicUsize::new(0),
            asked: Arc::clone(&asked),
            stop: Arc::clone(&stop),
        });
        let thread = std::thread::spawn(move || {
            let mut threads = Vec::new();
            while !shared.stop.load(Ordering::Relaxed) {
                match listener.accept() {
                    Ok((stream, _)) => {
                        let shared = Arc::clone(&shared);
                        threads.push(std::thread::spawn(move || shared.serve(stream)));
                    }
                    Err(_) => std::thread::sleep(Duration::from_millis(1)),
                }
            }
            for thread in threads {
                let _ = thread.join().unwrap();
            }
        });
        Self {
            address,
            asked,
            stop,
            thread: Some(thread),
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

impl Drop for ChatServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl<A: Fn(usize, &Value) -> Act> Shared<A> {
    /// Answers the requests of a connection.
    fn serve(&self, stream: TcpStream) -> std::io::Result<()> {
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(Duration::from_millis(20)))?;
        let mut reader = BufReader::new(stream.try_clone()?);
        let mut writer = stream;
        while let Some(asked) = self.read(&mut reader)? {
            let number = self.number.fetch_add(1, Ordering::Relaxed);
            let act = (self.act)(number, &asked.body);
            self.asked.lock().unwrap().push(asked);
            match act {
                Act::Say(words) => {
                    let body = json!({
                        "choices": [{ "message": { "role": "assistant", "content": words } }],
                        "usage": { "prompt_tokens": 100, "completion_tokens": 7 },
                    });
                    write_answer(&mut writer, 200, "", &body.to_string())?;
                }
                Act::Status(status, headers, body) => write_answer(&mut writer, status, headers, &body)?,
                Act::Stall => {
                    while !self.stop.load(Ordering::Relaxed) {
                        match reader.read(&mut [0]) {
                            Err(error) if is_timeout(&error) => {}
                            _ => break,
                        }
                    }
                    return Ok(());
                }
                Act::Close => return Ok(()),
                Act::Garbage => return writer.write_all(b"what is HTTP?\r\n\r\n"),
                Act::Flood => {
                    writer.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n")?;
                    while !self.stop.load(Ordering::Relaxed) {
                        writer.write_all(&[b' '; 4_096])?;
                    }
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// The next request; `None` at the end of the connection or of the server.
    fn read(&self, reader: &mut BufReader<TcpStream>) -> std::io::Result<Option<Asked>> {
        let mut head = Vec::new();
        let mut line = String::new();
        loop {
            match reader.read_line(&mut line) {
                Ok(0) => return Ok(None),
                Ok(_) if line == "\r\n" => break,
                Ok(_) => head.push(std::mem::take(&mut line).trim().to_owned()),
                Err(_) if self.stop.load(Ordering::Relaxed) => return Ok(None),
                Err(error) if is_timeout(&error) => {}
                Err(error) => return Err(error),
            }
        }
        let header = |name: &str| {
            let mut fields = head.iter().filter_map(|field| field.split_once(':'));
            let found = fields.find(|(field, _)| field.eq_ignore_ascii_case(name));
            found.map(|(_, value)| value.trim().to_owned())
        };
        let length: usize = header("content-length").unwrap().parse().unwrap();
        let mut body = Vec::new();
        while body.len() < length {
            let mut piece = vec![0; length - body.len()];
            match reader.read(&mut piece) {
                Ok(0) => return Ok(None),
                Ok(read) => body.extend_from_slice(&piece[..read]),
                Err(_) if self.stop.load(Ordering::Relaxed) => return Ok(None),
                Err(error) if is_timeout(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Some(Asked {
            path: head[0].split(' ').nth(1).unwrap_or_default().to_owned(),
            authorization: header("authorization"),
            body: serde_json::from_slice(&body).unwrap(),
        }))
    }
}

fn is_timeout(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{TimedOut, WouldBlock};
    matches!(error.kind(), TimedOut | WouldBlock)
}

fn write_answer(writer: &mut TcpStream, status: u16, headers: &str, body: &str) -> std::io::Result<()> {
    let head = format!(
        "HTTP/1.1 {status} Status\r\n{headers}Content-Length: {}\r\n\r\n",
        body.len()
    );
    writer.write_all(head.as_bytes())?;
    writer.write_all(body.as_bytes())
}
