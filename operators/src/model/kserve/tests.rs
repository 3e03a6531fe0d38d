//! A session on a model server gives what one of the same file gives here; a server that fails, stalls or says what is not so ends in
//! one clear error. The server is a small one that runs the file itself, or does as it is notified.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU8, Ordering};

use weir_flow::{Frame, Image, Inference, Item, Region, Settings};

use super::super::runtime::OrtSession;
use super::super::{LoadError, LoadRequest, ModelFile, load};
use super::*;

/// Behaviour of the test server for the next calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Mood {
    Works,
    Refuses,
    Stalls,
    Garbage,
    HalfAnswer,
    WrongName,
    WrongShape,
    Closes,
    Elsewhere,
    OneByOne,
}

const MOODS: [Mood; 10] = [
    Mood::Works,
    Mood::Refuses,
    Mood::Stalls,
    Mood::Garbage,
    Mood::HalfAnswer,
    Mood::WrongName,
    Mood::WrongShape,
    Mood::Closes,
    Mood::Elsewhere,
    Mood::OneByOne,
];

/// A model server that has one model, `m`.
struct TestServer {
    url: String,
    mood: Arc<AtomicU8>,
}

impl TestServer {
    fn start(onnx: &'static [u8]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let mood = Arc::new(AtomicU8::new(0));
        let shared = Arc::clone(&mood);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let mood = Arc::clone(&shared);
                std::thread::spawn(move || serve(&stream, onnx, &mood));
            }
        });
        Self { url, mood }
    }

    fn set(&self, mood: Mood) {
        self.mood.store(mood as u8, Ordering::SeqCst);
    }
}

fn serve(stream: &TcpStream, onnx: &[u8], mood: &AtomicU8) {
    let mut reader = BufReader::new(stream);
    let mut session = OrtSession::open(onnx, DeviceKind::Cpu).expect("opens");
    while let Some((path, header, body)) = request(&mut reader) {
        let mood = MOODS[mood.load(Ordering::SeqCst) as usize];
        let answer = if path == "/v2/models/m" {
            metadata(&session)
        } else if path == "/v2/models/m/infer" {
            infer(&mut session, &body, header, mood)
        } else {
            status(404, r#"{"error":"Request for unknown model"}"#)
        };
        let mut out = stream;
        match mood {
            Mood::Stalls => std::thread::park(),
            Mood::Closes => return,
            Mood::HalfAnswer => {
                let _ = out.write_all(&answer[..answer.len() - 3]);
                return;
            }
            _ if out.write_all(&answer).is_err() => return,
            _ => {}
        }
    }
}

/// Path, length of the JSON, body.
fn request(reader: &mut BufReader<&TcpStream>) -> Option<(String, usize, Vec<u8>)> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
    let path = line.split(' ').nth(1)?.to_owned();
    let (mut length, mut header) = (0, 0);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim().split_once(':') else {
            break;
        };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.trim().parse().ok()?,
            "inference-header-content-length" => header = value.trim().parse().ok()?,
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((path, header, body))
}

fn status(code: u16, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 {code} X\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: {length}\r\n\r\n{body}")
        .into_bytes()
}

fn ports(ports: &[super::super::runtime::Port]) -> Vec<serde_json::Value> {
    let size = |size: &Option<usize>| size.map_or(-1, |size| size.cast_signed() as i64);
    ports
        .iter()
        .map(|port| {
            let shape: Vec<i64> = port.shape.iter().map(size).collect();
            serde_json::json!({ "name": port.name, "datatype": "FP32", "shape": shape })
        })
        .collect()
}

fn metadata(session: &OrtSession) -> Vec<u8> {
    let text = serde_json::json!({
        "name": "m", "versions": ["1"], "platform": "test",
        "inputs": ports(session.inputs()), "outputs": ports(session.outputs()),
    });
    status(200, &text.to_string())
}

