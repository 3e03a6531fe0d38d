//! `bench-queues`: cost of virtual queues with 400,000 queued requests for eight models on four instances.
//! Prints the time of an arrival (goal: 10 us), and of planning all groups (goal: 50 ms; the paper: 5 s, and
//! 5 ms per request). Processor time is measured, which depends less on other load.

use std::io::Write as _;
use std::process::ExitCode;

use weir_policy::generate::InstanceSpec;
use weir_policy::groups::{
    ModelPrior, Operations, QueueEvent, QueueInstance, QueueRule, Queues, QueuesSpec, ServedModel,
};
use weir_policy::residency::{ModelMemory, ResidencySpec};
use weir_policy::route::Link;
use weir_reproduction::cpu_time::thread_cpu_s;
use weir_types::{ModelId, SequenceId, Span, StepCurve, StepProfile, Timestamp};

const REQUESTS: u64 = 400_000;
const MODELS: usize = 8;
/// Arrivals of which each is timed.
const EVERY: u64 = 50;

fn spec(rule: QueueRule) -> Option<QueuesSpec> {
    let at = Span::from_micros;
    let curve = || StepCurve::from_points(&[(1, at(15_000)), (128, at(26_000)), (512, at(59_000))]).ok();
    let served = ServedModel {
        spec: InstanceSpec {
            steps: StepProfile {
                decode: curve()?,
                prompt: curve()?,
            },
            max_step_tokens: 512,
            max_sequences: 128,
            max_sequence_tokens: 8_192,
            blocks: 32_000,
            block_tokens: 16,
            reserve_blocks: 300,
            prompt_gives_token: true,
            prefix_tokens: 0,
        },
        cache_bytes: 131_072.0,
        open_cold: Span::from_secs(12),
        open_warm: Span::from_secs(2),
    };
    let memory = ModelMemory {
        device_bytes: 16,
        host_bytes: 16,
    };
    let instance = QueueInstance {
        models: vec![served; MODELS],
        residency: ResidencySpec {
            memory: Some(16),
            host_memory: 64,
            same_bytes: Vec::new(),
            models: vec![memory; MODELS],
        },
        swap_memory: 1 << 36,
        host_link: Link {
            latency: Span::from_millis(1),
            bandwidth_bps: 1e11,
        },
        reserved: 0.0,
    };
    let prior = ModelPrior {
        prompt: 1_155.0,
        output: 211.0,
        output_deviation: 160.0,
    };
    Some(QueuesSpec {
        rule,
        operations: Operations::ALL,
        delta: 4.0,
        models: vec![prior; MODELS],
        instances: vec![instance; 4],
    })
}

fn arrived(number: u64, now: Timestamp) -> QueueEvent {
    let hash = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let class = u32::from(hash >> 60 != 0);
    QueueEvent::Arrived {
        request: SequenceId(number),
        model: ModelId((hash >> 40) as u32 % MODELS as u32),
        class,
        prompt: 100 + (hash >> 20) as u32 % 4_000,
        deadline: now + Span::from_secs(if class == 0 { 30 } else { 300 }),
    }
}

fn main() -> ExitCode {
    let mut out = std::io::stdout();
    for (name, rule) in [
        ("as in the paper", QueueRule::PAPER),
        ("default", QueueRule::WEIR),
    ] {
        let Some(spec) = spec(rule) else {
            let _ = writeln!(std::io::stderr(), "bench-queues: the instances are none");
            return ExitCode::FAILURE;
        };
        let mut queues = Queues::new(spec);
        let mut effects = Vec::new();
        let (mut arrivals_s, mut arrivals, mut plans, mut longest_plan_s) = (0.0, 0_u64, 0_u64, 0.0_f64);
        let mut longest_arrival_s = 0.0_f64;
        let mut now = Timestamp::ZERO;
        for number in 0..REQUESTS {
            now = now + Span::from_micros(100);
            let replans = queues.stats().replans;
            let before = thread_cpu_s();
            queues.step(arrived(number, now), now, &mut effects);
            let took_s = thread_cpu_s() - before;
            effects.clear();
            if queues.stats().replans > replans {
                plans += 1;
                longest_plan_s = longest_plan_s.max(took_s);
            } else if number % EVERY == 0 {
                arrivals += 1;
                arrivals_s += took_s;
                longest_arrival_s = longest_arrival_s.max(took_s);
            }
        }
        // Checks and plans while all requests are queued.
        let (mut checks_s, mut checks) = (0.0_f64, 0_u64);
        for number in 0..20 {
            now = now + Span::from_secs(1);
            let replans = queues.stats().replans;
            queues.step(arrived(REQUESTS + number, now), now, &mut effects);
            let before = thread_cpu_s();
            queues.step(QueueEvent::Timer, now, &mut effects);
            let took_s = thread_cpu_s() - before;
            effects.clear();
            if queues.stats().replans > replans {
                plans += 1;
                longest_plan_s = longest_plan_s.max(took_s);
            } else {
                checks += 1;
                checks_s += took_s;
            }
        }
        // Standard output may be closed.
        let _ = writeln!(
            out,
            "{name}: {} requests in {} groups: an arrival {:.2} us (longest {:.0} us); {plans} plans, the longest {:.1} ms; \
             a check {:.2} ms",
            queues.waiting(),
            queues.groups(),
            1e6 * arrivals_s / arrivals.max(1) as f64,
            1e6 * longest_arrival_s,
            1e3 * longest_plan_s,
            1e3 * checks_s / checks.max(1) as f64,
        );
    }
    ExitCode::SUCCESS
}
