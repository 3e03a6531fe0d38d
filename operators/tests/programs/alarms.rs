//! Alarms by templates and presets to a web server that keeps each request: what arrives, what is held back, and what no message
//! shows.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};
use weir_flow::{Incident, Phase, Settings, Value};
use weir_operators::sinks::{catalog, sink};

use super::delivered::{JPEG, TIME_MS, dead_letters, give, open, person, pictured, reasons, text, wait};

/// A request as it came.
#[derive(Debug, Clone)]
struct Request {
    line: String,
    headers: BTreeMap<String, String>,
    body: Vec<u8>,
}

impl Request {
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    fn json(&self) -> Json {
        serde_json::from_slice(&self.body).unwrap()
    }
}

/// A server that keeps requests, and answers by status and further lines of the head, or with a body.
struct Server {
    url: String,
    requests: Arc<Mutex<Vec<Request>>>,
}

type Answer = fn(usize, Duration) -> (u16, &'static str, &'static str);

impl Server {
    /// `answer` is given the number of the request, and the time since the first.
    fn start(answer: Answer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::<Mutex<Vec<Request>>>::default();
        let kept = Arc::clone(&requests);
        std::thread::spawn(move || {
            let mut began = None;
            for stream in listener.incoming().flatten() {
                let _ = serve(&stream, &kept, answer, &mut began);
            }
        });
        Self { url, requests }
    }

    fn taking() -> Self {
        Self::start(|_, _| (200, "", ""))
    }

    fn requests(&self) -> Vec<Request> {
        self.requests
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

fn serve(
    stream: &TcpStream,
    kept: &Mutex<Vec<Request>>,
    answer: Answer,
    began: &mut Option<Instant>,
) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(());
        }
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let headers: BTreeMap<String, String> = lines[1..]
        .iter()
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_lowercase(), value.trim().to_owned()))
        .collect();
    let mut body = vec![0; headers["content-length"].parse().unwrap()];
    reader.read_exact(&mut body)?;
    let mut all = kept.lock().unwrap();
    #[allow(clippy::disallowed_methods, reason = "a server has a clock")]
    let began = began.get_or_insert_with(Instant::now).elapsed();
    let (status, head, text) = answer(all.len(), began);
    all.push(Request {
        line: lines[0].clone(),
        headers,
        body,
    });
    drop(all);
    let length = text.len();
    write!(
        reader.get_mut(),
        "HTTP/1.1 {status} x\r\n{head}Content-Length: {length}\r\nConnection: close\r\n\r\n{text}"
    )
}

/// The request that arrives of one incident.
fn sent(keys: &[(&str, Value)], incident: Incident) -> Request {
    let server = Server::taking();
    let mut keys = keys.to_vec();
    keys.push(("url", text(&server.url)));
    let mut webhook = open("webhook", &keys);
    give(&mut *webhook, incident);
    let counts = wait(&*webhook, |_| {});
    webhook.finish().unwrap();
    assert_eq!(counts["delivered"], 1, "{counts:?}");
    let requests = server.requests();
    assert_eq!(requests.len(), 1);
    requests[0].clone()
}

const TITLE: &str = "north: gate";
const TEXT: &str = "person (loitering), 2026-11-23 13:00:00 CET";

fn preset<'a>(name: &str, keys: &[(&'a str, &str)]) -> Vec<(&'a str, Value)> {
    let keys = keys.iter().map(|(key, value)| (*key, text(value)));
    let common = [("preset", text(name)), ("timezone", text("Europe/Berlin"))];
    keys.chain(common).collect()
}

fn with_picture(mut keys: Vec<(&str, Value)>) -> Vec<(&str, Value)> {
    keys.push(("attach", text("picture")));
    keys
}

