//! Models that generate and take turns on a slot: a world with the machines of a live engine, beside the simulator of queues.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use weir_policy::generate::{InstanceSpec, LengthSource};
use weir_policy::residency::ModelMemory;
use weir_policy::route::{RouteRule, RouterSpec};
use weir_policy::{Answer, DeviceMemory, DeviceModel, GenerateSpec, Policy, SlotQueues};
use weir_sim::queues::{QueueRequest, QueueWorld, simulate_queues};
use weir_sim::{
    SimulationResult, Tokens, WorkerFailure, WorldGenerate, WorldMemory, WorldModule, WorldPool, WorldSpec,
    control_spec, simulate,
};
use weir_types::{ModelId, Profile, SlotId, Span, StepCurve, StepProfile, Timestamp};

const MODELS: u32 = 3;
/// Each brings a prompt to every model.
const REQUESTS: u32 = 24;
const PROMPT: u32 = 32;
const OUTPUT: u32 = 20;
const SLO: Span = Span::from_secs(600);

fn ms(milliseconds: u64) -> Span {
    Span::from_millis(milliseconds)
}

fn module(id: u32) -> WorldModule {
    let curve = StepCurve::from_points(&[(1, ms(10)), (64, ms(20))]).unwrap();
    let instance = InstanceSpec {
        steps: StepProfile {
            decode: curve.clone(),
            prompt: curve,
        },
        max_step_tokens: 64,
        max_sequences: 8,
        max_sequence_tokens: 128,
        blocks: 64,
        block_tokens: 16,
        reserve_blocks: 0,
        prompt_gives_token: true,
        prefix_tokens: 0,
    };
    WorldModule {
        name: format!("module-{id}"),
        profile: Profile::new(vec![(1, ms(10))]).unwrap(),
        ends: Vec::new(),
        batch: vec![1],
        pool: WorldPool::Generating(Box::new(WorldGenerate {
            spec: GenerateSpec {
                instances: vec![instance],
                router: RouterSpec::new(RouteRule::Earliest),
                max_tokens: OUTPUT,
                answer: Answer::Whole,
                length: LengthSource::default(),
            },
            prompt: Tokens::Fixed(PROMPT),
            prefix: None,
            output: Tokens::Fixed(OUTPUT),
            length_error: None,
            capacity: None,
        })),
        next: Vec::new(),
        weight: 1.0,
        overlap: None,
        model: Some(ModelId(id)),
    }
}

/// A slot with memory for one of the models, and no host memory to open them from.
fn world(queues: SlotQueues) -> WorldSpec {
    let model = |id: u32| DeviceModel {
        model: ModelId(id),
        slots: vec![SlotId(0)],
        memory: ModelMemory {
            device_bytes: 20,
            host_bytes: 20,
        },
        open_cold: ms(500),
        open_warm: ms(500),
    };
    let policy = Policy {
        queues: Some(queues),
        ..Policy::default()
    };
    WorldSpec {
        memory: WorldMemory {
            devices: Vec::new(),
            generating: vec![DeviceMemory {
                memory: 30,
                host_memory: 0,
                models: (0..MODELS).map(model).collect(),
            }],
            names: (0..MODELS).map(|id| format!("model-{id}")).collect(),
        },
        ..WorldSpec::new(SLO, policy, (0..MODELS).map(module).collect())
    }
}

fn arrivals() -> impl Iterator<Item = Timestamp> {
    (0..REQUESTS).map(|number| Timestamp::ZERO + ms(20) * u64::from(number))
}

fn run(spec: &WorldSpec) -> SimulationResult {
    let result = simulate(spec, "queued-models", &mut arrivals(), &mut |_| {});
    let counts = &result.report.requests;
    assert_eq!(
        (counts.arrived, counts.delivered),
        (u64::from(REQUESTS), u64::from(REQUESTS))
    );
    result
}

/// Models that a world opens.
fn openings(result: &SimulationResult) -> u64 {
    let residency = result.report.residency.as_ref().unwrap();
    residency.opened_cold + residency.opened_warm
}

#[test]
fn a_world_opens_models_as_often_as_the_simulator_of_queues() {
    for (queues, least, most) in [(SlotQueues::Virtual, 3, 9), (SlotQueues::Fcfs, 60, 72)] {
        let spec = world(queues);
        let of_world = openings(&run(&spec));
        let control = control_spec(&spec);
        let requests: Vec<QueueRequest> = arrivals()
            .flat_map(|at| {
                (0..MODELS).map(move |model| QueueRequest {
                    at,
                    model: ModelId(model),
                    class: 0,
                    prompt: PROMPT,
                    length: OUTPUT,
                    objective: SLO,
                })
            })
            .collect();
        let alone = QueueWorld {
            queues: control.queues[0].queues.clone(),
            faults: Vec::new(),
        };
        let alone = simulate_queues(&alone, &requests).unwrap();
        let of_queues = alone.opened_cold + alone.opened_warm;
        assert!(
            (least..=most).contains(&of_world),
            "{queues:?}: {of_world} openings"
        );
        assert!(
            of_world.abs_diff(of_queues) <= 3,
            "{queues:?}: {of_world} openings, and {of_queues} of the queues alone"
        );
    }
}

#[test]
fn sequences_of_a_lost_instance_wait_again_and_are_all_delivered() {
    let spec = WorldSpec {
        failures: (0..MODELS)
            .map(|module| WorkerFailure {
                module: module as usize,
                worker: 0,
                at: ms(1_000 + 1_500 * u64::from(module)),
                lasts: ms(700),
            })
            .collect(),
        ..world(SlotQueues::Virtual)
    };
    let result = run(&spec);
    assert!(
        openings(&result) > u64::from(MODELS),
        "what was open is opened again"
    );
}

#[test]
fn groups_are_in_time_where_requests_one_after_the_other_are_late() {
    let delivered = |queues: SlotQueues| {
        let spec = WorldSpec {
            slo: Span::from_secs(8),
            ..world(queues)
        };
        let result = simulate(&spec, "queued-models", &mut arrivals(), &mut |_| {});
        result.report.requests.delivered
    };
    let (groups, each) = (delivered(SlotQueues::Virtual), delivered(SlotQueues::Fcfs));
    assert!(groups > 2 * each, "{groups} in time, and {each} by fcfs");
}
