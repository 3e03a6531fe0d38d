//! Mails to a server that keeps them, and to servers that refuse, hang, break off or encrypt.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use weir_flow::Value;

use super::delivered::{dead_letters, give, open, pictured, reasons, text, wait};
use crate::certificates::Certificates;

/// Manner in which a server treats a mail.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Manner {
    Accept,
    /// It refuses the connection for a time.
    Busy,
    /// It refuses all recipients for a time.
    Greylist,
    /// It refuses all recipients for ever.
    Refuse,
    /// It refuses the recipient `gone` for ever.
    RefuseOne,
    RefuseUser,
    /// It says nothing at all.
    Silent,
    /// It takes a mail, and says nothing more.
    SilentAtEnd,
    /// It closes the connection within a mail.
    Close,
}

/// Encryption that a server offers.
#[derive(Clone)]
enum Offer {
    Nothing,
    StartTls(Arc<ServerConfig>),
    Tls(Arc<ServerConfig>),
}

#[derive(Default)]
struct Kept {
    mails: Vec<String>,
    /// Lines of clients, without mails.
    lines: Vec<String>,
}

struct Server {
    port: u16,
    kept: Arc<Mutex<Kept>>,
}

trait Stream: Read + Write {}
impl<T: Read + Write> Stream for T {}

impl Server {
    /// Treats that many first connections in that manner, and accepts mails of others.
    fn start(offer: Offer, manner: Manner, times: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let kept = Arc::<Mutex<Kept>>::default();
        let all = Arc::clone(&kept);
        std::thread::spawn(move || {
            for (number, stream) in listener.incoming().flatten().enumerate() {
                let (kept, offer) = (Arc::clone(&all), offer.clone());
                let manner = if number < times { manner } else { Manner::Accept };
                std::thread::spawn(move || {
                    let _ = serve(&stream, &offer, manner, &kept);
                });
            }
        });
        Self { port, kept }
    }

    fn mails(&self) -> Vec<String> {
        self.kept.lock().unwrap().mails.clone()
    }

    fn lines(&self) -> Vec<String> {
        self.kept.lock().unwrap().lines.clone()
    }

    /// Keys of a sink that sends to it without encryption.
    fn keys(&self) -> Vec<(&'static str, Value)> {
        vec![
            ("server", text("127.0.0.1")),
            ("port", Value::Number(f64::from(self.port))),
            ("security", text("none")),
            ("from", text("Weir <weir@example.org>")),
            (
                "to",
                Value::Texts(vec!["me@example.org".to_owned(), "gone@example.org".to_owned()]),
            ),
            ("timeout", Value::Number(2.0)),
            ("timezone", text("Europe/Berlin")),
        ]
    }
}

fn encrypted(config: &Arc<ServerConfig>, stream: TcpStream) -> Box<dyn Stream> {
    let connection = ServerConnection::new(Arc::clone(config)).unwrap();
    Box::new(StreamOwned::new(connection, stream))
}

/// A line up to CR LF.
fn line(stream: &mut dyn Stream) -> std::io::Result<String> {
    let mut line = Vec::new();
    while !line.ends_with(b"\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        line.push(byte[0]);
    }
    Ok(String::from_utf8_lossy(&line[..line.len() - 2]).into_owned())
}

/// Waits until the client closes the connection.
fn hang(stream: &mut dyn Stream) -> std::io::Result<()> {
    std::io::copy(stream, &mut std::io::sink()).map(drop)
}

