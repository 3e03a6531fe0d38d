//! Synthetic models, made up by a formula and measured on nothing: block times on two fast and two slow classes whose ratio
//! runs along the model in six different shapes. They stand in for the published latencies where the asset pack is absent.
//!
//! Block `b` of `B` lies at `x = b / (B - 1)`. With `u` uniform in -1..1, drawn anew for each block from the model's seed:
//!
//! ```text
//! time(b, class, n, k) = whole / B * (1 + 0.15 u) * ratio(class, x) * (o + (1 - o) n) * k^0.97
//! ratio(fast-a, x) = 1                            ratio(fast-b, x) = 1.2 * (1 - 0.25 s(x))
//! ratio(slow-a, x) = slower * (1 + 0.5 s(x))      ratio(slow-b, x) = 0.7 * slower * (1 + 0.3 s(x))
//! bytes(b) = first * 2^(-halvings x), to whole kilobytes
//! ```
//!
//! for a batch of `n` on one of `k` shares of a device; `o`, what a batch costs however small it is, is 0.25 on fast classes
//! and 0.08 on slow ones, and `s` runs from -1 to 1 by [`Shape`]. Slow devices are not shared.

use weir_planner::{BlockTimes, Blocks};
use weir_policy::{GOLDEN_GAMMA, uniform_hash};
use weir_types::Span;

use super::published::Cluster;

/// Blocks of each model.
const BLOCKS: u32 = 10;

/// Shape of the ratio between the classes along a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Early blocks are nearly as fast on a slow device.
    Rising,
    /// Late blocks are nearly as fast on a slow device.
    Falling,
    /// All blocks have the same ratio.
    Flat,
    /// The first and the last blocks are nearly as fast.
    Hump,
    /// The blocks in the middle are nearly as fast.
    Dip,
    /// The first half is nearly as fast, the second half much slower.
    Step,
}

impl Shape {
    fn at(self, x: f64) -> f64 {
        match self {
            Self::Rising => 2.0 * x - 1.0,
            Self::Falling => 1.0 - 2.0 * x,
            Self::Flat => 0.0,
            Self::Hump => 2.0 * (std::f64::consts::PI * x).sin() - 1.0,
            Self::Dip => 1.0 - 2.0 * (std::f64::consts::PI * x).sin(),
            Self::Step if x < 0.5 => -1.0,
            Self::Step => 1.0,
        }
    }
}

/// A synthetic model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Model {
    /// Name of the model.
    pub name: &'static str,
    shape: Shape,
    /// Duration of the whole model on fast-a in microseconds.
    whole_us: f64,
    /// Base ratio of the durations on slow-a and fast-a.
    slower: f64,
    /// Bytes per item at the first boundary, and the number of times that they are halved up to the last.
    bytes: (f64, f64),
    seed: u64,
}

const fn model(
    name: &'static str,
    shape: Shape,
    (whole_us, slower): (f64, f64),
    bytes: (f64, f64),
    seed: u64,
) -> Model {
    Model {
        name,
        shape,
        whole_us,
        slower,
        bytes,
        seed,
    }
}

/// All of them: two groups of three.
pub const MODELS: [Model; 6] = [
    model("rising", Shape::Rising, (14_000.0, 4.2), (3e6, 4.0), 1),
    model("hump", Shape::Hump, (9_000.0, 5.0), (1.5e6, 2.0), 2),
    model("step", Shape::Step, (21_000.0, 3.6), (2e6, 3.0), 3),
    model("falling", Shape::Falling, (7_000.0, 3.9), (0.8e6, 1.0), 4),
    model("flat", Shape::Flat, (11_000.0, 4.6), (1e6, 2.0), 5),
    model("dip", Shape::Dip, (16_000.0, 5.5), (2.5e6, 3.0), 6),
];

/// The clusters of the evaluation with synthetic classes in place of L4, V100, P4 and T4.
pub const CLUSTERS: [Cluster; 4] = [
    stands_in(Cluster::ALL[0], "fast-a", "slow-a"),
    stands_in(Cluster::ALL[1], "fast-a", "slow-b"),
    stands_in(Cluster::ALL[2], "fast-b", "slow-a"),
    stands_in(Cluster::ALL[3], "fast-b", "slow-b"),
];

const fn stands_in(cluster: Cluster, high: &'static str, low: &'static str) -> Cluster {
    Cluster { high, low, ..cluster }
}

