//! Requests of all kinds to a service, drawn from the description of its API: right ones, wrong ones, and bytes that are none.
//! No answer is an error of the server, none is missing, and afterwards the service goes on and its books hold.
//!
//! `FUZZ_REQUESTS` (1500) says how many, `FUZZ_SEED` which ones; `make fuzz-api` sends them for five minutes, as
//! `FUZZ_SECONDS` says.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]
#![allow(clippy::print_stdout, reason = "the seed is printed")]

use std::collections::BTreeMap;
use std::sync::Mutex;

use serde_json::Value;
use weir_runtime::Clock;
use weir_types::Timestamp;

use crate::common::report;
use crate::common::service::Service;
use crate::fuzz::{self, Fuzzer};

/// Clients side by side.
const CLIENTS: u64 = 4;

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// True if a service may answer the request with this status.
fn is_expected(description: &Value, request: &fuzz::Sent, status: u16) -> bool {
    match status {
        // The connection was closed: that is an answer to what is no request, or only half of one.
        0 => !request.whole,
        503 => request.path.starts_with("/readyz"),
        500.. => false,
        // Of an operation only what the description has.
        200..400 => request.operation.as_ref().is_none_or(|(path, method)| {
            description["paths"][path][method]["responses"][status.to_string()].is_object()
        }),
        _ => true,
    }
}

#[test]
fn no_request_makes_the_service_fail_or_hang() {
    let seed = variable("FUZZ_SEED").unwrap_or(1);
    let seconds = variable("FUZZ_SECONDS");
    let requests = variable("FUZZ_REQUESTS").unwrap_or(1_500) / CLIENTS;
    println!("FUZZ_SEED={seed}");
    let mut service = Service::start(&[]);
    let (status, description) = service.ask("GET", "/api/openapi.json", "");
    assert_eq!(status, 200);
    let description: Value = serde_json::from_str(&description).unwrap();
    let (clock, statuses) = (Clock::start(), Mutex::new(BTreeMap::<u16, u64>::new()));
    let goes_on = |sent: u64| match seconds {
        Some(seconds) => clock.now() < Timestamp::from_micros(seconds * 1_000_000),
        None => sent < requests,
    };
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (service, description, statuses) = (&service, &description, &statuses);
            scope.spawn(move || {
                let mut fuzzer = Fuzzer::new(seed * CLIENTS + client, description, &service.at);
                for sent in (0..).take_while(|sent| goes_on(*sent)) {
                    let request = fuzzer.next_request();
                    let (status, body) = service.send(&request.bytes, !request.whole);
                    assert!(
                        is_expected(description, &request, status),
                        "seed {seed}, request {sent} of client {client}: {status} {body}\n{}",
                        request.bytes[..request.bytes.len().min(2_000)].escape_ascii()
                    );
                    *statuses.lock().unwrap().entry(status).or_default() += 1;
                }
            });
        }
    });
    let statuses = statuses.into_inner().unwrap();
    println!("answers by status: {statuses:?}");
    for common in [200, 201, 400, 404, 405] {
        assert!(statuses.contains_key(&common), "none of {common}: {statuses:?}");
    }

    // It goes on: what is there can be removed, and a stream be added.
    let (status, streams) = service.ask("GET", "/api/streams", "");
    assert_eq!(status, 200, "{streams}");
    let streams: Value = serde_json::from_str(&streams).unwrap();
    for stream in streams.as_array().unwrap() {
        let name = stream["name"].as_str().unwrap();
        let (status, body) = service.ask("DELETE", &format!("/api/streams/{name}"), "");
        assert_eq!(status, 200, "{name}: {body}");
    }
    let body = r#"{"name": "last", "uri": "emulated:uniform?rate=50"}"#;
    assert_eq!(service.ask("POST", "/api/streams", body).0, 201);
    service.wait_until(|list| list.contains("live"));
    service.drain();
    let report = report(&service.folder.path().join("report.json"));
    let (all, removed) = (&report["requests"], &report["removed_streams"]["requests"]);
    assert_eq!(all["in_flight"], 0);
    for outcome in ["arrived", "delivered", "late", "dropped"] {
        let last = report["streams"]["last"]["requests"][outcome].as_u64().unwrap();
        assert_eq!(
            all[outcome].as_u64().unwrap(),
            last + removed[outcome].as_u64().unwrap(),
            "{outcome}"
        );
    }
    let ended = ["delivered", "late", "dropped"].map(|outcome| all[outcome].as_u64().unwrap());
    assert_eq!(all["arrived"].as_u64(), Some(ended.iter().sum()));
}
