//! What cascades and gears cost: a decision on the gear, and cascades beside graphs without one that do the same work.
//!
//! ```text
//! cascades [--frames 3000] [--rounds 9]
//! ```
//!
//! Models are loops of fixed length on as many slots as there are cores, about 1 ms the small one and 2 ms the large one, so
//! that what the engine takes shows in frames a second. Graphs that are compared run one after the other in each round, so
//! that both see the same machine; the cost is the median of the rounds' ratios. A cascade may cost 2 %, and a decision 1 us;
//! beyond that the program ends with 1.

#![allow(clippy::print_stdout, reason = "a benchmark prints what it measured")]
#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, bail};
use weir_flow::{
    Batching, Catalog, DeviceKind, Inference, Item, Model, Session, SessionError, Step, StopFlag,
};
use weir_policy::gears::{GearEvent, GearShift, ShiftRule};
use weir_runtime::{Assembly, Pace, RunOptions};
use weir_types::Timestamp;

const MAX_DECISION_US: f64 = 1.0;
const MAX_COST: f64 = 0.02;

/// Graphs with the same models: what each module is.
const GRAPHS: [(&str, &str); 4] = [
    (
        "cascade that hands on everything",
        "[modules.read]\noperator = \"emulate\"\ninputs = [\"camera\"]\n\
         cascade = [{ model = \"small\", certainty = 1.0 }, { model = \"large\" }]\n",
    ),
    (
        "the same two modules by hand",
        "[modules.first]\noperator = \"emulate\"\nmodel = \"small\"\ninputs = [\"camera\"]\n\
         [modules.second]\noperator = \"emulate\"\nmodel = \"large\"\ninputs = [\"first\"]\n",
    ),
    (
        "cascade that hands on nothing",
        "[modules.read]\noperator = \"emulate\"\ninputs = [\"camera\"]\n\
         cascade = [{ model = \"small\", certainty = 0.0 }, { model = \"large\" }]\n",
    ),
    (
        "the small model alone",
        "[modules.first]\noperator = \"emulate\"\nmodel = \"small\"\ninputs = [\"camera\"]\n",
    ),
];

