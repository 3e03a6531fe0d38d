//! Fairness among streams: of requests that are about equally urgent, none is always the one that is let go.
//!
//! Cameras send at a fixed period, and batches start at one. Strictly by budget, the same cameras then have the best places
//! at every start: of twelve alike, one lost an eighth of its frames and another nineteen of twenty. So each request draws a
//! lot, and budgets that differ by less than a frame or two are compared by lots. The lot is drawn from the request's number:
//! the same in every module, so that who was preferred at the first is preferred at the next.

use weir_types::RequestId;

/// Budgets within the SLO over this are about equal: a frame or two at usual rates.
pub(crate) const DEADLINE_JITTER_DIV: u64 = 10;

/// Where lots decide in another way as well, only those within the SLO over this are.
pub(crate) const MARGIN_JITTER_DIV: u64 = 50;

/// The request's lot: [`uniform_hash`] by its number.
pub(crate) fn random_rank(request: RequestId) -> f64 {
    uniform_hash(request.0)
}

/// What lies between two numbers in a row that [`uniform_hash`] turns into a random sequence (`splitmix64`).
pub const GOLDEN_GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// A number from 0 to below 1 that is evenly spread over those given (`splitmix64`'s mixing).
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
