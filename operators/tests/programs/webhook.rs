//! A web server that fails, stalls and lies, and is gone five times.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::Value as Json;
use weir_flow::Value;
use weir_operators::sinks::sink;

use super::delivered::{STREAMS, check, dead_letters, events, open, reasons, send, text, wait, wait_killing};
use crate::certificates::Certificates;

/// Counts and events of a server over all its restarts.
#[derive(Default)]
struct Seen {
    requests: AtomicUsize,
    /// Events that it took, in order.
    taken: Mutex<Vec<String>>,
    /// Events that it refused for ever.
    refused: Mutex<Vec<String>>,
    signatures: Mutex<Vec<String>>,
}

struct Server {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<()>,
}

impl Server {
    fn start(address: SocketAddr, every: usize, seen: &Arc<Seen>) -> Self {
        let listener = TcpListener::bind(address).unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, seen) = (Arc::clone(&stop), Arc::clone(seen));
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                match listener.accept() {
                    Ok((stream, _)) => {
                        let _ = serve(stream, every, &seen, &stopped);
                    }
                    Err(_) => std::thread::sleep(Duration::from_millis(1)),
                }
            }
        });
        Self {
            address,
            stop,
            thread,
        }
    }

    fn kill(self) -> SocketAddr {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
        self.address
    }
}

/// Answers requests of a connection; every so many-th in a way of its own.
fn serve(stream: TcpStream, every: usize, seen: &Seen, stop: &AtomicBool) -> std::io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(Duration::from_millis(100)))?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut writer = stream;
    loop {
        let mut head = Vec::new();
        loop {
            let mut line = String::new();
            match reader.read_line(&mut line) {
                Ok(0) => return Ok(()),
                Ok(_) if line == "\r\n" => break,
                Ok(_) => head.push(line.trim().to_owned()),
                Err(_) if stop.load(Ordering::Relaxed) => return Ok(()),
                Err(_) if head.is_empty() && line.is_empty() => {}
                Err(error) => return Err(error),
            }
        }
        let header = |name: &str| {
            let of = |line: &String| {
                line.to_lowercase()
                    .strip_prefix(name)
                    .map(|value| value.trim().to_owned())
            };
            head.iter().find_map(of)
        };
        let length: usize = header("content-length:").unwrap().parse().unwrap();
        seen.signatures
            .lock()
            .unwrap()
            .extend(header("x-weir-signature:"));
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        let event: Json = serde_json::from_slice(&body).unwrap();
        let id = event["id"].as_str().unwrap().to_owned();
        let number = seen.requests.fetch_add(1, Ordering::Relaxed);
        let fault = if number % every == every - 1 {
            number / every % 6
        } else {
            usize::MAX
        };
        match fault {
            0 => writer.write_all(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n")?,
            // It stalls, until the other side has given up.
            1 => {
                let _ = reader.read(&mut [0]);
                std::thread::sleep(Duration::from_millis(250));
                return Ok(());
            }
            2 => return writer.write_all(b"what is HTTP?\r\n\r\n"),
            // It says more than it sends.
            3 => return writer.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort"),
            4 => return Ok(()),
            5 => {
                seen.refused.lock().unwrap().push(id);
                writer.write_all(
                    b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n",
                )?;
            }
            _ => {
                seen.taken.lock().unwrap().push(id);
                writer.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")?;
            }
        }
    }
}

#[test]
fn a_server_that_fails_stalls_lies_and_goes_gets_every_event_in_order_or_it_is_in_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let (seen, events) = (Arc::<Seen>::default(), events());
    let start = |address: SocketAddr| Server::start(address, 25, &seen);
    let mut server = Some(start("127.0.0.1:0".parse().unwrap()));
    let address = server.as_ref().unwrap().address;
    let path = folder.path().join("undelivered.jsonl");
    let mut webhook = open(
        "webhook",
        &[
            ("url", text(&format!("http://{address}/hook"))),
            ("secret", text("a key")),
            ("timeout", Value::Number(0.2)),
            ("path", text(path.to_str().unwrap())),
        ],
    );
    send(&mut *webhook, events);
    let counts = wait_killing(&*webhook, events, || {
        let address = server.take().unwrap().kill();
        std::thread::sleep(Duration::from_millis(100));
        server = Some(start(address));
    });
    webhook.finish().unwrap();
    server.unwrap().kill();
    let taken = seen.taken.lock().unwrap();
    let given_up = dead_letters(&path);
    check(events, &taken, &given_up);
    assert_eq!(
        given_up,
        *seen.refused.lock().unwrap(),
        "only what was refused is given up"
    );
    assert_eq!(counts["lost"], 0);
    assert!(counts["retries"] > 0 && counts["dead_letters"] > 0, "{counts:?}");
    println!(
        "{events} events, killed 5 times: {counts:?}, {} answered by 200",
        taken.len()
    );
    let signatures = seen.signatures.lock().unwrap();
    assert!(
        signatures
            .iter()
            .all(|text| text.len() == 71 && text.starts_with("sha256="))
    );
    assert!(signatures.len() >= events);
}

