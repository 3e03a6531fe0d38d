//! Seeds, which determine all random draws of a world; separate for each purpose.

use rand_pcg::Pcg64;
use rand_pcg::rand_core::SeedableRng;

/// Purpose of a rendering. The three never share a seed, so that no model is scored on its training data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Pictures for training.
    Train,
    /// Pictures for validation during training.
    Validation,
    /// Clips for demonstrations and scoring.
    Clip,
}

impl Part {
    /// All parts, by name.
    pub const ALL: [(&'static str, Self); 3] = [
        ("train", Self::Train),
        ("validation", Self::Validation),
        ("clip", Self::Clip),
    ];

    /// The part of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let found = Self::ALL.iter().find(|(known, _)| *known == name);
        found.map(|(_, part)| *part)
    }
}

/// Seed of a world: a purpose and a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seed {
    /// Purpose of the rendering.
    pub part: Part,
    /// Number of the world within its part.
    pub number: u64,
}

impl Seed {
    /// The seed `number` of `part`.
    #[must_use]
    pub const fn new(part: Part, number: u64) -> Self {
        Self { part, number }
    }

    /// A generator for one thing of this world: `what` keeps the draws of one thing apart from those of another, so that
    /// a new kind of draw does not change all others.
    #[must_use]
    pub fn rng(&self, what: &str) -> Pcg64 {
        Pcg64::seed_from_u64(self.key(what))
    }

    /// A number for one thing of this world.
    #[must_use]
    pub fn key(&self, what: &str) -> u64 {
        let part = self.part as u64 + 1;
        let name = what.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        mix(mix(part) ^ mix(self.number.wrapping_add(name)))
    }
}

/// Scatters the bits of a number (the finaliser of splitmix64).
#[must_use]
pub const fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_and_things_draw_apart() {
        let keys: Vec<u64> = Part::ALL
            .iter()
            .flat_map(|(_, part)| ["cars", "people"].map(|what| Seed::new(*part, 7).key(what)))
            .collect();
        let distinct: std::collections::BTreeSet<u64> = keys.iter().copied().collect();
        assert_eq!(distinct.len(), keys.len());
        assert_eq!(
            Seed::new(Part::Clip, 7).key("cars"),
            Seed::new(Part::Clip, 7).key("cars")
        );
    }
}
