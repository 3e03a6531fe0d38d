//! A chain of modules with one model each, on slots whose memory holds all of them: measures the cost of
//! limited memory and planned queues if they have nothing to decide.

use weir_policy::residency::ModelMemory;
use weir_policy::{DeviceMemory, DeviceModel, DropRule, Lookahead, Policy, SlotQueues};
use weir_sim::{Edge, WorldMemory, WorldModule, WorldPool, WorldSpec};
use weir_types::{ModelId, Profile, SlotId, Span};

/// Modules in a row.
pub const MODULES: u32 = 5;
const SLOTS: u32 = 4;
const MIB: u64 = 1 << 20;
/// Milliseconds of a batch of four.
const BATCH_MS: f64 = 22.0;
/// Requests a second that the slots sustain in batches of four.
pub const SUSTAINED_RPS: f64 = SLOTS as f64 * 4.0 / (MODULES as f64 * BATCH_MS / 1e3);

/// The world, with or without limited memory; `None` if its profile is invalid.
#[must_use]
pub fn memory_chain(memory: bool, queues: Option<SlotQueues>) -> Option<WorldSpec> {
    let points = [(1, 10), (2, 14), (4, 22), (8, 38)];
    let profile = Profile::new(points.map(|(size, ms)| (size, Span::from_millis(ms))).to_vec())?;
    let module = |index: u32| WorldModule {
        ends: Vec::new(),
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
            generating: Vec::new(),
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
