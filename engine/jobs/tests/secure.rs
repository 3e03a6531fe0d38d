//! A queue on a server that asks who comes and shows who it is: a real nats-server with certificates, which the program `openssl`
//! makes here, and one with accounts.

#![cfg(feature = "nats")]
#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]
#![allow(clippy::print_stdout, reason = "a test says why it does nothing")]

#[allow(dead_code, reason = "others need more of it")]
mod common;
#[path = "common/server.rs"]
mod server;

use std::path::{Path, PathBuf};
use std::process::Command;

use common::submission;
use server::Server;
use weir_jobs::{Queue, ServerOptions};

/// An authority, another one, and what the first has signed; `None` where there is no `openssl`.
fn make_certificates(folder: &Path) -> Option<()> {
    if Command::new("openssl").arg("version").output().is_err() {
        println!("skipped: there is no openssl");
        return None;
    }
    let run = |command: &str| {
        let mut openssl = Command::new("openssl");
        let output = openssl
            .args(command.split_whitespace())
            .current_dir(folder)
            .output();
        let output = output.unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "openssl {command}: {said}");
    };
    const KEY: &str = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
    for authority in ["ca", "stranger"] {
        run(&format!(
            "req -x509 {KEY} -days 2 -subj /CN={authority} -keyout {authority}.key -out {authority}.pem"
        ));
    }
    for (name, extension) in [
        ("server", "subjectAltName=IP:127.0.0.1"),
        ("weir", "extendedKeyUsage=clientAuth"),
    ] {
        run(&format!(
            "req {KEY} -subj /CN={name} -keyout {name}.key -out {name}.csr"
        ));
        std::fs::write(folder.join("extension"), extension).unwrap();
        run(&format!(
            "x509 -req -in {name}.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile extension -out {name}.pem"
        ));
    }
    Some(())
}

/// A queue is made, and holds what is submitted.
fn works(server: &Server, options: &ServerOptions) {
    let queue = Queue::create(&server.place(), options).unwrap();
    assert_eq!(queue.submit(&submission(1), 1_000).unwrap(), 1);
    assert_eq!(queue.jobs().unwrap().len(), 1);
}

fn refusal(server: &Server, options: &ServerOptions) -> String {
    match Queue::create(&server.place(), options) {
        Ok(_) => panic!("it was let in"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_server_that_encrypts_is_believed_by_its_authority_and_believes_by_ours() {
    let folder = tempfile::tempdir().unwrap();
    if make_certificates(folder.path()).is_none() {
        return;
    }
    let file = |name: &str| folder.path().join(name);
    let text = |name: &str| file(name).to_str().unwrap().to_owned();
    let server = Server::start(
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
    let Some(server) = Server::start(folder.path(), &["-c", accounts.to_str().unwrap()]) else {
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
    assert!(words.contains("holds no credentials of NATS"), "{words}");
}
