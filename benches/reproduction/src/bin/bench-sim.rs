//! Benchmark of the simulator: a million requests through five modules on one core. Prints events per second
//! and memory.
//!
//! An event is a fact that a state machine of the engine processed: a request admitted and entered in the
//! ledger, its arrival at a module, a finished batch, device time booked, a peer's state, a tick, an end.
//! Entries of the event queue (messages, batches, timers) are counted separately.
//!
//! Each case is run several times in turn. On a shared machine other load can only make a run slower, so the
//! fastest run says most about the simulator; the median says how busy the machine was.

#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a benchmark measures and prints"
)]

use std::time::Instant;

use weir_policy::{BatchBinding, DropRule, Lookahead, Mailboxes, Policy};
use weir_reproduction::arrivals::arrivals;
use weir_sim::{Edge, WorldModule, WorldPool, WorldSpec, simulate};
use weir_types::{Profile, Span};

const REQUESTS: u64 = 1_000_000;
const MODULES: usize = 5;
const ROUNDS: usize = 5;

fn world(policy: Policy) -> Option<WorldSpec> {
    let points = [(1, 10), (2, 14), (4, 22), (8, 38), (16, 70)];
    let profile = Profile::new(points.map(|(size, ms)| (size, Span::from_millis(ms))).to_vec())?;
    let module = |index: usize| WorldModule {
        ends: Vec::new(),
        name: format!("m{}", index + 1),
        profile: profile.clone(),
        batch: vec![1, 2, 4, 8, 16],
        pool: WorldPool::Fixed(5),
        next: if index + 1 < MODULES {
            vec![Edge {
                to: index + 1,
                link: None,
            }]
        } else {
            Vec::new()
        },
        weight: 1.0,
        overlap: None,
        model: None,
    };
    Some(WorldSpec::new(
        Span::from_millis(500),
        policy,
        (0..MODULES).map(module).collect(),
    ))
}

/// Policies of which each is run at each rate.
fn policies() -> [(&'static str, Policy); 3] {
    let paper = Policy {
        forming: Some(BatchBinding::Early),
        mailbox: Some(Mailboxes::Worker),
        sweep: Some(false),
        fair: Some(false),
        ..Policy::default()
    };
    let weir = Policy {
        drop: DropRule::Weir(Lookahead::default()),
        ..Policy::default()
    };
    [
        ("pard, as the paper", paper),
        ("pard, late, one mailbox a pool", Policy::default()),
        ("weir", weir),
    ]
}

/// Policy and rate, with the durations of its runs.
struct Row {
    name: &'static str,
    spec: WorldSpec,
    rate: f64,
    /// Facts, what passed through the event queue, and the drop rate: the same in each run.
    came_to: (u64, u64, f64),
    took: Vec<f64>,
}

impl Row {
    fn run(&mut self) {
        let began = Instant::now();
        let ran = simulate(
            &self.spec,
            self.name,
            &mut arrivals(self.rate, REQUESTS),
            &mut |_| (),
        );
        self.took.push(began.elapsed().as_secs_f64());
        self.came_to = (ran.policy_events, ran.events, ran.report.drop_rate);
    }

    fn print(&mut self) {
        self.took.sort_by(f64::total_cmp);
        let (facts, events, drop_rate) = self.came_to;
        let (best, median) = (self.took[0], self.took[ROUNDS / 2]);
        println!(
            "{:32} {:6}/s  {:.2} M events/s, median {:.2}  (event queue {:.2} M/s)  {:.3} us a request and module  drop rate {:.4}",
            self.name,
            self.rate,
            facts as f64 / best / 1e6,
            facts as f64 / median / 1e6,
            events as f64 / best / 1e6,
            best * 1e6 / (REQUESTS as usize * MODULES) as f64,
            drop_rate,
        );
    }
}

fn main() {
    let mut rows = Vec::new();
    for (name, policy) in policies() {
        for rate in [900.0, 1_300.0] {
            let Some(spec) = world(policy.clone()) else { return };
            rows.push(Row {
                name,
                spec,
                rate,
                came_to: (0, 0, 0.0),
                took: Vec::new(),
            });
        }
    }
    for _ in 0..ROUNDS {
        rows.iter_mut().for_each(Row::run);
    }
    println!("the fastest of {ROUNDS} runs, and the median:");
    rows.iter_mut().for_each(Row::print);
    if let Some(peak) = peak_mib() {
        println!("peak memory {peak} MiB");
    }
}

/// Peak resident memory of this process in MiB, if the system reports it.
fn peak_mib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib / 1_024)
}