fn main() -> anyhow::Result<ExitCode> {
    let (frames, rounds) = parse_args()?;
    let decision = decision();
    println!("a decision on the gear with the measuring of load: {decision:.3} us a request");
    let turns_a_ms = turns_a_ms();
    let mut rates: [Vec<f64>; GRAPHS.len()] = Default::default();
    for _ in 0..rounds {
        for (rates, (_, modules)) in rates.iter_mut().zip(GRAPHS) {
            rates.push(run(modules, frames, turns_a_ms)?);
        }
    }
    for ((name, _), rates) in GRAPHS.iter().zip(&rates) {
        println!("{name}: {rates:.1?} frames a second");
    }
    let cost = |cascade: usize, other: usize| {
        let ratios = rates[cascade].iter().zip(&rates[other]);
        1.0 - median(ratios.map(|(own, other)| own / other).collect())
    };
    let costs = [cost(0, 1), cost(2, 3)];
    println!(
        "a cascade that hands on everything costs {:+.2} %, one that hands on nothing {:+.2} %",
        100.0 * costs[0],
        100.0 * costs[1]
    );
    let is_cheap = decision <= MAX_DECISION_US && costs.iter().all(|cost| *cost <= MAX_COST);
    Ok(if is_cheap {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn parse_args() -> anyhow::Result<(u64, usize)> {
    let (mut frames, mut rounds) = (3_000, 9);
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words.next().with_context(|| format!("{word} needs a value"))?;
        match word.as_str() {
            "--frames" => frames = value.parse().context("--frames takes a whole number")?,
            "--rounds" => rounds = value.parse().context("--rounds takes a whole number")?,
            other => bail!("there is no {other}; there are --frames and --rounds"),
        }
    }
    anyhow::ensure!(rounds > 0, "--rounds takes a whole number above zero");
    Ok((frames, rounds))
}

/// Microseconds of counting a request, and of deciding on the gear by it: the live engine decides every 50 ms.
fn decision() -> f64 {
    let times = 2_000_000_u64;
    let mut shift = GearShift::new(ShiftRule::default(), vec![100.0, 200.0, 300.0, 400.0, 1e9]);
    let mut effects = Vec::new();
    let began = Instant::now();
    for number in 0..times {
        // From 0 to 500 a second and back, once every 20 seconds.
        let now = Timestamp::from_micros(number * 4_000);
        let requests = u32::from(number % 5_000 < 2_500) + 1;
        effects.clear();
        let events = [
            GearEvent::Arrived { requests },
            GearEvent::Waiting { items: number % 8 },
        ];
        shift.step(events, now, &mut effects);
        std::hint::black_box(&effects);
    }
    began.elapsed().as_secs_f64() * 1e6 / times as f64
}

/// Frames a second of a graph, as fast as they go.
fn run(modules: &str, frames: u64, turns_a_ms: u64) -> anyhow::Result<f64> {
    let cores = std::thread::available_parallelism()?;
    let text = format!(
        "[app]\nname = \"cascades\"\nslo = \"1s\"\n\
         [sources.camera]\nuri = \"emulated:uniform?rate=1000&frames={frames}&size=16x16\"\nmode = \"lossless\"\n\
         [devices.\"emulated:a\"]\nslots = {cores}\n\
         [models.small]\ndevice = \"emulated:a\"\nprofile = {{ \"1\" = \"1ms\" }}\n\
         [models.large]\ndevice = \"emulated:a\"\nprofile = {{ \"1\" = \"2ms\" }}\n{modules}"
    );
    let graph = weir_graph::parse(&text, Path::new("cascades.toml"), &Catalog::default(), &|_| None)?;
    let model = |name: &str| -> Arc<dyn Model> {
        let turns = if name == "small" {
            turns_a_ms
        } else {
            2 * turns_a_ms
        };
        Arc::new(Loop { turns })
    };
    let assembly = Assembly {
        partitioning: None,
        sources: vec![None],
        models: (graph.models().iter())
            .map(|node| Some(model(&node.name)))
            .collect(),
        operators: graph.modules().iter().map(|_| None).collect(),
        sinks: Vec::new(),
        graph,
    };
    let options = RunOptions {
        pace: Pace::Max,
        ..RunOptions::default()
    };
    let report = weir_runtime::run(assembly, &options, &StopFlag::default())?;
    let out = report.requests.delivered + report.requests.late;
    anyhow::ensure!(out == frames, "frames were lost: {:?}", report.requests);
    Ok(out as f64 / report.run.duration_s)
}

/// A model that computes for a while.
#[derive(Debug, Clone, Copy)]
struct Loop {
    turns: u64,
}

impl Model for Loop {
    fn batching(&self) -> Batching {
        Batching {
            max: None,
            remark: None,
        }
    }

    fn open(&self, _: DeviceKind) -> Result<Box<dyn Session>, SessionError> {
        Ok(Box::new(*self))
    }
}

impl Session for Loop {
    fn run(&mut self, items: &[Item], on_step: &mut dyn FnMut(Step)) -> Result<Vec<Inference>, SessionError> {
        let inference = |_: &Item| {
            turn(self.turns);
            Inference {
                certainty: Some(0.5),
                ..Inference::default()
            }
        };
        let inferences = items.iter().map(inference).collect();
        on_step(Step::Inferred);
        Ok(inferences)
    }

    fn warm_up(&mut self, _: usize) -> Result<(), SessionError> {
        Ok(())
    }
}

/// A chain of multiplications, each of which waits for the one before.
fn turn(turns: u64) {
    let mut value = std::hint::black_box(1_u64);
    for _ in 0..turns {
        value = value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
    }
    std::hint::black_box(value);
}

/// How many of them take a millisecond.
fn turns_a_ms() -> u64 {
    let turns = 20_000_000;
    let began = Instant::now();
    turn(turns);
    (turns as f64 / (began.elapsed().as_secs_f64() * 1e3)) as u64
}