/// Parts of a body: the head of each, and its bytes.
fn parts(request: &Request) -> Vec<(String, Vec<u8>)> {
    let boundary = request.header("content-type").split_once("boundary=").unwrap().1;
    let boundary = format!("--{boundary}");
    let find = |bytes: &[u8], what: &[u8]| bytes.windows(what.len()).position(|window| window == what);
    let (mut rest, mut found) = (&request.body[..], Vec::new());
    while let Some(at) = find(rest, boundary.as_bytes()) {
        rest = &rest[at + boundary.len()..];
        if rest.starts_with(b"--") {
            break;
        }
        let head = find(rest, b"\r\n\r\n").unwrap();
        let end = find(rest, format!("\r\n{boundary}").as_bytes()).unwrap();
        let lines = String::from_utf8(rest[2..head].to_vec()).unwrap();
        found.push((lines, rest[head + 4..end].to_vec()));
    }
    found
}

#[test]
fn presets_send_what_each_service_expects() {
    let ntfy = preset("ntfy", &[("topic", "alarms"), ("token", "tk_1")]);
    let request = sent(&ntfy, person(1, TIME_MS));
    assert_eq!(request.line, "POST /alarms HTTP/1.1");
    assert_eq!(request.header("title"), TITLE);
    assert_eq!(request.header("authorization"), "Bearer tk_1");
    assert_eq!(request.header("content-type"), "text/plain; charset=utf-8");
    assert_eq!(request.body, TEXT.as_bytes());
    assert!(!request.headers.keys().any(|name| name.starts_with("x-weir-")));
    let request = sent(&with_picture(ntfy), pictured(1));
    assert_eq!(
        (request.line.as_str(), request.header("title")),
        ("POST /alarms HTTP/1.1", TITLE)
    );
    assert_eq!(
        (request.header("message"), request.header("filename")),
        (TEXT, "alarm.jpg")
    );
    assert_eq!(
        (request.header("content-type"), &request.body[..]),
        ("image/jpeg", JPEG)
    );

    let telegram = preset("telegram", &[("token", "12:AB-c"), ("chat", "-1001")]);
    let both = format!("{TITLE}\n{TEXT}");
    let request = sent(&telegram, person(1, TIME_MS));
    assert_eq!(request.line, "POST /bot12:AB-c/sendMessage HTTP/1.1");
    assert_eq!(request.header("content-type"), "application/json");
    assert_eq!(request.json(), json!({ "chat_id": "-1001", "text": both }));
    let request = sent(&with_picture(telegram), pictured(1));
    assert_eq!(request.line, "POST /bot12:AB-c/sendPhoto HTTP/1.1");
    let parts_of = parts(&request);
    let names: Vec<&str> = parts_of
        .iter()
        .map(|(head, _)| head.lines().next().unwrap())
        .collect();
    assert_eq!(
        names,
        [
            "Content-Disposition: form-data; name=\"chat_id\"",
            "Content-Disposition: form-data; name=\"caption\"",
            "Content-Disposition: form-data; name=\"photo\"; filename=\"alarm.jpg\"",
        ]
    );
    let bodies: Vec<&[u8]> = parts_of.iter().map(|(_, body)| &body[..]).collect();
    assert_eq!(bodies, [&b"-1001"[..], both.as_bytes(), JPEG]);

    let request = sent(&preset("slack", &[]), person(1, TIME_MS));
    assert_eq!(request.line, "POST / HTTP/1.1");
    assert_eq!(request.json(), json!({ "text": both }));

    let request = sent(&preset("gotify", &[("token", "Ag1")]), person(1, TIME_MS));
    assert_eq!(
        (request.line.as_str(), request.header("x-gotify-key")),
        ("POST /message HTTP/1.1", "Ag1")
    );
    assert_eq!(request.json(), json!({ "title": TITLE, "message": TEXT }));

    let discord = preset("discord", &[]);
    let message = json!({ "content": both, "allowed_mentions": { "parse": [] } });
    assert_eq!(sent(&discord, person(1, TIME_MS)).json(), message);
    let parts_of = parts(&sent(&with_picture(discord), pictured(1)));
    assert_eq!(serde_json::from_slice::<Json>(&parts_of[0].1).unwrap(), message);
    assert!(
        parts_of[1]
            .0
            .contains("name=\"files[0]\"; filename=\"alarm.jpg\"")
    );
    assert_eq!((parts_of.len(), &parts_of[1].1[..]), (2, JPEG));
}

