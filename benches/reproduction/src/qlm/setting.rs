//! Four instances, one or eight models, and what is asked of them (section 8, workloads A, B and C).

use std::path::PathBuf;

use weir_policy::generate::InstanceSpec;
use weir_policy::groups::{ModelPrior, Operations, QueueInstance, QueueRule, QueuesSpec, ServedModel};
use weir_policy::residency::{ModelMemory, ResidencySpec};
use weir_policy::route::Link;
use weir_sim::generate::{published_instance, smoothed};
use weir_sim::queues::{
    ClassSpec, MegaSpec, QueueRequest, QueueResult, QueueWorkload, QueueWorld, simulate_queues,
};
use weir_sim::traces::lengths_azure_llm;
use weir_types::Span;

use super::ReproduceError;

/// Number of instances.
pub const INSTANCES: usize = 4;
/// Seeds of every case.
pub const SEEDS: [u64; 5] = [1, 2, 3, 4, 5];
/// Files of the asset pack with the step times of a model of 8 B parameters.
const FAST: &str = "Llama-8B-bf16_1-A100";
const SLOW: &str = "Llama-3.1-8B-Instruct_2-V100";
/// Maximum number of tokens of a step, and of concurrent sequences.
const MAX_STEP_TOKENS: u32 = 512;
const MAX_SEQUENCES: u32 = 128;
const GIB: u64 = 1 << 30;
/// Size of a model's weights in bytes, with 16-bit values.
const MODEL_BYTES: u64 = 16 * GIB;
/// Longest recorded request, in prompt and output tokens together. Longer ones are left out, since no
/// instance could hold them.
const MAX_TOKENS: u32 = 7_500;

/// Folder of the asset pack, from `WEIR_ASSETS`.
///
/// # Errors
/// [`ReproduceError::NoAssets`] if the variable is unset.
pub fn assets() -> Result<PathBuf, ReproduceError> {
    let assets = std::env::var_os("WEIR_ASSETS").ok_or(ReproduceError::NoAssets)?;
    Ok(PathBuf::from(assets))
}

/// Devices and lengths.
#[derive(Debug, Clone, PartialEq)]
pub struct Devices {
    fast: InstanceSpec,
    slow: InstanceSpec,
    lengths: Vec<[u32; 2]>,
}

impl Devices {
    /// Reads the devices from the asset pack that `WEIR_ASSETS` names.
    ///
    /// # Errors
    /// [`ReproduceError`] if the asset pack is missing or a file is not valid.
    pub fn from_env() -> Result<Self, ReproduceError> {
        let assets = assets()?;
        let instance = |file: &str| -> Result<InstanceSpec, ReproduceError> {
            let path = assets.join(format!("profiles/llm/steps/{file}_complete_profile.json"));
            let spec = smoothed(&published_instance(&path, Some(MAX_STEP_TOKENS))?);
            Ok(InstanceSpec {
                max_sequences: MAX_SEQUENCES,
                max_sequence_tokens: 8_192,
                ..spec
            })
        };
        let mut lengths = lengths_azure_llm(&assets.join("traces/azure_llm2023_conv.csv.gz"))?;
        lengths.retain(|[prompt, output]| prompt + output <= MAX_TOKENS);
        Ok(Self {
            fast: instance(FAST)?,
            slow: instance(SLOW)?,
            lengths,
        })
    }
}

/// Combination of parameters that is simulated.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Case {
    /// Rule that picks the next request.
    pub rule: QueueRule,
    /// Queue operations that the rule may use.
    pub operations: Operations,
    /// Maximum size of a group, in mean batches.
    pub delta: f64,
    /// True for eight models, false for one.
    pub has_many: bool,
    /// Arrival rate in requests per second.
    pub rate: f64,
    /// Number of requests.
    pub requests: usize,
    /// Share of requests for models of the tail.
    pub tail_share: f64,
    /// Share of urgent requests.
    pub urgent_share: f64,
    /// Factor by which objectives are multiplied.
    pub scale: f64,
    /// Share of requests that are far larger than the rest.
    pub mega_share: f64,
    /// Number of slow instances.
    pub slow: usize,
}

impl Case {
    /// Workload A at its middle: eight models.
    #[must_use]
    pub const fn many(rule: QueueRule) -> Self {
        Self {
            rule,
            operations: Operations::ALL,
            delta: 4.0,
            has_many: true,
            rate: 8.0,
            requests: 2_000,
            tail_share: 0.2,
            urgent_share: 0.2,
            scale: 1.0,
            mega_share: 0.0,
            slow: 0,
        }
    }

    /// Workload B at its middle: one model, and more than the instances can serve.
    #[must_use]
    pub const fn one(rule: QueueRule) -> Self {
        Self {
            has_many: false,
            rate: 40.0,
            tail_share: 0.0,
            requests: 4_000,
            ..Self::many(rule)
        }
    }

