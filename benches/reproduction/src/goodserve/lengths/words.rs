//! Comparison of length predictors on tasks, whose lengths only words tell: TF-IDF of the text so far beside
//! counts, experts beside a single net, and predictions made again on the way beside the first one.

use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;
use weir_policy::lengths::{Experts, Net, Terms};

use super::tasks::{Task, tasks};
use super::train::{self, Text};
use crate::plot::markdown;

/// Tasks that are trained on, and tasks that are not.
const TRAINED: usize = 6_000;
const TRAINED_SEED: u64 = 11_000;
const TESTED: usize = 1_500;
const TESTED_SEED: u64 = 12_000;
/// Passes over the samples: there are more features than of scenes, and each pass takes longer.
const EPOCHS: u32 = 20;
/// Maximum number of terms.
const TERMS: usize = 256;
/// Tiers of input and of output: the paper's nine experts.
const TIERS: usize = 3;
/// Number of tokens after which lengths are predicted again, in the table.
const AGAIN: u32 = 100;

/// A task with the features that a net takes of it.
#[derive(Debug)]
struct Seen<'a> {
    task: &'a Task,
    terms: &'a Terms,
}

impl Text for Seen<'_> {
    fn features(&self, generated: u32) -> Vec<f32> {
        features(self.terms, self.task, generated)
    }

    fn prompt_tokens(&self) -> u32 {
        self.task.prompt.len() as u32
    }

    fn length(&self) -> u32 {
        self.task.length()
    }

    fn target(&self, generated: u32) -> u32 {
        self.task.length() - generated
    }
}

fn features(terms: &Terms, task: &Task, generated: u32) -> Vec<f32> {
    let log = |count: usize| ((1.0 + count as f64).ln() / 5.0) as f32;
    let mut features = vec![log(task.prompt.len()), log(generated as usize)];
    features.extend(terms.features(task.so_far(generated)));
    features
}

/// Predictor of the lengths of tasks.
#[derive(Debug, Clone, PartialEq)]
pub enum TaskPredictor {
    /// Mean length of the tasks that were trained on.
    Mean(f64),
    /// Random draw from their lengths.
    History(Vec<u32>),
    /// A single net.
    Single(Net, Terms),
    /// Nets for tiers of lengths behind a gate.
    Experts(Experts, Terms),
    /// The true length.
    Oracle,
}

impl TaskPredictor {
    /// Number of tokens that a task is expected to generate after `generated`; `draw` from 0 to 1 is for
    /// those that draw.
    #[must_use]
    pub fn remaining(&self, task: &Task, generated: u32, draw: f64) -> u32 {
        let less = |total: f64| total - f64::from(generated);
        let tokens = match self {
            Self::Mean(mean) => less(*mean),
            Self::History(seen) => {
                let at = (draw * seen.len() as f64) as usize;
                less(seen.get(at).copied().map_or(1.0, f64::from))
            }
            Self::Single(net, terms) => {
                let out = net.run(&features(terms, task, generated));
                f64::from(out.first().copied().unwrap_or(0.0)).exp()
            }
            Self::Experts(experts, terms) => {
                f64::from(experts.log_length(&features(terms, task, generated))).exp()
            }
            Self::Oracle => less(f64::from(task.length())),
        };
        tokens.round().clamp(1.0, 1e5) as u32
    }
}

/// A predictor and its mean absolute errors, in tokens, on tasks that were not trained on.
#[derive(Debug, Clone, PartialEq)]
pub struct ComparedWords {
    /// Name of the row.
    pub name: &'static str,
    /// Predictor of the row.
    pub predictor: TaskPredictor,
    /// Error of the length when a task arrives.
    pub first: f64,
    /// Error of what remains after 100 tokens, by the first prediction and by a new one; of longer tasks.
    pub later: [f64; 2],
}