#[test]
fn texts_and_headers_of_presets_are_those_of_the_user_where_there_are_any() {
    let mut keys = preset(
        "ntfy",
        &[
            ("topic", "alarms"),
            ("body", "{{ class }} at the {{ transform }}"),
        ],
    );
    let headers = [
        "Priority: high",
        "title: T\u{fc}r {{ stream }}",
        "Tags: {{ class|upper }}",
    ];
    keys.push(("headers", Value::Texts(headers.map(str::to_owned).to_vec())));
    let request = sent(&keys, person(1, TIME_MS));
    assert_eq!(request.body, b"person at the gate");
    assert_eq!(
        (request.header("priority"), request.header("tags")),
        ("high", "PERSON")
    );
    assert_eq!(request.header("title"), "=?UTF-8?B?VMO8ciBub3J0aA==?=");
}

#[test]
fn bodies_are_written_by_templates_and_hold_pictures_where_asked_for() {
    let body = r#"{"where": "{{ stream }}", "what": "{{ class }}", "track": {{ track|tojson }}}"#;
    let keys = [("body", text(body)), ("token", text("t1"))];
    let request = sent(&keys, pictured(1));
    assert_eq!(
        request.json(),
        json!({ "where": "north", "what": "person", "track": 7 })
    );
    assert_eq!(request.header("authorization"), "Bearer t1");
    assert_eq!(
        request.header("x-weir-event"),
        format!("north/gate/1/began/{TIME_MS}")
    );

    let picture = sent(&[("body", text(body)), ("attach", text("picture"))], pictured(1));
    let parts_of = parts(&picture);
    assert!(parts_of[0].0.contains("name=\"event\"") && parts_of[0].0.contains("application/json"));
    assert_eq!(
        serde_json::from_slice::<Json>(&parts_of[0].1).unwrap(),
        request.json()
    );
    assert!(parts_of[1].0.contains("name=\"picture\"") && parts_of[1].0.contains("image/jpeg"));
    assert_eq!(parts_of[1].1, JPEG);

    let whole = sent(&[("attach", text("picture-body"))], pictured(1));
    assert_eq!(
        (whole.header("content-type"), &whole.body[..]),
        ("image/jpeg", JPEG)
    );
    let without = sent(&[("attach", text("picture-body"))], person(1, TIME_MS));
    assert_eq!(without.json()["class"], "person");

    let headers = Value::Texts(vec!["Content-Type: text/plain".to_owned()]);
    let plain = sent(
        &[("body", text("{{ text }}")), ("headers", headers)],
        person(1, TIME_MS),
    );
    assert_eq!(plain.header("content-type"), "text/plain");
    assert_eq!(plain.body, b"person (loitering), 2026-11-23 12:00:00 UTC");
}

#[test]
fn standard_webhooks_have_their_three_headers() {
    let keys = [
        ("secret", text("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")),
        ("signature", text("standard")),
    ];
    let request = sent(&keys, person(1, TIME_MS));
    assert_eq!(
        request.header("webhook-id"),
        format!("north/gate/1/began/{TIME_MS}")
    );
    assert!(request.header("webhook-timestamp").parse::<u64>().is_ok());
    let signature = request.header("webhook-signature");
    assert!(
        signature.starts_with("v1,") && signature.len() == 47,
        "{signature}"
    );
    assert_eq!(request.header("x-weir-signature"), "");
}

