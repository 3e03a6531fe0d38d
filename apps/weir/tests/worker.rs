//! `weir worker` as its caller sees it: the address on standard output, one clear error, a clean end. Most
//! tests open no partition, so that any file may stand for ONNX Runtime; the last runs a model of the asset pack.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]
#![allow(clippy::print_stdout, reason = "a test that skips says so")]
#![allow(clippy::disallowed_methods, reason = "a test hands the clock in")]

use std::io::{BufRead, BufReader, Read};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use weir_flow::{DeviceKind, PartitionLoader, PartitionedModel, Tensor};
use weir_operators::{LayerChain, OnnxPartitionLoader, PartitionedOnnx};
use weir_partition::wire::{Address, BatchKey, LoadPartition, PartitionId};
use weir_partition::{Client, ClientOptions, Event, Stage, WorkerId};
use weir_planner::group_layers;
use weir_runtime::Clock;
use weir_types::{BatchId, ModuleId, Timestamp};

use crate::common::{self, asks_to_stop, refuses, signal};

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
    started(worker(arguments))
}

fn started(mut command: Command) -> (Running, String) {
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
    refuses(&output, &[word]);
    assert!(output.stdout.is_empty());
}

#[test]
fn it_says_where_it_listens_and_ends_when_it_is_asked_to() {
    for (asked, _) in asks_to_stop() {
        let (mut running, address) = start(&["--listen", "127.0.0.1:0", "--class", "p4", "--slowdown", "3"]);
        TcpStream::connect(&address).unwrap();
        refused(&["--listen", &address], "in use");

        signal(&running.0, asked);
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
        assert!(TcpStream::connect(&address).is_err(), "the port is closed");
    }
}

#[test]
fn a_name_is_as_good_as_an_address() {
    let (_running, address) = start(&["--listen", "localhost:0"]);
    assert!(address.starts_with("127.0.0.1:"), "{address}");
    let port = address.rsplit_once(':').unwrap().1;
    TcpStream::connect(format!("localhost:{port}")).unwrap();
}

#[test]
fn a_worker_that_other_machines_would_reach_is_refused_for_it_asks_nobody_who_they_are() {
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:7101"] {
        let refused = |arguments: &[&str]| {
            let output = worker(arguments).output().unwrap();
            refuses(
                &output,
                &[
                    address,
                    "other machines",
                    "--fleet FLEET.toml --node NAME",
                    "weir fleet keys",
                ],
            );
            assert!(output.stdout.is_empty(), "it listens nowhere");
        };
        refused(&["--listen", address]);
        refused(&["--listen", address, "--hops", "none"]);
    }
}

#[test]
fn hops_are_named_by_host_and_port() {
    refused(&["--listen", "127.0.0.1:0", "--hops", ","], "HOST:PORT");
    refused(
        &["--listen", "127.0.0.1:0", "--hops", "no-such-host.invalid:1"],
        "no-such-host.invalid",
    );
    for hops in ["none", "127.0.0.1:7102,localhost"] {
        let (mut running, _) = start(&["--listen", "127.0.0.1:0", "--hops", hops]);
        signal(&running.0, "-INT");
        assert!(running.0.wait().unwrap().success());
    }
}

#[test]
fn what_makes_no_worker_is_refused() {
    refused(&["--listen", "nowhere"], "HOST:PORT");
    refused(&["--listen", "no-such-host.invalid:1"], "cannot be found");
    refused(&["--listen", "127.0.0.1:0", "--shares", "0"], "0 is not in");
    refused(
        &["--listen", "127.0.0.1:0", "--slowdown", "0.5"],
        "slowdown is 1 to 1000",
    );
    refused(&["--listen", "127.0.0.1:0", "--bandwidth", "fast"], "200Mbps");
    refused(&["--listen", "127.0.0.1:0", "--core", "100000"], "core 100000");
}

/// YOLOX-nano in three blocks of about equal time.
fn three_blocks(assets: &Path) -> PartitionedOnnx {
    let bytes = std::fs::read(assets.join("models/yolox_nano_416.onnx")).unwrap();
    let chain = LayerChain::open("yolox-nano", &bytes, Some(416), 2).unwrap();
    let bytes = chain.boundary_bytes(true).unwrap();
    let legal = chain.boundaries().unwrap();
    let allowed: Vec<Option<u64>> = bytes
        .iter()
        .zip(legal)
        .map(|(bytes, legal)| legal.then_some(*bytes))
        .collect();
    // As if every layer took the same: what is tested is the path, not the balance.
    let starts = group_layers(&vec![1; chain.layer_count()], &allowed, 3);
    chain.partition(&starts).unwrap()
}

