//! Duration of a partition of several blocks.
//!
//! ```text
//! t(i, j) = sum(i, j) x (1 - saved x within(i, j))
//! saved   = 1 - whole / sum of all blocks                    0 where the whole was not measured, or takes longer
//! within  = bytes that cross boundaries within i..j / bytes that cross any
//! ```
//!
//! A block that is measured alone takes in what the block before it gives, and gives what the next one takes: in one partition
//! neither is copied, and the runtime fuses across the boundary. What that comes to over all boundaries is measured, by running
//! the model whole. So single blocks, and all in one, take what was measured of them; what is between is estimated. A partition
//! can take less than one with a block less, which ends where more is to be copied out. PPipe (5.1) adds blocks up; where the
//! whole was not measured, so is done here.

use crate::problem::{BlockTimes, Blocks};

/// Durations for one class and share, at one batch size.
#[derive(Debug, Clone)]
pub(crate) struct PartitionTimes {
    /// Microseconds of the blocks before each block, and of all blocks.
    us: Vec<u64>,
    /// Bytes over the boundaries before each block but the first, and over all; plus one for each boundary,
    /// so that none is zero.
    bytes: Vec<u128>,
    /// Microseconds that are saved if all blocks form one partition.
    saved_us: u64,
}

impl PartitionTimes {
    /// Times at the `k`th batch size; `None` if some are missing.
    pub(crate) fn new(blocks: &Blocks, times: &BlockTimes, k: usize) -> Option<Self> {
        let mut us = vec![0_u64];
        for row in &times.us {
            us.push(us.last()?.saturating_add(*row.get(k)?));
        }
        let mut bytes = vec![0_u128];
        for crossing in &blocks.boundary_bytes {
            bytes.push(bytes.last()? + u128::from(*crossing) + 1);
        }
        let saved_us = match times.whole_us.get(k) {
            Some(whole) => us.last()?.saturating_sub((*whole).max(1)),
            None => 0,
        };
        Some(Self { us, bytes, saved_us })
    }

    /// Microseconds of blocks `from..to` in one partition.
    pub(crate) fn us(&self, from: usize, to: usize) -> Option<u64> {
        let alone = self.us.get(to)?.checked_sub(*self.us.get(from)?)?;
        let within = match to.checked_sub(1) {
            Some(last) if last > from => self.bytes.get(last)?.checked_sub(*self.bytes.get(from)?)?,
            _ => 0,
        };
        let (all_us, all_bytes) = (*self.us.last()?, *self.bytes.last()?);
        let part = (alone as f64 / all_us.max(1) as f64) * (within as f64 / all_bytes.max(1) as f64);
        let saved = (self.saved_us as f64 * part).round() as u64;
        Some(alone.saturating_sub(saved))
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn of(us: &[u64], bytes: &[u64], whole_us: Vec<u64>) -> PartitionTimes {
        let times = BlockTimes {
            class: "gpu".to_owned(),
            shares: 1,
            batch: vec![1],
            us: us.iter().map(|us| vec![*us]).collect(),
            whole_us,
        };
        let blocks = Blocks {
            boundary_bytes: bytes.to_vec(),
            ..Blocks::default()
        };
        PartitionTimes::new(&blocks, &times, 0).expect("all times are there")
    }

    #[test]
    fn what_is_saved_goes_by_the_bytes_that_do_not_cross() {
        let times = of(&[60, 40, 50], &[299, 99], vec![110]);
        // 40 of 150 are saved where all is in one, three quarters of that part for the first boundary.
        assert_eq!(
            [(0, 1), (1, 2), (2, 3), (0, 2), (1, 3), (0, 3)].map(|(from, to)| times.us(from, to)),
            [60, 40, 50, 80, 84, 110].map(Some)
        );
        assert_eq!(times.us(0, 4), None);
    }

    proptest! {
        #[test]
        fn single_blocks_and_the_whole_take_what_was_measured_and_nothing_more_than_its_blocks(
            (us, bytes) in (1..8_usize).prop_flat_map(|blocks| {
                (vec(1..1_000_u64, blocks), vec(0..1_000_u64, blocks - 1))
            }),
            part in 0.0_f64..1.2,
        ) {
            let sum: u64 = us.iter().sum();
            let whole = ((sum as f64 * part) as u64).max(1);
            let (plain, times) = (of(&us, &bytes, Vec::new()), of(&us, &bytes, vec![whole]));
            let blocks = us.len();
            for from in 0..blocks {
                for to in from + 1..=blocks {
                    let (alone, is) = (plain.us(from, to).unwrap(), times.us(from, to).unwrap());
                    prop_assert_eq!(alone, us[from..to].iter().sum::<u64>());
                    prop_assert!(is <= alone && is >= 1);
                    prop_assert!(to > from + 1 || is == alone);
                }
            }
            prop_assert_eq!(times.us(0, blocks).unwrap(), if blocks > 1 { whole.min(sum) } else { sum });
        }
    }
}
