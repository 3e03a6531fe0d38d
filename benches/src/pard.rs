//! Overheads of PARD's decisions, in the terms of the paper's section 5.4: state that modules send each
//! other, the mailbox's share of a request's latency, and the estimate of the path downstream. Figures under
//! load come from the simulator, which runs the same decisions on four modules; times are measured on this
//! machine.

#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use std::sync::Arc;
use std::time::Instant;

use weir_policy::{
    BatchBinding, BatchWaitSamples, Depq, DropRule, End, Lookahead, Mailboxes, ModuleState, Policy, Queueing,
    StatePlanner,
};
use weir_sim::{Edge, SimulationResult, WorldModule, WorldPool, WorldSpec, experiment, simulate};
use weir_types::{ModuleId, Profile, RequestId, Span, Timestamp, Topology};

const MODULES: usize = 4;
const WORKERS: u32 = 4;
const SECONDS: u64 = 120;
const LOAD: f64 = 1.2;

/// Overheads of the decisions of one policy.
#[derive(Debug, Clone, Copy)]
pub struct Overheads {
    /// Size of one state message in bytes.
    pub state_bytes: f64,
    /// State in bytes per second that a module sends to each of the others.
    pub state_bytes_a_second: f64,
    /// The same in kilobits per second, divided by the number of workers.
    pub kbps_a_worker: f64,
    /// Mean number of requests in a mailbox, over all modules.
    pub queue: f64,
    /// Time in microseconds to insert and remove a request at that depth.
    pub put_and_get_us: f64,
    /// Mean latency of requests in milliseconds.
    pub latency_ms: f64,
    /// All puts and gets of a request over its latency.
    pub depq_share: f64,
    /// Deciding and everything else that the simulator does, a request and module, in microseconds: an upper limit of
    /// the broker's time.
    pub step_us_most: f64,
    /// One estimate of the path downstream with full samples, in microseconds.
    pub downstream_us: f64,
    /// One summary of the recent 10,000 waits, in microseconds.
    pub sketch_us: f64,
    /// Both, as often as states are sent and received, as a share of one core and module.
    pub planner_share: f64,
}

/// Measures all of it with this `queueing` of the rule.
#[must_use]
pub fn overheads(queueing: Queueing) -> Overheads {
    let spec = world(queueing);
    let rate = experiment::capacity(&spec) * LOAD;
    let requests = (rate * SECONDS as f64) as u64;
    // Gaps by a golden step between nothing and twice the mean: uneven, and the same in every run.
    let gap = |number: u64| (number as f64 * 0.618_034).fract() * 2.0 / rate;
    let mut sent = 0.0;
    let arrivals: Vec<Timestamp> = (0..requests)
        .map(|number| {
            sent += gap(number);
            Timestamp::ZERO + Span::from_secs_f64(sent)
        })
        .collect();
    let began = Instant::now();
    let ran = simulate(&spec, "overheads", &mut arrivals.into_iter(), &mut |_| {});
    let took_us = began.elapsed().as_secs_f64() * 1e6;

    let seconds = ran.report.run.duration_s;
    let states = ran.timeline.state_messages as f64 / seconds / MODULES as f64;
    let bytes_per_s = ran.timeline.state_bytes as f64 / seconds / MODULES as f64;
    let queue = waiting(&ran) / (MODULES as f64 * f64::from(WORKERS));
    let put_and_get_us = depq(queue.ceil() as u64);
    let latency_ms = ran.report.latency_ms.p50;
    let visits: u64 = ran
        .report
        .modules
        .values()
        .map(|module| module.items + module.dropped)
        .sum();
    let (downstream_us, sketch_us) = (downstream_estimate_us(), sketch());
    Overheads {
        state_bytes: ran.timeline.state_bytes as f64 / ran.timeline.state_messages.max(1) as f64,
        state_bytes_a_second: bytes_per_s,
        kbps_a_worker: bytes_per_s * 8.0 / 1e3 / f64::from(WORKERS),
        queue,
        put_and_get_us,
        latency_ms,
        depq_share: MODULES as f64 * put_and_get_us / (latency_ms * 1e3),
        step_us_most: took_us / visits.max(1) as f64,
        downstream_us,
        sketch_us,
        planner_share: states * (sketch_us + (MODULES - 1) as f64 * downstream_us) / 1e6,
    }
}

