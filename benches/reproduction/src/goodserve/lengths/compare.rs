//! Comparison of length predictors: their error on scenes of seeds that were not used for training, their
//! cost, and their effect on goodput.

use std::collections::BTreeMap;
use std::time::Instant;

use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;
use weir_policy::lengths::{Experts, Net};

use super::scenes::{Scene, scenes};
use super::train::{self, EPOCHS};
use crate::plot::markdown;

/// Scenes that are trained on, as many as the paper's samples.
const TRAINED: usize = 8_680;
const TRAINED_SEED: u64 = 1_000;
/// Scenes that are not.
const TESTED: usize = 4_000;
const TESTED_SEED: u64 = 2_000;
/// Tiers of input and of output, the paper's in the middle (Figure 10a).
const TIERS: [usize; 3] = [2, 3, 4];

/// Predictor of output lengths.
#[derive(Debug, Clone, PartialEq)]
pub enum Predictor {
    /// Mean length of the training scenes.
    Mean(f64),
    /// Random draw from the lengths of the training scenes.
    History(Vec<u32>),
    /// Mean by kind of stream and number of objects; the overall mean for unknown combinations.
    Stream(BTreeMap<(usize, u32), f64>, f64),
    /// A single net for all lengths.
    Single(Net),
    /// One net for each tier of lengths, chosen by a gate.
    Experts(Experts),
    /// The true length.
    Oracle,
}

/// Things that are distinguished in the mean by stream.
const MAX_THINGS: u32 = 24;

impl Predictor {
    /// The expected length of a scene; `draw` from 0 to 1 is for those that draw.
    #[must_use]
    pub fn length(&self, scene: &Scene, draw: f64) -> u32 {
        let tokens = match self {
            Self::Mean(mean) => *mean,
            Self::History(seen) => {
                let at = (draw * seen.len() as f64) as usize;
                seen.get(at).copied().map_or(1.0, f64::from)
            }
            Self::Stream(means, mean) => {
                let key = (scene.stream, scene.things().min(MAX_THINGS));
                means.get(&key).copied().unwrap_or(*mean)
            }
            Self::Single(net) => {
                let log = net.run(&scene.features(0)).first().copied().unwrap_or(0.0);
                f64::from(log).exp()
            }
            Self::Experts(experts) => f64::from(experts.log_length(&scene.features(0))).exp(),
            Self::Oracle => f64::from(scene.length),
        };
        tokens.round().clamp(1.0, 1e5) as u32
    }
}

/// A predictor, its name and its figures.
#[derive(Debug, Clone, PartialEq)]
pub struct Compared {
    /// Name of the predictor in configurations.
    pub name: String,
    /// Predictor of this row.
    pub predictor: Predictor,
    /// Mean absolute error in tokens, on scenes that were not used for training.
    pub error: f64,
    /// Duration of a prediction in microseconds.
    pub micros: f64,
}

/// Trains all predictors and compares their errors. Empty if a net could not be trained.
#[must_use]
pub fn predictors() -> Vec<Compared> {
    let trained = scenes(TRAINED, TRAINED_SEED);
    let mean = trained.iter().map(|scene| f64::from(scene.length)).sum::<f64>() / TRAINED as f64;
    let mut sums: BTreeMap<(usize, u32), (f64, f64)> = BTreeMap::new();
    for scene in &trained {
        let sum = sums
            .entry((scene.stream, scene.things().min(MAX_THINGS)))
            .or_default();
        *sum = (sum.0 + f64::from(scene.length), sum.1 + 1.0);
    }
    let means = sums
        .into_iter()
        .map(|(key, (sum, count))| (key, sum / count))
        .collect();
    let lengths = trained.iter().map(|scene| scene.length).collect();
    let mut all = vec![
        ("mean".to_owned(), Predictor::Mean(mean)),
        ("history".to_owned(), Predictor::History(lengths)),
        ("stream".to_owned(), Predictor::Stream(means, mean)),
    ];
    let (single, experts) = std::thread::scope(|scope| {
        let single = scope.spawn(|| train::single(&trained, EPOCHS, 1));
        let experts: Vec<Option<Experts>> = TIERS
            .map(|tiers| train::experts(&trained, tiers, EPOCHS, 1))
            .into();
        (single.join().ok().flatten(), experts)
    });
    all.extend(single.map(|net| ("single".to_owned(), Predictor::Single(net))));
    for (tiers, experts) in TIERS.into_iter().zip(experts) {
        let name = match tiers {
            3 => "experts".to_owned(),
            _ => format!("experts, K = {}", tiers * tiers),
        };
        all.extend(experts.map(|experts| (name, Predictor::Experts(experts))));
    }
    all.push(("oracle".to_owned(), Predictor::Oracle));
    let tested = scenes(TESTED, TESTED_SEED);
    all.into_iter()
        .map(|(name, predictor)| {
            let (error, micros) = error(&predictor, &tested);
            Compared {
                name,
                predictor,
                error,
                micros,
            }
        })
        .collect()
}

#[expect(
    clippy::disallowed_methods,
    reason = "the time of a prediction is what is measured"
)]
fn error(predictor: &Predictor, scenes: &[Scene]) -> (f64, f64) {
    let mut rng = Pcg64Mcg::seed_from_u64(3);
    let draws: Vec<f64> = scenes.iter().map(|_| rng.random()).collect();
    let mut lengths: Vec<u32> = Vec::with_capacity(scenes.len());
    let mut least = f64::INFINITY;
    // The best of many pieces: others run on this machine, too.
    for (scenes, draws) in scenes.chunks(100).zip(draws.chunks(100)) {
        let begin = Instant::now();
        let pairs = scenes.iter().zip(draws);
        lengths.extend(pairs.map(|(scene, draw)| predictor.length(scene, *draw)));
        least = least.min(begin.elapsed().as_secs_f64() / scenes.len() as f64);
    }
    let off = lengths.iter().zip(scenes);
    let sum: f64 = off
        .map(|(length, scene)| (f64::from(*length) - f64::from(scene.length)).abs())
        .sum();
    (sum / scenes.len() as f64, 1e6 * least)
}

/// Table of errors relative to history. Prediction times are measured, and differ from run to run.
#[must_use]
pub fn table(all: &[Compared]) -> String {
    let history = all.iter().find(|one| one.name == "history");
    let history = history.map_or(f64::NAN, |one| one.error);
    let row = |one: &Compared| {
        vec![
            one.name.clone(),
            format!("{:.1}", one.error),
            format!("{:.2}", one.error / history),
        ]
    };
    let rows: Vec<Vec<String>> = all.iter().map(row).collect();
    markdown(&["length", "mean absolute error (tokens)", "of history's"], &rows)
}
