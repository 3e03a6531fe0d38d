//! Benchmark of the engine's overhead: frames per second of a graph that only detects, relative to the limit
//! of the machine measured in the same run, and the microseconds of single decisions. `--decisions` skips the
//! frames and needs no assets.
//!
//! The limit is `cores / (decode + preprocess + inference + decode of outputs)`, where each part is timed
//! alone per frame on one thread. Rounds of both alternate, so that both see the same machine; the ratio is
//! of their medians.

#![allow(clippy::print_stdout, reason = "a benchmark prints what it measured")]
#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use weir_benches::pard;
use weir_flow::{Catalog, DeviceKind, Frame, Item, Model, Region, Settings, StopFlag, Value};
use weir_operators::media::{SourceOptions, source};
use weir_operators::{LoadRequest, ModelFile, OperatorRequest};
use weir_policy::{
    DropRule, Module, ModuleEffect, ModuleEvent, ModuleInfo, ModuleSpec, Policy, Pool, Queueing,
};
use weir_runtime::{Assembly, Pace, RunOptions};
use weir_types::{ModuleId, Profile, RequestId, SlotId, Span, StreamId, Timestamp, Topology};

const ROUNDS: usize = 3;
const BARE_FRAMES: usize = 200;
const STREAMS: usize = 4;

fn main() -> anyhow::Result<()> {
    decisions()?;
    if std::env::args().any(|word| word == "--decisions") {
        return Ok(());
    }
    let assets = std::env::var_os("WEIR_ASSETS")
        .map(PathBuf::from)
        .context("set WEIR_ASSETS to the asset pack")?;
    let clip = assets.join("videos/o4n_traffic_city_640x360.mp4");
    let model = detector(&assets)?;
    println!("detection only: YOLOX-nano on {STREAMS} streams of 640x360, as fast as they go, two workers");

    let cores = std::thread::available_parallelism()?.get().min(2);
    let (mut limits, mut rates) = (Vec::new(), Vec::new());
    for round in 1..=ROUNDS {
        let bare = measure_steps(&clip, &model)?;
        let limit = cores as f64 / bare.total().as_secs_f64();
        let rate = engine(&clip, &model)?;
        println!(
            "round {round}: bare {bare}: limit {limit:.1}/s; engine {rate:.1}/s; ratio {:.3}",
            rate / limit
        );
        limits.push(limit);
        rates.push(rate);
    }
    println!(
        "ratio of medians: {:.3}",
        median(&mut rates) / median(&mut limits)
    );

    Ok(())
}

/// Single decisions, and what PARD's cost beside the paper's figures (its section 5.4).
fn decisions() -> anyhow::Result<()> {
    println!("DEPQ push and pop at depth 10,000: {:.3} us", pard::depq(10_000));
    println!(
        "one broker decision (arrival, bid, grant, bind, run, finish of one request): {:.3} us",
        decision()
    );
    println!(
        "one hop between an actor and a worker: {:.2} us",
        weir_runtime::measure_message_latency(20_000)?.micros() as f64
    );
    println!("four modules of four workers each, 1.2 of capacity, PARD:");
    for (queueing, label) in [
        (Queueing::Recent, "states once a second (the paper)"),
        (Queueing::Present, "states as queues move"),
    ] {
        let found = pard::overheads(queueing);
        println!("  {label}:");
        println!(
            "    {:.0} bytes a state, {:.0} bytes a second and module to each other: {:.2} Kbps a worker (paper: < 3.2)",
            found.state_bytes, found.state_bytes_a_second, found.kbps_a_worker
        );
        println!(
            "    DEPQ: {:.1} wait in a mailbox; put and get {:.3} us, in four modules {:.5} % of the median latency of \
             {:.0} ms (paper: < 0.16 %)",
            found.queue,
            found.put_and_get_us,
            found.depq_share * 100.0,
            found.latency_ms
        );
        println!(
            "    broker with all that the simulator does around it: {:.2} us a request and module, {:.4} % of latency",
            found.step_us_most,
            4.0 * found.step_us_most / (found.latency_ms * 1e3) * 100.0
        );
        println!(
            "    planner: downstream estimate {:.0} us, summary of 10,000 waits {:.0} us: {:.3} % of a core a module",
            found.downstream_us,
            found.sketch_us,
            found.planner_share * 100.0
        );
    }
    Ok(())
}

fn detector(assets: &Path) -> anyhow::Result<Arc<dyn Model>> {
    let labels = Value::Texts(vec!["coco".to_owned()]);
    let settings = Settings([("labels".to_owned(), labels)].into());
    let request = LoadRequest {
        name: "detector",
        file: ModelFile::Path(assets.join("models/yolox_nano_416.onnx")),
        head: "yolox",
        settings: &settings,
        max_batch: 1,
        dump: None,
    };
    Ok(weir_operators::load(&request)?)
}

/// Time of one frame, by step.
struct StepTimes {
    decode: Duration,
    prepare: Duration,
    infer: Duration,
    outputs: Duration,
}

impl StepTimes {
    fn total(&self) -> Duration {
        self.decode + self.prepare + self.infer + self.outputs
    }
}

impl std::fmt::Display for StepTimes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ms = |step: Duration| step.as_secs_f64() * 1e3;
        let (decode, prepare) = (ms(self.decode), ms(self.prepare));
        write!(
            f,
            "decode {decode:.2} + preprocess {prepare:.2} + inference {:.2} + outputs {:.3} ms",
            ms(self.infer),
            ms(self.outputs)
        )
    }
}