#[test]
fn an_event_that_a_template_cannot_write_is_in_the_file_and_takes_no_other_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("undelivered.jsonl");
    let server = Server::taking();
    let mut webhook = open(
        "webhook",
        &[
            ("url", text(&server.url)),
            (
                "body",
                text(
                    "{\"zones\": [{% for a in zones %}{% for b in zones %}\"{{ id }}\",{% endfor %}{% endfor %}0]}",
                ),
            ),
            (
                "headers",
                Value::Texts(vec!["X-Zones: {{ zones|join(\",\") }}".to_owned()]),
            ),
            ("path", text(path.to_str().unwrap())),
        ],
    );
    let wide = |number: usize, zones: usize| Incident {
        zones: (0..zones).map(|zone| format!("zone {zone}").into()).collect(),
        ..person(number, TIME_MS)
    };
    give(&mut *webhook, wide(1, 0));
    give(&mut *webhook, wide(2, 400));
    give(&mut *webhook, wide(3, 0));
    let counts = wait(&*webhook, |_| {});
    webhook.finish().unwrap();
    assert_eq!(
        (counts["delivered"], counts["dead_letters"]),
        (2, 1),
        "{counts:?}"
    );
    assert_eq!(dead_letters(&path), ["north/gate/2"]);
    let reason = reasons(&path).remove(0);
    assert!(
        reason.contains("`body`") || reason.contains("X-Zones"),
        "{reason}"
    );
}

#[test]
fn a_wait_that_a_service_asks_for_is_kept() {
    // It refuses whatever comes before the second is over.
    let server = Server::start(|_, since| {
        if since < Duration::from_millis(950) {
            (429, "Retry-After: 1\r\n", "")
        } else {
            (200, "", "")
        }
    });
    let mut webhook = open("webhook", &[("url", text(&server.url))]);
    for number in 0..3 {
        give(&mut *webhook, person(number, TIME_MS));
    }
    let counts = wait(&*webhook, |_| {});
    webhook.finish().unwrap();
    assert_eq!((counts["delivered"], counts["retries"]), (3, 1), "{counts:?}");
    let ids: Vec<Json> = server.requests()[1..]
        .iter()
        .map(|request| request.json()["id"].clone())
        .collect();
    assert_eq!(ids, ["north/gate/0", "north/gate/1", "north/gate/2"]);
}

/// The requests for five alarms of one rule at 0, 10, 29, 40 and 300 seconds, of which the second and third have pictures.
fn grouped(keys: &[(&str, Value)]) -> (Vec<Request>, BTreeMap<&'static str, u64>) {
    let server = Server::taking();
    let mut keys = keys.to_vec();
    keys.extend([("url", text(&server.url)), ("group_wait", Value::Number(30.0))]);
    let mut webhook = open("webhook", &keys);
    for (number, after_s) in [0, 10, 29, 40, 300].into_iter().enumerate() {
        let began = Incident {
            best: pictured(number).best.filter(|_| number == 1 || number == 2),
            ..person(number, TIME_MS + after_s * 1_000)
        };
        let ended = Incident {
            phase: Phase::Ended,
            ..began.clone()
        };
        give(&mut *webhook, began);
        give(&mut *webhook, ended);
    }
    // The last message need not wait for its time.
    webhook.finish().unwrap();
    (server.requests(), webhook.counts())
}

#[test]
fn alarms_within_the_time_of_a_group_are_one_message_with_every_id_and_the_first_picture() {
    let (requests, counts) = grouped(&[]);
    let sent: Vec<(Json, Json)> = requests
        .iter()
        .map(|request| (request.json()["id"].clone(), request.json()["incidents"].clone()))
        .collect();
    let first = ["north/gate/0", "north/gate/1", "north/gate/2"];
    assert_eq!(
        sent,
        [
            (json!("north/gate/0"), json!(first)),
            (json!("north/gate/3"), Json::Null),
            (json!("north/gate/4"), Json::Null),
        ]
    );
    assert_eq!(
        (counts["events"], counts["delivered"], counts["grouped"]),
        (3, 3, 2),
        "{counts:?}"
    );

    let (requests, counts) = grouped(&with_picture(preset(
        "discord",
        &[("body", "{{ text }} {{ incidents|join(\" \") }}")],
    )));
    let parts_of = parts(&requests[0]);
    let message: Json = serde_json::from_slice(&parts_of[0].1).unwrap();
    let text_of = format!("{TITLE}\n{TEXT}; 3 incidents in this message {}", first.join(" "));
    assert_eq!(message["content"], text_of);
    assert_eq!((parts_of.len(), &parts_of[1].1[..]), (2, JPEG));
    assert_eq!(counts["grouped"], 2);
    let (requests, counts) = grouped(&[("cooldown", Value::Number(60.0))]);
    assert_eq!((requests.len(), counts["held_cooldown"]), (2, 1));
    assert_eq!(requests[0].json()["incidents"], json!(first));
    assert_eq!(requests[1].json()["held_back"], 1);
}