fn infer(session: &mut OrtSession, body: &[u8], header: usize, mood: Mood) -> Vec<u8> {
    match mood {
        Mood::Refuses => return status(500, r#"{"error":"out of memory"}"#),
        Mood::Garbage => return status(200, "<html>"),
        Mood::Elsewhere => return status(307, ""),
        _ => {}
    }
    let json: serde_json::Value = serde_json::from_slice(&body[..header]).expect("JSON");
    let shape: Vec<usize> = json["inputs"][0]["shape"]
        .as_array()
        .expect("a shape")
        .iter()
        .map(|size| size.as_u64().expect("a size") as usize)
        .collect();
    if mood == Mood::OneByOne && shape[0] > 1 {
        return status(400, r#"{"error":"the batch exceeds the maximum of 1"}"#);
    }
    let mut feed = session.feed().expect("a feed");
    feed.reshape(&shape).expect("room");
    for (element, bytes) in feed.elements().iter_mut().zip(body[header..].as_chunks::<4>().0) {
        *element = f32::from_le_bytes(*bytes);
    }
    let (outputs, bytes) = session
        .run(&feed, |views| {
            let mut bytes = Vec::new();
            let outputs: Vec<serde_json::Value> = views
                .iter()
                .map(|view| {
                    let data: Vec<u8> = view.data.iter().flat_map(|number| number.to_le_bytes()).collect();
                    let (mut size, mut shape) = (data.len(), view.shape.to_vec());
                    let name = if mood == Mood::WrongName {
                        "other"
                    } else {
                        view.name
                    };
                    if mood == Mood::WrongShape {
                        (size, shape) = (4, vec![1, 1]);
                    }
                    bytes.extend(&data[..size]);
                    serde_json::json!({
                        "name": name, "datatype": "FP32", "shape": shape,
                        "parameters": { "binary_data_size": size },
                    })
                })
                .collect();
            (outputs, bytes)
        })
        .expect("runs");
    let json = serde_json::json!({ "model_name": "m", "outputs": outputs }).to_string();
    let head = format!(
        "HTTP/1.1 200 OK\r\nInference-Header-Content-Length: {}\r\nContent-Length: {}\r\n\r\n{json}",
        json.len(),
        json.len() + bytes.len()
    );
    [head.into_bytes(), bytes].concat()
}

const MODEL: &str = "plate-reader";

fn shipped() -> &'static weir_models::Shipped {
    weir_models::find(MODEL).expect("ships")
}

fn settings() -> Settings {
    shipped().settings.clone()
}

fn request_for<'a>(file: ModelFile, settings: &'a Settings, max_batch: u32) -> LoadRequest<'a> {
    LoadRequest {
        name: "reader",
        file,
        head: &shipped().head,
        settings,
        max_batch,
        dump: None,
    }
}

fn on_server(urls: &[&str], max_batch: u32) -> Result<Arc<dyn Model>, LoadError> {
    let server = ServerModel {
        urls: urls.iter().map(|url| (*url).to_owned()).collect(),
        name: "m".to_owned(),
        version: None,
        token: None,
        timeout: Duration::from_secs(60),
    };
    load(&request_for(ModelFile::Server(server), &settings(), max_batch))
}

fn items(count: usize) -> Vec<Item> {
    (0..count)
        .map(|index| {
            let pixels = (0..188 * 48 * 3)
                .map(|at| ((at * (index + 3)) % 251) as u8)
                .collect();
            let frame = Frame::new(index as u64, 0.0, Image::from_rgb(188, 48, pixels));
            Item {
                frame: Arc::new(frame),
                region: Region::Whole,
                object: None,
                class: None,
            }
        })
        .collect()
}

fn run(model: &dyn Model, device: DeviceKind, items: &[Item]) -> Result<Vec<Inference>, String> {
    let mut session = model.open(device).map_err(|error| error.to_string())?;
    session.run(items, &mut |_| ()).map_err(|error| error.to_string())
}

