//! The API over loopback, without an engine.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use weir_serve::{AccessOptions, MAX_CLIPS, NotReady, ServeError, ServeOptions, Server, openapi, routes};

use crate::common::{CONNECTIONS, Memory, TOKEN, ask, error, options, start};
use crate::web_socket::{frame, send_text, upgrade};

#[test]
fn the_server_answers_each_described_route_and_no_other() {
    let described: Value = serde_json::from_str(openapi()).unwrap();
    let (server, _) = start(None);
    for (path, methods) in described["paths"].as_object().unwrap() {
        let filled = path.replace("{name}", "north").replace("{version}", "1");
        let filled = filled.replace("{segment}", "20261130T060000.000Z");
        for method in ["GET", "POST", "PUT", "PATCH", "DELETE"] {
            let (status, answer) = ask(server.address(), method, &filled, "", "");
            let is_unknown = answer.contains("there is nothing at this path")
                || answer.contains("this path does not support the method");
            let is_described = methods.get(method.to_lowercase()).is_some();
            assert_eq!(is_unknown, !is_described, "{method} {filled}: {status} {answer}");
        }
    }
}

#[test]
fn every_answer_is_one_that_the_description_has() {
    let described: Value = serde_json::from_str(openapi()).unwrap();
    let (server, _) = start(None);
    for route in routes() {
        for (name, body) in [("north", "{\"name\":\"a\",\"uri\":\"rtsp://b\"}"), ("south", "{")] {
            let path = route.path.replace("{name}", name).replace("{version}", "1");
            let path = path.replace("{segment}", "20261130T060000.000Z");
            let (status, answer) = ask(server.address(), route.method, &path, "", body);
            let responses = &described["paths"][route.path][route.method.to_lowercase()]["responses"];
            let response = &responses[status.to_string()];
            assert!(response.is_object(), "{} {path}: {status} {answer}", route.method);
            if response["content"].get("application/json").is_some() {
                serde_json::from_str::<Value>(&answer).unwrap_or_else(|_| panic!("{path}: {answer}"));
            }
        }
    }
}

