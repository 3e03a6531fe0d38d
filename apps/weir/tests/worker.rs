//! `weir worker` as its caller sees it: the address on standard output, one clear error, a clean end. Partitions are
//! not opened here, so that any file may stand for ONNX Runtime.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use std::io::{BufRead, BufReader, Read};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

fn worker(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command
        .arg("worker")
        .args(arguments)
        .env("ORT_DYLIB_PATH", env!("CARGO_MANIFEST_PATH"))
        .env_remove("RUST_LOG");
    command
}

/// A process, killed when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended as it should.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(arguments: &[&str]) -> (Running, String) {
    let mut command = worker(arguments);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut running = Running(child.unwrap());
    let mut line = String::new();
    let stdout = running.0.stdout.take().unwrap();
    BufReader::new(stdout).read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("listening on ");
    let address = address.unwrap_or_else(|| panic!("it says \"{line}\"")).to_owned();
    (running, address)
}

fn refused(arguments: &[&str], word: &str) {
    let output = worker(arguments).output().unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{complaint}");
    assert!(complaint.contains(word), "{complaint}");
    assert!(output.stdout.is_empty());
}

#[test]
fn it_says_where_it_listens_and_ends_when_it_is_asked_to() {
    let (mut running, address) = start(&["--listen", "127.0.0.1:0", "--class", "p4", "--slowdown", "3"]);
    TcpStream::connect(&address).unwrap();
    refused(&["--listen", &address], "in use");

    let pid = running.0.id().to_string();
    let asked = Command::new("kill").args(["-INT", &pid]).status().unwrap();
    assert!(asked.success());
    assert!(running.0.wait().unwrap().success());
    let mut said = String::new();
    running
        .0
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut said)
        .unwrap();
    assert!(said.contains("0 batches run"), "{said}");
    assert!(TcpStream::connect(&address).is_err(), "nobody listens any more");
}

#[test]
fn what_makes_no_worker_is_refused() {
    refused(&["--listen", "nowhere"], "invalid");
    refused(&["--listen", "127.0.0.1:0", "--shares", "0"], "0 is not in");
    refused(
        &["--listen", "127.0.0.1:0", "--slowdown", "0.5"],
        "slowdown is 1 to 1000",
    );
    refused(&["--listen", "127.0.0.1:0", "--bandwidth", "fast"], "200Mbps");
    refused(&["--listen", "127.0.0.1:0", "--core", "100000"], "core 100000");
}
