//! Training of small nets by Adam, and of a gate with its experts frozen (3.2).

use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;
use weir_policy::lengths::{Experts, Layer, Net};

/// Outputs of the layers of an expert: four of them, as in the paper, but small.
const EXPERT: [usize; 4] = [32, 32, 16, 1];
/// Outputs of the gate's first layer.
const GATE: usize = 32;
/// Passes over the samples, for scenes.
pub const EPOCHS: u32 = 40;
const BATCH: usize = 16;
const RATE: f32 = 2e-3;
/// Texts that a tier must have to be trained on.
const MIN_TIER: usize = 24;

/// A text whose length is predicted.
pub trait Text: Sync {
    /// Input features of a net after `generated` tokens.
    fn features(&self, generated: u32) -> Vec<f32>;
    /// Number of tokens of its prompt.
    fn prompt_tokens(&self) -> u32;
    /// Number of tokens that are generated in all.
    fn length(&self) -> u32;
    /// Number of tokens whose logarithm a net predicts after `generated` ones: all, unless the text says
    /// otherwise.
    fn target(&self, _generated: u32) -> u32 {
        self.length()
    }
}

/// A text at one moment.
#[derive(Debug, Clone)]
struct Sample {
    features: Vec<f32>,
    /// Logarithm of the number that is predicted.
    log: f32,
    /// Outputs of the experts, which are frozen; empty unless a gate is trained.
    experts: Vec<f32>,
}

/// A net in training.
#[derive(Debug, Clone)]
struct Trainer {
    layers: Vec<Layer>,
    gradients: Vec<Layer>,
    moments: Vec<[Layer; 2]>,
    steps: i32,
}

impl Trainer {
    fn new(inputs: usize, outputs: &[usize], rng: &mut Pcg64Mcg) -> Self {
        let mut before = inputs;
        let mut layers = Vec::new();
        for &count in outputs {
            let scale = (6.0 / before as f32).sqrt();
            let weights = (0..before * count).map(|_| scale * (2.0 * rng.random::<f32>() - 1.0));
            layers.push(Layer {
                weights: weights.collect(),
                biases: vec![0.0; count],
            });
            before = count;
        }
        let zero = |layer: &Layer| Layer {
            weights: vec![0.0; layer.weights.len()],
            biases: vec![0.0; layer.biases.len()],
        };
        Self {
            gradients: layers.iter().map(zero).collect(),
            moments: layers.iter().map(|layer| [zero(layer), zero(layer)]).collect(),
            layers,
            steps: 0,
        }
    }

    /// Activations of each layer, starting with the input.
    fn forward(&self, input: &[f32]) -> Vec<Vec<f32>> {
        let mut all = vec![input.to_vec()];
        for (index, layer) in self.layers.iter().enumerate() {
            let is_last = index + 1 == self.layers.len();
            let before = &all[index];
            let rows = layer.weights.chunks_exact(before.len()).zip(&layer.biases);
            let next = rows.map(|(row, bias)| {
                let sum: f32 = row.iter().zip(before).map(|(weight, value)| weight * value).sum();
                if is_last {
                    sum + bias
                } else {
                    (sum + bias).max(0.0)
                }
            });
            let next = next.collect();
            all.push(next);
        }
        all
    }

    /// Adds the gradient of a loss whose derivatives with respect to the outputs are `slopes`.
    fn backward(&mut self, all: &[Vec<f32>], slopes: Vec<f32>) {
        let mut slopes = slopes;
        for index in (0..self.layers.len()).rev() {
            let (before, layer, gradient) = (&all[index], &self.layers[index], &mut self.gradients[index]);
            let mut next = vec![0.0; before.len()];
            for (row, slope) in slopes.iter().enumerate() {
                gradient.biases[row] += slope;
                let from = row * before.len();
                for (column, value) in before.iter().enumerate() {
                    gradient.weights[from + column] += slope * value;
                    next[column] += slope * layer.weights[from + column];
                }
            }
            // Units that were cut off at zero pass no gradient on.
            for (slope, value) in next.iter_mut().zip(before) {
                if *value <= 0.0 && index > 0 {
                    *slope = 0.0;
                }
            }
            slopes = next;
        }
    }

    /// Makes one step of Adam with the accumulated gradient, and clears it.
    fn step(&mut self, rate: f32, count: usize) {
        self.steps += 1;
        let (first, second) = (1.0 - 0.9_f32.powi(self.steps), 1.0 - 0.999_f32.powi(self.steps));
        let scale = 1.0 / count.max(1) as f32;
        for ((layer, gradient), [mean, square]) in self
            .layers
            .iter_mut()
            .zip(&mut self.gradients)
            .zip(&mut self.moments)
        {
            let update = |values: &mut [f32], slopes: &mut [f32], mean: &mut [f32], square: &mut [f32]| {
                for (((value, slope), mean), square) in values.iter_mut().zip(slopes).zip(mean).zip(square) {
                    let gradient = *slope * scale;
                    *mean += 0.1 * (gradient - *mean);
                    *square += 0.001 * (gradient * gradient - *square);
                    *value -= rate * (*mean / first) / ((*square / second).sqrt() + 1e-8);
                    *slope = 0.0;
                }
            };
            update(
                &mut layer.weights,
                &mut gradient.weights,
                &mut mean.weights,
                &mut square.weights,
            );
            update(
                &mut layer.biases,
                &mut gradient.biases,
                &mut mean.biases,
                &mut square.biases,
            );
        }
    }

