//! Complete runs: all requests end, memory limits hold, instances fail, and rules compare as expected.

use weir_policy::generate::InstanceSpec;
use weir_policy::groups::{ModelPrior, Operations, QueueInstance, QueueRule, QueuesSpec, ServedModel};
use weir_policy::residency::{ModelMemory, ResidencySpec};
use weir_policy::route::Link;
use weir_types::{InstanceId, Span, StepCurve, StepProfile, Timestamp};

use super::*;

fn served() -> ServedModel {
    let ms = |ms: u64| Span::from_millis(ms);
    let curve = || StepCurve::from_points(&[(1, ms(16)), (64, ms(22)), (512, ms(60))]).unwrap();
    ServedModel {
        spec: InstanceSpec {
            steps: StepProfile {
                decode: curve(),
                prompt: curve(),
            },
            max_step_tokens: 512,
            max_sequences: 64,
            max_sequence_tokens: 8_192,
            blocks: 2_000,
            block_tokens: 16,
            reserve_blocks: 20,
            prompt_gives_token: true,
            prefix_tokens: 0,
        },
        cache_bytes: 131_072.0,
        open_cold: Span::from_secs(10),
        open_warm: Span::from_secs(2),
    }
}

fn world(rule: QueueRule, models: usize) -> QueueWorld {
    let memory = ModelMemory {
        device_bytes: 16 << 30,
        host_bytes: 16 << 30,
    };
    let instance = QueueInstance {
        models: vec![served(); models],
        residency: ResidencySpec {
            memory: Some(24 << 30),
            host_memory: 64 << 30,
            same_bytes: Vec::new(),
            models: vec![memory; models],
        },
        swap_memory: 16 << 30,
        host_link: Link {
            latency: Span::from_millis(1),
            bandwidth_bps: 1e11,
        },
        reserved: 0.0,
    };
    let prior = ModelPrior {
        prompt: 400.0,
        output: 80.0,
        output_deviation: 40.0,
    };
    QueueWorld {
        queues: QueuesSpec {
            rule,
            operations: Operations::ALL,
            delta: 4.0,
            models: vec![prior; models],
            instances: vec![instance; 2],
        },
        faults: Vec::new(),
    }
}

fn workload(rate: f64) -> QueueWorkload {
    QueueWorkload {
        rate,
        requests: 200,
        hot: vec![2.0, 1.0],
        tail: 2,
        tail_share: 0.3,
        classes: vec![
            ClassSpec {
                share: 0.3,
                slo: Span::from_secs(20),
            },
            ClassSpec {
                share: 0.7,
                slo: Span::from_secs(120),
            },
        ],
        mega: None,
        lengths: vec![[200, 40], [400, 80], [600, 120]],
    }
}

const RULES: [QueueRule; 6] = [
    QueueRule::Fcfs,
    QueueRule::Edf,
    QueueRule::Shepherd,
    QueueRule::Sticky,
    QueueRule::PAPER,
    QueueRule::WEIR,
];

#[test]
fn all_requests_end_within_memory_under_every_rule() {
    let requests = workload(3.0).draw(1);
    for rule in RULES {
        let world = world(rule, 4);
        let result = simulate_queues(&world, &requests).unwrap();
        let ended = result
            .requests
            .iter()
            .filter(|outcome| outcome.last.is_some())
            .count();
        assert_eq!(ended, requests.len(), "{rule:?}");
        assert!(result.max_used.iter().all(|used| *used <= 24 << 30), "{rule:?}");
        assert_eq!(result, simulate_queues(&world, &requests).unwrap(), "{rule:?}");
    }
}

#[test]
fn a_lost_instance_costs_no_request() {
    let requests = workload(3.0).draw(2);
    for rule in RULES {
        let world = QueueWorld {
            faults: vec![InstanceFault {
                instance: InstanceId(1),
                at: Timestamp::ZERO + Span::from_secs(15),
                until: Timestamp::ZERO + Span::from_secs(40),
            }],
            ..world(rule, 4)
        };
        let result = simulate_queues(&world, &requests).unwrap();
        let ended = result
            .requests
            .iter()
            .filter(|outcome| outcome.last.is_some())
            .count();
        assert_eq!(ended, requests.len(), "{rule:?}");
    }
}

#[test]
fn without_any_operation_all_requests_end_too() {
    let requests = workload(3.0).draw(3);
    let mut world = world(QueueRule::WEIR, 4);
    world.queues.operations = Operations {
        evict: false,
        swap: false,
        balance: false,
        warm_start: false,
        reorder: false,
    };
    let result = simulate_queues(&world, &requests).unwrap();
    assert!(result.requests.iter().all(|outcome| outcome.last.is_some()));
    assert_eq!(
        (result.opened_warm, result.stats.evicted + result.stats.swapped),
        (0, 0)
    );
}

#[test]
fn groups_open_models_far_less_often_than_arrivals_ask_for_them() {
    let requests = workload(6.0).draw(4);
    let run = |rule| simulate_queues(&world(rule, 4), &requests).unwrap();
    let (fcfs, weir) = (run(QueueRule::Fcfs), run(QueueRule::WEIR));
    let opened = |result: &QueueResult| result.opened_cold + result.opened_warm;
    assert!(
        3 * opened(&weir) < opened(&fcfs),
        "{} {}",
        opened(&weir),
        opened(&fcfs)
    );
    assert!(weir.throughput() > 2.0 * fcfs.throughput());
    assert!(weir.attainment(&requests, None) > fcfs.attainment(&requests, None));
}

#[test]
fn no_class_starves_while_the_load_is_below_what_instances_can_do() {
    let requests = workload(1.5).draw(5);
    let result = simulate_queues(&world(QueueRule::WEIR, 4), &requests).unwrap();
    for class in [0, 1] {
        assert!(result.attainment(&requests, Some(class)) > 0.9, "class {class}");
    }
}

/// Caches for two or three requests, under load, with host memory for none, one or all of the returned
/// caches: every returned sequence resumes.
#[test]
fn a_full_cache_never_stands_still_whichever_way_sequences_go_back() {
    let mut returned = 0;
    for seed in [6, 7] {
        let requests = workload(4.0).draw(seed);
        for rule in RULES {
            for (evict, swap) in [(true, true), (true, false), (false, true), (false, false)] {
                for swap_memory in [0, 100 << 20, 16 << 30] {
                    let mut world = world(rule, 4);
                    world.queues.operations = Operations {
                        evict,
                        swap,
                        ..Operations::ALL
                    };
                    for instance in &mut world.queues.instances {
                        instance.swap_memory = swap_memory;
                        for served in &mut instance.models {
                            (served.spec.blocks, served.spec.reserve_blocks) = (100, 2);
                            served.spec.max_sequence_tokens = 1_500;
                        }
                    }
                    let result = simulate_queues(&world, &requests).unwrap();
                    let ended = result.requests.iter().filter(|outcome| outcome.last.is_some());
                    let what =
                        format!("{rule:?}, evict {evict}, swap {swap}, {swap_memory} bytes, seed {seed}");
                    assert_eq!(ended.count(), requests.len(), "{what}");
                    returned += result.stats.evicted + result.stats.swapped;
                }
            }
        }
    }
    assert!(returned > 20, "{returned}");
}
