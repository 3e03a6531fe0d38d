//! Traffic monitoring with its detector partitioned over three worker processes of two classes, at a fraction
//! of the planned load. One worker is killed half way and started again. Prints the share of frames in time
//! before, during and after its absence, and the difference between reservations and actual times.
//!
//! ```text
//! WEIR_ASSETS=DIR partitioned [--seconds 60] [--load 0.9] [--no-kill] [--fleet] [--turns N] [--out DIR]
//! ```
//!
//! With `--fleet` the four processes are nodes of a fleet with certificates (this needs a program with the
//! feature `fleet`); without it they use plain TCP. With `--turns N` both are run N times in turn with one
//! plan, without a fault, and compared.
//!
//! Uses the program `weir` beside this one for profiles, plans and runs. The workers' classes are emulated:
//! partitions run, and shares then stay occupied until the time of the class is over.

#![allow(clippy::print_stdout, reason = "a benchmark prints what it measured")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use weir_planner::Plan;
use weir_policy::Report;

const CLIP: &str = "videos/o4n_traffic_city_640x360.mp4";
const FPS: f64 = 30_000.0 / 1_001.0;
const MODEL: &str = "models/yolox_nano_416.dynbatch.onnx";
/// Name, class, and the part of the run's variables that names its address.
const WORKERS: [(&str, &str, &str); 3] = [
    ("fast", "fast", "WEIR_WORKER_FAST"),
    ("slow-a", "slow", "WEIR_WORKER_SLOW_A"),
    ("slow-b", "slow", "WEIR_WORKER_SLOW_B"),
];
/// The engine as a node of a fleet.
const ENGINE: &str = "engine";
/// Device classes, each with its slowdown relative to this machine.
const CLASSES: [(&str, &str); 2] = [("fast", "3"), ("slow", "6")];
/// Share of the frames in time that may be lost by using a fleet's connections.
const MAX_LOSS: f64 = 0.03;
/// Least share of frames in time, without a fault.
const MIN_ATTAINMENT: f64 = 0.99;

struct Options {
    seconds: u64,
    load: f64,
    kill: bool,
    fleet: bool,
    /// Number of alternating runs over both kinds of connections; 0: a single run over one of them.
    turns: usize,
    out: PathBuf,
}

fn parse_args() -> anyhow::Result<Options> {
    let mut options = Options {
        seconds: 60,
        load: 0.9,
        kill: true,
        fleet: false,
        turns: 0,
        out: PathBuf::from("out/partitioned"),
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().with_context(|| format!("{word} needs a value"));
        match word.as_str() {
            "--seconds" => options.seconds = value()?.parse().context("--seconds takes a whole number")?,
            "--load" => options.load = value()?.parse().context("--load takes a number")?,
            "--out" => options.out = value()?.into(),
            "--no-kill" => options.kill = false,
            "--fleet" => options.fleet = true,
            "--turns" => options.turns = value()?.parse().context("--turns takes a whole number")?,
            other => bail!(
                "there is no {other}; there are --seconds, --load, --out, --no-kill, --fleet and --turns"
            ),
        }
    }
    Ok(options)
}

/// A worker process; it ends with this.
struct Worker {
    child: Child,
    class: &'static str,
    address: String,
}

