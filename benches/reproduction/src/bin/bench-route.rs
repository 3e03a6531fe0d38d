//! `bench-route`: time of a router's decision over 512 instances, and simulation speed at 10,000 requests per
//! second over them on one core. The goals are 20 us per decision (the paper's Figure 11 has 5 ms per request
//! at this load) and faster than real time.
//!
//! Decisions are timed in batches by the processor time of the thread, which the kernel measures in
//! nanoseconds; the median batch counts. The clock is read once before and once after a batch, so that
//! reading it adds almost nothing to a decision.

use std::io::Write as _;
use std::process::ExitCode;

use rustix::time::{ClockId, clock_gettime};
use weir_policy::generate::InstanceSpec;
use weir_policy::route::{RouteEffect, RouteEvent, RouteRule, Router, RouterSpec};
use weir_sim::generate::{GenerateCluster, GenerateRequest, LengthRule, MoveLink, simulate_cluster};
use weir_types::{SequenceId, Span, StepCurve, StepProfile, Timestamp};

/// Number of instances in the cluster.
const INSTANCES: usize = 512;
/// Arrival rate in requests per second.
const RATE: f64 = 10_000.0;
/// Simulated time in seconds.
const LENGTH_S: f64 = 4.0;
/// Number of decisions that are timed.
const DECISIONS: u64 = 20_000;
/// Sequences that are on the instances during the measurement: 10,000 requests per second of 300 tokens lead
/// to this number.
const PRESENT: u64 = 40_000;

/// Instance whose steps take `times` as long as those of the fastest.
fn instance(times: u64) -> Option<InstanceSpec> {
    let at = |micros: u64| Span::from_micros(times * micros);
    let decode = StepCurve::from_points(&[(1, at(12_000)), (128, at(13_000)), (512, at(31_000))]).ok()?;
    let prompt = StepCurve::from_points(&[(1, at(12_000)), (128, at(13_000)), (512, at(31_000))]).ok()?;
    Some(InstanceSpec {
        steps: StepProfile { decode, prompt },
        max_step_tokens: 512,
        max_sequences: 512,
        max_sequence_tokens: 8_192,
        blocks: 20_000,
        block_tokens: 16,
        reserve_blocks: 8,
        prompt_gives_token: true,
        prefix_tokens: 0,
    })
}

fn instances() -> Option<Vec<InstanceSpec>> {
    (0..INSTANCES)
        .map(|index| instance(1 + index as u64 % 4))
        .collect()
}

/// Processor time of this thread in seconds.
fn cpu_s() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Load average of the last minute, which tells how busy the machine was.
fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or("?").to_owned()
}

/// A length that follows from a number: evenly 100 to 499.
fn length(number: u64) -> u32 {
    100 + (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33) as u32 % 400
}

/// Predicted length of a request: off by up to 30 % in either direction, as in the simulation.
fn predicted(number: u64) -> u32 {
    let error = (number.wrapping_mul(0xd6e8_feb8_6659_fd93) >> 40) as f64 / f64::from(1 << 24);
    (f64::from(length(number)) * (0.7 + 0.6 * error)) as u32
}

/// Decisions of one batch.
const BATCH: u64 = 100;

/// Microseconds of decisions.
struct Decisions {
    median: f64,
    p90: f64,
    /// Microseconds for the event that accompanies each decision: the end of a sequence.
    ended: f64,
}

/// Microseconds of a decision while about [`PRESENT`] sequences are there. As many end as arrive, between two batches.
fn decision_us(rule: RouteRule) -> Option<Decisions> {
    let mut router = Router::new(RouterSpec::new(rule), instances()?).ok()?;
    let mut effects: Vec<RouteEffect> = Vec::new();
    let arrived = |number: u64| {
        let now = Timestamp::from_micros(number * 100);
        let event = RouteEvent::Arrived {
            sequence: SequenceId(number),
            prompt: 100,
            expected: predicted(number),
            deadline: now + Span::from_secs(12),
            prefix: None,
        };
        (event, now)
    };
    let ended = |number: u64| RouteEvent::Ended {
        sequence: SequenceId(number - PRESENT),
        generated: length(number - PRESENT),
    };
    for number in 0..PRESENT {
        let (event, now) = arrived(number);
        router.step(event, now, &mut effects);
        effects.clear();
    }
    let (mut batches, mut ends) = (Vec::new(), Vec::new());
    for batch in 0..DECISIONS / BATCH {
        let first = PRESENT + batch * BATCH;
        let events: Vec<_> = (first..first + BATCH).map(arrived).collect();
        let before = cpu_s();
        for (event, now) in &events {
            router.step(*event, *now, &mut effects);
        }
        batches.push(1e6 * (cpu_s() - before) / BATCH as f64);
        let now = Timestamp::from_micros((first + BATCH) * 100);
        let before = cpu_s();
        for number in first..first + BATCH {
            router.step(ended(number), now, &mut effects);
        }
        ends.push(1e6 * (cpu_s() - before) / BATCH as f64);
        effects.clear();
    }
    batches.sort_by(f64::total_cmp);
    ends.sort_by(f64::total_cmp);
    Some(Decisions {
        median: batches[batches.len() / 2],
        p90: batches[batches.len() * 9 / 10],
        ended: ends[ends.len() / 2],
    })
}

/// Processor seconds for each second of arrivals, until all of them have ended, and the part that was in time.
fn simulated(rule: RouteRule) -> Option<(f64, f64)> {
    let cluster = GenerateCluster {
        instances: instances()?,
        router: RouterSpec::new(rule),
        link: MoveLink::TOKEN_IDS,
        lengths: LengthRule::Oracle { error: 0.3 },
        prior_length: 300,
        seed: 1,
    };
    let count = (RATE * LENGTH_S) as u64;
    let requests: Vec<GenerateRequest> = (0..count)
        .map(|number| GenerateRequest {
            at: Timestamp::from_micros((number as f64 * 1e6 / RATE) as u64),
            prompt: 100,
            length: length(number),
            objective: Span::from_secs(12),
            prefix: None,
            predicted: None,
        })
        .collect();
    let before = cpu_s();
    let result = simulate_cluster(&cluster, &requests).ok()?;
    let took = cpu_s() - before;
    let share = result.in_time(&requests) as f64 / count as f64;
    Some((took / LENGTH_S, share))
}

fn main() -> ExitCode {
    let mut out = std::io::stdout();
    let _ = writeln!(out, "load of the last minute: {}", load());
    for name in ["earliest", "just-enough", "weir"] {
        let Some(rule) = RouteRule::all().into_iter().find(|rule| rule.name() == name) else {
            continue;
        };
        let (Some(decision), Some((second, share))) = (decision_us(rule), simulated(rule)) else {
            let _ = writeln!(std::io::stderr(), "bench-route: the instances are none");
            return ExitCode::FAILURE;
        };
        // Standard output may be closed.
        let _ = writeln!(
            out,
            "{name}: a decision over {INSTANCES} instances {:.1} us (of ten the slowest {:.1}), a sequence that ends {:.1} us; \
             a second of {RATE:.0} requests {second:.2} s of one core ({:.1} % in time)",
            decision.median,
            decision.p90,
            decision.ended,
            100.0 * share
        );
    }
    ExitCode::SUCCESS
}
