//! `bench-memory`: cost of limited memory and virtual queues where neither has to decide anything. Five
//! modules with one model each run on four slots, with all models in memory and one class of objectives.
//! Prints goodput, and the simulator's processor time per request and module, relative to the same world
//! without memory limits and queues (goal: within 1 %). Each case is run several times in turn; the fastest
//! run counts.

use std::io::Write as _;
use std::process::ExitCode;

use weir_policy::SlotQueues;
use weir_reproduction::arrivals::arrivals;
use weir_reproduction::cpu_time::thread_cpu_s;
use weir_reproduction::memory_chain::{MODULES, SUSTAINED_RPS, memory_chain};
use weir_sim::simulate;

const REQUESTS: u64 = 20_000;
const ROUNDS: usize = 3;
/// Loads, as parts of what the slots sustain in batches of four.
const LOADS: [f64; 3] = [0.5, 0.9, 1.5];

fn main() -> ExitCode {
    let mut out = std::io::stdout();
    let rules = [
        ("without memory and queues", false, None),
        ("all in memory", true, None),
        ("all in memory, virtual queues", true, Some(SlotQueues::Virtual)),
    ];
    for load in LOADS {
        let mut rows = Vec::new();
        for (name, memory, queues) in rules {
            let Some(spec) = memory_chain(memory, queues) else {
                let _ = writeln!(std::io::stderr(), "bench-memory: the profile is none");
                return ExitCode::FAILURE;
            };
            rows.push((name, spec, f64::INFINITY, 0.0));
        }
        for _ in 0..ROUNDS {
            for (name, spec, took_s, goodput) in &mut rows {
                let before = thread_cpu_s();
                let ran = simulate(
                    spec,
                    name,
                    &mut arrivals(load * SUSTAINED_RPS, REQUESTS),
                    &mut |_| (),
                );
                *took_s = took_s.min(thread_cpu_s() - before);
                *goodput = ran.report.goodput_rps;
            }
        }
        let (base_s, base_goodput) = (rows[0].2, rows[0].3);
        for (name, _, took_s, goodput) in rows {
            // Standard output may be closed.
            let _ = writeln!(
                out,
                "load {load:.1}, {name:30} goodput {goodput:7.2}/s ({:+.2} %)  {:.3} us a request and module ({:+.1} %)",
                100.0 * (goodput / base_goodput - 1.0),
                1e6 * took_s / (REQUESTS * u64::from(MODULES)) as f64,
                100.0 * (took_s / base_s - 1.0),
            );
        }
    }
    ExitCode::SUCCESS
}
