//! How long several blocks take in one partition.
//!
//! ```text
//! t(i, j) = sum over blocks b of i..j: us(b)  -  sum over boundaries b within: saved(b)
//! saved(b) = (sum of all us - whole) x bytes(b) / sum of bytes           at most what the blocks on either side take
//! ```
//!
//! A block that is measured alone takes in what the block before it gives, and gives what the next one takes: in one partition
//! neither is copied, and the runtime fuses across the boundary. What that comes to over all boundaries is measured, by running
//! the model whole. PPipe (5.1) adds blocks up; where the whole was not measured, so is done here.

use crate::problem::{BlockTimes, Blocks};

/// Of one class and share, at one batch size.
#[derive(Debug, Clone)]
pub(crate) struct PartitionTimes {
    /// Microseconds of the blocks before each block, and of all.
    sums: Vec<u64>,
    /// Microseconds saved at the boundaries before each block, and at all.
    saved: Vec<u64>,
}

impl PartitionTimes {
    /// At the batch size of place `k`; `None` where times are missing.
    pub(crate) fn new(blocks: &Blocks, times: &BlockTimes, k: usize) -> Option<Self> {
        let us: Vec<u64> = times
            .us
            .iter()
            .map(|row| row.get(k).copied())
            .collect::<Option<_>>()?;
        let prefix = |of: &mut dyn Iterator<Item = u64>| {
            let mut sums = vec![0_u64];
            sums.extend(of.scan(0_u64, |sum, next| {
                *sum = sum.saturating_add(next);
                Some(*sum)
            }));
            sums
        };
        let sums = prefix(&mut us.iter().copied());
        let all = sums[sums.len() - 1];
        let excess = match times.whole_us.get(k) {
            Some(whole) => all.saturating_sub(*whole),
            None => 0,
        };
        let bytes: u128 = blocks.boundary_bytes.iter().map(|bytes| u128::from(*bytes)).sum();
        let saved = |(bytes_here, beside): (&u64, &[u64])| {
            let part = u128::from(excess) * u128::from(*bytes_here) / bytes.max(1);
            let least = beside.iter().copied().min().unwrap_or(0);
            u64::try_from(part).unwrap_or(u64::MAX).min(least)
        };
        let mut saved = blocks.boundary_bytes.iter().zip(us.windows(2)).map(saved);
        Some(Self {
            saved: prefix(&mut saved),
            sums,
        })
    }

    /// Microseconds of blocks `from..to` in one partition.
    pub(crate) fn us(&self, from: usize, to: usize) -> Option<u64> {
        let all = self.sums.get(to)?.checked_sub(*self.sums.get(from)?)?;
        let within = match to.checked_sub(1).filter(|last| *last > from) {
            Some(last) => self.saved.get(last)?.checked_sub(*self.saved.get(from)?)?,
            None => 0,
        };
        Some(all.saturating_sub(within))
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
        let times = of(&[60, 40, 50], &[300, 100], vec![110]);
        // 40 of 150 are saved, three quarters of them at the first boundary.
        assert_eq!(
            [(0, 1), (1, 2), (2, 3), (0, 2), (1, 3), (0, 3)].map(|(from, to)| times.us(from, to)),
            [60, 40, 50, 70, 80, 110].map(Some)
        );
        assert_eq!(times.us(0, 4), None);
    }

    proptest! {
        #[test]
        fn a_partition_takes_no_less_than_the_whole_and_no_more_than_its_blocks(
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
                    // One block more never takes less.
                    prop_assert!(to == blocks || times.us(from, to + 1).unwrap() >= is);
                }
            }
            prop_assert!(times.us(0, blocks).unwrap() >= whole.min(sum));
        }
    }
}
