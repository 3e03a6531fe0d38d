//! Benchmark of reservations: `probe` over pools of 100 devices, and adaptive batching that dispatches on a
//! cluster of 100 devices. Prints microseconds and probes per dispatch beside the paper's (PPipe 7.2: less
//! than 9 us and 3.58 probes).

#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a benchmark measures and prints"
)]

use std::time::{Duration, Instant};

use weir_policy::reservations::{
    BookingTable, PathRequest, Reservations, ReserveEffect, ReserveEvent, ReserveSpec,
};
use weir_sim::poisson;
use weir_types::{
    ClusterSpec, PipelineId, PipelineSpec, ServerId, ServerSpec, ShareId, ShareSpec, StageSpec,
};
use weir_types::{ModuleId, Profile, Span, Timestamp};

/// Pools of a low and a high class, one device a server; a batch takes `ms + extra` and so on by item.
struct Model {
    low: u32,
    high: u32,
    batch: u32,
    ms: (u64, u64),
}

const MODELS: [(&str, &[Model]); 3] = [
    (
        "one model, 75 + 25, batch 1",
        &[Model {
            low: 75,
            high: 25,
            batch: 1,
            ms: (24, 8),
        }],
    ),
    (
        "one model, 75 + 25, batch 4",
        &[Model {
            low: 75,
            high: 25,
            batch: 4,
            ms: (24, 8),
        }],
    ),
    (
        "three models, 25 + 8 each, batches 1 to 3",
        &[
            Model {
                low: 25,
                high: 8,
                batch: 1,
                ms: (24, 8),
            },
            Model {
                low: 25,
                high: 8,
                batch: 2,
                ms: (25, 8),
            },
            Model {
                low: 25,
                high: 9,
                batch: 3,
                ms: (26, 9),
            },
        ],
    ),
];

fn stage(shares: Vec<ShareId>, ms: u64, batch: u32, received_bytes: u64) -> Option<StageSpec> {
    let points = (1..=batch).map(|size| (size, Span::from_millis(ms * u64::from(size + 1) / 2)));
    Some(StageSpec {
        blocks: (0, 1),
        shares,
        profile: Profile::new(points.collect())?,
        received_bytes,
    })
}

fn cluster(models: &[Model]) -> Option<ClusterSpec> {
    let mut shares: Vec<ShareSpec> = Vec::new();
    let mut pipelines = Vec::new();
    for (module, model) in (0..).map(ModuleId).zip(models) {
        let mut pool = |class: &str, count: u32| -> Vec<ShareId> {
            (0..count)
                .map(|_| {
                    let device = shares.len() as u32;
                    let class = class.to_owned();
                    shares.push(ShareSpec {
                        server: ServerId(device),
                        device,
                        class,
                    });
                    ShareId(device)
                })
                .collect()
        };
        let stages = vec![
            stage(pool("low", model.low), model.ms.0, model.batch, 0)?,
            stage(pool("high", model.high), model.ms.1, model.batch, 2_000_000)?,
        ];
        pipelines.push(PipelineSpec {
            module,
            batch: model.batch,
            stages,
        });
    }
    let servers = vec![
        ServerSpec {
            bandwidth_bps: 6_000_000_000
        };
        shares.len()
    ];
    Some(ClusterSpec {
        servers,
        shares,
        pipelines,
    })
}

/// Items a second that a model's pools can run.
fn rate(model: &Model) -> f64 {
    let batches = |pool: u32, ms: u64| f64::from(pool) * 1e3 / (ms * u64::from(model.batch + 1) / 2) as f64;
    batches(model.low, model.ms.0).min(batches(model.high, model.ms.1)) * f64::from(model.batch)
}

#[derive(Default)]
struct Measured {
    dispatches: u64,
    dropped: u64,
    steps: u64,
    took: Duration,
    probes: u64,
}

