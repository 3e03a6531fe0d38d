//! A backend that only remembers, and requests to a server in front of it.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use weir_serve::{
    AccessOptions, ApiError, ArchiveExport, ArchiveRange, ArchiveSegment, Backend, BasePath, DiscoverRequest,
    GraphCheck, GraphSave, IncidentChange, IncidentQuery, Kept, LiveKind, LiveMessage, LiveQueue, LiveView,
    NotReady, Picture, PictureAnswer, PictureInput, PictureObject, PictureRequest, PictureSender, Refusal,
    SearchQuery, ServeOptions, Server, StreamPatch, StreamRequest, Token, Watching,
};

/// Connections at a time.
pub(crate) const CONNECTIONS: usize = 40;

pub(crate) const TOKEN: &str = "0123456789abcdef-0123";

/// Knows the stream `north`, and remembers what it was asked.
#[derive(Default)]
pub(crate) struct Memory {
    pub(crate) asked: Mutex<Vec<String>>,
    pub(crate) not_ready: Mutex<Vec<NotReady>>,
    pub(crate) clip: Mutex<Option<tempfile::NamedTempFile>>,
    /// Bytes of exports.
    pub(crate) export_bytes: AtomicU64,
    /// Clients of pictures that say `waits`.
    pub(crate) waiting: Mutex<Vec<PictureSender>>,
}

impl Memory {
    fn ask(&self, what: &str, name: &str) -> Result<(), ApiError> {
        if name != "north" {
            return Err(
                ApiError::new(Refusal::NotFound, format!("there is no stream {name}")).hint("there is north"),
            );
        }
        self.asked.lock().unwrap().push(format!("{what} {name}"));
        Ok(())
    }
}

impl Backend for Memory {
    fn not_ready(&self) -> Vec<NotReady> {
        self.not_ready.lock().unwrap().clone()
    }

    fn state(&self) -> Result<Arc<str>, ApiError> {
        Err(ApiError::new(Refusal::Unavailable, "the engine is starting"))
    }

    fn streams(&self) -> Result<Value, ApiError> {
        Ok(json!([{ "name": "north" }]))
    }

    fn drops(&self) -> Result<Value, ApiError> {
        Ok(json!([]))
    }

    fn stream_drops(&self, name: &str) -> Result<Value, ApiError> {
        self.ask("drops of", name).map(|()| json!([]))
    }

    fn timeline(&self) -> Result<Value, ApiError> {
        Ok(json!({ "seconds": 10.0, "modules": [], "lanes": [] }))
    }

    fn fleet(&self) -> Result<Value, ApiError> {
        Err(ApiError::new(Refusal::NotFound, "this engine is in no fleet"))
    }

    fn add_stream(&self, stream: StreamRequest) -> Result<Kept, ApiError> {
        self.asked
            .lock()
            .unwrap()
            .push(format!("add {} {}", stream.name, stream.uri));
        Ok(Kept::nowhere("it only remembers"))
    }

    fn discover(&self, request: &DiscoverRequest) -> Result<Value, ApiError> {
        let address = request.address.as_deref().unwrap_or("all networks");
        self.asked.lock().unwrap().push(format!("discover {address}"));
        Ok(json!({ "devices": [], "warnings": [] }))
    }

    fn remove_stream(&self, name: &str) -> Result<Value, ApiError> {
        self.ask("remove", name).map(|()| json!({ "requests": {} }))
    }

    fn pause_stream(&self, name: &str) -> Result<Kept, ApiError> {
        self.ask("pause", name)?;
        Ok(Kept::nowhere("it only remembers"))
    }

    fn resume_stream(&self, name: &str) -> Result<Option<Kept>, ApiError> {
        self.ask("resume", name).map(|()| None)
    }

    fn change_stream(&self, name: &str, change: StreamPatch) -> Result<Kept, ApiError> {
        let asked = format!("change {}", serde_json::to_string(&change).unwrap());
        self.ask(&asked, name)?;
        Ok(Kept::nowhere("it only remembers"))
    }

    fn incidents(&self, query: &IncidentQuery) -> Result<Value, ApiError> {
        if let Some(stream) = &query.stream {
            self.ask(&format!("incidents {query:?} of"), stream)?;
        }
        Ok(json!({ "count": 0, "incidents": [{ "id": "1", "stream": "north" }] }))
    }

    fn incident(&self, id: &str) -> Result<Value, ApiError> {
        self.ask("incident", id).map(|()| json!({ "id": id }))
    }

    fn change_incident(&self, id: &str, change: IncidentChange) -> Result<Value, ApiError> {
        let asked = format!("mark {}", serde_json::to_string(&change).unwrap());
        self.ask(&asked, id).map(|()| json!({ "id": id }))
    }

