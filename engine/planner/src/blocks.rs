//! Pre-partitioning: layers are grouped into a few blocks of about equal duration, cut where few bytes cross (PPipe 5.2).
//!
//! The paper groups layers greedily until a block is as close as possible to an equal fraction of the total duration. Here
//! a block may deviate from it by a quarter, and of all boundaries within this tolerance the one with the fewest bytes is
//! chosen: the planner can balance slightly unequal blocks, but cannot shrink a feature map that is twice as large.

/// Deviation of a block from an equal fraction of the remaining duration that is accepted for fewer bytes, in percent.
const TOLERANCE_PERCENT: u128 = 25;

/// The first layer of each block, from 0, ascending.
///
/// `times[i]` is the duration of layer `i`, in any unit. `boundaries[i]` are the bytes that cross from layer `i` to layer
/// `i + 1`, `None` where the model must not be cut. There are `blocks` blocks, or fewer if there are too few boundaries.
/// The target of each block is the remaining duration over the remaining blocks, so that later blocks compensate for an
/// unequal one.
#[must_use]
pub fn group_layers(times: &[u64], boundaries: &[Option<u64>], blocks: usize) -> Vec<usize> {
    let mut candidates: Vec<Candidate> = boundaries
        .iter()
        .zip(1..times.len())
        .filter_map(|(bytes, layer)| bytes.map(|bytes| Candidate { layer, bytes }))
        .collect();
    let mut starts = vec![0];
    if times.is_empty() {
        return Vec::new();
    }
    while starts.len() < blocks && !candidates.is_empty() {
        let from = starts.last().copied().unwrap_or_default();
        let missing = blocks - starts.len();
        // Each of the cuts after this one needs a boundary too.
        let available = candidates.len().saturating_sub(missing - 1).max(1);
        let chosen = choose_boundary(&times[from..], from, &candidates[..available], missing + 1);
        starts.push(candidates[chosen].layer);
        candidates.drain(..=chosen);
    }
    starts
}

/// A boundary that may be cut.
struct Candidate {
    /// The layer after it.
    layer: usize,
    bytes: u64,
}

/// Index of the candidate that ends the first of `blocks` blocks over the layers `times`, the first of which is `from`.
fn choose_boundary(times: &[u64], from: usize, candidates: &[Candidate], blocks: usize) -> usize {
    let total: u128 = times.iter().map(|time| u128::from(*time)).sum();
    let (mut sum, mut counted) = (0_u128, 0);
    let mut best: Option<(usize, (bool, u64, u128))> = None;
    for (index, candidate) in candidates.iter().enumerate() {
        sum += times[counted..candidate.layer - from]
            .iter()
            .map(|time| u128::from(*time))
            .sum::<u128>();
        counted = candidate.layer - from;
        // Both sides are multiplied by the number of blocks, which avoids rounding.
        let deviation = (sum * blocks as u128).abs_diff(total);
        let outside = deviation * 100 > TOLERANCE_PERCENT * total;
        // Outside of the tolerance only the deviation counts.
        let rank = (outside, if outside { 0 } else { candidate.bytes }, deviation);
        if best.is_none_or(|(_, least)| rank < least) {
            best = Some((index, rank));
        }
    }
    best.map_or(0, |(index, _)| index)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn blocks_of(times: &[u64], starts: &[usize]) -> Vec<u64> {
        let ends = starts.iter().skip(1).copied().chain([times.len()]);
        starts
            .iter()
            .zip(ends)
            .map(|(start, end)| times[*start..end].iter().sum())
            .collect()
    }

    #[test]
    fn equal_layers_make_equal_blocks() {
        let starts = group_layers(&[10; 100], &[Some(7); 99], 10);
        assert_eq!(starts, (0..10).map(|block| block * 10).collect::<Vec<_>>());
    }

    #[test]
    fn a_narrow_boundary_is_taken_within_the_tolerance_only() {
        let mut bytes = vec![Some(1000); 99];
        bytes[47] = Some(10);
        bytes[5] = Some(1);
        assert_eq!(group_layers(&[10; 100], &bytes, 2), [0, 48]);
    }

    #[test]
    fn a_model_without_boundaries_is_one_block() {
        assert_eq!(group_layers(&[1, 2, 3], &[None, None], 10), [0]);
        assert_eq!(group_layers(&[1, 2, 3], &[None, Some(1)], 10), [0, 2]);
        assert_eq!(group_layers(&[], &[], 10), [0_usize; 0]);
        assert_eq!(group_layers(&[0, 0, 0], &[Some(1), Some(1)], 3), [0, 1, 2]);
    }

    fn model() -> impl Strategy<Value = (Vec<u64>, Vec<Option<u64>>)> {
        (2..60_usize).prop_flat_map(|layers| {
            let bytes = prop_oneof![4 => (1..1_000_u64).prop_map(Some), 1 => Just(None)];
            (vec(0..1_000_u64, layers), vec(bytes, layers - 1))
        })
    }

    proptest! {
        #[test]
        fn blocks_start_at_allowed_boundaries_and_are_as_many_as_possible(
            (times, boundaries) in model(),
            blocks in 1..15_usize,
        ) {
            let starts = group_layers(&times, &boundaries, blocks);
            let allowed = boundaries.iter().flatten().count();
            prop_assert_eq!(starts.len(), blocks.min(allowed + 1));
            prop_assert_eq!(starts[0], 0);
            prop_assert!(starts.is_sorted_by(|a, b| a < b));
            prop_assert!(starts[1..].iter().all(|start| boundaries[start - 1].is_some()));
            prop_assert_eq!(&starts, &group_layers(&times, &boundaries, blocks));
        }

        #[test]
        fn with_equal_bytes_blocks_are_within_half_a_layer_of_equal_time(
            times in vec(1..1_000_u64, 20..60),
            blocks in 2..10_usize,
        ) {
            let starts = group_layers(&times, &vec![Some(5); times.len() - 1], blocks);
            let longest = times.iter().max().copied().unwrap_or_default();
            let made = blocks_of(&times, &starts);
            for (index, time) in made[..made.len() - 1].iter().enumerate() {
                let left: u64 = made[index..].iter().sum();
                let remaining = (blocks - index) as u64;
                prop_assert!((time * remaining).abs_diff(left) * 2 <= longest * remaining, "{:?}", made);
            }
        }

        #[test]
        fn grouping_is_invariant_to_the_units_of_time_and_bytes(
            (times, boundaries) in model(),
            blocks in 1..15_usize,
        ) {
            let longer: Vec<u64> = times.iter().map(|time| time * 7).collect();
            let larger: Vec<Option<u64>> = boundaries.iter().map(|bytes| bytes.map(|bytes| bytes * 3 + 1)).collect();
            prop_assert_eq!(group_layers(&longer, &larger, blocks), group_layers(&times, &boundaries, blocks));
        }
    }
}
