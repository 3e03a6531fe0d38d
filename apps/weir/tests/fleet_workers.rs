//! Partitions of a model on workers that are nodes of a fleet, with certificates: one is killed and comes back, and every frame is
//! accounted for.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]
#![allow(clippy::disallowed_methods, reason = "a test that waits gives up at last")]
#![allow(clippy::print_stderr, reason = "a test that skips says so")]

use std::fmt::Write;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::{self, refuses, report, stderr};

const WORKERS: [(&str, &str); 3] = [("fast", "fast"), ("slow-a", "slow"), ("slow-b", "slow")];
const ENGINE: &str = "north";
/// Far longer than anything takes.
const PATIENCE: Duration = Duration::from_secs(180);

/// A process that ends with its test.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A folder with the graph, the fleet and its certificates.
struct Site {
    folder: tempfile::TempDir,
    runtime: PathBuf,
}

impl Site {
    /// `None` where there is no ONNX Runtime, without which no worker begins.
    fn new() -> Option<Self> {
        let runtime = weir_operators::find_runtime();
        let runtime = runtime.inspect_err(|error| eprintln!("skipped: {error}")).ok()?;
        let site = Self {
            folder: tempfile::tempdir().unwrap(),
            runtime,
        };
        let config = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config");
        let mut graph = std::fs::read_to_string(config.join("emulated-partitioned.toml")).unwrap();
        let mut fleet = "[fleet]\nname = \"site\"\ncertificates = \"keys\"\n".to_owned();
        let mut keys = site.weir(&["fleet", "keys", "keys"]);
        for (name, kind) in WORKERS
            .map(|(name, _)| (name, "worker"))
            .into_iter()
            .chain([(ENGINE, "engine")])
        {
            let table = format!("[workers.{name}]\n");
            graph = graph.replace(&table, &format!("{table}address = \"node:{name}\"\n"));
            let port = TcpListener::bind("127.0.0.1:0")
                .unwrap()
                .local_addr()
                .unwrap()
                .port();
            write!(
                fleet,
                "[nodes.{name}]\nkind = \"{kind}\"\naddress = \"127.0.0.1:{port}\"\n"
            )
            .unwrap();
            keys.args(["--node", &format!("{name}=127.0.0.1")]);
        }
        graph += "[sinks.events]\ntype = \"jsonl\"\npath = \"events.jsonl\"\ninputs = [\"classify\"]\n";
        let plan = config.join("emulated-partitioned.plan.toml");
        std::fs::copy(plan, site.path("emulated-partitioned.plan.toml")).unwrap();
        std::fs::write(site.path("graph.toml"), graph).unwrap();
        std::fs::write(site.path("fleet.toml"), fleet).unwrap();
        assert!(keys.output().unwrap().status.success());
        Some(site)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn weir(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command.args(arguments).current_dir(self.folder.path());
        command
            .env("ORT_DYLIB_PATH", &self.runtime)
            .env_remove("RUST_LOG");
        command
    }

    fn worker(&self, number: usize) -> Process {
        let (name, class) = WORKERS[number];
        let mut command = self.weir(&[
            "worker",
            "--fleet",
            "fleet.toml",
            "--node",
            name,
            "--class",
            class,
        ]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut said = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut said)
            .unwrap();
        assert_eq!(said.trim(), format!("listening on node:{name}"));
        Process(child)
    }

    fn delivered(&self) -> usize {
        let text = std::fs::read_to_string(self.path("events.jsonl")).unwrap_or_default();
        text.lines()
            .filter(|line| line.contains("\"type\":\"frame\""))
            .count()
    }

    /// Waits until so many more frames came out.
    fn wait_for_more(&self, what: &str, count: usize) {
        let (begin, before) = (Instant::now(), self.delivered());
        while self.delivered() < before + count {
            assert!(begin.elapsed() < PATIENCE, "no frames {what}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

#[test]
fn every_frame_is_accounted_for_while_a_worker_is_killed_and_comes_back() {
    let Some(site) = Site::new() else { return };
    let mut workers: Vec<Process> = (0..3).map(|number| site.worker(number)).collect();
    let mut run = site.weir(&[
        "run",
        "graph.toml",
        "--report",
        "report.json",
        "--fleet",
        "fleet.toml",
    ]);
    let run = run
        .args(["--node", ENGINE])
        .env("RATE", "60")
        .stderr(Stdio::piped());
    let mut run = Process(run.spawn().unwrap());
    site.wait_for_more("at first", 60);
    workers.pop();
    site.wait_for_more("while one of two slow workers is away", 60);
    workers.push(site.worker(2));
    site.wait_for_more("after it is back", 120);
    common::signal(&run.0, "-INT");
    assert!(run.0.wait().unwrap().success());
    let report = report(&site.path("report.json"));
    let count = |name: &str| report["requests"][name].as_u64().unwrap();
    assert_eq!(count("in_flight"), 0);
    assert_eq!(
        count("arrived"),
        count("delivered") + count("late") + count("dropped")
    );
    let workers = &report["reservations"]["workers"];
    assert!(workers["slow-b"]["downs"].as_u64().unwrap() >= 1, "{workers}");
    for (name, _) in WORKERS {
        assert!(workers[name]["runs"].as_u64().unwrap() > 0, "{name}: {workers}");
    }
}

#[test]
fn what_makes_no_node_is_refused() {
    let Some(site) = Site::new() else { return };
    let refused = |arguments: &[&str], words: &[&str]| {
        let output = site.weir(arguments).output().unwrap();
        refuses(&output, words);
    };
    let worker = ["worker", "--fleet", "fleet.toml", "--node"];
    refused(&[&worker[..], &[ENGINE]].concat(), &["as an engine", "a worker"]);
    refused(
        &[&worker[..], &["nobody"]].concat(),
        &["no such node", "fast, slow-a, slow-b"],
    );
    refused(&worker[..3], &["--node"]);
    refused(&["worker", "--class", "fast"], &["--listen"]);
    let run = ["run", "graph.toml", "--duration", "1s"];
    refused(&run, &["node:fast", "--fleet"]);
    refused(
        &[&run[..], &["--fleet", "fleet.toml", "--node", "fast"]].concat(),
        &["as a worker"],
    );
    let plain = site.path("plain.toml");
    let source = "[sources.camera]\nuri = \"emulated:uniform?rate=5\"\n";
    let text = format!(
        "[app]\nname = \"plain\"\nslo = \"1s\"\n{source}[devices.\"emulated:a\"]\nslots = 1\n\
         [models.any]\ndevice = \"emulated:a\"\nprofile = {{ \"1\" = \"1ms\" }}\n\
         [modules.find]\noperator = \"emulate\"\nmodel = \"any\"\ninputs = [\"camera\"]\n"
    );
    std::fs::write(plain, text).unwrap();
    let run = [
        "run",
        "plain.toml",
        "--duration",
        "1s",
        "--fleet",
        "fleet.toml",
        "--node",
        ENGINE,
    ];
    refused(&run, &["no model with a plan"]);
    std::fs::remove_file(site.path("keys/fast.key")).unwrap();
    let output = site.weir(&[&worker[..], &["fast"]].concat()).output().unwrap();
    assert!(stderr(&output).contains("fast.key"), "{}", stderr(&output));
}