#[test]
fn alarms_within_the_cooldown_and_at_night_are_held_back_and_counted() {
    let server = Server::taking();
    let mut webhook = open(
        "webhook",
        &[
            ("url", text(&server.url)),
            ("cooldown", Value::Number(300.0)),
            ("quiet_hours", text("22:00-06:00")),
            ("timezone", text("Europe/Berlin")),
            ("updates", Value::Flag(false)),
        ],
    );
    let minute = 60_000;
    // At noon, then at 22:30 of the clock in Berlin, then in the morning.
    let times = [0, 1, 2, 6, 570, 580, 1_200].map(|minutes| TIME_MS + minutes * minute);
    for (number, time_ms) in times.into_iter().enumerate() {
        let began = person(number, time_ms);
        let ended = Incident {
            phase: Phase::Ended,
            time_ms: time_ms + 1_000,
            ..began.clone()
        };
        give(&mut *webhook, began);
        give(&mut *webhook, ended);
    }
    let counts = wait(&*webhook, |_| {});
    webhook.finish().unwrap();
    let sent: Vec<(Json, Json)> = server
        .requests()
        .iter()
        .map(|request| (request.json()["id"].clone(), request.json()["held_back"].clone()))
        .collect();
    let expected = [
        (json!("north/gate/0"), Json::Null),
        (json!("north/gate/3"), json!(2)),
        (json!("north/gate/6"), json!(2)),
    ];
    assert_eq!(sent, expected);
    assert_eq!(
        (counts["held_cooldown"], counts["held_quiet"]),
        (2, 2),
        "{counts:?}"
    );
    assert_eq!(counts["events"], 3);
}

/// Everything that this process logs.
fn logged() -> &'static Mutex<String> {
    static LOG: OnceLock<&'static Mutex<String>> = OnceLock::new();
    LOG.get_or_init(|| {
        let log: &'static Mutex<String> = Box::leak(Box::default());
        tracing::subscriber::set_global_default(Log(log)).expect("no other test keeps the log");
        log
    })
}

struct Log(&'static Mutex<String>);

impl tracing::Subscriber for Log {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        struct Fields<'a>(&'a mut String);
        impl tracing::field::Visit for Fields<'_> {
            fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
                self.0.push_str(&format!("{field}={value:?} "));
            }
        }
        let mut log = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Other tests log, too.
        if log.len() < 1 << 20 {
            event.record(&mut Fields(&mut log));
            log.push('\n');
        }
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

