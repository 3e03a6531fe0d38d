//! Benchmark of cascades and gears: the cost of a gear decision, and cascades beside graphs without cascades
//! that do the same work.
//!
//! ```text
//! cascades [--frames 1500] [--pairs 21] [everything|nothing]
//! ```
//!
//! Models are loops of fixed length on as many slots as there are cores, about 1 ms for the small one and 2
//! ms for the large one, so that the engine's own time shows in frames per second. A cascade and its
//! counterpart run one right after the other, in alternating order, so that both see the same machine. The
//! cost is the median of the pairs' ratios, with its 95 % confidence interval. A cascade may cost 2 %, and a
//! decision 1 us. The exit status is 0 if both hold, 1 if one does not, and 3 if the interval contains the
//! bound: the machine is then too noisy for a verdict, or there are too few pairs.

#![allow(clippy::print_stdout, reason = "a benchmark prints what it measured")]
#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, bail};
use weir_benches::median::{Median, Verdict};
use weir_flow::{
    Batching, Catalog, DeviceKind, Inference, Item, Model, Session, SessionError, Step, StopFlag,
};
use weir_policy::gears::{GearEvent, GearShift, ShiftRule};
use weir_runtime::{Assembly, Pace, RunOptions};
use weir_types::Timestamp;

const MAX_DECISION_US: f64 = 1.0;
const MAX_COST: f64 = 0.02;

/// A cascade, and the graph without one that does the same work.
struct Comparison {
    name: &'static str,
    cascade: &'static str,
    without: &'static str,
}

const COMPARISONS: [Comparison; 2] = [
    Comparison {
        name: "everything",
        cascade: "[modules.read]\noperator = \"emulate\"\ninputs = [\"camera\"]\n\
                  cascade = [{ model = \"small\", certainty = 1.0 }, { model = \"large\" }]\n",
        without: "[modules.first]\noperator = \"emulate\"\nmodel = \"small\"\ninputs = [\"camera\"]\n\
                  [modules.second]\noperator = \"emulate\"\nmodel = \"large\"\ninputs = [\"first\"]\n",
    },
    Comparison {
        name: "nothing",
        cascade: "[modules.read]\noperator = \"emulate\"\ninputs = [\"camera\"]\n\
                  cascade = [{ model = \"small\", certainty = 0.0 }, { model = \"large\" }]\n",
        without: "[modules.first]\noperator = \"emulate\"\nmodel = \"small\"\ninputs = [\"camera\"]\n",
    },
];

/// Options of the command line.
struct Wanted {
    frames: u64,
    pairs: usize,
    /// Comparison to run; `None` for both.
    only: Option<String>,
}

fn main() -> anyhow::Result<ExitCode> {
    let wanted = parse_args()?;
    let decision = decision();
    println!("a decision on the gear with the measuring of load: {decision:.3} us a request");
    let turns_a_ms = turns_a_ms();
    let mut verdicts = vec![if decision <= MAX_DECISION_US {
        Verdict::Within
    } else {
        Verdict::Beyond
    }];
    for comparison in &COMPARISONS {
        if wanted.only.as_ref().is_none_or(|name| name == comparison.name) {
            verdicts.push(compare(comparison, &wanted, turns_a_ms)?);
        }
    }
    Ok(if verdicts.contains(&Verdict::Beyond) {
        ExitCode::FAILURE
    } else if verdicts.contains(&Verdict::Open) {
        ExitCode::from(3)
    } else {
        ExitCode::SUCCESS
    })
}

/// Runs the pairs, and says what the cascade costs.
fn compare(comparison: &Comparison, wanted: &Wanted, turns_a_ms: u64) -> anyhow::Result<Verdict> {
    let mut costs = Vec::new();
    let mut rates = Vec::new();
    for pair in 0..=wanted.pairs {
        let graphs = [comparison.cascade, comparison.without];
        let first = pair % 2;
        let mut pair_rates = [0.0; 2];
        for place in [first, 1 - first] {
            pair_rates[place] = run(graphs[place], wanted.frames, turns_a_ms)?;
        }
        // The first pair warms up.
        if pair > 0 {
            costs.push(1.0 - pair_rates[0] / pair_rates[1]);
            rates.push(pair_rates);
        }
    }
    let cost = Median::of(&costs).context("there are no pairs")?;
    let rate = |place: usize| {
        let rates: Vec<f64> = rates.iter().map(|rates| rates[place]).collect();
        Median::of(&rates).map_or(0.0, |median| median.value)
    };
    let verdict = cost.at_most(MAX_COST);
    println!(
        "a cascade that hands on {}: {:.1} frames a second, {:.1} without it; it costs {:+.2} %, between {:+.2} and {:+.2} % \
         ({} pairs): {}",
        comparison.name,
        rate(0),
        rate(1),
        100.0 * cost.value,
        100.0 * cost.low,
        100.0 * cost.high,
        costs.len(),
        match verdict {
            Verdict::Within => "at most 2 %",
            Verdict::Beyond => "more than 2 %",
            Verdict::Open => "no verdict, since 2 % is between them",
        }
    );
    Ok(verdict)
}

fn parse_args() -> anyhow::Result<Wanted> {
    let mut wanted = Wanted {
        frames: 1_500,
        pairs: 21,
        only: None,
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().with_context(|| format!("{word} needs a value"));
        match word.as_str() {
            "--frames" => wanted.frames = value()?.parse().context("--frames takes a whole number")?,
            "--pairs" => wanted.pairs = value()?.parse().context("--pairs takes a whole number")?,
            name if COMPARISONS.iter().any(|comparison| comparison.name == name) => {
                wanted.only = Some(name.to_owned());
            }
            other => bail!("there is no {other}; there are --frames, --pairs, everything and nothing"),
        }
    }
    anyhow::ensure!(wanted.pairs > 0, "--pairs takes a whole number above zero");
    Ok(wanted)
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
            GearEvent::Arrived { cascade: 0, requests },
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
        next_gears: None,
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

/// Number of iterations of `turn` that take a millisecond.
fn turns_a_ms() -> u64 {
    let turns = 20_000_000;
    let began = Instant::now();
    turn(turns);
    (turns as f64 / (began.elapsed().as_secs_f64() * 1e3)) as u64
}