    fn workload(&self, devices: &Devices) -> QueueWorkload {
        let slo = |seconds: f64| Span::from_secs_f64(self.scale * seconds);
        QueueWorkload {
            rate: self.rate,
            requests: self.requests,
            // Asked for after Zipf; the rest of eight are the tail.
            hot: if self.has_many {
                vec![6.0, 3.0, 2.0]
            } else {
                vec![1.0]
            },
            tail: if self.has_many { 5 } else { 0 },
            tail_share: self.tail_share,
            classes: vec![
                ClassSpec {
                    share: self.urgent_share,
                    slo: slo(30.0),
                },
                ClassSpec {
                    share: 1.0 - self.urgent_share,
                    slo: slo(300.0),
                },
            ],
            mega: (self.mega_share > 0.0).then_some(MegaSpec {
                share: self.mega_share,
                prompt: 5_000,
                length: 1_500,
            }),
            lengths: devices.lengths.clone(),
        }
    }

    fn world(&self, devices: &Devices) -> QueueWorld {
        let workload = self.workload(devices);
        let [prompt, output, output_deviation] = workload.moments();
        let models = workload.models();
        let memory = ModelMemory {
            device_bytes: MODEL_BYTES,
            host_bytes: MODEL_BYTES,
        };
        let instance = |index: usize| {
            let spec = if index < self.slow {
                &devices.slow
            } else {
                &devices.fast
            };
            let served = ServedModel {
                spec: spec.clone(),
                cache_bytes: 131_072.0,
                open_cold: Span::from_secs(12),
                open_warm: Span::from_secs(2),
            };
            QueueInstance {
                models: vec![served; models],
                residency: ResidencySpec {
                    // One model: the rest of the memory is its cache.
                    memory: Some(MODEL_BYTES),
                    host_memory: 4 * MODEL_BYTES,
                    same_bytes: Vec::new(),
                    models: vec![memory; models],
                },
                swap_memory: 64 * GIB,
                // PCIe 4.0 of 16 lanes, half of which is reached.
                host_link: Link {
                    latency: Span::from_millis(1),
                    bandwidth_bps: 1e11,
                },
                reserved: 0.0,
            }
        };
        let prior = ModelPrior {
            prompt,
            output,
            output_deviation,
        };
        QueueWorld {
            queues: QueuesSpec {
                rule: self.rule,
                operations: self.operations,
                delta: self.delta,
                models: vec![prior; models],
                instances: (0..INSTANCES).map(instance).collect(),
            },
            faults: Vec::new(),
        }
    }

    /// Simulates the case with one seed; returns the requests and their outcomes.
    ///
    /// # Errors
    /// [`ReproduceError::World`] if the instances are invalid.
    pub fn run_one(
        &self,
        devices: &Devices,
        seed: u64,
    ) -> Result<(Vec<QueueRequest>, QueueResult), ReproduceError> {
        let requests = self.workload(devices).draw(seed);
        let result = simulate_queues(&self.world(devices), &requests)?;
        Ok((requests, result))
    }

    /// With the first `seeds` of [`SEEDS`].
    ///
    /// # Errors
    /// As [`Self::run_one`].
    pub fn run(&self, devices: &Devices, seeds: usize) -> Result<Outcome, ReproduceError> {
        let mut runs = Vec::new();
        for seed in SEEDS.into_iter().take(seeds) {
            let (requests, result) = self.run_one(devices, seed)?;
            runs.push(Run {
                throughput: result.throughput(),
                all: 100.0 * result.attainment(&requests, None),
                urgent: 100.0 * result.attainment(&requests, Some(0)),
                batch: 100.0 * result.attainment(&requests, Some(1)),
                opened: (result.opened_cold + result.opened_warm) as f64,
                warm: result.opened_warm as f64,
                returned: (result.stats.evicted + result.stats.swapped) as f64,
                replans: result.stats.replans as f64,
                r2: result.r2().unwrap_or(f64::NAN),
            });
        }
        Ok(Outcome { case: *self, runs })
    }
}

/// Results of a case with one seed. Attainments are percentages of requests in time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Run {
    /// Requests per second until the last request ended.
    pub throughput: f64,
    /// Attainment of all requests.
    pub all: f64,
    /// Attainment of urgent requests.
    pub urgent: f64,
    /// Attainment of the other requests.
    pub batch: f64,
    /// Number of models loaded.
    pub opened: f64,
    /// Number of these that were loaded from host memory.
    pub warm: f64,
    /// Number of requests that were returned to their queue.
    pub returned: f64,
    /// Number of times that the order was planned.
    pub replans: f64,
    /// Coefficient of determination between estimated and actual completion times.
    pub r2: f64,
}

/// Results of a case over all seeds.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// Case that was simulated.
    pub case: Case,
    /// Results by seed.
    pub runs: Vec<Run>,
}

impl Outcome {
    /// Mean over the seeds.
    #[must_use]
    pub fn mean(&self, of: impl Fn(&Run) -> f64) -> f64 {
        self.runs.iter().map(of).sum::<f64>() / self.runs.len().max(1) as f64
    }

    /// The worst and the best seed.
    #[must_use]
    pub fn range(&self, of: impl Fn(&Run) -> f64) -> (f64, f64) {
        let all = self.runs.iter().map(of);
        all.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
            (low.min(value), high.max(value))
        })
    }
}