impl Worker {
    /// Starts a worker at an address, or as a node of the fleet described by this file.
    fn start(weir: &Path, class: &'static str, address: &str, fleet: Option<&Path>) -> anyhow::Result<Self> {
        let mut command = Command::new(weir);
        command.args(["worker", "--class", class]);
        match (fleet, address.strip_prefix("node:")) {
            (Some(fleet), Some(node)) => command.arg("--fleet").arg(fleet).args(["--node", node]),
            _ => command.args(["--listen", address]),
        };
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().context("cannot start a worker")?;
        let mut said = String::new();
        let output = child.stdout.take().context("a worker has no output")?;
        std::io::BufRead::read_line(&mut std::io::BufReader::new(output), &mut said)?;
        let address = said.trim().rsplit(' ').next().unwrap_or_default().to_owned();
        Ok(Self {
            child,
            class,
            address,
        })
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            println!("partitioned: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> anyhow::Result<bool> {
    let options = parse_args()?;
    let assets = std::env::var_os("WEIR_ASSETS").context("set WEIR_ASSETS to the asset pack's folder")?;
    let assets = PathBuf::from(assets);
    let weir = std::env::current_exe()?.with_file_name("weir");
    std::fs::create_dir_all(&options.out)?;
    let out = std::fs::canonicalize(&options.out)?;
    let plan = make_plan(&weir, &assets, &out)?;
    let throughput = plan.solution.models.first().map_or(0.0, |model| model.throughput);
    let rate = throughput * options.load;
    println!(
        "planned: {throughput:.1} frames/s; offered: {rate:.1} ({:.2} of it)",
        options.load
    );
    let bench = Bench {
        weir,
        assets,
        out,
        rate,
        seconds: options.seconds,
    };
    if options.turns > 0 {
        return bench.compare(options.turns);
    }
    let report = bench.drive(options.fleet, options.kill)?;
    bench.print_result(&report, options.kill)
}

/// Paths and load that all runs share; `out` contains the plan.
struct Bench {
    weir: PathBuf,
    assets: PathBuf,
    out: PathBuf,
    /// Number of frames offered per second.
    rate: f64,
    seconds: u64,
}

impl Bench {
    /// Runs over both kinds of connections in turn and prints the results. Returns true if the fleet's loss
    /// relative to TCP is within `MAX_LOSS`.
    fn compare(&self, turns: usize) -> anyhow::Result<bool> {
        let mut in_time_per_s = [0.0; 2];
        for turn in 1..=turns {
            for (fleet, name) in [(false, "TCP"), (true, "fleet")] {
                let report = self.drive(fleet, false)?;
                let frames = in_time(&self.events())?.len() as f64 / self.seconds as f64;
                in_time_per_s[usize::from(fleet)] += frames / turns as f64;
                let (counts, latency) = (report.requests, report.latency_ms);
                println!(
                    "turn {turn}, {name}: {frames:.2} frames/s in time, p50 {:.0} ms, p99 {:.0} ms; {} arrived = {} delivered + {} late + \
                     {} dropped + {} in flight",
                    latency.p50,
                    latency.p99,
                    counts.arrived,
                    counts.delivered,
                    counts.late,
                    counts.dropped,
                    counts.in_flight
                );
            }
        }
        let [tcp, fleet] = in_time_per_s;
        let loss = 1.0 - fleet / tcp;
        println!(
            "TCP {tcp:.2}, fleet {fleet:.2} frames/s in time: {:+.2} %",
            -100.0 * loss
        );
        Ok(loss <= MAX_LOSS)
    }

    fn events(&self) -> PathBuf {
        self.out.join("events.jsonl")
    }

    /// Half of the run, and how long a worker is away then, in seconds.
    fn outage(&self) -> (u64, u64) {
        (self.seconds / 2, (self.seconds / 6).max(1))
    }

    /// Runs once over one of the wires.
    fn drive(&self, fleet: bool, kill: bool) -> anyhow::Result<Report> {
        let fleet = if fleet {
            Some(make_fleet(&self.weir, &self.out)?)
        } else {
            None
        };
        let mut workers: Vec<Worker> = Vec::new();
        for (name, class, _) in WORKERS {
            let address = match fleet {
                Some(_) => format!("node:{name}"),
                None => "127.0.0.1:0".to_owned(),
            };
            workers.push(Worker::start(&self.weir, class, &address, fleet.as_deref())?);
        }
        let report = self.out.join("report.json");
        let mut replay = Command::new(&self.weir);
        replay
            .args(["replay", "apps/traffic-monitoring/partitioned.toml"])
            .arg(self.assets.join(CLIP))
            .args(["--loop", "--speed", &format!("{:.4}", self.rate / FPS)])
            .args(["--duration", &format!("{}s", self.seconds)])
            .arg("--out")
            .arg(&self.out)
            .arg("--report")
            .arg(&report)
            .env("WEIR_MODEL_MIRROR", self.assets.join("models"))
            .env("WEIR_PLAN", self.out.join("plan.toml"));
        if let Some(fleet) = &fleet {
            replay.arg("--fleet").arg(fleet).args(["--node", ENGINE]);
        }
        for ((_, _, variable), worker) in WORKERS.iter().zip(&workers) {
            replay.env(variable, &worker.address);
        }
        let _ = std::fs::remove_file(self.events());
        let mut replay = replay.spawn().context("cannot start weir replay")?;
        // Frames are counted from the first: a run takes a moment to load its models.
        await_first(&self.events(), &mut replay)?;
        if kill {
            self.kill_and_start_again(&mut workers, fleet.as_deref())?;
        }
        if !replay.wait()?.success() {
            bail!("weir replay failed");
        }
        Ok(serde_json::from_slice(&std::fs::read(&report)?)?)
    }

    fn kill_and_start_again(&self, workers: &mut Vec<Worker>, fleet: Option<&Path>) -> anyhow::Result<()> {
        let (half, away) = self.outage();
        std::thread::sleep(Duration::from_secs(half));
        let Some(lost) = workers.pop() else {
            bail!("there is no worker to kill")
        };
        let (class, address) = (lost.class, lost.address.clone());
        drop(lost);
        println!("killed {} after {half} s", WORKERS[2].0);
        std::thread::sleep(Duration::from_secs(away));
        workers.push(Worker::start(&self.weir, class, &address, fleet)?);
        println!("started it again {away} s later");
        Ok(())
    }

    /// Prints the results of a run; returns false if they miss a requirement.
    fn print_result(&self, report: &Report, kill: bool) -> anyhow::Result<bool> {
        let counts = report.requests;
        println!(
            "{} arrived = {} delivered + {} late + {} dropped + {} in flight",
            counts.arrived, counts.delivered, counts.late, counts.dropped, counts.in_flight
        );
        for drop in &report.drops {
            println!("  {}: {} {:?}", drop.module, drop.count, drop.reason);
        }
        if let Some(reservations) = &report.reservations {
            let latency = report.latency_ms;
            println!("latency: p50 {:.0} ms, p99 {:.0} ms", latency.p50, latency.p99);
            println!(
                "reserved against actual ends of {} batches: {:+.2} ms in the mean, apart {:.2} ms, p99 {:.2} ms; {} lost, {} failed",
                reservations.finished,
                reservations.error_mean_ms,
                reservations.apart_mean_ms,
                reservations.apart_ms.p99,
                reservations.lost,
                reservations.failed
            );
            for (name, worker) in &reservations.workers {
                let emulated = if worker.emulated { "emulated" } else { "as it is" };
                println!(
                    "  {name} ({}, {emulated}): {} batches, busy {:.1} s, lost {} times",
                    worker.class, worker.runs, worker.busy_s, worker.downs
                );
            }
        }
        let frames = in_time(&self.events())?;
        let share = |from: u64, to: u64| {
            let within = |frame: &&u64| (from as f64..to as f64).contains(&(**frame as f64 / self.rate));
            let offered = self.rate * (to - from) as f64;
            frames.iter().filter(within).count() as f64 / offered
        };
        let (end, (half, away)) = (self.seconds, self.outage());
        if !kill {
            let whole = share(0, end);
            println!("in time: {:.2} %", 100.0 * whole);
            return Ok(whole >= MIN_ATTAINMENT);
        }
        let before = share(0, half);
        println!("in time before: {:.2} %", 100.0 * before);
        println!(
            "in time while one worker was away: {:.2} %",
            100.0 * share(half, half + away)
        );
        println!("in time after: {:.2} %", 100.0 * share(half + away, end));
        let accounted = counts.arrived == counts.delivered + counts.late + counts.dropped + counts.in_flight;
        Ok(before >= MIN_ATTAINMENT && accounted && counts.in_flight == 0)
    }
}

/// Certificates and the file of a fleet of this machine; gives the file.
fn make_fleet(weir: &Path, out: &Path) -> anyhow::Result<PathBuf> {
    let keys = out.join("keys");
    let _ = std::fs::remove_dir_all(&keys);
    let names = WORKERS.map(|(name, ..)| (name, "worker"));
    let names = names.into_iter().chain([(ENGINE, "engine")]);
    let mut make = Command::new(weir);
    make.args(["fleet", "keys"]).arg(&keys).stdout(Stdio::null());
    let mut text = "[fleet]\nname = \"bench\"\ncertificates = \"keys\"\n".to_owned();
    for (name, kind) in names {
        make.args(["--node", &format!("{name}=127.0.0.1")]);
        let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        text += &format!("[nodes.{name}]\nkind = \"{kind}\"\naddress = \"127.0.0.1:{port}\"\n");
    }
    run_to_success(&mut make)?;
    let file = out.join("fleet.toml");
    std::fs::write(&file, text)?;
    Ok(file)
}

/// Text that occurs only in event lines of delivered frames.
const FRAME: &str = r#""type":"frame""#;

/// Waits until the first frame is delivered.
fn await_first(events: &Path, replay: &mut Child) -> anyhow::Result<()> {
    while !std::fs::read_to_string(events).is_ok_and(|text| text.contains(FRAME)) {
        if let Some(ended) = replay.try_wait()? {
            bail!("weir replay ended before it had begun: {ended}");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Profiles the model for both classes, and plans.
fn make_plan(weir: &Path, assets: &Path, out: &Path) -> anyhow::Result<Plan> {
    let profile = out.join("profile.toml");
    let _ = std::fs::remove_file(&profile);
    for (class, slower) in CLASSES {
        let mut command = Command::new(weir);
        command.arg("profile").arg(assets.join(MODEL));
        command.args([
            "--head",
            "yolox",
            "--blocks",
            "10",
            "--batches",
            "1,2",
            "--class",
            class,
        ]);
        command.args(["--slower", slower, "--out"]).arg(&profile);
        run_to_success(command.env("WEIR_MODEL_MIRROR", assets.join("models")))?;
    }
    let plan = out.join("plan.toml");
    let mut command = Command::new(weir);
    command
        .args([
            "plan",
            "config/plans/partitioned-detector.toml",
            "--explain",
            "--out",
        ])
        .arg(&plan);
    run_to_success(command.env("WEIR_PROFILE", &profile))?;
    weir_graph::planning::read_plan(&plan).map_err(anyhow::Error::msg)
}

fn run_to_success(command: &mut Command) -> anyhow::Result<()> {
    if command.status().context("cannot start weir")?.success() {
        Ok(())
    } else {
        bail!("{command:?} failed")
    }
}

/// Numbers of the frames that were delivered; of a live stream those are in time.
fn in_time(events: &Path) -> anyhow::Result<Vec<u64>> {
    let text = std::fs::read_to_string(events).context("cannot read the events")?;
    let number = |line: &str| -> anyhow::Result<u64> {
        let event: serde_json::Value = serde_json::from_str(line)?;
        event["frame"].as_u64().context("an event has no frame number")
    };
    text.lines()
        .filter(|line| line.contains(FRAME))
        .map(number)
        .collect()
}