/// Trains all predictors and compares their errors. A net that could not be trained has no row.
#[must_use]
pub fn compared() -> Vec<ComparedWords> {
    let trained = tasks(TRAINED, TRAINED_SEED);
    let lengths: Vec<u32> = trained.iter().map(Task::length).collect();
    let mean = lengths.iter().copied().map(f64::from).sum::<f64>() / TRAINED as f64;
    let terms = terms(&trained);
    let none = Terms::default();
    let counts: Vec<Seen<'_>> = trained.iter().map(|task| Seen { task, terms: &none }).collect();
    let words: Vec<Seen<'_>> = trained.iter().map(|task| Seen { task, terms: &terms }).collect();
    let (counted, single, experts) = std::thread::scope(|scope| {
        let single = scope.spawn(|| {
            (
                train::single(&counts, EPOCHS, 1),
                train::single(&words, EPOCHS, 1),
            )
        });
        let experts = train::experts(&words, TIERS, EPOCHS, 1);
        let (counted, single) = single.join().unwrap_or((None, None));
        (counted, single, experts)
    });
    let mut all = vec![
        ("mean", TaskPredictor::Mean(mean)),
        ("history", TaskPredictor::History(lengths)),
    ];
    all.extend(counted.map(|net| ("single, by counts", TaskPredictor::Single(net, none.clone()))));
    all.extend(single.map(|net| ("single, by words", TaskPredictor::Single(net, terms.clone()))));
    all.extend(experts.map(|nets| ("experts, by words", TaskPredictor::Experts(nets, terms.clone()))));
    all.push(("oracle", TaskPredictor::Oracle));
    let tested = tasks(TESTED, TESTED_SEED);
    let row = |(name, predictor): (&'static str, TaskPredictor)| {
        let (first, later) = errors(&predictor, &tested);
        ComparedWords {
            name,
            predictor,
            first,
            later,
        }
    };
    all.into_iter().map(row).collect()
}

/// Terms of the texts that nets are trained on: prompts, and prompts with half of their answers.
fn terms(trained: &[Task]) -> Terms {
    let text = |(number, task): (usize, &Task)| -> Vec<u32> {
        let generated = if number.is_multiple_of(2) {
            0
        } else {
            task.length() / 2
        };
        task.so_far(generated).collect()
    };
    let texts: Vec<Vec<u32>> = trained.iter().enumerate().map(text).collect();
    Terms::fit(texts.iter().map(Vec::as_slice), TERMS)
}

fn errors(predictor: &TaskPredictor, tested: &[Task]) -> (f64, [f64; 2]) {
    let mut rng = Pcg64Mcg::seed_from_u64(5);
    let (mut first, mut later, mut longer) = (0.0, [0.0; 2], 0_u32);
    for task in tested {
        let draw: f64 = rng.random();
        let predicted = predictor.remaining(task, 0, draw);
        first += f64::from(predicted.abs_diff(task.length()));
        if task.length() > AGAIN {
            longer += 1;
            let rest = task.length() - AGAIN;
            let known = predicted.saturating_sub(AGAIN).max(1);
            let again = predictor.remaining(task, AGAIN, draw);
            for (sum, predicted) in later.iter_mut().zip([known, again]) {
                *sum += f64::from(rest.abs_diff(predicted));
            }
        }
    }
    let longer = f64::from(longer.max(1));
    (first / tested.len().max(1) as f64, later.map(|sum| sum / longer))
}

/// Table of the errors.
#[must_use]
pub fn table(all: &[ComparedWords]) -> String {
    let row = |one: &ComparedWords| -> Vec<String> {
        let errors = [one.first, one.later[0], one.later[1]];
        let errors = errors.map(|error| format!("{error:.1}"));
        std::iter::once(one.name.to_owned()).chain(errors).collect()
    };
    let rows: Vec<Vec<String>> = all.iter().map(row).collect();
    let head = [
        "length".to_owned(),
        "error on arrival (tokens)".to_owned(),
        format!("what remains after {AGAIN} tokens, by the first prediction"),
        "by a new one".to_owned(),
    ];
    markdown(&head, &rows)
}