/// Dispatches arrivals at `load` times the capacity of the pools; only the decisions are timed.
fn dispatch(models: &[Model], tables: BookingTable, load: f64) -> Option<Measured> {
    let spec = ReserveSpec {
        cluster: cluster(models)?,
        tables,
        feedback: false,
        corrected: false,
        head_min_fraction: 0.95,
    };
    let mut reservations = Reservations::new(&spec);
    let mut arrivals: Vec<(Timestamp, usize)> = Vec::new();
    for (index, model) in models.iter().enumerate() {
        let all = poisson(rate(model) * load, Span::from_secs(60), index as u64 + 1);
        arrivals.extend(all.into_iter().map(|at| (at, index)));
    }
    arrivals.sort_unstable();
    let slo = Span::from_millis(150);
    let mut queues = vec![std::collections::VecDeque::new(); models.len()];
    let mut wake: Option<Timestamp> = None;
    let mut effects: Vec<ReserveEffect> = Vec::with_capacity(8);
    let mut measured = Measured::default();
    let mut arrivals = arrivals.into_iter().peekable();
    loop {
        let next = arrivals.peek().map(|(at, _)| *at);
        let Some(now) = next.into_iter().chain(wake).min() else {
            break;
        };
        let mut event = ReserveEvent::Tick;
        if next == Some(now)
            && let Some((_, model)) = arrivals.next()
        {
            queues[model].push_back(now);
            event = request_path(&queues, model, slo)?;
        } else {
            wake = None;
        }
        let mut events = vec![event];
        while !events.is_empty() {
            let began = Instant::now();
            reservations.step(events.drain(..), now, &mut effects);
            measured.took += began.elapsed();
            measured.steps += 1;
            for effect in effects.drain(..) {
                let (module, taken) = match effect {
                    ReserveEffect::Book { module, size, .. } => {
                        measured.dispatches += 1;
                        (module, size as usize)
                    }
                    ReserveEffect::NoPath { module, .. } => {
                        measured.dropped += 1;
                        (module, 1)
                    }
                    ReserveEffect::SetTimer { at } => {
                        wake = Some(at);
                        continue;
                    }
                    ReserveEffect::Lost { .. } => continue,
                };
                queues[module.index()].drain(..taken);
                events.extend(request_path(&queues, module.index(), slo));
            }
        }
    }
    measured.probes = reservations.probes();
    Some(measured)
}

fn request_path(
    queues: &[std::collections::VecDeque<Timestamp>],
    model: usize,
    slo: Span,
) -> Option<ReserveEvent> {
    let since = *queues[model].front()?;
    let ask = PathRequest {
        deadline: since + slo,
        since,
        waiting: queues[model].len() as u32,
    };
    let module = ModuleId(model as u32);
    Some(ReserveEvent::PathRequested { module, request: ask })
}

/// Probing two pools of 100 devices on which this many batches are booked.
fn probe(tables: BookingTable, booked: u32) -> Option<f64> {
    const TIMES: u32 = 100_000;
    let models = [Model {
        low: 100,
        high: 100,
        batch: 4,
        ms: (24, 8),
    }];
    let spec = ReserveSpec {
        cluster: cluster(&models)?,
        tables,
        feedback: false,
        corrected: false,
        head_min_fraction: 0.95,
    };
    let mut reservations = Reservations::new(&spec);
    for number in 0..booked {
        let now = Timestamp::from_micros(u64::from(number) * 10);
        let probe = reservations.probe(PipelineId(0), 1 + number % 4, now)?;
        reservations.reserve(&probe, now);
    }
    let now = Timestamp::from_micros(u64::from(booked) * 10);
    let began = Instant::now();
    for number in 0..TIMES {
        std::hint::black_box(reservations.probe(PipelineId(0), std::hint::black_box(1 + number % 4), now));
    }
    Some(began.elapsed().as_secs_f64() * 1e6 / f64::from(TIMES))
}

fn main() {
    for tables in [BookingTable::Intervals, BookingTable::BusyUntil] {
        for booked in [0, 90, 300] {
            if let Some(micros) = probe(tables, booked) {
                println!(
                    "probe over 100 + 100 devices, {tables:?}, {booked:3} batches booked: {micros:.3} us"
                );
            }
        }
    }
    println!("dispatching on 100 devices; the paper: less than 9 us and 3.58 probes a dispatch");
    for (name, models) in MODELS {
        for tables in [BookingTable::Intervals, BookingTable::BusyUntil] {
            for load in [0.5, 0.9, 1.0] {
                let Some(measured) = dispatch(models, tables, load) else {
                    continue;
                };
                let each = measured.dispatches.max(1) as f64;
                println!(
                    "{name:42} {tables:9?} load {load:.1}  {:7} dispatches {:6} dropped  {:.3} us and {:.2} probes a dispatch ({:.3} us a step)",
                    measured.dispatches,
                    measured.dropped,
                    measured.took.as_secs_f64() * 1e6 / each,
                    measured.probes as f64 / each,
                    measured.took.as_secs_f64() * 1e6 / measured.steps.max(1) as f64,
                );
            }
        }
    }
}