fn in_a_row(parts: &[Vec<u8>], mut tensors: Vec<Tensor>) -> Vec<Tensor> {
    for part in parts {
        let mut part = OnnxPartitionLoader::default()
            .load(part, DeviceKind::Cpu, true)
            .unwrap();
        tensors = part.run(tensors).unwrap();
    }
    tensors
}

#[test]
fn a_model_over_three_processes_gives_what_its_parts_give_in_a_row() {
    let (Some(assets), Ok(runtime)) = (
        std::env::var_os("WEIR_ASSETS").map(PathBuf::from),
        weir_operators::find_runtime(),
    ) else {
        println!("skipped: it needs WEIR_ASSETS and ONNX Runtime");
        return;
    };
    let blocked = three_blocks(&assets);
    let parts: Vec<Vec<u8>> = (0..3)
        .map(|block| blocked.partition(block..block + 1).unwrap())
        .collect();
    let mut inputs = blocked.layer_chain().blank_inputs(1);
    // Something to see: a ramp.
    let pixels = (0..inputs[0].data.len() / 4).flat_map(|at| ((at % 256) as f32).to_le_bytes());
    inputs[0].data = pixels.collect();
    let expected = in_a_row(&parts, inputs.clone());

    let workers = [(); 3].map(|()| {
        let mut command = worker(&["--listen", "127.0.0.1:0"]);
        command.env("ORT_DYLIB_PATH", &runtime);
        started(command)
    });
    let (sender, events) = std::sync::mpsc::channel();
    let clock = Clock::start();
    let client = Client::start(
        ClientOptions::default(),
        Arc::new(move || clock.now()),
        Box::new(move |event| drop(sender.send(event))),
    )
    .unwrap();
    let mut path = Vec::new();
    for (number, ((_, address), part)) in (0..).zip(workers.iter().zip(&parts)) {
        let load = LoadPartition {
            partition: PartitionId(number),
            plan: 1,
            shares: vec![0],
            half: true,
            batch: 1,
            declared: Vec::new(),
            model: Arc::new(part.clone()),
        };
        client.load(WorkerId(number), load);
        client
            .add(WorkerId(number), Address::Tcp(address.parse().unwrap()))
            .unwrap();
        path.push(Stage {
            worker: WorkerId(number),
            share: 0,
            partition: PartitionId(number),
            booked: Timestamp::ZERO,
            sent: Timestamp::ZERO,
        });
    }
    let next = || {
        events
            .recv_timeout(Duration::from_secs(60))
            .expect("an event comes")
    };
    let mut up = 0;
    while up < 3 {
        match next() {
            Event::Up { .. } => up += 1,
            Event::NotLoaded { reason, .. } => panic!("{reason}"),
            _ => {}
        }
    }
    let key = BatchKey {
        graph: 0,
        module: ModuleId(0),
        batch: BatchId(0),
    };
    client.run(key, 1, &path, inputs).unwrap();
    let (outputs, times) = loop {
        match next() {
            Event::Done { outputs, times, .. } => break (outputs, times),
            Event::Failed { failure, .. } => panic!("{failure}"),
            _ => {}
        }
    };
    println!("{times:?}");
    assert_eq!(outputs, expected);
}

/// A process opens the models that generate which it is sent, too.
#[test]
fn a_model_that_generates_runs_in_a_process() {
    let Ok(runtime) = weir_operators::find_runtime() else {
        println!("skipped: it needs ONNX Runtime");
        return;
    };
    let mut command = worker(&["--listen", "127.0.0.1:0"]);
    command.env("ORT_DYLIB_PATH", &runtime);
    let (_worker, address) = started(command);
    let folder = tempfile::tempdir().unwrap();
    let graph = format!(
        r#"
[app]
name = "words"
slo = "60s"
[sources.frames]
uri = "emulated:uniform?rate=100&frames=4&size=64x48"
mode = "lossless"
[workers.one]
class = "cpu"
address = "{address}"
[models.writer]
model = "embedded:scribe"
devices = ["worker:one"]
[modules.report]
operator = "describe"
model = "writer"
inputs = ["frames"]
template = "New: car."
max_tokens = 8
"#
    );
    let (path, report) = (
        folder.path().join("graph.toml"),
        folder.path().join("report.json"),
    );
    std::fs::write(&path, graph).unwrap();
    let ran = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args([
            "run",
            path.to_str().unwrap(),
            "--report",
            report.to_str().unwrap(),
        ])
        .env("ORT_DYLIB_PATH", &runtime)
        .output()
        .unwrap();
    assert!(ran.status.success(), "{}", common::stderr(&ran));
    let report = common::report(&report);
    assert_eq!(report["requests"]["delivered"], 4, "{report}");
    assert_eq!(
        report["modules"]["report"]["sequences"]["finished"], 4,
        "{report}"
    );
}
