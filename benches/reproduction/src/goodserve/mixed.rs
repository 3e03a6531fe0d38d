//! The paper's own form of objectives (4.1): one to three times the time that a request takes alone on the middle
//! device; mixed tasks, whose lengths are predicted from their words and again on the way; and bursts.

use std::path::Path;

use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;
use weir_policy::generate::InstanceSpec;
use weir_policy::route::{Moves, RouteRule, RouterSpec};
use weir_sim::generate::{
    GenerateCluster, GenerateRequest, InstanceDriver, LengthRule, MoveLink, Placed, simulate_predicted,
};
use weir_types::{SequenceId, Span, Timestamp};

use super::ReproduceError;
use super::lengths::tasks::{Task, tasks};
use super::lengths::words::{self, ComparedWords, TaskPredictor};
use super::setting::Devices;
use super::studies::{COMPARED, baselines, just_enough, rules};
use crate::document::{self, Filling};
use crate::parallel::in_parallel;
use crate::plot::markdown;

/// Times that a request takes alone on the middle device, which its objective has (4.1).
pub const SCALES: [f64; 5] = [1.0, 1.5, 2.0, 2.5, 3.0];
/// Requests a second, in the mean.
pub const RATES: [u32; 3] = [10, 20, 30];
/// Seeds of every case.
pub const SEEDS: [u64; 3] = [1, 2, 3];
/// Scale and rate at which predictors are compared.
pub const MIDDLE: (f64, u32) = (2.0, 20);
/// Requests of a run.
const REQUESTS: usize = 600;
/// Index of the middle device, an A100 for the paper's A800.
const MIDDLE_DEVICE: usize = 2;
/// Interval in tokens between two checks of a sequence: the paper's.
const CHECK_TOKENS: u32 = 50;
/// Mean durations of bursts and of the times between them, in seconds, and the rate in each beside the mean rate.
const PHASES: [(f64, f64); 2] = [(5.0, 2.5), (10.0, 0.25)];

/// Source of lengths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lengths {
    /// The first prediction, less the tokens that there are.
    First,
    /// A new prediction at each check, from the text so far.
    Again,
}

/// Combination of parameters that is simulated. `predictor` is the index of a row of [`words::compared`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MixedCase {
    /// Rule that routes requests to instances.
    pub rule: RouteRule,
    /// Times that a request takes alone on the middle device.
    pub scale: f64,
    /// Arrival rate in requests per second, in the mean.
    pub rate: u32,
    /// Index of the predictor.
    pub predictor: usize,
    /// Use of that predictor.
    pub lengths: Lengths,
}

/// The tasks of one seed.
#[derive(Debug)]
struct TaskSet {
    seed: u64,
    tasks: Vec<Task>,
    /// Time of each alone on the middle device.
    alone: Vec<Span>,
    /// By predictor and task: remaining tokens that are predicted at each check.
    predicted: Vec<Vec<Vec<u32>>>,
}

impl TaskSet {
    fn new(seed: u64, middle: &InstanceSpec, predictors: &[ComparedWords]) -> Self {
        let tasks = tasks(REQUESTS, 20_000 + seed);
        let alone = tasks.iter().map(|task| alone(middle, task)).collect();
        let predicted = predictors
            .iter()
            .map(|one| predictions(&one.predictor, &tasks, seed))
            .collect();
        Self {
            seed,
            tasks,
            alone,
            predicted,
        }
    }

    fn requests(&self, case: &MixedCase) -> Vec<GenerateRequest> {
        let arrivals = bursts(f64::from(case.rate), self.tasks.len(), self.seed);
        let all = self.tasks.iter().zip(&self.alone).zip(arrivals);
        all.map(|((task, alone), at)| GenerateRequest {
            at,
            prompt: task.prompt.len() as u32,
            length: task.length(),
            objective: alone.scale(case.scale),
            prefix: None,
            predicted: None,
        })
        .collect()
    }

    /// Share of requests in time.
    fn run(&self, case: &MixedCase, instances: &[InstanceSpec]) -> Result<f64, ReproduceError> {
        let cluster = GenerateCluster {
            instances: instances.to_vec(),
            router: RouterSpec {
                check_tokens: CHECK_TOKENS,
                seed: self.seed,
                ..RouterSpec::new(case.rule)
            },
            link: MoveLink::TOKEN_IDS,
            // The predictor knows each length.
            lengths: LengthRule::Mean,
            prior_length: 300,
            seed: self.seed,
        };
        let predicted = &self.predicted[case.predictor];
        let predict = |number: usize, generated: u32| {
            let own = predicted.get(number)?;
            match case.lengths {
                Lengths::Again => own.get((generated / CHECK_TOKENS) as usize).copied(),
                Lengths::First => own.first().map(|total| total.saturating_sub(generated)),
            }
        };
        let requests = self.requests(case);
        let result = simulate_predicted(&cluster, &requests, &predict)?;
        Ok(result.in_time(&requests) as f64 / requests.len().max(1) as f64)
    }
}