#[test]
fn what_finds_nobody_is_in_the_file_and_what_finds_no_room_there_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    // Nobody listens there any more.
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let path = folder.path().join("undelivered.jsonl");
    let keys = |max_bytes: f64| {
        [
            ("url", text(&format!("http://user:hidden@{address}/"))),
            ("give_up_after", Value::Number(0.01)),
            ("path", text(path.to_str().unwrap())),
            ("dead_letter_bytes", Value::Number(max_bytes)),
        ]
    };
    let mut webhook = open("webhook", &keys(1e6));
    send(&mut *webhook, 40);
    wait(&*webhook, |_| {});
    webhook.finish().unwrap();
    let given_up = dead_letters(&path);
    check(40, &[], &given_up);
    assert!(given_up[0].starts_with(STREAMS[0]));
    let written = std::fs::read_to_string(&path).unwrap();
    assert!(!written.contains("hidden"), "{written}");

    let mut full = open("webhook", &keys(written.len() as f64 + 10.0));
    send(&mut *full, 3);
    let counts = wait(&*full, |_| {});
    assert_eq!((counts["dead_letters"], counts["lost"]), (0, 3));
    let error = full.finish().unwrap_err().to_string();
    assert!(error.contains("3 events were not accepted"), "{error}");
}

/// Answers one request: 500 to some events, always, and takes all others.
fn answer_one(
    stream: &mut (impl Read + Write),
    is_poison: impl Fn(&str) -> bool,
    seen: &Mutex<Vec<String>>,
) -> std::io::Result<()> {
    let mut reader = BufReader::new(&mut *stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(());
        }
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line == "\r\n" {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let event: Json = serde_json::from_slice(&body).unwrap();
    let id = event["id"].as_str().unwrap();
    seen.lock().unwrap().push(id.to_owned());
    let status = if is_poison(id) { 500 } else { 200 };
    let answer = format!("HTTP/1.1 {status} x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    stream.write_all(answer.as_bytes())?;
    stream.flush()
}

/// A server that encrypts with the certificate of that name, and takes all events of connections that believe it.
fn encrypting(listener: &TcpListener, certificates: &Certificates, seen: &Mutex<Vec<String>>) {
    let chain = CertificateDer::pem_file_iter(certificates.file("server.pem")).unwrap();
    let chain = chain.collect::<Result<Vec<_>, _>>().unwrap();
    let key = PrivateKeyDer::from_pem_file(certificates.file("server.key")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    let config = Arc::new(config);
    for stream in listener.incoming() {
        let session = rustls::ServerConnection::new(Arc::clone(&config)).unwrap();
        let mut stream = rustls::StreamOwned::new(session, stream.unwrap());
        // Clients that do not believe the certificate hang up.
        let _ = answer_one(&mut stream, |_| false, seen);
    }
}

#[test]
fn a_server_that_encrypts_is_believed_by_the_authority_in_ca_file_alone() {
    let folder = tempfile::tempdir().unwrap();
    let signed = [("server", "subjectAltName=IP:127.0.0.1")];
    let Some(certificates) = Certificates::make(folder.path(), &signed) else {
        return;
    };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let path = folder.path().join("undelivered.jsonl");
    let keys = |authority: Option<&str>| {
        let mut keys = vec![
            ("url", text(&format!("https://{address}/"))),
            ("path", text(path.to_str().unwrap())),
            ("give_up_after", Value::Number(0.05)),
        ];
        keys.extend(authority.map(|name| ("ca_file", text(&certificates.text(name)))));
        keys
    };
    let believed = keys(Some("ca.pem"));
    let others = [keys(Some("stranger.pem")), keys(None)];
    let seen = Arc::<Mutex<Vec<String>>>::default();
    let seeing = Arc::clone(&seen);
    std::thread::spawn(move || encrypting(&listener, &certificates, &seeing));

    let mut webhook = open("webhook", &believed);
    send(&mut *webhook, 20);
    let counts = wait(&*webhook, |_| {});
    webhook.finish().unwrap();
    assert_eq!(counts["delivered"], 20, "{counts:?}");
    check(20, &seen.lock().unwrap(), &[]);

    for keys in others {
        let mut webhook = open("webhook", &keys);
        send(&mut *webhook, 1);
        wait(&*webhook, |_| {});
        webhook.finish().unwrap();
        let reasons = reasons(&path);
        assert!(reasons[0].contains("`ca_file`"), "{reasons:?}");
        std::fs::remove_file(&path).unwrap();
    }
    assert_eq!(seen.lock().unwrap().len(), 20, "strangers are sent nothing");
}

#[test]
fn events_that_a_server_fails_on_take_no_others_with_them() {
    let folder = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let seen = Arc::<Mutex<Vec<String>>>::default();
    let is_poison = |id: &str| ["north/gate/0", "east/gate/2", "west/gate/11"].contains(&id);
    let seeing = Arc::clone(&seen);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let _ = answer_one(&mut stream.unwrap(), is_poison, &seeing);
        }
    });
    let path = folder.path().join("undelivered.jsonl");
    let mut webhook = open(
        "webhook",
        &[
            ("url", text(&format!("http://{address}/"))),
            ("path", text(path.to_str().unwrap())),
            ("give_up_after", Value::Number(5.0)),
        ],
    );
    send(&mut *webhook, 40);
    let counts = wait(&*webhook, |_| {});
    assert_eq!(
        (counts["delivered"], counts["dead_letters"], counts["waiting"]),
        (37, 3, 0),
        "{counts:?}"
    );
    assert_eq!(webhook.outage(), None, "it takes events");
    webhook.finish().unwrap();
    let given_up = dead_letters(&path);
    assert!(given_up.iter().all(|id| is_poison(id)), "{given_up:?}");
    let taken: Vec<String> = seen
        .lock()
        .unwrap()
        .iter()
        .filter(|id| !is_poison(id))
        .cloned()
        .collect();
    check(40, &taken, &given_up);
}

