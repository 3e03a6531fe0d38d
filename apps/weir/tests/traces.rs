//! Traces of sampled requests, as a collector of OpenTelemetry gets them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use serde_json::Value as Json;

/// Two modules in a row; one batch in ten of the second fails.
const GRAPH: &str = r#"
[app]
name = "traced"
slo = "10s"
[sources.camera]
uri = "emulated:uniform?rate=400&frames=200"
mode = "lossless"
[devices."emulated:a"]
slots = 1
[devices."emulated:b"]
slots = 1
[models.first]
device = "emulated:a"
profile = { "1" = "2ms" }
[models.second]
device = "emulated:b"
profile = { "1" = "2ms" }
fail_every = 10
[modules.one]
operator = "emulate"
model = "first"
inputs = ["camera"]
[modules.two]
operator = "emulate"
model = "second"
inputs = ["one"]
"#;

/// Spans and service names that a collector received.
#[derive(Default)]
struct Sent {
    spans: Vec<Span>,
    services: Vec<String>,
}

/// A collector that takes all, or one that answers nothing.
fn collector(answers: bool) -> (String, Arc<Mutex<Sent>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let sent = Arc::<Mutex<Sent>>::default();
    let taken = Arc::clone(&sent);
    // It ends with the test.
    std::thread::spawn(move || {
        let mut silent = Vec::new();
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            if answers {
                let _ = serve(stream, &taken);
            } else {
                silent.push(stream);
            }
        }
    });
    (address, sent)
}

fn serve(stream: TcpStream, sent: &Mutex<Sent>) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut writer = stream;
    loop {
        let (mut head, mut line) = (String::new(), String::new());
        while line != "\r\n" {
            line.clear();
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
            head.push_str(&line.to_lowercase());
        }
        assert!(head.starts_with("post /v1/traces "), "{head}");
        assert!(head.contains("content-type: application/x-protobuf"), "{head}");
        let length = head.split("content-length: ").nth(1).unwrap();
        let length = length.lines().next().unwrap().parse().unwrap();
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        let export = ExportTraceServiceRequest::decode(&body[..]).unwrap();
        let mut sent = sent.lock().unwrap();
        for resource in export.resource_spans {
            let attributes = resource.resource.unwrap().attributes;
            sent.services.push(text(&attributes, "service.name"));
            let scopes = resource.scope_spans.into_iter();
            sent.spans.extend(scopes.flat_map(|scope| scope.spans));
        }
        writer.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")?;
    }
}

fn text(attributes: &[KeyValue], key: &str) -> String {
    let found = attributes.iter().find(|attribute| attribute.key == key);
    match found.and_then(|attribute| attribute.value.clone()?.value) {
        Some(Value::StringValue(text)) => text,
        other => format!("{other:?}"),
    }
}

/// Runs the graph with these settings; gives its report.
fn run(variables: &[(&str, &str)]) -> (Json, Output) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("graph.toml"), GRAPH).unwrap();
    let mut weir = Command::new(env!("CARGO_BIN_EXE_weir"));
    weir.args(["run", "graph.toml", "--report", "report.json"])
        .envs(variables.iter().copied())
        .current_dir(folder.path());
    let output = weir.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let report = std::fs::read_to_string(folder.path().join("report.json"));
    let report = report.unwrap_or_else(|_| panic!("no report: {said}"));
    (serde_json::from_str(&report).unwrap(), output)
}

#[test]
fn each_request_is_a_span_with_the_phases_of_its_modules_below_it() {
    let (address, sent) = collector(true);
    let (report, _) = run(&[("WEIR_TRACE_ENDPOINT", &address), ("WEIR_TRACE_RATE", "1")]);
    let sent = sent.lock().unwrap();
    assert!(sent.services.iter().all(|service| service == "weir"));
    let roots = sent.spans.iter().filter(|span| span.parent_span_id.is_empty());
    let roots: BTreeMap<&[u8], &Span> = roots.map(|span| (&span.span_id[..], span)).collect();
    assert_eq!(roots.len(), 200);
    assert_eq!(report["requests"]["arrived"], 200);
    let mut outcomes = BTreeMap::<String, u64>::new();
    for root in roots.values() {
        assert_eq!(
            (root.trace_id.len(), root.span_id.len(), &*root.name),
            (16, 8, "request")
        );
        assert_eq!(text(&root.attributes, "weir.stream"), "camera");
        let outcome = text(&root.attributes, "weir.outcome");
        let status = root.status.as_ref().unwrap();
        assert_eq!(status.code == 2, outcome != "delivered", "{root:?}");
        if outcome == "failed" {
            assert_eq!(text(&root.attributes, "weir.dropped_by"), "two");
        }
        *outcomes.entry(outcome).or_default() += 1;
    }
    assert_eq!(
        outcomes,
        BTreeMap::from([("delivered".into(), 180), ("failed".into(), 20)])
    );
    let mut names = BTreeMap::<&str, u64>::new();
    for span in sent.spans.iter().filter(|span| !span.parent_span_id.is_empty()) {
        let root = roots[&span.parent_span_id[..]];
        assert_eq!(span.trace_id, root.trace_id);
        assert!(span.start_time_unix_nano >= root.start_time_unix_nano);
        assert!(
            span.end_time_unix_nano <= root.end_time_unix_nano,
            "{span:?} in {root:?}"
        );
        *names.entry(&span.name).or_default() += 1;
    }
    let expected = [
        "one batch wait",
        "one execution",
        "one queue",
        "two batch wait",
        "two execution",
        "two queue",
    ];
    let expected: BTreeMap<&str, u64> = expected.into_iter().map(|name| (name, 200)).collect();
    assert_eq!(names, expected);
}

#[test]
fn a_share_of_the_requests_is_traced() {
    let (address, sent) = collector(true);
    run(&[("WEIR_TRACE_ENDPOINT", &address), ("WEIR_TRACE_RATE", "0.25")]);
    let sent = sent.lock().unwrap();
    let roots = sent.spans.iter().filter(|span| span.parent_span_id.is_empty());
    let count = roots.count();
    assert!((20..=80).contains(&count), "{count} of 200");
}

#[test]
fn a_collector_that_is_slow_or_gone_costs_spans_and_nothing_else() {
    let (silent, _) = collector(false);
    // Nobody listens there any more.
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for address in [silent, format!("http://{gone}")] {
        let (report, output) = run(&[("WEIR_TRACE_ENDPOINT", &address), ("WEIR_TRACE_RATE", "1")]);
        assert_eq!(report["requests"]["delivered"], 180);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            said.contains("1400 of 1400 spans of traces were not exported"),
            "{said}"
        );
    }
}

#[test]
fn an_address_that_is_none_is_refused_before_a_run() {
    let mut weir = Command::new(env!("CARGO_BIN_EXE_weir"));
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("graph.toml"), GRAPH).unwrap();
    weir.args(["run", "graph.toml"])
        .env("WEIR_TRACE_ENDPOINT", "collector:4318")
        .current_dir(folder.path());
    let output = weir.output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("trace_endpoint"), "{said}");
}
