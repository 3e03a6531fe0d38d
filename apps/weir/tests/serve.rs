//! `weir serve` and `weir streams`: streams come and go over the API, SIGTERM drains.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

mod common;

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use common::{refuses, report, signal, stderr, stdout};

const GRAPH: &str = r#"
[app]
name = "service"
slo = "20s"

[sources.steady]
uri = "emulated:uniform?rate=50"

[devices."emulated:a"]
slots = 1

[models.any]
device = "emulated:a"
profile = { "1" = "1ms", "8" = "4ms" }

[modules.find]
operator = "emulate"
model = "any"
inputs = ["steady"]

[sinks.events]
type = "jsonl"
path = "{stream}.jsonl"
inputs = ["find"]
"#;

/// An engine that serves in a folder of its own.
struct Service {
    folder: tempfile::TempDir,
    /// Until it is stopped.
    process: Option<Child>,
    at: String,
}

impl Drop for Service {
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

fn weir(folder: &Path) -> Command {
    let mut weir = Command::new(env!("CARGO_BIN_EXE_weir"));
    weir.current_dir(folder)
        .env_remove("RUST_LOG")
        .env_remove("WEIR_API_TOKEN");
    weir
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("graph.toml"), GRAPH).unwrap();
    folder
}

impl Service {
    fn start(args: &[&str]) -> Self {
        let folder = folder();
        let mut process = weir(folder.path())
            .args([
                "serve",
                "graph.toml",
                "--listen",
                "127.0.0.1:0",
                "--report",
                "report.json",
            ])
            .args(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = String::new();
        let mut lines = BufReader::new(process.stdout.take().unwrap());
        lines.read_line(&mut said).unwrap();
        let at = said.trim().rsplit('/').next().unwrap().to_owned();
        assert!(said.starts_with("listening on http://127.0.0.1:"), "{said}");
        let process = Some(process);
        let service = Self { folder, process, at };
        // It answers before the engine is ready.
        service.wait_until(|list| list.contains("live"));
        service
    }

    fn streams(&self, args: &[&str]) -> Output {
        let mut weir = weir(self.folder.path());
        weir.arg("streams")
            .args(args)
            .args(["--at", &self.at])
            .output()
            .unwrap()
    }

    /// Asks it to end, which it does without an error.
    fn drain(&mut self) {
        let process = self.process.take().unwrap();
        signal(&process, "-TERM");
        let output = process.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
    }

    fn wait_until(&self, holds: impl Fn(&str) -> bool) {
        let mut list = Vec::new();
        for _ in 0..600 {
            let listed = self.streams(&["list"]);
            if holds(&stdout(&listed)) {
                return;
            }
            list.push(stdout(&listed) + &stderr(&listed));
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("it never came: {:?}", list.last());
    }
}

#[test]
fn streams_come_and_go_and_sigterm_drains() {
    let mut service = Service::start(&[]);
    let added = service.streams(&["add", "guest", "emulated:uniform?rate=100"]);
    assert_eq!(stdout(&added), "added guest\n", "{}", stderr(&added));
    service.wait_until(|list| {
        list.lines()
            .any(|line| line.trim_start().starts_with("guest") && line.contains("live"))
    });
    refuses(
        &service.streams(&["add", "guest", "emulated:uniform?rate=100"]),
        &["guest is taken"],
    );
    refuses(
        &service.streams(&["remove", "nowhere"]),
        &["no stream nowhere", "guest"],
    );
    assert_eq!(stdout(&service.streams(&["pause", "guest"])), "paused guest\n");
    service.wait_until(|list| list.contains("paused"));
    assert_eq!(stdout(&service.streams(&["resume", "guest"])), "resumed guest\n");
    let removed = stdout(&service.streams(&["remove", "guest"]));
    assert!(removed.starts_with("removed guest: "), "{removed}");
    service.wait_until(|list| !list.contains("guest"));

    service.drain();
    let folder = &service.folder;
    let report = report(&folder.path().join("report.json"));
    assert_eq!(report["removed_streams"]["streams"], 1);
    assert_eq!(report["requests"]["in_flight"], 0);
    assert_eq!(report["streams"]["steady"]["requests"]["dropped"], 0);
    let lines = std::fs::read_to_string(folder.path().join("guest.jsonl")).unwrap();
    assert!(lines.lines().count() > 1, "{lines}");
}

#[test]
fn clients_name_no_files_of_this_machine_and_no_variables() {
    let mut service = Service::start(&[]);
    let outside = tempfile::NamedTempFile::new().unwrap();
    let path = outside.path().display().to_string();
    refuses(
        &service.streams(&["add", "a", &path]),
        &["not one that clients may name", "--allow-any-source"],
    );
    refuses(
        &service.streams(&["add", "a", "file:///etc/hostname"]),
        &["not one that clients may name"],
    );
    refuses(
        &service.streams(&["add", "a", "rtsp://${HOME}/stream"]),
        &["HOME"],
    );
    refuses(
        &service.streams(&["add", "a", "nothing.mp4"]),
        &["no file or folder \"nothing.mp4\""],
    );
    refuses(
        &service.streams(&["add", "a b", "emulated:uniform?rate=1"]),
        &["cannot be a name"],
    );
    refuses(
        &service.streams(&["add", "a", "emulated:uniform?rate=1", "--mode", "fast"]),
        &["fast"],
    );
    service.drain();
}

#[test]
fn a_token_is_needed_where_others_reach_the_address_and_no_one_else_may_read_it() {
    let folder = folder();
    let serve = |args: &[&str]| {
        let mut weir = weir(folder.path());
        weir.args(["serve", "graph.toml", "--duration", "1s"])
            .args(args)
            .output()
            .unwrap()
    };
    refuses(
        &serve(&["--listen", "0.0.0.0:0"]),
        &["needs a token", "--token-file"],
    );
    let token = folder.path().join("token");
    std::fs::write(&token, "0123456789abcdef\n").unwrap();
    std::fs::set_permissions(&token, std::fs::Permissions::from_mode(0o644)).unwrap();
    refuses(&serve(&["--token-file", "token"]), &["644", "chmod 600"]);

    let own = folder.path().join("own");
    std::fs::write(&own, "0123456789abcdef\n").unwrap();
    std::fs::set_permissions(&own, std::fs::Permissions::from_mode(0o600)).unwrap();
    let own = own.display().to_string();
    let mut weir = weir(folder.path());
    let mut process = weir
        .args([
            "serve",
            "graph.toml",
            "--listen",
            "0.0.0.0:0",
            "--token-file",
            &own,
            "--report",
            "report.json",
        ])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = String::new();
    BufReader::new(process.stdout.take().unwrap())
        .read_line(&mut said)
        .unwrap();
    let port = said.trim().rsplit(':').next().unwrap().to_owned();
    let list = |args: &[&str]| {
        let mut weir = self::weir(folder.path());
        weir.args(["streams", "list", "--at", &format!("127.0.0.1:{port}")])
            .args(args)
            .output()
            .unwrap()
    };
    refuses(&list(&[]), &["needs a token", "Authorization"]);
    let with_token = || list(&["--token-file", &own]);
    for _ in 0..600 {
        if stdout(&with_token()).contains("steady") {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(stdout(&with_token()).contains("steady"));
    signal(&process, "-TERM");
    assert!(process.wait().unwrap().success());
}

#[test]
fn what_no_engine_answers_is_said() {
    let folder = folder();
    let list = weir(folder.path())
        .args(["streams", "list", "--at", "127.0.0.1:1"])
        .output()
        .unwrap();
    refuses(&list, &["no engine answers at 127.0.0.1:1", "weir serve"]);
}
