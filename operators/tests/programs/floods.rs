//! Servers that send without an end: each is cut off, and what was read of it is bounded.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use weir_flow::Value;

use super::delivered::{open, send, text};

/// Bytes of a flood: far more than what any reader and the buffers of a connection hold.
const FLOOD: usize = 64 << 20;

/// Bytes of it that a connection may take until it is closed: its buffers, and what a reader may hold.
const MAX_TAKEN: usize = 16 << 20;

/// The bytes of a lying server.
#[derive(Clone, Copy)]
struct Lie {
    /// Before it reads anything.
    greeting: &'static [u8],
    /// Once the client has said something.
    answer: &'static [u8],
    /// Again and again after that.
    flood: &'static [u8],
}

/// A server that floods each connection; says how many bytes each has taken.
fn start(lie: Lie) -> (u16, Receiver<usize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (taken, all) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            if taken.send(flood(stream, lie)).is_err() {
                return;
            }
        }
    });
    (port, all)
}

fn flood(mut stream: TcpStream, lie: Lie) -> usize {
    let mut begin = || -> std::io::Result<()> {
        stream.set_write_timeout(Some(Duration::from_secs(20)))?;
        stream.write_all(lie.greeting)?;
        if !lie.answer.is_empty() {
            stream.read_exact(&mut [0])?;
            stream.write_all(lie.answer)?;
        }
        Ok(())
    };
    if begin().is_err() {
        return 0;
    }
    let (piece, mut sent) = (lie.flood.repeat(1 + (64 << 10) / lie.flood.len()), 0);
    while sent < FLOOD {
        match stream.write(&piece) {
            Ok(written @ 1..) => sent += written,
            _ => break,
        }
    }
    sent
}

/// Sends an event by a sink to such a server: it takes some of the flood, and no more.
fn check(kind: &str, lie: Lie, keys: impl Fn(u16) -> Vec<(&'static str, Value)>) {
    let (port, taken) = start(lie);
    let mut keys = keys(port);
    keys.push(("give_up_after", Value::Number(0.1)));
    let mut sink = open(kind, &keys);
    send(&mut *sink, 1);
    let taken = taken.recv_timeout(Duration::from_secs(240)).unwrap();
    assert!(
        (1..=MAX_TAKEN).contains(&taken),
        "{kind}: {taken} bytes were taken"
    );
    let _ = sink.finish();
    assert_eq!(sink.counts()["delivered"], 0);
}

#[test]
fn a_broker_of_mqtt_that_sends_without_an_end_is_cut_off() {
    let connack = &[0x20, 2, 0, 0];
    // A message of 256 MiB, and ones that are none.
    for (answer, flood) in [
        (&[0x20, 2, 0, 0, 0x30, 0xff, 0xff, 0xff, 0x7f][..], &b"a"[..]),
        (&[0x30, 0xff, 0xff, 0xff, 0x7f], b"a"),
        (connack, &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
    ] {
        let lie = Lie {
            greeting: b"",
            answer,
            flood,
        };
        check("mqtt", lie, |port| {
            vec![
                ("host", text("127.0.0.1")),
                ("port", Value::Number(f64::from(port))),
            ]
        });
    }
}

#[test]
fn a_web_server_that_answers_without_an_end_is_cut_off() {
    for (answer, flood) in [
        (&b"HTTP/1.1 200 OK\r\nX: "[..], &b"a"[..]),
        (b"HTTP/1.1 200 OK\r\n", b"X: a\r\n"),
        (b"HTTP/1.1 200 OK\r\n\r\n", b"a"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n", b"a"),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            b"1\r\na\r\n",
        ),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"0"),
        (b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 100 Continue\r\n\r\n"),
        (b"HTTP/1.1 ", b"1"),
    ] {
        let lie = Lie {
            greeting: b"",
            answer,
            flood,
        };
        let url = |port| vec![("url", text(&format!("http://127.0.0.1:{port}/hook")))];
        check_web(lie, url);
    }
}

/// As [`check`]; an answer whose head is whole counts whatever follows.
fn check_web(lie: Lie, keys: impl Fn(u16) -> Vec<(&'static str, Value)>) {
    let (port, taken) = start(lie);
    let mut keys = keys(port);
    keys.push(("give_up_after", Value::Number(0.1)));
    let mut sink = open("webhook", &keys);
    send(&mut *sink, 1);
    let taken = taken.recv_timeout(Duration::from_secs(240)).unwrap();
    let said = lie.answer.escape_ascii();
    assert!(
        (1..=MAX_TAKEN).contains(&taken),
        "{said}: {taken} bytes were taken"
    );
    let _ = sink.finish();
}

#[cfg(feature = "mail")]
#[test]
fn a_mail_server_that_sends_without_an_end_is_cut_off() {
    for (greeting, answer, flood) in [
        (&b"220 "[..], &b""[..], &b"a"[..]),
        (b"220-a\r\n", b"", b"220-a\r\n"),
        (b"220 a\r\n", b"250-", b"a"),
        (b"220 a\r\n", b"250 a\r\n", b"334 a\r\n"),
    ] {
        let lie = Lie {
            greeting,
            answer,
            flood,
        };
        check("mail", lie, |port| {
            vec![
                ("server", text("127.0.0.1")),
                ("port", Value::Number(f64::from(port))),
                ("security", text("none")),
                ("user", text("weir")),
                ("password", text("open sesame")),
                ("from", text("weir@example.org")),
                ("to", Value::Texts(vec!["me@example.org".to_owned()])),
            ]
        });
    }
}

#[cfg(feature = "nats")]
#[test]
fn a_server_of_nats_that_sends_without_an_end_is_cut_off() {
    const INFO: &[u8] = b"INFO {\"server_id\":\"x\",\"server_name\":\"x\",\"version\":\"2.10.0\",\"go\":\"x\",\"host\":\"127.0.0.1\",\
        \"port\":4222,\"max_payload\":1048576,\"headers\":true,\"jetstream\":true,\"proto\":1}\r\n";
    let mut is_stored = false;
    for (greeting, answer, flood) in [
        (&b"INFO {\"x\":\""[..], &b""[..], &b"a"[..]),
        (b"", b"", b"a"),
        (INFO, b"PONG\r\nMSG a 1 99999999999\r\n", b"a"),
        (INFO, b"PONG\r\nHMSG a 1 12 99999999999\r\n", b"a"),
        (INFO, b"PONG\r\nMSG a 1 ", b"1"),
        (INFO, b"PONG\r\n-ERR '", b"a"),
        (INFO, b"PONG\r\nINFO {\"connect_urls\":[", b"\"a:1\","),
        (INFO, b"MSG a 1 99999999999999999999999\r\n", b"a"),
        (INFO, b"PONG\r\n-ERR\r\n", b"\r\n"),
    ] {
        is_stored = !is_stored;
        let lie = Lie {
            greeting,
            answer,
            flood,
        };
        check("nats", lie, |port| {
            vec![
                ("servers", Value::Texts(vec![format!("127.0.0.1:{port}")])),
                ("jetstream", Value::Flag(is_stored)),
            ]
        });
    }
}