/// Each step alone, on this thread.
fn measure_steps(clip: &Path, model: &Arc<dyn Model>) -> anyhow::Result<StepTimes> {
    let factory = source(&clip.to_string_lossy(), SourceOptions::default());
    let mut opened = factory.open(&StopFlag::default())?;
    let mut frames: Vec<Arc<Frame>> = Vec::new();
    let began = Instant::now();
    while frames.len() < BARE_FRAMES {
        let Some(frame) = opened.next()? else { break };
        frames.push(Arc::new(frame));
    }
    let decode = began.elapsed();
    let mut session = model.open(DeviceKind::Cpu)?;
    for _ in 0..5 {
        session.warm_up(1)?;
    }
    let mut steps = [Duration::ZERO; 3];
    for frame in &frames {
        let items = [Item {
            frame: Arc::clone(frame),
            region: Region::Whole,
            object: None,
            class: None,
        }];
        let mut last = Instant::now();
        let mut step = 0;
        session.run(&items, &mut |_| {
            let now = Instant::now();
            steps[step] += now - last;
            last = now;
            step += 1;
        })?;
    }
    let frames = frames.len() as u32;
    let [prepare, infer, outputs] = steps.map(|step| step / frames);
    Ok(StepTimes {
        decode: decode / frames,
        prepare,
        infer,
        outputs,
    })
}

/// Frames a second of the whole engine.
fn engine(clip: &Path, model: &Arc<dyn Model>) -> anyhow::Result<f64> {
    let catalog = Catalog {
        operators: weir_operators::operators(),
        heads: weir_operators::heads(),
        ..Catalog::default()
    };
    let mut text = "[app]\nname = \"overhead\"\nslo = \"1s\"\n[devices.cpu]\nslots = 2\n".to_owned();
    let names: Vec<String> = (0..STREAMS).map(|stream| format!("camera-{stream}")).collect();
    for name in &names {
        text += &format!(
            "[sources.{name}]\nuri = {:?}\nmode = \"lossless\"\n",
            clip.to_string_lossy()
        );
    }
    text += &format!(
        "[models.detector]\nmodel = {:?}\nhead = \"yolox\"\nlabels = [\"coco\"]\n[modules.detect]\noperator = \"detect\"\n\
         model = \"detector\"\ninputs = {names:?}\n",
        clip.with_file_name("../models/yolox_nano_416.onnx")
            .to_string_lossy()
    );
    let graph = weir_graph::parse(&text, Path::new("overhead.toml"), &catalog, &|_| None)?;
    let operator = weir_operators::operator(&OperatorRequest {
        operator: "detect",
        regions: &[],
        settings: &Settings::default(),
        model: None,
    })?;
    let sources = (0..STREAMS).map(|_| Some(source(&clip.to_string_lossy(), SourceOptions::default())));
    let assembly = Assembly {
        partitioning: None,
        next_gears: None,
        sources: sources.collect(),
        models: vec![Some(Arc::clone(model))],
        operators: vec![Some(operator)],
        sinks: Vec::new(),
        graph,
    };
    let options = RunOptions {
        pace: Pace::Max,
        ..RunOptions::default()
    };
    let report = weir_runtime::run(assembly, &options, &StopFlag::default())?;
    let out = report.requests.delivered + report.requests.late;
    anyhow::ensure!(
        out == report.requests.arrived,
        "frames were lost: {:?}",
        report.requests
    );
    Ok(out as f64 / report.run.duration_s)
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Microseconds of everything that a module decides about one request from arrival to completion.
fn decision() -> f64 {
    let profile = Profile::new(vec![(1, Span::from_millis(8))]).unwrap_or_else(|| unreachable!("one point"));
    let slot = SlotId(0);
    let mut module = Module::new(ModuleSpec {
        ends: Vec::new(),
        generate: None,
        id: ModuleId(0),
        slo: Span::from_millis(400),
        policy: Policy {
            drop: DropRule::default(),
            ..Policy::default()
        },
        slots: vec![slot],
        pool: Pool::Shared,
        batch: vec![1],
        profile: profile.clone(),
        topology: Topology::new(vec![Vec::new()]),
        peers: vec![ModuleInfo {
            profile: profile.clone(),
            batch: vec![1],
            workers: 1,
            fallback: weir_policy::gears::Fallback::Never,
        }],
        share: 1.0,
        shares: Vec::new(),
        seed: 1,
        overlap: None,
    });
    let mut effects = Vec::new();
    let times = 200_000_u64;
    let began = Instant::now();
    for number in 0..times {
        let now = Timestamp::from_micros(number * 10_000);
        let request = RequestId(number);
        effects.clear();
        let arrived = ModuleEvent::Arrived {
            stream: StreamId(0),
            request,
            sent_at: now,
            items: 1,
            droppable: true,
            slo: None,
        };
        module.step([arrived], now, &mut effects);
        module.step([ModuleEvent::Granted { slot }], now, &mut effects);
        let batch = effects.iter().find_map(|effect| match effect {
            ModuleEffect::Run { batch, .. } => Some(*batch),
            _ => None,
        });
        if let Some(batch) = batch {
            let took = Span::from_millis(8);
            module.step([ModuleEvent::Finished { batch, took }], now + took, &mut effects);
        }
        std::hint::black_box(&effects);
    }
    began.elapsed().as_secs_f64() * 1e6 / times as f64
}