/// Remaining tokens of each task, as predicted at each check before its end.
fn predictions(predictor: &TaskPredictor, tasks: &[Task], seed: u64) -> Vec<Vec<u32>> {
    let mut rng = Pcg64Mcg::seed_from_u64(seed ^ 0x0070_6c61_6e73);
    let of = |task: &Task| -> Vec<u32> {
        let draw: f64 = rng.random();
        let checks = (0..task.length()).step_by(CHECK_TOKENS as usize);
        checks
            .map(|generated| predictor.remaining(task, generated, draw))
            .collect()
    };
    tasks.iter().map(of).collect()
}

/// Time of a task that runs alone on an instance. Zero if it does not fit there, which no task of this setting does.
fn alone(instance: &InstanceSpec, task: &Task) -> Span {
    let Ok(mut driver) = InstanceDriver::new(instance.clone()) else {
        return Span::ZERO;
    };
    driver.place(Placed {
        sequence: SequenceId(0),
        prompt: task.prompt.len() as u32,
        generated: 0,
        cached: 0,
        length: task.length(),
        due: Timestamp::ZERO,
        prefix: None,
    });
    let (mut now, mut news) = (Timestamp::ZERO, Vec::new());
    loop {
        driver.decide(now, &mut news);
        let Some(end) = driver.step_end() else {
            return now.since(Timestamp::ZERO);
        };
        now = end;
        driver.finish_step(now, &mut news);
        news.clear();
    }
}

/// Arrival times in bursts: phases of exponential durations, in each exponential gaps.
fn bursts(rate: f64, count: usize, seed: u64) -> Vec<Timestamp> {
    let mut rng = Pcg64Mcg::seed_from_u64(seed ^ 0x6275_7273_7473);
    let mut drawn = |mean: f64| {
        let uniform: f64 = rng.random();
        -mean * (1.0 - uniform).ln()
    };
    let mut all = Vec::with_capacity(count);
    let (mut at_s, mut phase) = (0.0, 0);
    let mut until_s = drawn(PHASES[phase].0);
    while all.len() < count {
        let gap_s = drawn(1.0 / (rate * PHASES[phase].1));
        if at_s + gap_s < until_s {
            at_s += gap_s;
            all.push(Timestamp::ZERO + Span::from_secs_f64(at_s));
        } else {
            // Gaps have no memory: the next one begins with its phase.
            at_s = until_s;
            phase = (phase + 1) % PHASES.len();
            until_s += drawn(PHASES[phase].0);
        }
    }
    all
}

/// Results of the page.
#[derive(Debug, Clone, PartialEq)]
pub struct Mixed {
    /// Comparison of predictors.
    pub predictors: Vec<ComparedWords>,
    /// Cases with the mean share of requests in time of each.
    pub found: Vec<(MixedCase, f64)>,
}

impl Mixed {
    /// Trains the predictors and simulates all cases.
    ///
    /// # Errors
    /// [`ReproduceError`]: no asset pack, or one that is not valid.
    pub fn run() -> Result<Self, ReproduceError> {
        let devices = Devices::from_env()?;
        let predictors = words::compared();
        let middle = &devices.instances[MIDDLE_DEVICE];
        let sets = in_parallel(&SEEDS, |seed| {
            Ok::<_, ReproduceError>(TaskSet::new(*seed, middle, &predictors))
        })?;
        let best = best_predictor(&predictors);
        let mut cases = Vec::new();
        let mut add = |case: MixedCase| {
            if !cases.contains(&case) {
                cases.push(case);
            }
        };
        for (_, rule) in rules() {
            for scale in SCALES {
                for rate in RATES {
                    let (predictor, lengths) = (best, Lengths::Again);
                    add(MixedCase {
                        rule,
                        scale,
                        rate,
                        predictor,
                        lengths,
                    });
                }
            }
        }
        let (scale, rate) = MIDDLE;
        for rule in compared_rules() {
            for predictor in 0..predictors.len() {
                for lengths in [Lengths::First, Lengths::Again] {
                    add(MixedCase {
                        rule,
                        scale,
                        rate,
                        predictor,
                        lengths,
                    });
                }
            }
        }
        let found = in_parallel(&cases, |case| {
            let shares = sets.iter().map(|set| set.run(case, &devices.instances));
            let shares: Vec<f64> = shares.collect::<Result<_, ReproduceError>>()?;
            let mean = shares.iter().sum::<f64>() / shares.len().max(1) as f64;
            Ok::<_, ReproduceError>((*case, mean))
        })?;
        Ok(Self { predictors, found })
    }

    /// Share of requests in time, in per cent; not a number if the case was not run.
    fn percent(&self, case: &MixedCase) -> f64 {
        let found = self.found.iter().find(|(other, _)| other == case);
        found.map_or(f64::NAN, |(_, share)| 100.0 * share)
    }

    fn by_rule(&self, rule: RouteRule, scale: f64, rate: u32) -> f64 {
        self.percent(&MixedCase {
            rule,
            scale,
            rate,
            predictor: best_predictor(&self.predictors),
            lengths: Lengths::Again,
        })
    }