    fn finish(self) -> Option<Net> {
        Net::try_from(self.layers).ok()
    }
}

/// Runs over all samples in random order, batch by batch; `slopes` gives the derivative of the loss by the outputs.
fn fit(
    trainer: &mut Trainer,
    (samples, epochs): (&[Sample], u32),
    rng: &mut Pcg64Mcg,
    slopes: impl Fn(&Sample, &[f32]) -> Vec<f32>,
) {
    let mut order: Vec<usize> = (0..samples.len()).collect();
    for epoch in 0..epochs {
        for index in (1..order.len()).rev() {
            order.swap(index, rng.random_range(0..=index));
        }
        // Steps get smaller towards the end.
        let rate = RATE * (1.0 - 0.95 * epoch as f32 / epochs as f32);
        for batch in order.chunks(BATCH) {
            for index in batch {
                let sample = &samples[*index];
                let all = trainer.forward(&sample.features);
                let slopes = slopes(sample, all.last().map_or(&[], Vec::as_slice));
                trainer.backward(&all, slopes);
            }
            trainer.step(rate, batch.len());
        }
    }
}

/// Derivative of the absolute error, smoothed near zero.
fn slope(error: f32) -> f32 {
    (error / 0.05).clamp(-1.0, 1.0)
}

fn samples<T: Text>(texts: &[&T], rng: &mut Pcg64Mcg) -> Vec<Sample> {
    let of = |text: &T, generated: u32| Sample {
        features: text.features(generated),
        log: (text.target(generated).max(1) as f32).ln(),
        experts: Vec::new(),
    };
    let mut all = Vec::with_capacity(2 * texts.len());
    for text in texts {
        all.push(of(text, 0));
        // Again, on its way.
        let generated = rng.random_range(0..text.length().max(1)) / 50 * 50;
        if generated > 0 {
            all.push(of(text, generated));
        }
    }
    all
}

fn train_net((samples, epochs): (&[Sample], u32), rng: &mut Pcg64Mcg) -> Option<Net> {
    let inputs = samples.first()?.features.len();
    let mut trainer = Trainer::new(inputs, &EXPERT, rng);
    // Training starts from the mean.
    if let Some(last) = trainer.layers.last_mut() {
        let sum: f32 = samples.iter().map(|sample| sample.log).sum();
        last.biases[0] = sum / samples.len().max(1) as f32;
    }
    fit(&mut trainer, (samples, epochs), rng, |sample, out| {
        vec![slope(out.first().copied().unwrap_or(0.0) - sample.log)]
    });
    trainer.finish()
}

/// Trains one net on all texts.
#[must_use]
pub fn single<T: Text>(texts: &[T], epochs: u32, seed: u64) -> Option<Net> {
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    let all: Vec<&T> = texts.iter().collect();
    let samples = samples(&all, &mut rng);
    train_net((&samples[..], epochs), &mut rng)
}

/// `tiers` squared experts, each trained on its tier of input and output lengths of one half; then a gate on the other half
/// with the experts frozen.
#[must_use]
pub fn experts<T: Text>(texts: &[T], tiers: usize, epochs: u32, seed: u64) -> Option<Experts> {
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    let (first, second) = texts.split_at(texts.len() / 2);
    let bounds = |of: fn(&T) -> u32| -> Vec<u32> {
        let mut all: Vec<u32> = first.iter().map(of).collect();
        all.sort_unstable();
        (1..tiers).map(|tier| all[all.len() * tier / tiers]).collect()
    };
    let (inputs, outputs) = (bounds(T::prompt_tokens), bounds(T::length));
    let tier = |bounds: &[u32], value: u32| bounds.partition_point(|bound| *bound <= value);
    let mut nets = Vec::new();
    for input in 0..tiers {
        for output in 0..tiers {
            let own = first.iter().filter(|text| {
                tier(&inputs, text.prompt_tokens()) == input && tier(&outputs, text.length()) == output
            });
            let own: Vec<&T> = own.collect();
            if own.len() >= MIN_TIER {
                let samples = samples(&own, &mut rng);
                nets.push(train_net((&samples[..], epochs), &mut rng)?);
            }
        }
    }
    let second: Vec<&T> = second.iter().collect();
    let inputs = nets.first()?.inputs();
    let mut gate = Trainer::new(inputs, &[GATE, nets.len()], &mut rng);
    let mut samples = samples(&second, &mut rng);
    for sample in &mut samples {
        let each = nets.iter().map(|net| net.run(&sample.features));
        sample.experts = each.map(|out| out.first().copied().unwrap_or(0.0)).collect();
    }
    fit(&mut gate, (&samples[..], epochs), &mut rng, |sample, scores| {
        let most = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let weights: Vec<f32> = scores.iter().map(|score| (score - most).exp()).collect();
        let sum: f32 = weights.iter().sum();
        let each = weights.iter().zip(&sample.experts);
        let mixed: f32 = each.clone().map(|(weight, y)| weight / sum * y).sum();
        let slope = slope(mixed - sample.log);
        each.map(|(weight, y)| slope * weight / sum * (y - mixed))
            .collect()
    });
    Experts::new(gate.finish()?, nets).ok()
}