/// Four modules in a row as the paper runs them: a mailbox for each worker, batches formed ahead.
fn world(queueing: Queueing) -> WorldSpec {
    let ms = Span::from_millis;
    let module = |id: usize| WorldModule {
        ends: Vec::new(),
        name: format!("module-{id}"),
        profile: Profile::new(vec![(1, ms(10)), (2, ms(14)), (4, ms(22)), (8, ms(38))])
            .unwrap_or_else(|| unreachable!("ascending points")),
        batch: vec![1, 2, 4, 8],
        pool: WorldPool::Fixed(WORKERS),
        next: (id + 1..MODULES)
            .take(1)
            .map(|to| Edge { to, link: None })
            .collect(),
        weight: 1.0,
        overlap: None,
        model: None,
    };
    WorldSpec::new(
        ms(400),
        Policy {
            drop: DropRule::Pard(Lookahead {
                queueing,
                ..Lookahead::default()
            }),
            forming: Some(BatchBinding::Early),
            mailbox: Some(Mailboxes::Worker),
            sweep: Some(false),
            fair: Some(false),
            ..Policy::default()
        },
        (0..MODULES).map(module).collect(),
    )
}

/// Requests that wait at one time in all modules together: by Little's law, the time that they waited over the time.
fn waiting(ran: &SimulationResult) -> f64 {
    let queued_ms: f64 = ran
        .timeline
        .modules
        .iter()
        .flat_map(|module| &module.queued_ms)
        .sum();
    queued_ms / 1e3 / ran.report.run.duration_s
}

/// Microseconds of a put and a get with so many waiting.
#[must_use]
pub fn depq(depth: u64) -> f64 {
    let mut depq = Depq::default();
    // A full-period step through the keys stands for random deadlines.
    let key = |number: u64| Timestamp::from_micros(number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40);
    for number in 0..depth {
        depq.push(key(number), RequestId(number), ());
    }
    let times = 1_000_000;
    let began = Instant::now();
    for number in depth..depth + times {
        depq.push(key(number), RequestId(number), ());
        let end = if number % 2 == 0 { End::Low } else { End::High };
        std::hint::black_box(depq.pop(end));
    }
    began.elapsed().as_secs_f64() * 1e6 / times as f64
}

fn full_samples(module: u64) -> BatchWaitSamples {
    let mut waits = BatchWaitSamples::new(10_000);
    for number in 0..10_000_u64 {
        waits.observe(Span::from_micros((number * (7_919 + module)) % 38_000));
    }
    waits
}

/// Microseconds of a downstream estimate of the first of four modules, all of which have sent full samples and the last
/// one others since the estimate before.
fn downstream_estimate_us() -> f64 {
    let next = |id: usize| (id + 1..MODULES).take(1).map(|to| ModuleId(to as u32)).collect();
    let topology = Topology::new((0..MODULES).map(next).collect());
    let state = |id: u32| ModuleState {
        waits: full_samples(id.into()).sketch(),
        ..ModuleState::initial(ModuleId(id), Span::from_millis(38))
    };
    let last = MODULES as u32 - 1;
    let other = ModuleState {
        waits: full_samples(u64::from(last) + 10).sketch(),
        ..state(last)
    };
    let mut updates = [state(last), other].map(Arc::new).into_iter().cycle();
    let states = (0..=last).map(state).collect();
    let estimation = Policy::default().estimation();
    let mut planner = StatePlanner::new(ModuleId(0), Span::from_millis(400), estimation, &topology, states);
    mean_us(500, || {
        updates
            .next()
            .into_iter()
            .for_each(|state| planner.on_peer_state(state));
        std::hint::black_box(planner.downstream_estimate());
    })
}

/// Microseconds of a summary of full samples, of which a second's worth at 300 a second are new.
fn sketch() -> f64 {
    let mut waits = full_samples(0);
    let mut number = 0;
    mean_us(200, || {
        for _ in 0..300 {
            number += 1;
            waits.observe(Span::from_micros((number * 7_927) % 38_000));
        }
        std::hint::black_box(waits.sketch());
    })
}

fn mean_us(times: u32, mut what: impl FnMut()) -> f64 {
    let began = Instant::now();
    for _ in 0..times {
        what();
    }
    began.elapsed().as_secs_f64() * 1e6 / f64::from(times)
}