    /// Requests in time by rule, scale and rate.
    #[must_use]
    pub fn rules_table(&self) -> String {
        let mut rows = Vec::new();
        for rate in RATES {
            for (name, rule) in rules() {
                let cells = SCALES.map(|scale| format!("{:.1}", self.by_rule(rule, scale, rate)));
                let first = [format!("{rate}/s"), name];
                rows.push(first.into_iter().chain(cells).collect::<Vec<String>>());
            }
        }
        let scales = SCALES.map(|scale| format!("{scale} x (%)"));
        let head = ["rate", "rule"].map(str::to_owned).into_iter().chain(scales);
        markdown(&head.collect::<Vec<String>>(), &rows)
    }

    /// Goodput of `just-enough` and `weir` beside the best of the paper's baselines, in per cent of that.
    #[must_use]
    pub fn gains_table(&self) -> String {
        let own = [
            ("just-enough", just_enough(Moves::Late)),
            ("just-enough, moves for the better", just_enough(Moves::Better)),
            ("earliest", RouteRule::Earliest),
            ("weir", super::studies::rule("weir")),
        ];
        let mut rows = Vec::new();
        for (name, rule) in own {
            for rate in RATES {
                let cells = SCALES.map(|scale| {
                    let others = baselines().into_iter();
                    let best = others
                        .map(|other| self.by_rule(other, scale, rate))
                        .fold(0.0, f64::max);
                    format!("{:+.1}", 100.0 * (self.by_rule(rule, scale, rate) / best - 1.0))
                });
                let first = [name.to_owned(), format!("{rate}/s")];
                rows.push(first.into_iter().chain(cells).collect::<Vec<String>>());
            }
        }
        let scales = SCALES.map(|scale| format!("{scale} x (%)"));
        let head = ["rule", "rate"].map(str::to_owned).into_iter().chain(scales);
        markdown(&head.collect::<Vec<String>>(), &rows)
    }

    /// Requests in time by predictor, predicted once and again, at [`MIDDLE`].
    #[must_use]
    pub fn predictors_table(&self) -> String {
        let (scale, rate) = MIDDLE;
        let mut rows = Vec::new();
        for (predictor, one) in self.predictors.iter().enumerate() {
            for (use_name, lengths) in [("once", Lengths::First), ("again", Lengths::Again)] {
                let cells = compared_rules().into_iter().map(|rule| {
                    let case = MixedCase {
                        rule,
                        scale,
                        rate,
                        predictor,
                        lengths,
                    };
                    format!("{:.1}", self.percent(&case))
                });
                let first = [one.name.to_owned(), use_name.to_owned()];
                rows.push(first.into_iter().chain(cells).collect::<Vec<String>>());
            }
        }
        let names = rules().into_iter().map(|(name, _)| name);
        let names = names.filter(|name| COMPARED.contains(&name.as_str()));
        let head = ["in time (%), by length", "predicted"].map(str::to_owned);
        let head: Vec<String> = head.into_iter().chain(names).collect();
        markdown(&head, &rows)
    }

    /// Writes `README.md`, made from `template.md`, into `folder`.
    ///
    /// # Errors
    /// [`ReproduceError`] if the template does not fit, or a file cannot be read or written.
    pub fn write(&self, folder: &Path) -> Result<(), ReproduceError> {
        let mut filling = Filling::default();
        filling.add("errors", words::table(&self.predictors));
        filling.add("rules", self.rules_table());
        filling.add("gains", self.gains_table());
        filling.add("predictors", self.predictors_table());
        Ok(document::write(folder, filling, &[])?)
    }
}

/// Rules of [`COMPARED`], in the order of [`rules`].
fn compared_rules() -> Vec<RouteRule> {
    let all = rules().into_iter();
    let compared = all.filter(|(name, _)| COMPARED.contains(&name.as_str()));
    compared.map(|(_, rule)| rule).collect()
}

/// Index of the predictor that the comparison of rules takes: the experts, or the last one without them.
fn best_predictor(predictors: &[ComparedWords]) -> usize {
    let experts = predictors.iter().position(|one| one.name == "experts, by words");
    experts.unwrap_or(predictors.len().saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts_have_their_mean_rate_and_more_arrivals_at_once() {
        let all = bursts(20.0, 60_000, 3);
        let second = |at: &Timestamp| at.since(Timestamp::ZERO).as_secs_f64();
        let last_s = all.last().map_or(0.0, second);
        assert!((60_000.0 / last_s / 20.0 - 1.0).abs() < 0.2, "{last_s} s");
        let mut by_second = vec![0.0; last_s as usize + 1];
        for at in &all {
            by_second[second(at) as usize] += 1.0;
        }
        let seconds = by_second.len() as f64;
        let mean = by_second.iter().sum::<f64>() / seconds;
        let variance = by_second.iter().map(|count| (count - mean).powi(2)).sum::<f64>() / seconds;
        assert!(
            variance > 5.0 * mean,
            "evenly spread arrivals have a variance like their mean"
        );
        assert!(all.is_sorted());
    }
}
