//! Modules that follow each other on slots whose order of work is planned, under more load than they sustain.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use weir_policy::residency::ModelMemory;
use weir_policy::{DeviceMemory, DeviceModel, DropRule, Policy, SlotQueues};
use weir_sim::{Edge, WorldMemory, WorldModule, WorldPool, WorldSpec, simulate};
use weir_types::{ModelId, Profile, SlotId, Span, Timestamp};

const MODULES: u32 = 5;
const SLOTS: u32 = 4;
const MIB: u64 = 1 << 20;

/// A chain whose models are all in memory.
fn chain(queues: Option<SlotQueues>) -> WorldSpec {
    let points = [(1, 10), (2, 14), (4, 22), (8, 38)].map(|(size, ms)| (size, Span::from_millis(ms)));
    let profile = Profile::new(points.to_vec()).unwrap();
    let module = |index: u32| WorldModule {
        name: format!("module-{index}"),
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
        model: Some(ModelId(index)),
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
    let memory = u64::from(MODULES * SLOTS) * MIB;
    let device = DeviceMemory {
        memory,
        host_memory: memory,
        models: (0..MODULES).map(model).collect(),
    };
    let policy = Policy {
        drop: DropRule::by_name("weir").unwrap(),
        queues,
        ..Policy::default()
    };
    WorldSpec {
        shared_slots: SLOTS,
        memory: WorldMemory {
            devices: vec![device],
            names: (0..MODULES).map(|index| format!("model-{index}")).collect(),
        },
        ..WorldSpec::new(Span::from_millis(500), policy, (0..MODULES).map(module).collect())
    }
}

#[test]
fn what_was_begun_is_not_left_for_what_is_new() {
    let delivered = |queues| {
        let mut arrivals = (0..3_000).map(|number| Timestamp::from_micros(number * 4_600));
        let ran = simulate(&chain(queues), "chain", &mut arrivals, &mut |_| ());
        ran.report.requests.delivered
    };
    let (plain, planned) = (delivered(None), delivered(Some(SlotQueues::Virtual)));
    // The order of groups costs something there; before what was begun counted for more, it cost two fifths.
    assert!(planned * 4 >= plain * 3, "{planned} of {plain}");
}
