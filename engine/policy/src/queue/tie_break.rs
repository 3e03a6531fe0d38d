//! Fairness among streams: ties between requests of about equal urgency are broken at random.
//!
//! Cameras send at a fixed period, and so do batches start. Strictly by budget, the same cameras then win at every start: of
//! twelve equal ones, one lost an eighth of its frames and another nineteen of twenty. So each request has a random rank, and
//! budgets that differ by less than a frame or two are compared by rank. The rank is a hash of the request id: the same in
//! every module, so that a request preferred at the first module is preferred at the next.

use weir_types::RequestId;

/// Budgets within SLO / this are equal: a frame or two at usual rates.
pub(crate) const DEADLINE_JITTER_DIV: u64 = 10;

/// The same divisor if the random rank also spreads the slack threshold.
pub(crate) const MARGIN_JITTER_DIV: u64 = 50;

/// Random rank of a request in 0..1: [`uniform_hash`] of its id.
pub(crate) fn random_rank(request: RequestId) -> f64 {
    uniform_hash(request.0)
}

/// Increment of a counter that [`uniform_hash`] turns into a random sequence (`splitmix64`).
pub const GOLDEN_GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// A hash that is uniform in 0..1 (the mixing function of `splitmix64`).
#[must_use]
pub fn uniform_hash(number: u64) -> f64 {
    let mut mixed = number.wrapping_add(GOLDEN_GAMMA);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^= mixed >> 31;
    (mixed >> 11) as i64 as f64 / (1_i64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_uniform_for_every_stream_in_round_robin() {
        for streams in 1..40 {
            for stream in 0..streams {
                let ranks = (0..2_000).map(|frame| random_rank(RequestId(frame * streams + stream)));
                let mean = ranks.sum::<f64>() / 2_000.0;
                assert!(
                    (mean - 0.5).abs() < 0.035,
                    "{mean} for stream {stream} of {streams}"
                );
            }
        }
    }
}
