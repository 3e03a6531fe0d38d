//! Setting: four instances of a model of 8 B parameters, and their workload (Figure 2 of the paper, with our
//! data).

use std::path::PathBuf;

use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;
use weir_policy::generate::InstanceSpec;
use weir_policy::route::{RouteRule, RouterSpec};
use weir_sim::generate::{
    GenerateCluster, GenerateRequest, GenerateResult, LengthRule, MoveLink, published_instance,
    simulate_cluster, smoothed,
};
use weir_types::{Span, Timestamp};

use super::ReproduceError;
use super::lengths::compare::Predictor;
use super::lengths::scenes::scenes;

/// Files of the asset pack with the step times, the slowest first: in place of V100, A40, A800 and H800.
const INSTANCES: [(&str, &str); 4] = [
    ("V100", "Llama-3.1-8B-Instruct_1-V100"),
    ("2 V100", "Llama-3.1-8B-Instruct_2-V100"),
    ("A100", "Llama-8B-bf16_1-A100"),
    ("4 H100", "Llama-8B-fp8_4-H100"),
];
/// Most tokens of a step.
const MAX_STEP_TOKENS: u32 = 512;
/// Requests of a run.
const REQUESTS: usize = 600;
/// Tokens of a prompt.
const PROMPT: u32 = 100;
/// Tokens that are generated after it: evenly among these.
const LENGTHS: std::ops::RangeInclusive<u32> = 100..=500;
/// Expected output length in tokens before any sequence has finished: the mean.
const PRIOR: u32 = 300;

/// Requests a second.
pub const RATES: [u32; 5] = [10, 20, 30, 40, 50];
/// Seconds within which a request must have its last token.
pub const OBJECTIVES: [u32; 3] = [6, 9, 12];
/// Seeds of every case.
pub const SEEDS: [u64; 5] = [1, 2, 3, 4, 5];

/// Devices of the simulated cluster.
#[derive(Debug, Clone, PartialEq)]
pub struct Devices {
    /// Names of the devices, the slowest first.
    pub names: Vec<&'static str>,
    /// Step times and limits of each device.
    pub instances: Vec<InstanceSpec>,
}

impl Devices {
    /// Reads the devices from the asset pack that `WEIR_ASSETS` names.
    ///
    /// # Errors
    /// [`ReproduceError`] if the asset pack is missing or a file is not valid.
    pub fn from_env() -> Result<Self, ReproduceError> {
        let assets = std::env::var_os("WEIR_ASSETS").ok_or(ReproduceError::NoAssets)?;
        let folder = PathBuf::from(assets).join("profiles/llm/steps");
        let mut instances = Vec::new();
        for (_, file) in INSTANCES {
            let path = folder.join(format!("{file}_complete_profile.json"));
            instances.push(smoothed(&published_instance(&path, Some(MAX_STEP_TOKENS))?));
        }
        Ok(Self {
            names: INSTANCES.map(|(name, _)| name).into(),
            instances,
        })
    }
}

/// Requests of one seed: exponential gaps, lengths evenly distributed.
#[must_use]
pub fn requests(rate: f64, objective: Span, seed: u64) -> Vec<GenerateRequest> {
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    let mut at_s = 0.0;
    (0..REQUESTS)
        .map(|_| {
            let uniform: f64 = rng.random();
            at_s += -(1.0 - uniform).ln() / rate;
            GenerateRequest {
                at: Timestamp::ZERO + Span::from_secs_f64(at_s),
                prompt: PROMPT,
                length: rng.random_range(LENGTHS),
                objective,
                prefix: None,
                predicted: None,
            }
        })
        .collect()
}

/// Requests that are scenes to be described: their prompts, lengths and what is predicted of them.
#[must_use]
pub fn scene_requests(rate: f64, objective: Span, seed: u64, predictor: &Predictor) -> Vec<GenerateRequest> {
    let mut rng = Pcg64Mcg::seed_from_u64(seed ^ 0x5ce9e);
    let all = requests(rate, objective, seed);
    let described = scenes(all.len(), 50_000 + seed);
    all.into_iter()
        .zip(described)
        .map(|(request, scene)| GenerateRequest {
            prompt: scene.prompt,
            length: scene.length,
            predicted: Some(predictor.length(&scene, rng.random())),
            ..request
        })
        .collect()
}