fn serve(tcp: &TcpStream, offer: &Offer, manner: Manner, kept: &Mutex<Kept>) -> std::io::Result<()> {
    let plain = tcp.try_clone()?;
    let mut stream: Box<dyn Stream> = match offer {
        Offer::Tls(config) => encrypted(config, plain),
        _ => Box::new(plain),
    };
    match manner {
        Manner::Silent => return hang(&mut *stream),
        Manner::Busy => return stream.write_all(b"421 4.3.2 come back later\r\n"),
        _ => stream.write_all(b"220 test ESMTP\r\n")?,
    }
    let mut is_encrypted = !matches!(offer, Offer::StartTls(_));
    loop {
        let command = line(&mut *stream)?;
        kept.lock().unwrap().lines.push(command.clone());
        let verb = command.split([' ', ':']).next().unwrap_or_default();
        let answer = match (verb, manner) {
            ("EHLO", _) if is_encrypted => "250-test\r\n250 AUTH PLAIN LOGIN",
            ("EHLO", _) => "250-test\r\n250 STARTTLS",
            ("STARTTLS", _) => {
                stream.write_all(b"220 go ahead\r\n")?;
                if let Offer::StartTls(config) = offer {
                    stream = encrypted(config, tcp.try_clone()?);
                    is_encrypted = true;
                }
                continue;
            }
            ("AUTH", Manner::RefuseUser) => {
                // A server that repeats what it was sent.
                write!(stream, "535 5.7.8 {command}: open sesame is wrong\r\n")?;
                continue;
            }
            ("AUTH", _) => "235 2.7.0 welcome",
            ("RCPT", Manner::Greylist) => "451 4.7.1 greylisted",
            ("RCPT", Manner::Refuse) => "550 5.1.1 no such user",
            ("RCPT", Manner::RefuseOne) if command.contains("gone@") => "550 5.1.1 no such user",
            ("DATA", Manner::Close) => return Ok(()),
            ("DATA", _) => {
                stream.write_all(b"354 go ahead\r\n")?;
                let mut mail = String::new();
                loop {
                    match line(&mut *stream)?.as_str() {
                        "." => break,
                        line => mail = mail + line + "\r\n",
                    }
                }
                if manner == Manner::SilentAtEnd {
                    return hang(&mut *stream);
                }
                kept.lock().unwrap().mails.push(mail);
                "250 2.0.0 queued"
            }
            ("QUIT", _) => return stream.write_all(b"221 bye\r\n"),
            _ => "250 ok",
        };
        write!(stream, "{answer}\r\n")?;
    }
}

/// Sends that many incidents, and returns how many were delivered.
fn send(keys: &[(&str, Value)], incidents: usize) -> u64 {
    let mut mail = open("mail", keys);
    for number in 0..incidents {
        give(&mut *mail, pictured(number));
    }
    let counts = wait(&*mail, |_| {});
    // Mails that were given up without a file are an error.
    let _ = mail.finish();
    counts["delivered"]
}

/// Dead letters of incidents that are given up soon.
fn given_up(mut keys: Vec<(&'static str, Value)>, path: &Path, incidents: usize) -> Vec<String> {
    keys.push(("path", text(path.to_str().unwrap())));
    keys.push(("give_up_after", Value::Number(0.05)));
    send(&keys, incidents);
    reasons(path)
}

#[test]
fn mails_arrive_in_order_with_text_and_picture() {
    let server = Server::start(Offer::Nothing, Manner::Accept, 0);
    let mut keys = server.keys();
    keys.push(("attach", text("picture")));
    keys.push(("subject", text("{{ class }} at {{ stream }} {{ id }}")));
    keys.push(("user", text("weir")));
    keys.push(("password", text("open sesame")));
    assert_eq!(send(&keys, 3), 3);
    let mails = server.mails();
    for (number, mail) in mails.iter().enumerate() {
        let subject = format!("Subject: person at north north/gate/{number}\r\n");
        assert!(mail.contains(&subject), "{mail}");
        assert!(
            mail.contains("person (loitering), 2026-11-23 13:00:00 CET"),
            "{mail}"
        );
        assert!(mail.contains("Content-Type: image/jpeg"), "{mail}");
    }
    let lines = server.lines();
    let starts = |beginning: &str| lines.iter().filter(|line| line.starts_with(beginning)).count();
    assert_eq!(
        (mails.len(), starts("AUTH"), starts("RCPT TO:"), starts("QUIT")),
        (3, 3, 6, 3)
    );
}

#[test]
fn mail_that_is_refused_for_a_time_is_sent_later() {
    for (manner, times) in [
        (Manner::Busy, 2),
        (Manner::Greylist, 2),
        (Manner::Close, 2),
        (Manner::Silent, 1),
        (Manner::SilentAtEnd, 1),
    ] {
        let server = Server::start(Offer::Nothing, manner, times);
        let mut keys = server.keys();
        keys.retain(|(key, _)| *key != "timeout");
        keys.push(("timeout", Value::Number(0.3)));
        assert_eq!(send(&keys, 2), 2, "{manner:?}");
        let mails = server.mails();
        let ids: std::collections::BTreeSet<&str> = mails
            .iter()
            .filter_map(|mail| mail.lines().find(|line| line.starts_with("Message-ID:")))
            .collect();
        assert_eq!(ids.len(), 2, "{manner:?}: {mails:?}");
    }
}

#[test]
fn mail_that_is_refused_for_ever_is_a_dead_letter_and_others_arrive() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("undelivered.jsonl");
    let server = Server::start(Offer::Nothing, Manner::Refuse, 1);
    let mut keys = server.keys();
    keys.push(("path", text(path.to_str().unwrap())));
    assert_eq!(send(&keys, 2), 1);
    assert_eq!(dead_letters(&path), ["north/gate/0"]);
    let reasons = reasons(&path);
    assert!(
        reasons[0].contains("550") && reasons[0].contains("no such user"),
        "{reasons:?}"
    );
    assert!(
        reasons[0].starts_with(&format!("127.0.0.1:{}", server.port)),
        "{reasons:?}"
    );
}

