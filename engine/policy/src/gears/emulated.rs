//! Certainty of an emulated model for an item. It is the same in live and simulated runs, so that the same
//! items are handed on.

use crate::queue::tie_break::uniform_hash;

/// Request ids and frame numbers are often equal, and ranks of requests (`random_rank`) are a hash too.
/// Without the salt, drops under overload would correlate with items that are handed on.
const SALT: u64 = 0x6765_6172_735f_6b65;

/// Shift that separates the items of one frame.
const ITEM_SHIFT: u32 = 40;

/// Certainty from 0 to 1 by the number of the frame and the item's index in it, distributed uniformly: a
/// stage that accepts from 0.3 on hands on three tenths of the items.
#[must_use]
pub fn emulated_certainty(frame: u64, item: u32) -> f32 {
    uniform_hash(frame.wrapping_add(u64::from(item) << ITEM_SHIFT) ^ SALT) as f32
}

/// Maximum number of regions of a frame of which an emulated model is not certain.
pub const MAX_EMULATED_REGIONS: u64 = 4;

/// Mean number of such regions.
pub const EMULATED_REGIONS: f64 = (1 + MAX_EMULATED_REGIONS) as f64 / 2.0;

/// Number of regions in which an emulated model hands a frame on, if it works by regions: from 1 to
/// [`MAX_EMULATED_REGIONS`], distributed uniformly over frame numbers.
#[must_use]
pub fn emulated_regions(frame: u64) -> u32 {
    let drawn = uniform_hash(frame ^ SALT.rotate_left(1));
    1 + ((drawn * MAX_EMULATED_REGIONS as f64) as u64).min(MAX_EMULATED_REGIONS - 1) as u32
}

#[cfg(test)]
mod tests {
    use weir_types::RequestId;

    use super::*;
    use crate::queue::tie_break::random_rank;

    #[test]
    fn frames_are_handed_on_in_one_to_four_regions() {
        let counts: Vec<u32> = (0..40_000).map(emulated_regions).collect();
        for wanted in 1..=4 {
            let part = counts.iter().filter(|count| **count == wanted).count() as f64 / counts.len() as f64;
            assert!((part - 0.25).abs() < 0.02, "{part} of {wanted}");
        }
        let mean = counts.iter().map(|count| f64::from(*count)).sum::<f64>() / counts.len() as f64;
        assert!((mean - EMULATED_REGIONS).abs() < 0.03, "{mean}");
    }

    /// Of requests of any rank the same part is uncertain.
    #[test]
    fn certainties_do_not_follow_the_ranks_of_requests() {
        for near in 0..4_u64 {
            let ranked = |wanted: usize| {
                let certainties = (0..40_000_u64).filter_map(move |frame| {
                    let rank = random_rank(RequestId(frame + near));
                    ((rank * 4.0) as usize == wanted).then(|| emulated_certainty(frame, 0))
                });
                certainties.collect::<Vec<f32>>()
            };
            for quarter in 0..4 {
                let certainties = ranked(quarter);
                let uncertain = certainties.iter().filter(|certainty| **certainty < 0.25).count();
                let part = uncertain as f64 / certainties.len() as f64;
                assert!((part - 0.25).abs() < 0.02, "{part} of quarter {quarter}");
            }
        }
    }
}
