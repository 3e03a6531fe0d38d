//! Archives over loopback: ranges of segments, exports and their bounds.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::{Value, json};
use weir_serve::MAX_EXPORTS;

use crate::common::{ask, becomes, error, start};

/// Sends a request, and reads its answer as far as that is wanted.
fn open(at: SocketAddr, path: &str, headers: &str) -> TcpStream {
    let mut stream = TcpStream::connect(at).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: {at}\r\nConnection: close\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    stream
}

/// Status, headers in small letters, and body of an answer.
fn whole(mut stream: TcpStream) -> (u16, String, String) {
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, head.to_lowercase(), body.to_owned())
}

#[test]
fn segments_are_sent_whole_or_in_parts_as_far_as_they_play() {
    let (server, memory) = start(None);
    let path = "/api/archive/north/segments/20261130T060000.000Z";
    let get = |headers: &str| whole(open(server.address(), path, headers));
    let (status, head, body) = get("");
    assert_eq!((status, body.as_str()), (200, "01234567"));
    for header in [
        "content-type: video/mp4",
        "accept-ranges: bytes",
        "weir-unfinished: true",
        "content-length: 8",
    ] {
        assert!(head.contains(header), "{head}");
    }
    let (status, head, body) = get("Range: bytes=2-4\r\n");
    assert_eq!((status, body.as_str()), (206, "234"));
    assert!(head.contains("content-range: bytes 2-4/8"), "{head}");
    assert_eq!(get("Range: bytes=6-\r\n").2, "67");
    assert_eq!(get("Range: bytes=-3\r\n").2, "567");
    let (status, head, _) = get("Range: bytes=8-\r\n");
    assert_eq!(status, 416);
    assert!(head.contains("content-range: bytes */8"), "{head}");
    let asked = memory.asked.lock().unwrap();
    assert!(
        asked
            .iter()
            .all(|asked| asked == "segment 20261130T060000.000Z of north"),
        "{asked:?}"
    );
}

#[test]
fn ranges_of_time_reach_the_backend_as_they_were_written() {
    let (server, memory) = start(None);
    let at = server.address();
    let (status, list) = ask(at, "GET", "/api/archive", "", "");
    let list: Value = serde_json::from_str(&list).unwrap();
    assert_eq!((status, list["cameras"].as_array().map(Vec::len)), (200, Some(2)));
    let query = "from=2026-11-30T06:00:00%2B01:00&to=1795469405000";
    assert_eq!(
        ask(at, "GET", &format!("/api/archive/north?{query}"), "", "").0,
        200
    );
    assert_eq!(
        memory.asked.lock().unwrap().as_slice(),
        ["segments Some(\"2026-11-30T06:00:00+01:00\") Some(\"1795469405000\") of north"]
    );
    assert_eq!(ask(at, "GET", "/api/archive/south", "", "").0, 404);
    let (status, body) = ask(at, "GET", "/api/archive/north?from=1&from=2", "", "");
    assert_eq!(status, 400, "{body}");
    assert!(error(&body).1.unwrap().contains("?from="), "{body}");
}

#[test]
fn exports_are_bounded_and_free_again_when_they_are_left() {
    let (server, memory) = start(None);
    let at = server.address();
    let path = "/api/archive/north/export?from=1&to=2";
    memory.export_bytes.store(5, Ordering::Relaxed);
    let (status, head, body) = whole(open(at, path, ""));
    assert_eq!((status, body.as_str()), (200, "\u{7}\u{7}\u{7}\u{7}\u{7}"));
    assert!(
        head.contains("content-disposition: attachment; filename=\"north.mp4\""),
        "{head}"
    );
    // More than the buffers of a connection hold.
    memory.export_bytes.store(1 << 30, Ordering::Relaxed);
    let begin = || {
        let mut stream = open(at, path, "");
        let mut head = [0; 12];
        stream.read_exact(&mut head).unwrap();
        (stream, String::from_utf8(head.to_vec()).unwrap())
    };
    let unread: Vec<_> = (0..MAX_EXPORTS).map(|_| begin()).collect();
    assert!(unread.iter().all(|(_, head)| head == "HTTP/1.1 200"));
    let (status, head, body) = whole(open(at, path, ""));
    assert_eq!(status, 429, "{body}");
    assert!(head.contains("retry-after: 10"), "{head}");
    assert_eq!(
        ask(at, "GET", "/api/streams", "", "").1,
        json!([{ "name": "north" }]).to_string()
    );
    drop(unread);
    assert!(becomes(|| begin().1 == "HTTP/1.1 200"));
}