#[test]
fn recipient_that_is_refused_costs_the_others_nothing() {
    let server = Server::start(Offer::Nothing, Manner::RefuseOne, 1);
    assert_eq!(send(&server.keys(), 1), 1);
    assert_eq!(server.mails().len(), 1);
}

#[test]
fn no_reason_shows_the_password() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("undelivered.jsonl");
    let server = Server::start(Offer::Nothing, Manner::RefuseUser, usize::MAX);
    let secret = folder.path().join("password.txt");
    std::fs::write(&secret, "open sesame\n").unwrap();
    let mut keys = server.keys();
    keys.push(("user", text("weir")));
    keys.push(("password_file", text(secret.to_str().unwrap())));
    let mut mail = open("mail", &keys);
    give(&mut *mail, pictured(0));
    let outage = loop {
        match mail.outage() {
            Some(outage) => break outage,
            None => std::thread::sleep(Duration::from_millis(2)),
        }
    };
    drop(mail);
    let reasons = given_up(keys, &path, 1);
    let sent = server.lines();
    let sent = sent
        .iter()
        .find_map(|line| line.strip_prefix("AUTH PLAIN "))
        .unwrap();
    for reason in reasons.iter().chain([&outage]) {
        assert!(reason.contains("535") && reason.contains("`user`"), "{reason}");
        assert!(!reason.contains("sesame") && !reason.contains(sent), "{reason}");
    }
}

fn config(certificates: &Certificates) -> Arc<ServerConfig> {
    let certificate = CertificateDer::from_pem_file(certificates.file("server.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_file(certificates.file("server.key")).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key);
    Arc::new(config.unwrap())
}

#[test]
fn mails_go_encrypted_to_a_server_that_an_authority_has_signed() {
    let folder = tempfile::tempdir().unwrap();
    let signed = [("server", "subjectAltName=IP:127.0.0.1")];
    let Some(certificates) = Certificates::make(folder.path(), &signed) else {
        return;
    };
    let path = folder.path().join("undelivered.jsonl");
    let config = config(&certificates);
    for (security, offer) in [
        ("starttls", Offer::StartTls(Arc::clone(&config))),
        ("tls", Offer::Tls(config)),
    ] {
        let server = Server::start(offer, Manner::Accept, 0);
        let keys = |authority: &str| {
            let mut keys = server.keys();
            keys.retain(|(key, _)| *key != "security");
            keys.push(("security", text(security)));
            keys.push(("ca_file", text(&certificates.text(authority))));
            keys.push(("user", text("weir")));
            keys.push(("password", text("open sesame")));
            keys
        };
        assert_eq!(send(&keys("ca.pem"), 1), 1, "{security}");
        assert_eq!(server.mails().len(), 1, "{security}");
        let reasons = given_up(keys("stranger.pem"), &path, 1);
        assert!(reasons[0].contains("`ca_file`"), "{reasons:?}");
        assert_eq!(server.mails().len(), 1, "{security}");
        std::fs::remove_file(&path).unwrap();
    }
}

#[test]
fn nothing_is_sent_to_a_server_that_does_not_encrypt() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("undelivered.jsonl");
    let server = Server::start(Offer::Nothing, Manner::Accept, 0);
    let mut keys = server.keys();
    keys.retain(|(key, _)| *key != "security");
    keys.push(("security", text("starttls")));
    keys.push(("user", text("weir")));
    keys.push(("password", text("open sesame")));
    let reasons = given_up(keys, &path, 1);
    assert!(reasons[0].contains("STARTTLS"), "{reasons:?}");
    let lines = server.lines();
    let is_begun = |line: &String| line.starts_with("AUTH") || line.starts_with("MAIL");
    assert!(!lines.iter().any(is_begun), "{lines:?}");
}