#[test]
fn a_server_gives_what_the_file_gives_here() {
    let server = TestServer::start(shipped().onnx);
    let here = load(&request_for(
        ModelFile::Bytes(shipped().onnx.into()),
        &settings(),
        4,
    ))
    .expect("loads");
    let there = on_server(&[&server.url], 4).expect("loads");
    assert_eq!(there.alphabet(), here.alphabet());
    let items = items(4);
    let expected = run(&*here, DeviceKind::Cpu, &items).expect("runs");
    let found = run(&*there, DeviceKind::Server(0), &items).expect("runs");
    assert_eq!(format!("{found:?}"), format!("{expected:?}"));
}

#[test]
fn a_server_that_fails_makes_its_batch_fail_in_a_word_and_is_used_again() {
    let server = TestServer::start(shipped().onnx);
    let model = on_server(&[&server.url], 2).expect("loads");
    let items = items(2);
    let mut session = model.open(DeviceKind::Server(0)).expect("opens");
    let expected = session.run(&items, &mut |_| ()).expect("runs");
    for (mood, word) in [
        (Mood::Refuses, "it answers 500: out of memory"),
        (Mood::Garbage, "its answer cannot be read"),
        (Mood::HalfAnswer, "cannot be reached"),
        (Mood::WrongName, "its answer lacks the output"),
        (Mood::WrongShape, "has shape [1, 1] for 2 items"),
        (Mood::Closes, "cannot be reached"),
        (Mood::Elsewhere, "redirects calls"),
    ] {
        server.set(mood);
        let error = session.run(&items, &mut |_| ()).expect_err("fails").to_string();
        assert!(
            error.contains(word) && error.contains("reader"),
            "{mood:?}: {error}"
        );
        assert_eq!(error.lines().count(), 1, "{error}");
        server.set(Mood::Works);
        let again = session.run(&items, &mut |_| ()).expect("it works again");
        assert_eq!(format!("{again:?}"), format!("{expected:?}"), "after {mood:?}");
    }
}

#[test]
fn a_batch_that_is_late_is_given_up() {
    let server = TestServer::start(shipped().onnx);
    let model = on_server(&[&server.url], 1).expect("loads");
    let mut session = model.open(DeviceKind::Server(0)).expect("opens");
    server.set(Mood::Stalls);
    session.within(Some(Duration::from_millis(30)));
    let error = session.run(&items(1), &mut |_| ()).expect_err("late").to_string();
    assert!(error.contains("gave no answer within 30ms"), "{error}");
}

#[test]
fn batches_are_as_large_as_the_server_takes() {
    let server = TestServer::start(shipped().onnx);
    server.set(Mood::OneByOne);
    let model = on_server(&[&server.url], 4).expect("loads");
    let batching = model.batching();
    let remark = batching.remark.expect("says why");
    assert_eq!(batching.max, Some(1));
    assert!(remark.contains("the batch exceeds the maximum of 1"), "{remark}");
    assert_eq!(
        run(&*model, DeviceKind::Server(0), &items(3)).map(|all| all.len()),
        Ok(3)
    );
}

#[test]
fn of_two_servers_one_may_be_away() {
    let server = TestServer::start(shipped().onnx);
    let model = on_server(&["http://127.0.0.1:1", &server.url], 1).expect("loads");
    let away = run(&*model, DeviceKind::Server(0), &items(1)).expect_err("away");
    assert!(away.contains("http://127.0.0.1:1"), "{away}");
    assert!(run(&*model, DeviceKind::Server(1), &items(1)).is_ok());
    let none = on_server(&["http://127.0.0.1:1"], 1)
        .err()
        .expect("no server")
        .to_string();
    assert!(
        none.contains("cannot be reached: the connection is refused"),
        "{none}"
    );
}

#[test]
fn a_model_that_the_server_does_not_have_is_said_at_once() {
    let server = TestServer::start(shipped().onnx);
    let unknown = ServerModel {
        urls: vec![server.url.clone()],
        name: "n".to_owned(),
        version: None,
        token: None,
        timeout: Duration::from_secs(60),
    };
    let error = load(&request_for(ModelFile::Server(unknown), &settings(), 1))
        .err()
        .expect("refused");
    assert!(
        error
            .to_string()
            .contains("it answers 404: Request for unknown model"),
        "{error}"
    );
}
