//! A queue on servers with mutual authentication: a real nats-server with certificates, which the program
//! `openssl` makes here, and one with accounts.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]
#![allow(clippy::print_stdout, reason = "a test says why it does nothing")]

use std::path::{Path, PathBuf};

use weir_jobs::{Queue, ServerOptions};

use crate::certificates::Certificates;
use crate::common::{queue_on, submission};
use crate::nats_server::NatsServer;

const SIGNED: [(&str, &str); 2] = [
    ("server", "subjectAltName=IP:127.0.0.1"),
    ("weir", "extendedKeyUsage=clientAuth"),
];

fn start(folder: &Path, options: &[&str]) -> Option<NatsServer> {
    NatsServer::new(&folder.join("store"), &[&["-js"], options].concat())
}

/// A queue is made, and holds what is submitted.
fn works(server: &NatsServer, options: &ServerOptions) {
    let queue = Queue::create(&queue_on(server.port()), options).unwrap();
    assert_eq!(queue.submit(&submission(1), 1_000).unwrap(), 1);
    assert_eq!(queue.jobs().unwrap().len(), 1);
}

fn refusal(server: &NatsServer, options: &ServerOptions) -> String {
    match Queue::create(&queue_on(server.port()), options) {
        Ok(_) => panic!("it was let in"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_server_that_encrypts_is_believed_by_its_authority_and_believes_by_ours() {
    let folder = tempfile::tempdir().unwrap();
    let Some(certificates) = Certificates::make(folder.path(), &SIGNED) else {
        return;
    };
    let file = |name: &str| certificates.file(name);
    let text = |name: &str| certificates.text(name);
    let server = start(
        folder.path(),
        &[
            "--tlsverify",
            "--tlscert",
            &text("server.pem"),
            "--tlskey",
            &text("server.key"),
            "--tlscacert",
            &text("ca.pem"),
        ],
    );
    let Some(server) = server else { return };
    let all = ServerOptions {
        ca_file: Some(file("ca.pem")),
        certificate_file: Some(file("weir.pem")),
        key_file: Some(file("weir.key")),
        ..ServerOptions::default()
    };
    works(&server, &all);
    let stranger = ServerOptions {
        ca_file: Some(file("stranger.pem")),
        ..all.clone()
    };
    let words = refusal(&server, &stranger);
    assert!(words.contains("WEIR_NATS_CA_FILE"), "{words}");
    let unknown = ServerOptions {
        certificate_file: None,
        key_file: None,
        ..all.clone()
    };
    let words = refusal(&server, &unknown);
    assert!(words.contains("WEIR_NATS_CERTIFICATE_FILE"), "{words}");
}

#[test]
fn credentials_of_an_account_may_do_what_a_queue_needs_and_no_one_else_may() {
    let folder = tempfile::tempdir().unwrap();
    let nats = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/nats");
    let accounts = nats.join("accounts.conf");
    let Some(server) = start(folder.path(), &["-c", accounts.to_str().unwrap()]) else {
        return;
    };
    let with = |file: PathBuf| ServerOptions {
        credentials_file: Some(file),
        ..ServerOptions::default()
    };
    works(&server, &with(nats.join("weir.creds")));
    let words = refusal(&server, &ServerOptions::default());
    assert!(words.contains("WEIR_NATS_CREDENTIALS_FILE"), "{words}");
    let words = refusal(&server, &with(accounts));
    assert!(words.contains("contains no NATS credentials"), "{words}");
}