#[test]
fn what_is_asked_reaches_the_backend() {
    let (server, memory) = start(None);
    let at = server.address();
    let body = r#"{"name": "south", "uri": "rtsp://camera/1"}"#;
    let (status, added) = ask(at, "POST", "/api/streams", "", body);
    assert_eq!(
        (status, serde_json::from_str::<Value>(&added).unwrap()),
        (
            201,
            json!({ "name": "south", "kept": { "in": "none", "why": "it only remembers" } })
        )
    );
    assert_eq!(ask(at, "POST", "/api/streams/north/pause", "", "").0, 200);
    assert_eq!(ask(at, "POST", "/api/streams/n%6Frth/resume", "", "").0, 200);
    let patch = r#"{"weight": 3, "reserve": null}"#;
    assert_eq!(ask(at, "PATCH", "/api/streams/north", "", patch).0, 200);
    assert_eq!(ask(at, "PUT", "/api/policy", "", r#"{"preset": "pard"}"#).0, 200);
    assert_eq!(ask(at, "PUT", "/api/graph", "", r#"{"text": "[app]"}"#).0, 200);
    let plain = "Content-Type: text/plain; charset=utf-8\r\n";
    assert_eq!(ask(at, "PUT", "/api/graph", plain, "[policy]").0, 200);
    assert_eq!(ask(at, "DELETE", "/api/streams/north", "", "").0, 200);
    let asked = memory.asked.lock().unwrap().clone();
    assert_eq!(
        asked,
        [
            "add south rtsp://camera/1",
            "pause north",
            "resume north",
            "change {\"weight\":3.0,\"reserve\":null} north",
            "apply {\"preset\":\"pard\"}",
            "graph [app]",
            "graph [policy]",
            "remove north"
        ]
    );
    assert_eq!(
        ask(at, "GET", "/metrics", "", ""),
        (200, "weir_requests_total 3\n".to_owned())
    );
    assert_eq!(ask(at, "GET", "/readyz", "", "").0, 200);
    *memory.not_ready.lock().unwrap() = vec![NotReady {
        what: "stream north".to_owned(),
        why: "refused".to_owned(),
    }];
    let (status, body) = ask(at, "GET", "/readyz", "", "");
    assert!(
        status == 503 && body.contains("stream north") && body.contains("refused"),
        "{body}"
    );
    assert_eq!(ask(at, "GET", "/healthz", "", "").0, 200);
}

#[test]
fn what_is_wrong_is_answered_with_what_to_do() {
    let (server, _) = start(None);
    let at = server.address();
    let missing = ask(at, "DELETE", "/api/streams/south", "", "");
    assert_eq!(missing.0, 404);
    assert_eq!(
        error(&missing.1),
        (
            "there is no stream south".to_owned(),
            Some("there is north".to_owned())
        )
    );
    for body in [
        "",
        "{",
        "[]",
        "{\"name\": \"a\"}",
        r#"{"name": "a", "uri": "b", "speed": 1}"#,
    ] {
        let (status, answer) = ask(at, "POST", "/api/streams", "", body);
        assert!(status == 400 && error(&answer).1.is_some(), "{body}: {answer}");
    }
    for (method, path, expected) in [
        ("GET", "/api/nothing", 404),
        ("PUT", "/api/streams", 405),
        ("GET", "/page/nothing.js", 404),
        ("POST", "/", 405),
    ] {
        let (status, answer) = ask(at, method, path, "", "");
        assert!(
            status == expected && error(&answer).1.is_some(),
            "{path}: {answer}"
        );
    }
    let (status, _) = ask(at, "POST", "/api/streams/%FF%FE/pause", "", "");
    assert!((400..500).contains(&status), "{status}");
    assert_eq!(ask(at, "GET", "/api/state", "", "").0, 503);
}

#[test]
fn bodies_are_bounded_and_garbage_is_survived() {
    let (server, memory) = start(None);
    let at = server.address();
    let body = format!(r#"{{"name": "{}", "uri": "b"}}"#, "a".repeat(100_000));
    assert_eq!(ask(at, "POST", "/api/streams", "", &body).0, 413);
    let body = format!(r#"{{"address": "{}"}}"#, "a".repeat(301));
    let (status, answer) = ask(at, "POST", "/api/discover", "", &body);
    assert!(
        status == 400 && answer.contains("longer than 300 bytes"),
        "{answer}"
    );
    for garbage in [
        &b"\0\0\0\0\r\n\r\n"[..],
        b"GET",
        b"POST /api/streams HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
    ] {
        let mut stream = TcpStream::connect(at).unwrap();
        stream.write_all(garbage).unwrap();
        drop(stream);
    }
    assert_eq!(ask(at, "GET", "/healthz", "", "").0, 200);
    assert!(memory.asked.lock().unwrap().is_empty());
}

#[test]
fn pictures_are_bodies_or_files_of_forms_and_their_answers_lines_or_drawings() {
    let (server, memory) = start(None);
    let at = server.address();
    let infer = |query: &str, headers: &str, body: &str| {
        ask(at, "POST", &format!("/api/infer{query}"), headers, body)
    };
    assert_eq!(infer("", "", "JPEG"), (200, r#"{"bytes":4}"#.to_owned()));
    assert_eq!(
        infer("?draw=true&like=north", "", "JPEG"),
        (200, "PNG".to_owned())
    );
    let form = "Content-Type: multipart/form-data; boundary=x\r\n";
    let part =
        |name: &str, body: &str| format!("--x\r\nContent-Disposition: form-data; {name}\r\n\r\n{body}\r\n");
    // More than a form may have by default.
    let picture = "J".repeat(3 << 20);
    let parts = part("name=\"note\"", "hello") + &part("name=\"picture\"; filename=\"car.jpg\"", &picture);
    assert_eq!(
        infer("", form, &(parts.clone() + "--x--\r\n")),
        (200, r#"{"bytes":3145728}"#.to_owned())
    );
    let capitals = "Content-Type: Multipart/Form-Data; boundary=x\r\n";
    let small = part("name=\"picture\"; filename=\"car.jpg\"", "JPEG") + "--x--\r\n";
    assert_eq!(infer("", capitals, &small), (200, r#"{"bytes":4}"#.to_owned()));
    let nameless = part("name=\"note\"\r\nContent-Type: application/json", "{}")
        + &part("name=\"picture\"\r\nContent-Type: image/jpeg", "JPEG!")
        + "--x--\r\n";
    assert_eq!(infer("", form, &nameless), (200, r#"{"bytes":5}"#.to_owned()));
    let (status, answer) = infer("", "Content-Encoding: gzip\r\n", "JPEG");
    assert!(
        status == 415 && answer.contains("is compressed"),
        "{status} {answer}"
    );
    for broken in [&*parts, "", "--x--\r\n", &part("name=\"note\"", "hello")] {
        let (status, answer) = infer("", form, broken);
        assert_eq!(status, 400, "{answer}");
        assert!(error(&answer).1.is_some_and(|hint| hint.contains("curl")));
    }
    for query in ["?draw=maybe", "?size=3"] {
        let (status, answer) = infer(query, "", "JPEG");
        assert!(status == 400 && answer.contains("like=SOURCE"), "{answer}");
    }
    assert_eq!(infer("?like=south", "", "JPEG").0, 404);
    assert_eq!(infer("", "", "busy").0, 429);
    let (status, answer) = infer("", "", "stops");
    assert!(status == 503 && answer.contains("stopped"), "{answer}");
    let too_long = "J".repeat((16 << 20) + 1);
    assert_eq!(infer("", "", &too_long).0, 413);
    assert_eq!(memory.asked.lock().unwrap().len(), 5);
}

#[test]
fn connections_are_bounded_and_idle_ones_keep_no_one_from_an_answer() {
    let (server, _) = start(None);
    let at = server.address();
    let idle: Vec<TcpStream> = (0..CONNECTIONS)
        .map(|_| TcpStream::connect(at).unwrap())
        .collect();
    for stream in &idle {
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    }
    assert_eq!(ask(at, "GET", "/healthz", "", "").0, 200);
    // The place of the first to come was needed, and it was closed.
    let closed = |mut stream: &TcpStream| stream.read(&mut [0]).is_ok_and(|read| read == 0);
    assert!(closed(&idle[0]));
}

#[test]
fn without_the_token_nothing_but_health_answers() {
    let (server, memory) = start(Some(TOKEN));
    let at = server.address();
    let unknown = [("GET", "/api/nothing"), ("PUT", "/api/streams")];
    let known = routes().map(|route| (route.method, route.path));
    for (method, path) in known.chain(unknown).filter(|(_, path)| *path != "/healthz") {
        let path = path.replace("{name}", "north").replace("{version}", "1");
        let others = [
            "",
            "Authorization: Bearer 0123456789abcdef-0124\r\n",
            "Authorization: Basic x\r\n",
        ];
        for headers in others {
            let (status, answer) = ask(at, method, &path, headers, "");
            assert_eq!(status, 401, "{method} {path} {headers}");
            assert!(answer.contains("Authorization: Bearer"), "{answer}");
        }
    }
    assert!(memory.asked.lock().unwrap().is_empty());
    assert_eq!(ask(at, "GET", "/healthz", "", "").0, 200);
    let with = format!("Authorization: Bearer {TOKEN}\r\nHost: camera-box:7400\r\n");
    assert_eq!(ask(at, "GET", "/api/streams", &with, "").0, 200);
    assert_eq!(ask(at, "DELETE", "/api/streams/north", &with, "").0, 200);
    for scheme in ["bearer", "BEARER "] {
        let with = format!("Authorization: {scheme} {TOKEN}\r\n");
        assert_eq!(ask(at, "GET", "/api/streams", &with, "").0, 200, "{scheme}");
    }
}

#[test]
fn the_page_is_served_without_a_token_and_loads_nothing_from_elsewhere() {
    for token in [None, Some(TOKEN)] {
        let (server, _) = start(token);
        let at = server.address();
        for path in ["/", "/page/main.js", "/page/base.css"] {
            let request = format!("GET {path} HTTP/1.1\r\nHost: {at}\r\nConnection: close\r\n\r\n");
            let mut stream = TcpStream::connect(at).unwrap();
            stream.write_all(request.as_bytes()).unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            let (head, body) = answer.split_once("\r\n\r\n").unwrap();
            assert!(
                head.starts_with("HTTP/1.1 200") && !body.is_empty(),
                "{path}: {head}"
            );
            let policy = head
                .lines()
                .find_map(|line| line.strip_prefix("content-security-policy: "));
            let policy = policy.unwrap_or_default();
            assert!(
                policy.starts_with("default-src 'none'; script-src 'self';"),
                "{head}"
            );
            assert!(!policy.contains("unsafe") && !policy.contains("http"), "{policy}");
        }
        let foreign = ask(at, "GET", "/", "Host: evil.example\r\n", "").0;
        assert_eq!(foreign, if token.is_some() { 200 } else { 403 });
    }
}

#[test]
fn an_address_that_others_reach_needs_a_token() {
    let open = ServeOptions {
        listen: "0.0.0.0:0".parse().unwrap(),
        ..options(AccessOptions::default())
    };
    let refused = Server::start(open, Arc::<Memory>::default()).err();
    assert!(matches!(refused, Some(ServeError::TokenMissing(_))));
    let (server, _) = start(None);
    let taken = ServeOptions {
        listen: server.address(),
        ..options(AccessOptions::default())
    };
    let refused = Server::start(taken, Arc::<Memory>::default()).err();
    assert!(matches!(refused, Some(ServeError::Listen { .. })));
}

#[test]
fn pages_of_other_sites_change_nothing() {
    let (server, memory) = start(None);
    let at = server.address();
    let pause = |headers: &str| ask(at, "POST", "/api/streams/north/pause", headers, "").0;
    assert_eq!(pause("Host: evil.example\r\n"), 403);
    assert_eq!(pause("Origin: https://evil.example\r\n"), 403);
    assert_eq!(pause("Origin: null\r\n"), 403);
    assert!(memory.asked.lock().unwrap().is_empty());
    assert_eq!(pause(&format!("Origin: http://{at}\r\n")), 200);
    assert_eq!(
        ask(at, "GET", "/api/streams", "Host: evil.example\r\n", "").0,
        403
    );
}

/// A WebSocket on the stream of that name; the status where that is refused.
fn open_socket(at: SocketAddr, name: &str, headers: &str) -> Result<TcpStream, u16> {
    upgrade(at, &format!("/api/streams/{name}/live"), headers)
}

#[test]
fn a_stream_is_watched_by_pages_of_this_engine_and_by_who_has_the_token() {
    let hello = (1, b"hello".to_vec());
    let (server, _) = start(None);
    let at = server.address();
    let own = format!("Origin: http://{at}\r\n");
    assert_eq!(frame(&mut open_socket(at, "north", &own).unwrap()), hello);
    assert_eq!(
        open_socket(at, "north", "Origin: http://evil.example\r\n").err(),
        Some(403)
    );
    let (kind, reason) = frame(&mut open_socket(at, "south", &own).unwrap());
    assert!(kind == 8 && reason.ends_with(b"there is no stream south"));

    let (server, memory) = start(Some(TOKEN));
    let at = server.address();
    let mut socket = open_socket(at, "north", "").unwrap();
    send_text(&mut socket, &format!("{{\"token\": \"{TOKEN}\"}}"));
    assert_eq!(frame(&mut socket), hello);
    memory.asked.lock().unwrap().clear();
    for wrong in ["{\"token\": \"0123456789abcdef-0124\"}", "{}", "hello"] {
        let mut socket = open_socket(at, "north", "").unwrap();
        send_text(&mut socket, wrong);
        assert_eq!(frame(&mut socket).0, 8, "{wrong}");
    }
    assert!(memory.asked.lock().unwrap().is_empty());
}

/// The next text of a WebSocket as JSON, or as it is.
fn next_text(socket: &mut TcpStream) -> Value {
    let (kind, data) = frame(socket);
    assert_eq!(kind, 1);
    let text = String::from_utf8(data).unwrap();
    serde_json::from_str(&text).unwrap_or(Value::String(text))
}

#[test]
fn one_socket_shows_the_streams_that_it_asks_for() {
    let (server, memory) = start(Some(TOKEN));
    let mut socket = upgrade(server.address(), "/api/live", "").unwrap();
    send_text(&mut socket, &format!("{{\"token\": \"{TOKEN}\"}}"));
    send_text(&mut socket, "{\"watch\": \"north\"}");
    assert_eq!(
        next_text(&mut socket),
        json!({ "type": "stream", "stream": "north" })
    );
    assert_eq!(next_text(&mut socket), "hello");
    send_text(&mut socket, "{\"watch\": \"south\"}");
    let closed = next_text(&mut socket);
    assert_eq!(
        (&closed["type"], &closed["stream"]),
        (&json!("closed"), &json!("south"))
    );
    assert_eq!(closed["reason"], "there is no stream south");
    // An acknowledgement of a picture is no question, also of a stream that is not shown.
    for wrong in [
        "{\"watch\": 1}",
        "{\"look\": \"north\"}",
        "{\"next\": \"north\"}",
        "{\"next\": \"south\"}",
        "north",
        "[]",
    ] {
        send_text(&mut socket, wrong);
    }
    send_text(&mut socket, "{\"leave\": \"north\"}");
    // The stream before was the same one.
    send_text(&mut socket, "{\"pictures\": \"north\"}");
    assert_eq!(next_text(&mut socket), "hello");
    send_text(&mut socket, "{\"sound\": \"north\"}");
    assert_eq!(next_text(&mut socket), "hello");
    let asked = memory.asked.lock().unwrap().clone();
    assert_eq!(asked, ["watch north", "watch north", "hear north"]);

    let mut socket = upgrade(server.address(), "/api/live", "").unwrap();
    send_text(&mut socket, "{\"watch\": \"north\"}");
    assert_eq!(frame(&mut socket).0, 8);
}

#[test]
fn slow_heads_of_requests_keep_no_one_from_an_answer() {
    let (server, _) = start(Some(TOKEN));
    let at = server.address();
    let mut slow: Vec<TcpStream> = (0..CONNECTIONS)
        .map(|_| TcpStream::connect(at).unwrap())
        .collect();
    for _ in 0..5 {
        for stream in &mut slow {
            // Some are closed by and by.
            let _ = stream.write_all(b"GET /healthz HTTP/1.1\r\nX-A: a");
        }
        assert_eq!(ask(at, "GET", "/healthz", "", "").0, 200);
    }
}

#[test]
fn sockets_without_the_token_keep_no_watcher_out() {
    let (server, _) = start(Some(TOKEN));
    let at = server.address();
    let mut opened: Vec<TcpStream> = (0..CONNECTIONS)
        .map(|_| upgrade(at, "/api/live", "").unwrap())
        .collect();
    for _ in 0..3 {
        let mut socket = upgrade(at, "/api/live", "").unwrap();
        send_text(&mut socket, &format!("{{\"token\": \"{TOKEN}\"}}"));
        send_text(&mut socket, "{\"watch\": \"north\"}");
        assert_eq!(next_text(&mut socket)["stream"], "north");
        opened.push(upgrade(at, "/api/live", "").unwrap());
    }
    // The first to come had to go: at most the reason still comes.
    let mut last = Vec::new();
    let is_closed = match opened[0].read_to_end(&mut last) {
        Ok(_) => true,
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
    };
    assert!(is_closed && last.len() < 64, "{last:?}");
}

/// A clip of that length, which takes no room.
fn clip_of(bytes: u64) -> tempfile::NamedTempFile {
    let clip = tempfile::NamedTempFile::new().unwrap();
    clip.as_file().set_len(bytes).unwrap();
    clip
}

#[test]
fn a_clip_is_sent_whole_with_its_length_or_in_part() {
    let (server, memory) = start(None);
    let at = server.address();
    let mut clip = clip_of(0);
    let text = "0123456789".repeat(100_000);
    clip.write_all(text.as_bytes()).unwrap();
    *memory.clip.lock().unwrap() = Some(clip);
    let path = "/api/incidents/north/clip";
    assert_eq!(ask(at, "GET", path, "", ""), (200, text));
    // Browsers such as Safari ask for the first two bytes, and play nothing of a server that sends all.
    let part = |range: &str| ask(at, "GET", path, &format!("Range: {range}\r\n"), "");
    assert_eq!(part("bytes=0-1"), (206, "01".to_owned()));
    assert_eq!(part("bytes=999998-"), (206, "89".to_owned()));
    assert_eq!(part("bytes=1000000-").0, 416);
    *memory.clip.lock().unwrap() = Some(clip_of(0));
    assert_eq!(ask(at, "GET", path, "", ""), (200, String::new()));
    *memory.clip.lock().unwrap() = None;
    assert_eq!(ask(at, "GET", path, "", "").0, 404);
}

#[test]
fn clips_that_are_not_read_are_bounded() {
    let (server, memory) = start(None);
    let at = server.address();
    *memory.clip.lock().unwrap() = Some(clip_of(64 << 20));
    let open = || {
        let mut stream = TcpStream::connect(at).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let request = format!("GET /api/incidents/north/clip HTTP/1.1\r\nHost: {at}\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut head = [0; 12];
        stream.read_exact(&mut head).unwrap();
        (stream, String::from_utf8(head.to_vec()).unwrap())
    };
    let unread: Vec<_> = (0..MAX_CLIPS).map(|_| open()).collect();
    assert!(unread.iter().all(|(_, head)| head == "HTTP/1.1 200"));
    assert_eq!(open().1, "HTTP/1.1 503");
    assert_eq!(ask(at, "GET", "/api/streams", "", "").0, 200);
    drop(unread);
    let is_free = (0..2_000).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        open().1 == "HTTP/1.1 200"
    });
    assert!(is_free);
}

#[test]
fn search_for_cameras_reaches_the_engine() {
    let (server, memory) = start(None);
    let discover = |body: &str| ask(server.address(), "POST", "/api/discover", "", body);
    assert_eq!(discover("{}").0, 200);
    assert_eq!(discover("{\"address\": \"192.0.2.7\"}").0, 200);
    assert_eq!(discover("{\"address\": 7}").0, 400);
    assert_eq!(
        *memory.asked.lock().unwrap(),
        ["discover all networks", "discover 192.0.2.7"]
    );
}