    fn incident_clip(&self, id: &str) -> Result<File, ApiError> {
        self.ask("clip", id)?;
        let file = self.clip.lock().unwrap();
        let file = file
            .as_ref()
            .ok_or_else(|| ApiError::new(Refusal::NotFound, "it has no clip"))?;
        Ok(File::open(file.path()).unwrap())
    }

    fn search(&self, query: &SearchQuery) -> Result<Value, ApiError> {
        self.asked.lock().unwrap().push(format!("search {query:?}"));
        let track = |id: &str, stream: &str| json!({ "id": id, "stream": stream });
        Ok(json!({ "available": true, "results": [track("north/1", "north"), track("south/2", "south")] }))
    }

    fn track_picture(&self, id: &str) -> Result<Vec<u8>, ApiError> {
        let stream = id.split('/').next().unwrap();
        self.ask("track picture of", stream).map(|()| b"JPEG".to_vec())
    }

    fn archive_cameras(&self) -> Result<Value, ApiError> {
        let camera = |name: &str| json!({ "stream": name, "from_ms": 1_000, "to_ms": 2_000, "segments": 1 });
        Ok(json!({ "cameras": [camera("north"), camera("yard")] }))
    }

    fn archive_segments(&self, stream: &str, range: &ArchiveRange) -> Result<Value, ApiError> {
        let asked = format!("segments {:?} {:?} of", range.from, range.to);
        self.ask(&asked, stream)?;
        Ok(json!({ "stream": stream, "from_ms": 1_000, "to_ms": 2_000, "segments": [], "gaps": [] }))
    }

    fn archive_segment(&self, stream: &str, segment: &str) -> Result<ArchiveSegment, ApiError> {
        self.ask(&format!("segment {segment} of"), stream)?;
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "0123456789").unwrap();
        Ok(ArchiveSegment {
            file: File::open(file.path()).unwrap(),
            bytes: 8,
            unfinished: true,
        })
    }

    fn archive_export(&self, stream: &str, range: &ArchiveRange) -> Result<ArchiveExport, ApiError> {
        let asked = format!("export {:?} {:?} of", range.from, range.to);
        self.ask(&asked, stream)?;
        let bytes = self.export_bytes.load(Ordering::Relaxed);
        Ok(ArchiveExport {
            video: Box::new(std::io::repeat(7).take(bytes)),
            bytes,
            file_name: "north.mp4".to_owned(),
        })
    }

    fn incident_picture(&self, id: &str) -> Result<Vec<u8>, ApiError> {
        self.ask("picture", id).map(|()| b"JPEG".to_vec())
    }

    fn incident_stream(&self, id: &str) -> Option<String> {
        (id == "north").then(|| id.to_owned())
    }

    fn watch(&self, name: &str, view: LiveView, queue: Arc<LiveQueue>) -> Result<Watching, ApiError> {
        self.ask(if view == LiveView::Sound { "hear" } else { "watch" }, name)?;
        queue.push(&LiveMessage::text(LiveKind::Begin, "hello".to_owned()));
        Ok(Box::new(()))
    }

    fn policy(&self) -> Result<Value, ApiError> {
        Ok(json!({ "drop": { "rule": "weir" } }))
    }

    fn apply_policy(&self, keys: Value) -> Result<(), ApiError> {
        self.asked.lock().unwrap().push(format!("apply {keys}"));
        Ok(())
    }

    fn graph(&self) -> Result<Value, ApiError> {
        Ok(json!({ "name": "app", "text": "", "reloads": 0, "problems": [] }))
    }

    fn apply_graph(&self, text: String) -> Result<Value, ApiError> {
        self.asked.lock().unwrap().push(format!("graph {text}"));
        Ok(json!({ "policy": false, "added": [], "removed": [], "changed": [] }))
    }

    fn read_graph_file(&self) -> Result<Value, ApiError> {
        Ok(json!({ "text": "", "version": "1", "writable": true, "can_undo": false }))
    }

    fn check_graph(&self, check: GraphCheck) -> Result<Value, ApiError> {
        self.asked
            .lock()
            .unwrap()
            .push(format!("check {} and {} edits", check.text, check.edits.len()));
        Ok(json!({ "text": check.text, "diagnostics": [], "is_valid": true }))
    }

    fn save_graph(&self, save: GraphSave) -> Result<Value, ApiError> {
        if save.version != "1" {
            return Err(ApiError::new(Refusal::Conflict, "the graph file has changed"));
        }
        if save.text.is_empty() {
            let problems = json!([{ "severity": "error", "line": 0, "message": "`app` is missing" }]);
            return Err(ApiError::new(Refusal::Invalid, "`app` is missing").diagnostics(problems));
        }
        self.asked.lock().unwrap().push(format!("save {}", save.text));
        Ok(json!({ "version": "2", "applied": {} }))
    }

    fn undo_graph(&self, version: &str) -> Result<Value, ApiError> {
        self.asked.lock().unwrap().push(format!("undo {version}"));
        Ok(json!({ "version": "1", "applied": {} }))
    }

    fn stream_picture(&self, name: &str) -> Result<Vec<u8>, ApiError> {
        self.ask("picture of", name).map(|()| b"JPEG".to_vec())
    }

    fn infer(&self, request: PictureRequest, answer: PictureSender) -> Result<(), ApiError> {
        let (bytes, size) = match &request.picture {
            Picture::File(bytes) => (bytes, None),
            Picture::Rgb {
                width,
                height,
                samples,
            } => (samples, Some((*width, *height))),
        };
        match bytes.as_slice() {
            b"busy" => return Err(ApiError::new(Refusal::Busy, "too much waits").retry_after(1)),
            b"stops" => return Ok(()),
            b"waits" => {
                self.waiting.lock().unwrap().push(answer);
                return Ok(());
            }
            b"late" => {
                let dropped = ApiError::new(Refusal::Unavailable, "the picture was dropped: infeasible");
                answer.send(Err(dropped.retry_after(1).hint("try again later")));
                return Ok(());
            }
            _ => {}
        }
        match &request.input {
            PictureInput::AnySource => self.ask("infer like", "north")?,
            PictureInput::Source(name) => self.ask("infer like", name)?,
            PictureInput::Module(name) => {
                let asked = format!("infer into {name} {size:?}");
                self.asked.lock().unwrap().push(asked);
            }
        }
        let object = |class: &str, score, corners| PictureObject {
            class: class.into(),
            score,
            corners,
        };
        answer.send(Ok(PictureAnswer {
            line: json!({ "bytes": bytes.len() }).to_string(),
            objects: vec![
                object("car", 0.5, [1.0, 2.0, 3.0, 4.5]),
                object("person", 0.25, [0.0, 0.0, 8.0, 8.0]),
            ],
            drawing: Box::new(|| Ok(b"PNG".to_vec())),
        }));
        Ok(())
    }

    fn models(&self) -> Result<Vec<String>, ApiError> {
        Ok(vec!["north".to_owned(), "detect".to_owned()])
    }

    fn model_trouble(&self, name: &str) -> Option<String> {
        let module = format!("module {name}");
        let not_ready = self.not_ready.lock().unwrap();
        not_ready
            .iter()
            .find(|part| part.what == module)
            .map(|part| format!("{module}: {}", part.why))
    }

    fn metrics(&self) -> String {
        "weir_requests_total 3\n".to_owned()
    }
}