#[test]
fn no_log_error_or_file_shows_a_token() {
    let log = logged();
    let folder = tempfile::tempdir().unwrap();
    let token_file = folder.path().join("token");
    std::fs::write(&token_file, "77:SECRETinFile\n").unwrap();
    // The answer repeats the token and the path.
    let refusing = Server::start(|number, _| match number {
        0 => (500, "", "{\"description\": \"bot77:SECRETinFile is broken\"}"),
        _ => (
            401,
            "",
            "{\"description\": \"no bot 77:SECRETinFile at /bot77:SECRETinFile/sendMessage\"}",
        ),
    });
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for (url, kind) in [
        (refusing.url.clone(), "telegram"),
        (format!("http://u:SECRETuser@{gone}/SECRETpath"), "telegram"),
    ] {
        let path = folder.path().join("undelivered.jsonl");
        let mut webhook = open(
            "webhook",
            &[
                ("url", text(&url)),
                ("preset", text(kind)),
                ("chat", text("1")),
                ("token_file", text(token_file.to_str().unwrap())),
                ("give_up_after", Value::Number(0.5)),
                ("path", text(path.to_str().unwrap())),
            ],
        );
        give(&mut *webhook, person(1, TIME_MS));
        let mut outages = String::new();
        loop {
            outages.extend(webhook.outage());
            let counts = webhook.counts();
            if counts["dead_letters"] == 1 {
                break;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        webhook.finish().unwrap();
        let written = std::fs::read_to_string(&path).unwrap();
        assert!(written.contains("http://127.0.0.1:"), "{written}");
        for text in [&written, &outages] {
            assert!(!text.contains("SECRET"), "{text}");
        }
        std::fs::remove_file(&path).unwrap();
    }
    let log = log.lock().unwrap_or_else(PoisonError::into_inner);
    assert!(
        log.contains("is refused: http://127.0.0.1:") && !log.contains("SECRET"),
        "{log}"
    );
}

#[test]
fn faults_of_keys_are_found_before_a_run_without_showing_secrets() {
    let check = catalog()
        .into_iter()
        .find(|spec| spec.name == "webhook")
        .unwrap()
        .check;
    let url = ("url", text("http://a/"));
    let of = |name: &str| ("preset", text(name));
    let secret = ("secret", text("hushtext"));
    let headers = |text: &str| ("headers", Value::Texts(vec![text.to_owned()]));
    for (keys, key, message) in [
        (vec![], "url", "no `url`"),
        (vec![of("ntfy")], "topic", "needs `topic`"),
        (
            vec![of("telegram"), ("chat", text("1"))],
            "token",
            "needs `token`",
        ),
        (vec![of("slack")], "url", "no `url`"),
        (
            vec![of("slack"), url.clone(), ("attach", text("picture"))],
            "attach",
            "no pictures",
        ),
        (
            vec![of("discord"), url.clone(), ("attach", text("picture-body"))],
            "attach",
            "only \"picture\"",
        ),
        (vec![of("ntfy"), ("topic", text("a/b"))], "topic", "no topic"),
        (vec![url.clone(), ("chat", text("1"))], "chat", "no meaning"),
        (
            vec![url.clone(), ("token", text("hush token"))],
            "token",
            "characters",
        ),
        (
            vec![url.clone(), ("signature", text("standard"))],
            "signature",
            "without `secret`",
        ),
        (
            vec![url.clone(), ("signature", text("standard")), secret.clone()],
            "secret",
            "whsec_",
        ),
        (vec![of("slack"), url.clone(), secret], "secret", "no signature"),
        (
            vec![url.clone(), ("body", text("{\n{{ strem }}}"))],
            "body",
            "line 2: \"strem\" is no variable",
        ),
        (vec![url.clone(), ("body", text("{{ text }}"))], "body", "no JSON"),
        (
            vec![url.clone(), headers("hushtoken")],
            "headers",
            "a name, a colon",
        ),
        (
            vec![url.clone(), headers("Content-Length: 5")],
            "headers",
            "by the sink itself",
        ),
        (
            vec![url.clone(), headers("X-A: {{ b }}")],
            "headers",
            "\"b\" is no variable",
        ),
        (
            vec![url, ("quiet_hours", text("22"))],
            "quiet_hours",
            "not a time of day",
        ),
    ] {
        let keys = keys.into_iter().map(|(key, value)| (key.to_owned(), value));
        let settings = Settings(keys.collect());
        let faults = (check.0)(&settings);
        let found = faults.iter().find(|fault| fault.key == key);
        let found = found.unwrap_or_else(|| panic!("{key}: {message}: {faults:?}"));
        assert!(found.message.contains(message), "{key}: {found:?}");
        assert!(!format!("{faults:?}").contains("hush"), "{faults:?}");
        let error = sink("webhook", &settings).err().unwrap().to_string();
        assert!(!error.contains("hush"), "{error}");
    }
}