/// Its SLO, as for the published models: five times its time on the fastest class.
#[must_use]
pub fn slo(blocks: &Blocks) -> Span {
    let fastest = blocks
        .times
        .iter()
        .filter(|times| times.shares == 1)
        .map(|times| times.us.iter().filter_map(|block| block.first()).sum::<u64>())
        .min();
    Span::from_micros(5 * fastest.unwrap_or(0))
}

impl Model {
    /// Its blocks by the formula.
    #[must_use]
    pub fn blocks(&self) -> Blocks {
        let mut state = self.seed;
        let jitter: Vec<f64> = (0..BLOCKS)
            .map(|_| 1.0 + 0.15 * (2.0 * uniform(&mut state) - 1.0))
            .collect();
        let place = |block: u32| f64::from(block) / f64::from(BLOCKS - 1);
        let mut times = Vec::new();
        for class in ["fast-a", "fast-b", "slow-a", "slow-b"] {
            let fast = class.starts_with("fast");
            let once = if fast { 0.25 } else { 0.08 };
            let most: &[u32] = if fast { &[8, 4, 2, 2] } else { &[8] };
            for (shares, &most) in (1..).zip(most) {
                let us = |block: u32, batch: u32| {
                    let alone = self.whole_us / f64::from(BLOCKS) * jitter[block as usize];
                    let batch = once + (1.0 - once) * f64::from(batch);
                    let part = f64::from(shares).powf(0.97);
                    (alone * self.ratio(class, place(block)) * batch * part).round() as u64
                };
                times.push(BlockTimes {
                    class: class.to_owned(),
                    shares,
                    batch: (1..=most).collect(),
                    us: (0..BLOCKS)
                        .map(|block| (1..=most).map(|batch| us(block, batch)).collect())
                        .collect(),
                    whole_us: Vec::new(),
                });
            }
        }
        let bytes = |block: u32| {
            let (first, halvings) = self.bytes;
            1000 * (first * (-halvings * place(block)).exp2() / 1000.0).round() as u64
        };
        Blocks {
            model: self.name.to_owned(),
            layers: Vec::new(),
            boundary_bytes: (0..BLOCKS - 1).map(bytes).collect(),
            times,
        }
    }

    fn ratio(&self, class: &str, x: f64) -> f64 {
        let s = self.shape.at(x);
        match class {
            "fast-a" => 1.0,
            "fast-b" => 1.2 * (1.0 - 0.25 * s),
            "slow-a" => self.slower * (1.0 + 0.5 * s),
            _ => 0.7 * self.slower * (1.0 + 0.3 * s),
        }
    }

    /// Its profile file as it is shipped.
    #[must_use]
    pub fn file(&self) -> String {
        use std::fmt::Write as _;
        let blocks = self.blocks();
        let mut text = format!(
            "# Synthetic: made up by a formula (benches/reproduction/src/ppipe/synthetic.rs, shape {:?}, seed {}), measured on nothing.\n\
             # Written by `cargo run -p weir-reproduction --bin ppipe-profiles`.\n\
             model = \"{}\"\nboundary_bytes = {:?}\n",
            self.shape, self.seed, self.name, blocks.boundary_bytes
        );
        for times in &blocks.times {
            let BlockTimes {
                class,
                shares,
                batch,
                us,
                whole_us: _,
            } = times;
            // Writing to a string cannot fail.
            _ = write!(
                text,
                "\n[[times]]\nclass = \"{class}\"\nshares = {shares}\nbatch = {batch:?}\nus = [\n"
            );
            for block in us {
                _ = writeln!(text, "    {block:?},");
            }
            text.push_str("]\n");
        }
        text
    }

    /// The name of that file.
    #[must_use]
    pub fn file_name(&self) -> String {
        format!("ppipe-{}.toml", self.name)
    }
}

/// Uniform in 0..1: a splitmix step.
fn uniform(state: &mut u64) -> f64 {
    let drawn = uniform_hash(*state);
    *state = state.wrapping_add(GOLDEN_GAMMA);
    drawn
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shipped_is_what_the_formula_gives() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config/profiles");
        for model in MODELS {
            let path = folder.join(model.file_name());
            let text = std::fs::read_to_string(&path).unwrap();
            assert!(
                text == model.file(),
                "{}: write it anew with --bin ppipe-profiles",
                path.display()
            );
            assert_eq!(toml::from_str::<Blocks>(&text).unwrap(), model.blocks());
        }
    }
}
