//! Tasks of three kinds whose lengths only words tell: commands of a database, programs of a contest, patches of
//! a repository, in place of the paper's BIRD-bench, LiveCodeBench and SWE-bench.
//!
//! ```text
//! length = base(kind) exp(effects(kind, words) + 0.35 z + noise)         z shows in the text, not in the prompt
//! ```
//!
//! Prompts of all kinds have equally many tokens. A kind has words of its own. Most of the words that say how much
//! is asked lengthen the answer in one kind and shorten it in another, so that an expert of one kind knows what a
//! net for all must tell apart.

use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;

use super::scenes::normal;

/// Kinds of tasks.
pub const KINDS: usize = 3;
/// Median length of an answer by kind, in tokens.
const BASE: [f64; KINDS] = [60.0, 260.0, 620.0];
/// Tokens of a prompt.
const PROMPT: std::ops::RangeInclusive<u32> = 60..=260;
/// Words of each group: in every prompt, of a kind, of how much is asked, and of detailed and plain answers.
const COMMON: u32 = 60;
const OWN: u32 = 20;
const ASKING: u32 = 12;
const ANSWER: u32 = 40;
/// Words of a kind, and of how much is asked, in a prompt.
const OWN_WORDS: usize = 6;
const ASKING_WORDS: usize = 3;
/// First token of each group.
const FIRST_OWN: u32 = 1_000;
const FIRST_ASKING: u32 = 2_000;
const FIRST_DETAIL: u32 = 3_000;
const FIRST_PLAIN: u32 = 4_000;
/// Deviations of the logarithm of a length: by how detailed an answer is, and by nothing that could be seen.
const DETAIL: f64 = 0.35;
const NOISE: f64 = 0.1;
/// Limits of a length, in tokens.
const LENGTHS: (f64, f64) = (8.0, 2_000.0);

/// A task with its answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Task {
    /// Kind of the task, by index.
    pub kind: usize,
    /// Tokens of the prompt.
    pub prompt: Vec<u32>,
    /// Tokens of the answer.
    pub answer: Vec<u32>,
}

/// Amount by which a word that says how much is asked for changes the logarithm of a length.
fn effect(kind: usize, word: u32) -> f64 {
    match kind {
        0 if word.is_multiple_of(2) => 0.3,
        0 => -0.25,
        1 if word.is_multiple_of(3) => -0.3,
        1 => 0.15,
        _ if word % 4 < 2 => 0.3,
        _ => -0.3,
    }
}

impl Task {
    fn draw(rng: &mut Pcg64Mcg) -> Self {
        let kind = rng.random_range(0..KINDS);
        let count = rng.random_range(PROMPT) as usize;
        let mut prompt: Vec<u32> = (0..count).map(|_| rng.random_range(0..COMMON)).collect();
        // At random places, which may be the same.
        for _ in 0..OWN_WORDS {
            let at = rng.random_range(0..count);
            prompt[at] = FIRST_OWN + OWN * kind as u32 + rng.random_range(0..OWN);
        }
        for _ in 0..ASKING_WORDS {
            let at = rng.random_range(0..count);
            prompt[at] = FIRST_ASKING + rng.random_range(0..ASKING);
        }
        let asking = FIRST_ASKING..FIRST_ASKING + ASKING;
        let asked = prompt.iter().filter(|token| asking.contains(*token));
        let effects: f64 = asked.map(|token| effect(kind, token - FIRST_ASKING)).sum();
        let (detail, noise) = (normal(rng), normal(rng));
        let length = BASE[kind] * (effects + DETAIL * detail + NOISE * noise).exp();
        let length = length.round().clamp(LENGTHS.0, LENGTHS.1) as usize;
        let detailed = 1.0 / (1.0 + (-1.5 * detail).exp());
        let word = |rng: &mut Pcg64Mcg| {
            let first = if rng.random::<f64>() < detailed {
                FIRST_DETAIL
            } else {
                FIRST_PLAIN
            };
            first + rng.random_range(0..ANSWER)
        };
        Self {
            kind,
            answer: (0..length).map(|_| word(rng)).collect(),
            prompt,
        }
    }

    /// Number of tokens of the answer.
    #[must_use]
    pub fn length(&self) -> u32 {
        self.answer.len() as u32
    }

    /// Tokens of the prompt and the first `generated` ones of the answer.
    pub fn so_far(&self, generated: u32) -> impl Iterator<Item = u32> {
        let answer = self.answer.iter().take(generated as usize);
        self.prompt.iter().chain(answer).copied()
    }
}

/// Draws `count` tasks with one seed.
#[must_use]
pub fn tasks(count: usize, seed: u64) -> Vec<Task> {
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    (0..count).map(|_| Task::draw(&mut rng)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_of_all_kinds_are_equally_long_and_answers_are_not() {
        let all = tasks(3_000, 7);
        let mean_of = |kind: usize, of: &dyn Fn(&Task) -> usize| {
            let own: Vec<usize> = all.iter().filter(|task| task.kind == kind).map(of).collect();
            own.iter().sum::<usize>() as f64 / own.len() as f64
        };
        let prompts = [0, 1, 2].map(|kind| mean_of(kind, &|task| task.prompt.len()));
        let answers = [0, 1, 2].map(|kind| mean_of(kind, &|task| task.answer.len()));
        assert!(
            prompts.iter().all(|mean| (mean - 160.0).abs() < 8.0),
            "{prompts:?}"
        );
        assert!(
            answers[1] > 3.0 * answers[0] && answers[2] > 2.0 * answers[1],
            "{answers:?}"
        );
        assert_eq!(tasks(3_000, 7), all);
    }

    #[test]
    fn words_of_how_much_is_asked_differ_by_kind() {
        for word in 0..ASKING {
            let effects = [0, 1, 2].map(|kind| effect(kind, word));
            assert!(effects.iter().all(|effect| effect.abs() > 0.1));
        }
        let differ = (0..ASKING).filter(|word| effect(0, *word) * effect(2, *word) < 0.0);
        assert_eq!(differ.count(), 6);
    }
}