/// Combination of parameters that is simulated.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Case {
    /// Rule that routes requests to instances.
    pub rule: RouteRule,
    /// Rule that predicts output lengths.
    pub lengths: LengthRule,
    /// Arrival rate in requests per second.
    pub rate: u32,
    /// Objective in seconds: the time within which a request must have its last token.
    pub objective_s: u32,
    /// Interval in tokens between two checks of a sequence.
    pub check_tokens: u32,
}

impl Case {
    /// Creates a case with the paper's check interval.
    #[must_use]
    pub const fn new(rule: RouteRule, lengths: LengthRule, rate: u32, objective_s: u32) -> Self {
        Self {
            rule,
            lengths,
            rate,
            objective_s,
            check_tokens: 50,
        }
    }

    fn cluster(&self, devices: &Devices, seed: u64) -> GenerateCluster {
        GenerateCluster {
            instances: devices.instances.clone(),
            router: RouterSpec {
                check_tokens: self.check_tokens,
                seed,
                ..RouterSpec::new(self.rule)
            },
            link: MoveLink::TOKEN_IDS,
            lengths: self.lengths,
            prior_length: PRIOR,
            seed,
        }
    }

    /// Simulates the case with one seed; returns the requests and their outcomes.
    ///
    /// # Errors
    /// [`ReproduceError::Cluster`] if the instances are invalid.
    pub fn run_one(
        &self,
        devices: &Devices,
        seed: u64,
    ) -> Result<(Vec<GenerateRequest>, GenerateResult), ReproduceError> {
        let objective = Span::from_secs(u64::from(self.objective_s));
        let requests = requests(f64::from(self.rate), objective, seed);
        let result = simulate_cluster(&self.cluster(devices, seed), &requests)?;
        Ok((requests, result))
    }

    /// Share of scenes that are described in time with predicted lengths, the mean over the seeds.
    ///
    /// # Errors
    /// [`ReproduceError::Cluster`] if the instances are invalid.
    pub fn run_scenes(&self, devices: &Devices, predictor: &Predictor) -> Result<f64, ReproduceError> {
        let mut sum = 0.0;
        for seed in SEEDS {
            let objective = Span::from_secs(u64::from(self.objective_s));
            let requests = scene_requests(f64::from(self.rate), objective, seed, predictor);
            let result = simulate_cluster(&self.cluster(devices, seed), &requests)?;
            sum += result.in_time(&requests) as f64 / requests.len() as f64;
        }
        Ok(sum / SEEDS.len() as f64)
    }

    /// Simulates the case with all seeds.
    ///
    /// # Errors
    /// As [`Self::run_one`].
    pub fn run(&self, devices: &Devices) -> Result<Outcome, ReproduceError> {
        let mut shares = Vec::with_capacity(SEEDS.len());
        let (mut moves, mut dropped) = (0, 0);
        for seed in SEEDS {
            let (requests, result) = self.run_one(devices, seed)?;
            shares.push(result.in_time(&requests) as f64 / requests.len() as f64);
            moves += result.requests.iter().map(|request| request.moves).sum::<u32>();
            dropped += result
                .requests
                .iter()
                .filter(|request| request.dropped.is_some())
                .count();
        }
        Ok(Outcome {
            case: *self,
            shares,
            moves,
            dropped,
        })
    }
}

/// Results of a case over all seeds.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// Case that was simulated.
    pub case: Case,
    /// Share of requests within the objective, by seed.
    pub shares: Vec<f64>,
    /// Number of migrations over all seeds.
    pub moves: u32,
    /// Number of dropped requests over all seeds.
    pub dropped: usize,
}

impl Outcome {
    /// Mean part of requests in time.
    #[must_use]
    pub fn share(&self) -> f64 {
        self.shares.iter().sum::<f64>() / self.shares.len().max(1) as f64
    }

    /// Requests in time for each second of arrivals.
    #[must_use]
    pub fn goodput(&self) -> f64 {
        self.share() * f64::from(self.case.rate)
    }

    /// Goodput of the worst and the best seed.
    #[must_use]
    pub fn goodput_range(&self) -> (f64, f64) {
        let all = self.shares.iter().map(|share| share * f64::from(self.case.rate));
        all.fold((f64::INFINITY, 0.0), |(low, high), goodput| {
            (low.min(goodput), high.max(goodput))
        })
    }
}
