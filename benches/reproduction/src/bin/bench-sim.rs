//! How fast the simulator is: a million requests through five modules on one core, events counted, and the memory it took.
//!
//! An event is a fact that a state machine of the engine took in: a request let in at the gate and entered in the ledger,
//! its arrival at a module, a batch that came back, device time booked, a state heard, a tick, an end. What passes through the agenda (sendings, batches, alarms) is told apart.

#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a benchmark measures and tells"
)]

use std::time::Instant;

use weir_policy::{DropRule, Forming, Lookahead, Mailboxes, Policy, Profile, Span, Timestamp};
use weir_sim::{Demand, Edge, ModulePlan, PoolPlan, WorldSpec, simulate};

const REQUESTS: u64 = 1_000_000;
const MODULES: usize = 5;

fn world(policy: Policy) -> Option<WorldSpec> {
    let points = [(1, 10), (2, 14), (4, 22), (8, 38), (16, 70)];
    let profile = Profile::new(points.map(|(size, ms)| (size, Span::from_millis(ms))).to_vec())?;
    let module = |index: usize| ModulePlan {
        name: format!("m{}", index + 1),
        profile: profile.clone(),
        batch: vec![1, 2, 4, 8, 16],
        pool: PoolPlan::Fixed(5),
        next: if index + 1 < MODULES {
            vec![Edge {
                to: index + 1,
                link: None,
            }]
        } else {
            Vec::new()
        },
        weight: 1.0,
    };
    Some(WorldSpec {
        slo: Span::from_millis(500),
        policy,
        modules: (0..MODULES).map(module).collect(),
        shared_slots: 0,
        hop: Span::ZERO,
        links: Vec::new(),
        streams: 1,
        under_way: None,
        demand: Demand::default(),
        noise: 0.0,
        failures: Vec::new(),
        workers_most: None,
        seed: 1,
    })
}

fn main() {
    let paper = Policy {
        forming: Forming::Eager,
        mailbox: Mailboxes::Worker,
        sweep: false,
        fair: false,
        ..Policy::default()
    };
    for (name, policy) in [
        ("pard, as the paper", paper),
        ("pard, late, one mailbox a pool", Policy::default()),
        (
            "weir",
            Policy {
                drop: DropRule::Weir(Lookahead::default()),
                ..Policy::default()
            },
        ),
    ] {
        for rate in [900.0, 1_300.0] {
            let Some(spec) = world(policy.clone()) else { return };
            let mut state = 88_172_645_463_325_252_u64;
            let mut at = 0.0_f64;
            let mut arrivals = (0..REQUESTS).map(|_| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                let draw = (state >> 11) as f64 / (1_u64 << 53) as f64;
                at += -(1.0 - draw).ln() / rate;
                Timestamp::from_micros((at * 1e6) as u64)
            });
            let began = Instant::now();
            let outcome = simulate(&spec, name, &mut arrivals, &mut |_| ());
            let took = began.elapsed().as_secs_f64();
            println!(
                "{name:32} {rate:6}/s  {took:5.2} s  {:.2} M events/s  (agenda {:.2} M/s)  {:.3} us a request and module  drop rate {:.4}",
                outcome.facts as f64 / took / 1e6,
                outcome.events as f64 / took / 1e6,
                took * 1e6 / (REQUESTS as usize * MODULES) as f64,
                outcome.report.drop_rate,
            );
        }
    }
    if let Some(peak) = peak_mib() {
        println!("peak memory {peak} MiB");
    }
}

/// Peak resident memory of this process, where the system tells it.
fn peak_mib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib / 1_024)
}