#[test]
fn a_server_that_is_gone_and_a_file_without_room_show_while_events_wait() {
    let folder = tempfile::tempdir().unwrap();
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let path = folder.path().join("undelivered.jsonl");
    let mut webhook = open(
        "webhook",
        &[
            ("url", text(&format!("http://{address}/"))),
            ("path", text(path.to_str().unwrap())),
            ("give_up_after", Value::Number(0.01)),
            ("dead_letter_bytes", Value::Number(10.0)),
        ],
    );
    assert_eq!(webhook.outage(), None);
    send(&mut *webhook, 3);
    let counts = wait(&*webhook, |_| {});
    assert_eq!(
        (counts["lost"], counts["retries"]),
        (3, 3),
        "each was tried: {counts:?}"
    );
    let trouble = webhook.outage().unwrap();
    assert!(
        trouble.contains("events wait") && trouble.contains("`dead_letter_bytes`"),
        "{trouble}"
    );
    webhook.finish().unwrap_err();
}

#[test]
fn dead_letters_go_to_a_new_file_where_another_program_moved_theirs_away() {
    let _alone = crate::common::reopening();
    let folder = tempfile::tempdir().unwrap();
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (path, moved) = (
        folder.path().join("dead.jsonl"),
        folder.path().join("dead.jsonl.1"),
    );
    let keys = [
        ("url", text(&format!("http://{address}/"))),
        ("path", text(path.to_str().unwrap())),
        ("give_up_after", Value::Number(0.01)),
    ];
    let mut webhook = open("webhook", &keys);
    send(&mut *webhook, 2);
    wait(&*webhook, |_| {});
    std::fs::rename(&path, &moved).unwrap();
    weir_operators::reopen();
    send(&mut *webhook, 3);
    wait(&*webhook, |_| {});
    webhook.finish().unwrap();
    assert_eq!((dead_letters(&moved).len(), dead_letters(&path).len()), (2, 3));
}

#[test]
fn an_authority_is_refused_where_it_is_of_no_use_or_none() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("authority.pem");
    std::fs::write(&path, "no certificate\n").unwrap();
    for (url, expected) in [("http://a/", "has no effect"), ("https://a/", "authority.pem")] {
        let keys = [("url", url), ("ca_file", path.to_str().unwrap())];
        let keys = keys.map(|(key, value)| (key.to_owned(), text(value)));
        let error = sink("webhook", &weir_flow::Settings(keys.into())).err().unwrap();
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[test]
fn an_address_that_is_none_is_refused_before_a_run() {
    for url in ["", "ftp://a/b", "alarm.example/weir", "http://"] {
        let settings = weir_flow::Settings([("url".to_owned(), text(url))].into());
        let error = sink("webhook", &settings).err().unwrap().to_string();
        assert!(error.contains("`url`"), "{error}");
    }
}
