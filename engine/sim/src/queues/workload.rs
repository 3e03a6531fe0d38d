//! Workload for several models: popular models and a long tail, classes of objectives, and requests far
//! larger than the rest.

use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};
use weir_types::{ModelId, Span, Timestamp};

/// A class of objectives.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClassSpec {
    /// Part of all requests, relative to the other classes.
    pub share: f64,
    /// Time from arrival within which the last token must be generated.
    pub slo: Span,
}

/// Requests far larger than the rest.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MegaSpec {
    /// Part of all requests.
    pub share: f64,
    /// Tokens of a prompt.
    pub prompt: u32,
    /// Tokens that are generated.
    pub length: u32,
}

/// Arrival rate, models, classes and sizes of the requests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueueWorkload {
    /// Arrival rate in requests per second (Poisson process).
    pub rate: f64,
    /// Number of requests.
    pub requests: usize,
    /// Popular models, each with its share of the requests for popular models.
    pub hot: Vec<f64>,
    /// Number of models in the tail; all are equally popular.
    pub tail: usize,
    /// Share of all requests that go to the tail.
    pub tail_share: f64,
    /// Classes of objectives.
    pub classes: Vec<ClassSpec>,
    /// Requests far larger than the rest.
    pub mega: Option<MegaSpec>,
    /// Tokens of prompt and output, of which each request draws one pair.
    pub lengths: Vec<[u32; 2]>,
}

/// Request to a generative model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueRequest {
    /// Arrival time since the start of the simulation.
    pub at: Timestamp,
    /// Model that it needs.
    pub model: ModelId,
    /// Index of its class of objectives.
    pub class: u32,
    /// Number of prompt tokens.
    pub prompt: u32,
    /// Number of tokens that it generates.
    pub length: u32,
    /// Time from arrival within which the last token must be generated.
    pub objective: Span,
}

/// The index of the share into which `at`, of 0 to 1, falls.
fn pick(shares: impl Iterator<Item = f64> + Clone, at: f64) -> usize {
    let sum: f64 = shares.clone().sum();
    let mut left = at * sum;
    let mut last = 0;
    for (index, share) in shares.enumerate() {
        last = index;
        if left < share {
            return index;
        }
        left -= share;
    }
    last
}

impl QueueWorkload {
    /// Models in all.
    #[must_use]
    pub fn models(&self) -> usize {
        self.hot.len() + self.tail
    }

    /// Mean tokens of prompts and of outputs, and the deviation of these.
    #[must_use]
    pub fn moments(&self) -> [f64; 3] {
        let count = self.lengths.len().max(1) as f64;
        let mean = |of: usize| self.lengths.iter().map(|pair| f64::from(pair[of])).sum::<f64>() / count;
        let (prompt, output) = (mean(0), mean(1));
        let off = self
            .lengths
            .iter()
            .map(|pair| (f64::from(pair[1]) - output).powi(2));
        [prompt, output, (off.sum::<f64>() / count).sqrt()]
    }

    /// Draws the requests of a seed, by arrival. Empty if there are no lengths to draw from.
    #[must_use]
    pub fn draw(&self, seed: u64) -> Vec<QueueRequest> {
        if self.lengths.is_empty() || self.classes.is_empty() || self.models() == 0 {
            return Vec::new();
        }
        let mut rng = Pcg64Mcg::seed_from_u64(seed);
        let mut at_s = 0.0;
        let draw = |_| {
            let uniform: f64 = rng.random();
            at_s += -(1.0 - uniform).ln() / self.rate;
            let in_tail = rng.random::<f64>() < self.tail_share;
            let model = if (in_tail && self.tail > 0) || self.hot.is_empty() {
                self.hot.len() + rng.random_range(0..self.tail.max(1))
            } else {
                pick(self.hot.iter().copied(), rng.random())
            };
            let class = pick(self.classes.iter().map(|class| class.share), rng.random());
            let [mut prompt, mut length] = self.lengths[rng.random_range(0..self.lengths.len())];
            let size: f64 = rng.random();
            if let Some(mega) = self.mega
                && size < mega.share
            {
                (prompt, length) = (mega.prompt, mega.length);
            }
            QueueRequest {
                at: Timestamp::ZERO + Span::from_secs_f64(at_s),
                model: ModelId(model as u32),
                class: class as u32,
                prompt,
                length: length.max(1),
                objective: self.classes[class].slo,
            }
        };
        (0..self.requests).map(draw).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_models_and_classes_are_kept() {
        let workload = QueueWorkload {
            rate: 10.0,
            requests: 20_000,
            hot: vec![3.0, 1.0],
            tail: 2,
            tail_share: 0.2,
            classes: vec![
                ClassSpec {
                    share: 0.1,
                    slo: Span::from_secs(30),
                },
                ClassSpec {
                    share: 0.9,
                    slo: Span::from_secs(300),
                },
            ],
            mega: Some(MegaSpec {
                share: 0.05,
                prompt: 5_000,
                length: 900,
            }),
            lengths: vec![[100, 10], [200, 30]],
        };
        let requests = workload.draw(7);
        let part = |is: &dyn Fn(&QueueRequest) -> bool| {
            requests.iter().filter(|request| is(request)).count() as f64 / 20_000.0
        };
        for (found, expected) in [
            (part(&|request| request.model == ModelId(0)), 0.6),
            (part(&|request| request.model == ModelId(1)), 0.2),
            (part(&|request| request.model == ModelId(3)), 0.1),
            (part(&|request| request.class == 0), 0.1),
            (part(&|request| request.prompt == 5_000), 0.05),
        ] {
            assert!((found - expected).abs() < 0.015, "{found} {expected}");
        }
        let last_s = requests[19_999].at.since(Timestamp::ZERO).as_secs_f64();
        assert!((last_s / 2_000.0 - 1.0).abs() < 0.05, "{last_s}");
        assert_eq!(workload.moments(), [150.0, 20.0, 10.0]);
    }
}
