//! `bench-memory`: what devices with memory and virtual queues cost where they decide nothing. Five modules of a model each on
//! four slots, everything in memory, one class of objective: goodput, and processor time of the simulator a request and module,
//! beside the same world without memory and queues (wanted: within 1 % of it). Each is run several times in turn; the
//! fastest counts.

use std::io::Write as _;
use std::process::ExitCode;

use weir_policy::residency::ModelMemory;
use weir_policy::{DeviceMemory, DeviceModel, DropRule, Lookahead, Policy, SlotQueues};
use weir_reproduction::arrivals::arrivals;
use weir_reproduction::cpu_time::thread_cpu_s;
use weir_sim::{Edge, WorldMemory, WorldModule, WorldPool, WorldSpec, simulate};
use weir_types::{ModelId, Profile, SlotId, Span};

const REQUESTS: u64 = 20_000;
const MODULES: u32 = 5;
const SLOTS: u32 = 4;
const ROUNDS: usize = 3;
const MIB: u64 = 1 << 20;
/// Loads, as parts of what the slots sustain in batches of four.
const LOADS: [f64; 3] = [0.5, 0.9, 1.5];
/// Milliseconds of a batch of four, and the requests a second that the slots sustain so.
const BATCH_MS: f64 = 22.0;
const SUSTAINED_RPS: f64 = SLOTS as f64 * 4.0 / (MODULES as f64 * BATCH_MS / 1e3);

fn world(memory: bool, queues: Option<SlotQueues>) -> Option<WorldSpec> {
    let points = [(1, 10), (2, 14), (4, 22), (8, 38)];
    let profile = Profile::new(points.map(|(size, ms)| (size, Span::from_millis(ms))).to_vec())?;
    let module = |index: u32| WorldModule {
        name: format!("m{}", index + 1),
        profile: profile.clone(),
        batch: vec![1, 2, 4, 8],
        pool: WorldPool::Shared((0..SLOTS).collect()),
        next: (index + 1 < MODULES)
            .then_some(Edge {
                to: index as usize + 1,
                link: None,
            })
            .into_iter()
            .collect(),
        weight: 1.0,
        overlap: None,
        model: memory.then_some(ModelId(index)),
    };
    let model = |index: u32| DeviceModel {
        model: ModelId(index),
        slots: (0..SLOTS).map(SlotId).collect(),
        memory: ModelMemory {
            device_bytes: MIB,
            host_bytes: MIB,
        },
        open_cold: Span::from_millis(80),
        open_warm: Span::from_millis(30),
    };
    let device = DeviceMemory {
        memory: u64::from(MODULES * SLOTS) * MIB,
        host_memory: u64::from(MODULES * SLOTS) * MIB,
        models: (0..MODULES).map(model).collect(),
    };
    Some(WorldSpec {
        shared_slots: SLOTS,
        memory: WorldMemory {
            devices: memory.then_some(device).into_iter().collect(),
            names: (0..MODULES).map(|index| format!("model-{index}")).collect(),
        },
        ..WorldSpec::new(
            Span::from_millis(500),
            Policy {
                drop: DropRule::Weir(Lookahead::default()),
                queues,
                ..Policy::default()
            },
            (0..MODULES).map(module).collect(),
        )
    })
}

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
            let Some(spec) = world(memory, queues) else {
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
