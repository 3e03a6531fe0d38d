//! Scenes and the lengths of their descriptions. The number of objects of each kind in the renderer's ground
//! truth determines the length of two to ten sentences, except for some noise.

use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;

use super::train::Text;

/// Kinds of things.
pub const KINDS: usize = 10;
/// Number of input features of a net: one for the prompt, one per kind, one for the tokens so far.
pub const FEATURES: usize = KINDS + 2;
/// Kinds of streams.
const STREAMS: usize = 4;
/// Things of each kind in a scene, by kind of stream: a street, a crowd, a game, a room.
const RATES: [[f64; KINDS]; STREAMS] = [
    [4.0, 1.0, 0.4, 1.0, 0.6, 2.5, 0.0, 0.0, 0.0, 0.0],
    [0.2, 0.0, 0.0, 9.0, 0.5, 0.0, 2.0, 3.0, 0.0, 1.0],
    [0.0, 0.0, 0.0, 2.0, 0.0, 0.0, 1.0, 0.0, 3.0, 0.0],
    [0.0, 0.0, 0.0, 1.5, 0.0, 0.0, 1.0, 1.5, 0.0, 1.5],
];
/// Tokens of a prompt for a thing of each kind.
const PROMPT: [f64; KINDS] = [4.0, 4.0, 4.0, 5.0, 4.0, 9.0, 6.0, 5.0, 7.0, 8.0];
/// Tokens of a sentence about one, by kind of stream: a game is described at length.
const SENTENCE: [f64; STREAMS] = [24.0, 30.0, 58.0, 40.0];
/// Additional tokens of a sentence by its subject.
const EXTRA: [f64; KINDS] = [0.0, 4.0, 4.0, 6.0, 2.0, 16.0, 8.0, 10.0, 14.0, 12.0];
/// Sentences at least and at most.
const SENTENCES: (f64, f64) = (2.0, 10.0);
/// Deviation of the logarithm of a length around what the scene says.
const NOISE: f64 = 0.12;

/// A scene, its prompt and the length of its description.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scene {
    /// Kind of stream, by index.
    pub stream: usize,
    /// Number of objects by kind.
    pub counts: [u32; KINDS],
    /// Number of prompt tokens.
    pub prompt: u32,
    /// Length of the description in tokens.
    pub length: u32,
}

impl Scene {
    fn draw(rng: &mut Pcg64Mcg) -> Self {
        let stream = rng.random_range(0..STREAMS);
        let level = (0.5 * normal(rng)).exp();
        let mut counts = [0; KINDS];
        for (count, rate) in counts.iter_mut().zip(RATES[stream]) {
            *count = poisson(rng, rate * level);
        }
        let things: u32 = counts.iter().sum();
        let of =
            |by: &[f64; KINDS]| -> f64 { counts.iter().zip(by).map(|(n, each)| f64::from(*n) * each).sum() };
        let sentences = f64::from(things).clamp(SENTENCES.0, SENTENCES.1);
        let about = of(&EXTRA) / f64::from(things.max(1));
        let length = sentences * (SENTENCE[stream] + about) * (NOISE * normal(rng)).exp();
        Self {
            stream,
            counts,
            prompt: (30.0 + of(&PROMPT)) as u32,
            length: length.round().max(1.0) as u32,
        }
    }

    /// Things of all kinds.
    #[must_use]
    pub fn things(&self) -> u32 {
        self.counts.iter().sum()
    }

    /// Input features of a net after `generated` tokens.
    #[must_use]
    pub fn features(&self, generated: u32) -> [f32; FEATURES] {
        let log = |count: u32| (1.0 + f64::from(count)).ln();
        let mut features = [0.0; FEATURES];
        for (feature, count) in features.iter_mut().zip(self.counts) {
            *feature = log(count) as f32;
        }
        features[KINDS] = (log(self.prompt) / 5.0) as f32;
        features[KINDS + 1] = (log(generated) / 5.0) as f32;
        features
    }
}

impl Text for Scene {
    fn features(&self, generated: u32) -> Vec<f32> {
        Scene::features(self, generated).to_vec()
    }

    fn prompt_tokens(&self) -> u32 {
        self.prompt
    }

    fn length(&self) -> u32 {
        self.length
    }
}

/// Draws `count` scenes with one seed.
#[must_use]
pub fn scenes(count: usize, seed: u64) -> Vec<Scene> {
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    (0..count).map(|_| Scene::draw(&mut rng)).collect()
}

/// A normal number of two even ones (Box, Muller).
pub(super) fn normal(rng: &mut Pcg64Mcg) -> f64 {
    let (u, v): (f64, f64) = (rng.random(), rng.random());
    (-2.0 * (1.0 - u).ln()).sqrt() * (std::f64::consts::TAU * v).cos()
}

/// A Poisson number (Knuth): means are small.
fn poisson(rng: &mut Pcg64Mcg, mean: f64) -> u32 {
    let limit = (-mean).exp();
    let mut count = 0;
    let mut product: f64 = rng.random();
    while product > limit && count < 200 {
        count += 1;
        product *= rng.random::<f64>();
    }
    count
}
