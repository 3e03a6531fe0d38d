//! `weir serve` in a folder of its own, and what asks it.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use super::{signal, stderr, stdout};

/// One stream through one module on an emulated device.
pub(crate) const GRAPH: &str = r#"
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

/// File for the standard error of the program, in its folder; a pipe without a reader would fill up and block
/// the program.
const ERRORS: &str = "weir.err";

/// No answer takes longer: the API bounds each request to half of it.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// The program, in `folder`, without what the environment would add.
pub(crate) fn weir(folder: &Path) -> Command {
    let mut weir = Command::new(env!("CARGO_BIN_EXE_weir"));
    weir.current_dir(folder)
        .env("XDG_STATE_HOME", folder.join("state"))
        .env_remove("STATE_DIRECTORY")
        .env_remove("RUST_LOG")
        .env_remove("WEIR_API_TOKEN");
    weir
}

/// A folder with [`GRAPH`] in it.
pub(crate) fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("graph.toml"), GRAPH).unwrap();
    folder
}

/// An engine that serves; it is killed when this is dropped before it was drained.
pub(crate) struct Service {
    pub(crate) folder: TempDir,
    /// Until it is stopped.
    process: Option<Child>,
    /// Address of its API on this machine.
    pub(crate) at: String,
}

impl Drop for Service {
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

impl Service {
    /// Serves [`GRAPH`] on loopback, and waits until its stream is live.
    pub(crate) fn start(args: &[&str]) -> Self {
        let service = Self::start_in(folder(), "127.0.0.1:0", args);
        // It answers before the engine is ready; the head of the list has a column `delivered`.
        service.wait_until(|list| list.contains(" live "));
        service
    }

    /// Serves the graph in `folder`; returns when it says that it listens: the graph has started.
    pub(crate) fn start_in(folder: TempDir, listen: &str, args: &[&str]) -> Self {
        let errors = File::create(folder.path().join(ERRORS)).unwrap();
        let mut process = weir(folder.path())
            .args([
                "serve",
                "graph.toml",
                "--listen",
                listen,
                "--report",
                "report.json",
            ])
            .args(args)
            .stdout(Stdio::piped())
            .stderr(errors)
            .spawn()
            .unwrap();
        let mut said = String::new();
        let mut lines = BufReader::new(process.stdout.take().unwrap());
        lines.read_line(&mut said).unwrap();
        let port = said.trim().rsplit(':').next().unwrap();
        let service = Self {
            folder,
            process: Some(process),
            at: format!("127.0.0.1:{port}"),
        };
        assert!(said.starts_with("listening on http://"), "{said}");
        service
    }

    /// `weir streams` with these arguments.
    pub(crate) fn streams(&self, args: &[&str]) -> Output {
        let mut weir = weir(self.folder.path());
        weir.arg("streams")
            .args(args)
            .args(["--at", &self.at])
            .output()
            .unwrap()
    }

    /// Sends a request as it is; gives the status of the answer, 0 where there is none, and its body. With `closes` no more
    /// follows: a server that waits for the rest need not.
    pub(crate) fn send(&self, request: &[u8], closes: bool) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.at).unwrap();
        stream.set_read_timeout(Some(ANSWER_TIMEOUT)).unwrap();
        // A server that refuses may close before it has read all.
        let _ = stream.write_all(request);
        if closes {
            let _ = stream.shutdown(Shutdown::Write);
        }
        let mut answer = Vec::new();
        let read = stream.read_to_end(&mut answer);
        let hangs = read.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock);
        assert!(!hangs, "no end of the answer to {}", request.escape_ascii());
        let answer = String::from_utf8_lossy(&answer);
        let answer = answer.trim_start_matches("HTTP/1.1 100 Continue\r\n\r\n");
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((answer, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        (status.unwrap_or(0), body.to_owned())
    }

    /// A request without more than it needs.
    pub(crate) fn ask(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
            self.at,
            body.len()
        );
        self.send(request.as_bytes(), false)
    }

    /// Sends SIGHUP, on which the program reloads its graph.
    pub(crate) fn hang_up(&self) {
        signal(self.process.as_ref().unwrap(), "-HUP");
    }

    /// Stands still until it goes on.
    #[cfg(feature = "fleet")]
    pub(crate) fn stand_still(&self) {
        signal(self.process.as_ref().unwrap(), "-STOP");
    }

    /// After [`Service::stand_still`].
    #[cfg(feature = "fleet")]
    pub(crate) fn go_on(&self) {
        signal(self.process.as_ref().unwrap(), "-CONT");
    }

    /// Asks it to end, which it does without an error.
    pub(crate) fn drain(&mut self) {
        let mut process = self.process.take().unwrap();
        signal(&process, "-TERM");
        let status = process.wait().unwrap();
        let errors = std::fs::read_to_string(self.folder.path().join(ERRORS));
        assert!(status.success(), "{}", errors.unwrap_or_default());
    }

    /// Waits until the list of streams is as it should be.
    pub(crate) fn wait_until(&self, holds: impl Fn(&str) -> bool) {
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
