//! A real nats-server, killed and started five times.

use std::time::Duration;

use async_nats::jetstream;
use futures_util::StreamExt;
use serde_json::Value as Json;
use weir_flow::Value;

use super::delivered::{check, dead_letters, events, open, reasons, send, text, wait, wait_killing};
use crate::nats_server::NatsServer;

fn address(server: &NatsServer) -> Value {
    Value::Texts(vec![format!("127.0.0.1:{}", server.port())])
}

/// A client of the test's own.
async fn client(server: &NatsServer) -> async_nats::Client {
    let options = async_nats::ConnectOptions::new().retry_on_initial_connect();
    let client = options
        .connect(format!("127.0.0.1:{}", server.port()))
        .await
        .unwrap();
    while client.connection_state() != async_nats::connection::State::Connected {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    client
}

fn block_on<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.unwrap().block_on(future)
}

fn incident_id(payload: &[u8]) -> String {
    let event: Json = serde_json::from_slice(payload).unwrap();
    event["id"].as_str().unwrap().to_owned()
}

#[test]
fn a_server_that_goes_and_comes_stores_every_event_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let Some(mut server) = NatsServer::new(folder.path(), &["-js"]) else {
        return;
    };
    block_on(async {
        let context = jetstream::new(client(&server).await);
        let stream = jetstream::stream::Config {
            name: "weir".to_owned(),
            subjects: vec!["weir.>".to_owned()],
            ..Default::default()
        };
        context.create_stream(stream).await.unwrap();
    });
    let events = events();
    let path = folder.path().join("undelivered.jsonl");
    let mut nats = open(
        "nats",
        &[
            ("servers", address(&server)),
            ("path", text(path.to_str().unwrap())),
        ],
    );
    send(&mut *nats, events);
    let counts = wait_killing(&*nats, events, || {
        server.kill();
        std::thread::sleep(Duration::from_millis(100));
        server.start();
    });
    nats.finish().unwrap();
    assert_eq!(
        (counts["delivered"], counts["lost"]),
        (events as u64, 0),
        "{counts:?}"
    );
    let (taken, subjects) = block_on(async {
        let context = jetstream::new(client(&server).await);
        let mut stream = context.get_stream("weir").await.unwrap();
        let last = stream.info().await.unwrap().state.last_sequence;
        let (mut taken, mut subjects) = (Vec::new(), std::collections::BTreeSet::new());
        for sequence in 1..=last {
            let message = stream.get_raw_message(sequence).await.unwrap();
            taken.push(incident_id(&message.payload));
            subjects.insert(message.subject.to_string());
        }
        (taken, subjects)
    });
    check(events, &taken, &dead_letters(&path));
    let expected = ["east", "north", "south", "west"].map(|stream| format!("weir.{stream}.incidents"));
    assert!(subjects.into_iter().eq(expected));
    println!(
        "{events} events, killed 5 times: {counts:?}, {} stored",
        taken.len()
    );
}

#[test]
fn without_jetstream_events_are_passed_on_to_who_listens() {
    let folder = tempfile::tempdir().unwrap();
    let Some(server) = NatsServer::new(folder.path(), &[]) else {
        return;
    };
    let listen = async {
        let client = client(&server).await;
        let subscriber = client.subscribe("cameras.*.incidents").await.unwrap();
        // The server has the subscription once what came after it is back.
        let mut echo = client.subscribe("echo").await.unwrap();
        client.publish("echo", Vec::new().into()).await.unwrap();
        echo.next().await.unwrap();
        (client, subscriber)
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let (_client, subscriber) = runtime.block_on(listen);
    let mut nats = open(
        "nats",
        &[
            ("servers", address(&server)),
            ("prefix", text("cameras")),
            ("jetstream", Value::Flag(false)),
        ],
    );
    send(&mut *nats, 40);
    let counts = wait(&*nats, |_| {});
    assert_eq!(counts["delivered"], 40, "{counts:?}");
    let messages: Vec<async_nats::Message> = runtime.block_on(subscriber.take(40).collect());
    nats.finish().unwrap();
    let taken: Vec<String> = messages
        .iter()
        .map(|message| incident_id(&message.payload))
        .collect();
    check(40, &taken, &[]);
    let headers = messages[0].headers.as_ref().unwrap();
    let id = headers.get("Nats-Msg-Id").unwrap().as_str();
    assert!(id.starts_with(&taken[0]), "{id}");
}

#[test]
fn what_no_stream_takes_and_who_is_not_let_in_is_said_in_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let check_reason = |options: &[&str], keys: &[(&str, Value)], expected: &str| {
        let Some(server) = NatsServer::new(folder.path(), options) else {
            return;
        };
        // It listens from then on.
        if !options.contains(&"--user") {
            block_on(client(&server));
        } else {
            while std::net::TcpStream::connect(("127.0.0.1", server.port())).is_err() {
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        let path = folder.path().join("undelivered.jsonl");
        let mut all = vec![
            ("servers", address(&server)),
            ("path", text(path.to_str().unwrap())),
            ("give_up_after", Value::Number(0.05)),
        ];
        all.extend_from_slice(keys);
        let mut nats = open("nats", &all);
        send(&mut *nats, 1);
        wait(&*nats, |_| {});
        nats.finish().unwrap();
        let reasons = reasons(&path);
        assert!(reasons[0].contains(expected), "{reasons:?}");
        assert!(!reasons[0].contains("hidden"), "{reasons:?}");
        std::fs::remove_file(path).unwrap();
    };
    check_reason(
        &["-js"],
        &[],
        "no stream of JetStream takes the subject weir.north.incidents",
    );
    let user = [("username", text("weir")), ("password", text("hidden"))];
    let login = ["--user", "weir", "--pass", "another"];
    check_reason(&login, &user, "check `username` and `password`");
}

#[test]
fn servers_that_are_none_and_subjects_with_wildcards_are_refused_before_a_run() {
    let refused = |keys: &[(&str, Value)]| {
        let keys = keys.iter().map(|(key, value)| ((*key).to_owned(), value.clone()));
        weir_operators::sinks::sink("nats", &weir_flow::Settings(keys.collect()))
            .err()
            .unwrap()
            .to_string()
    };
    assert!(refused(&[]).contains("`servers`"));
    let server = |name: &str| ("servers", Value::Texts(vec![name.to_owned()]));
    let error = refused(&[server("nats://user:hidden@a:4222")]);
    assert!(error.contains("entry 1") && !error.contains("hidden"), "{error}");
    let error = refused(&[server("a"), ("prefix", text("cameras.>"))]);
    assert!(error.contains("holds a wildcard"), "{error}");
}
