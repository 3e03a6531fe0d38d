//! Movement by the sizes of packets, before anything is decoded.
//!
//! ```text
//! size   = largest log2(bytes + 64) of the last WINDOW packets that are no key frames
//! active = size > mean + max(MARGIN, 6 * deviation)       over still packets
//! ```
//!
//! An encoder spends a few hundred bytes on a picture that repeats the one before, and ten times as many where something moves. The
//! largest of a few packets evens out pictures that refer to both sides, which are smaller than the others.

/// Packets over which the largest one counts.
const WINDOW: usize = 4;

/// Binary orders of magnitude above the mean that are never noise: a factor of 1.6.
const MARGIN: f64 = 0.7;

/// Deviations above the mean that are noise.
const DEVIATIONS: f64 = 6.0;

/// Packets over which the statistic follows, and after which it is used.
const MEMORY: f64 = 250.0;
const LEARNED: u32 = 25;

/// Sizes of the packets of one stream.
#[derive(Debug, Clone, Default)]
pub(super) struct PacketSizes {
    recent: [f64; WINDOW],
    next: usize,
    learned: u32,
    mean: f64,
    deviation: f64,
}

impl PacketSizes {
    /// The next packet that is no key frame: whether something moves in it, as far as its size tells.
    pub(super) fn observe(&mut self, bytes: u64) -> bool {
        self.recent[self.next] = (bytes as f64 + 64.0).log2();
        self.next = (self.next + 1) % WINDOW;
        self.is_learned() && self.size() > self.mean + MARGIN.max(DEVIATIONS * self.deviation)
    }

    /// Nothing moved in the last packet.
    pub(super) fn on_still(&mut self) {
        let size = self.size();
        let weight = 1.0 / f64::from(self.learned.saturating_add(1)).min(MEMORY);
        self.deviation +=
            ((size - self.mean).abs() * f64::from(u8::from(self.learned > 0)) - self.deviation) * weight;
        self.mean += (size - self.mean) * weight;
        self.learned = self.learned.saturating_add(1);
    }

    /// Whether still packets were seen often enough.
    #[must_use]
    pub(super) fn is_learned(&self) -> bool {
        self.learned >= LEARNED
    }

    fn size(&self) -> f64 {
        self.recent.iter().copied().fold(0.0, f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn still(frame: u64) -> u64 {
        // Every third packet is referred to; the others are smaller.
        let base = if frame.is_multiple_of(3) { 400 } else { 90 };
        base + (frame * 7_919) % 60
    }

    #[test]
    fn packets_that_grow_are_active_and_those_like_before_are_not() {
        let mut sizes = PacketSizes::default();
        assert!(!sizes.observe(50_000), "nothing is known yet");
        for frame in 0..600 {
            sizes.observe(still(frame));
            sizes.on_still();
        }
        assert!((600..900).all(|frame| !sizes.observe(still(frame))));
        assert!(sizes.observe(2_500));
    }

    #[test]
    fn sizes_that_vary_without_movement_need_more() {
        let mut sizes = PacketSizes::default();
        for frame in 0..300_u64 {
            sizes.observe(2_000 + (frame * 2_654_435_761) % 6_000);
            sizes.on_still();
        }
        assert!(!sizes.observe(7_900));
    }
}