pub(crate) fn start(token: Option<&str>) -> (Server, Arc<Memory>) {
    start_with(options(AccessOptions {
        token: token.map(|token| Token::parse(token, "a test").unwrap()),
        ..AccessOptions::default()
    }))
}

/// Options of a server on loopback.
pub(crate) fn options(access: AccessOptions) -> ServeOptions {
    ServeOptions {
        listen: "127.0.0.1:0".parse().unwrap(),
        access,
        base_path: BasePath::default(),
        tls: None,
        max_connections: CONNECTIONS,
    }
}

pub(crate) fn start_with(options: ServeOptions) -> (Server, Arc<Memory>) {
    let memory: Arc<Memory> = Arc::default();
    let server = Server::start(options, Arc::clone(&memory) as Arc<dyn Backend>);
    (server.unwrap(), memory)
}

/// Sends a request as it is, and gives status and body of the answer.
pub(crate) fn send(address: SocketAddr, request: &[u8]) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    // A server that refuses may close before it has read all.
    let _ = stream.write_all(request);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    (status.unwrap_or(0), body.to_owned())
}

pub(crate) fn ask(address: SocketAddr, method: &str, path: &str, headers: &str, body: &str) -> (u16, String) {
    let host = if headers.contains("Host:") {
        String::new()
    } else {
        format!("Host: {address}\r\n")
    };
    let request = format!(
        "{method} {path} HTTP/1.1\r\n{host}Connection: close\r\nContent-Length: {}\r\n{headers}\r\n{body}",
        body.len()
    );
    send(address, request.as_bytes())
}

/// Error and hint of an answer.
pub(crate) fn error(body: &str) -> (String, Option<String>) {
    let value: Value = serde_json::from_str(body).unwrap_or_else(|_| panic!("no JSON: {body}"));
    let hint = value["hint"].as_str().map(str::to_owned);
    (value["error"].as_str().unwrap().to_owned(), hint)
}

/// Whether something holds within twenty seconds.
pub(crate) fn becomes(holds: impl Fn() -> bool) -> bool {
    (0..1_000).any(|_| {
        std::thread::sleep(Duration::from_millis(20));
        holds()
    })
}
