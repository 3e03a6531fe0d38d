//! Estimated completion times of requests (QLM, section 6).
//!
//! ```text
//! C = W + P + D      W = sum over those before it of (P_i + O_i) / throughput     D = O x eps x d        (1, 2, 4)
//! O ~ N(mean, deviation) of the model's requests, so that W is normal too                                (3)
//! ```
//!
//! `throughput` and `d` follow from the profiled steps. `B` sequences run at once: as many of mean length as
//! the cache holds. A step takes `c0 + c1 x tokens`, so a request takes
//! `c1 (prompt + output) + c0 output / B` of the instance, and stays in a batch for `B` times that. `eps`
//! covers preemption and other inefficiencies: the smoothed ratio of measured to predicted times in service.

use crate::generate::InstanceSpec;

/// Costs of one model's requests on one instance.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ServiceRates {
    /// Instance time for one token of a prompt, in seconds.
    pub prompt_token_s: f64,
    /// Instance time for one generated token in a full batch, in seconds.
    pub output_token_s: f64,
    /// Time from one token of a sequence to its next in a full batch, in seconds.
    pub step_s: f64,
    /// The same for a sequence that runs alone.
    pub idle_step_s: f64,
    /// Mean number of sequences in a full batch.
    pub batch: f64,
}

impl ServiceRates {
    /// Rates for a mean request on an instance, of whose time the fraction `reserved` is not available.
    #[must_use]
    pub fn new(spec: &InstanceSpec, prompt: f64, output: f64, reserved: f64) -> Self {
        let share = (1.0 - reserved).clamp(0.01, 1.0);
        let max = spec.max_step_tokens.max(2);
        let idle_step_s = spec.steps.decode.duration(1).as_secs_f64() / share;
        let full_s = spec.steps.prompt.duration(max).as_secs_f64() / share;
        let token_s = ((full_s - idle_step_s) / f64::from(max - 1)).max(1e-9);
        let fixed_s = (idle_step_s - token_s).max(0.0);
        let (prompt, output) = (prompt.max(1.0), output.max(1.0));
        // On average, a sequence holds its prompt and half of its output.
        let blocks = f64::from(spec.blocks.saturating_sub(spec.reserve_blocks));
        let held = ((prompt + 0.5 * output) / f64::from(spec.block_tokens)).ceil();
        let batch = (blocks / held).clamp(1.0, f64::from(spec.max_sequences.max(1)));
        let output_token_s = token_s + fixed_s / batch;
        // In a full batch, each sequence stays for as long as all of them take together.
        let request_s = token_s * prompt + output_token_s * output;
        Self {
            prompt_token_s: token_s,
            output_token_s,
            step_s: (batch * request_s / output).max(idle_step_s),
            idle_step_s,
            batch,
        }
    }

    /// Instance time of a request, in seconds.
    #[must_use]
    pub fn work_s(&self, prompt: f64, output: f64) -> f64 {
        self.prompt_token_s * prompt + self.output_token_s * output
    }

    /// Seconds from the start of a request to its last token, with `beside` sequences in its batch.
    #[must_use]
    pub fn service_s(&self, prompt: f64, output: f64, beside: f64) -> f64 {
        let fill = (beside / self.batch).clamp(0.0, 1.0);
        let step_s = self.idle_step_s + fill * (self.step_s - self.idle_step_s);
        self.prompt_token_s * prompt + step_s * output
    }
}

/// Mean and variance of a model's output lengths, updated from a prior with a fixed weight.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OutputLengths {
    weight: f64,
    mean: f64,
    squares: f64,
}

impl OutputLengths {
    /// Weight of the prior, as a number of requests.
    const PRIOR_WEIGHT: f64 = 20.0;
    /// Number of requests after which older ones fade.
    const MAX_WEIGHT: f64 = 2_000.0;

    /// Starts from a prior's mean and standard deviation.
    #[must_use]
    pub fn new(mean: f64, deviation: f64) -> Self {
        Self {
            weight: Self::PRIOR_WEIGHT,
            mean,
            squares: deviation * deviation,
        }
    }

    /// Adds a request that generated `tokens` tokens.
    pub fn on_finished(&mut self, tokens: u32) {
        self.weight = (self.weight + 1.0).min(Self::MAX_WEIGHT);
        let off = f64::from(tokens) - self.mean;
        self.mean += off / self.weight;
        self.squares += (off * off - self.squares) / self.weight;
    }

    /// Mean number of generated tokens.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.mean
    }

    /// Variance of the number of generated tokens.
    #[must_use]
    pub fn variance(&self) -> f64 {
        self.squares
    }

    /// Expected further tokens after `generated`: the rest of the mean, but at least a quarter of the mean.
    #[must_use]
    pub fn rest(&self, generated: u32) -> f64 {
        (self.mean - f64::from(generated)).max(0.25 * self.mean).max(1.0)
    }
}

/// Factor `eps` of equation 4, as an exponentially smoothed ratio.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Inefficiency(f64);

impl Inefficiency {
    const GAIN: f64 = 0.02;

    /// Factor 1: service takes as long as predicted.
    #[must_use]
    pub fn new() -> Self {
        Self(1.0)
    }

    /// Adds a request that was in service for `measured_s` seconds where `expected_s` were predicted.
    pub fn on_measured(&mut self, expected_s: f64, measured_s: f64) {
        if expected_s > 0.0 && measured_s.is_finite() {
            let ratio = (measured_s / expected_s).clamp(0.2, 5.0);
            self.0 += Self::GAIN * (ratio - self.0);
        }
    }

    /// Ratio of measured to predicted time in service.
    #[must_use]
    pub fn factor(&self) -> f64 {
        self.0
    }
}

impl Default for Inefficiency {
    fn default() -> Self {
        Self::new()
    }
}

/// Probability that a standard normal value is below `x`. A logistic approximation with an error of 0.01,
/// because it is called often.
#[must_use]
#[inline]
pub(super) fn normal_below(x: f64) -> f64 {
    if x > 8.0 {
        return 1.0;
    }
    if x < -8.0 {
        return 0.0;
    }
    1.0 / (1.0 + (-1.702 * x).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_go_from_the_prior_to_what_is_seen() {
        let mut lengths = OutputLengths::new(100.0, 10.0);
        for _ in 0..2_000 {
            lengths.on_finished(200);
        }
        assert!((lengths.mean() - 200.0).abs() < 2.0, "{}", lengths.mean());
        assert!(lengths.rest(0) > 195.0 && lengths.rest(1_000) >= 49.0);
    }

    #[test]
    fn the_normal_distribution_is_within_a_hundredth() {
        for (x, below) in [
            (-2.0, 0.0228),
            (-1.0, 0.1587),
            (0.0, 0.5),
            (1.0, 0.8413),
            (1.645, 0.95),
        ] {
            assert!((normal_below(x) - below).abs() < 0.011, "{x}");
        }
    }

    #[test]
    fn inefficiency_follows_what_is_measured() {
        let mut eps = Inefficiency::new();
        for _ in 0..1_000 {
            eps.on_measured(2.0, 3.0);
        }
        assert!((eps.factor() - 1.5).abs() < 0.01);
    }
}
