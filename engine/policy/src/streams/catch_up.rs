//! A stream whose decoder stays behind resumes at its newest key frame.
//!
//! ```text
//! resume where lag > slo / 2 for PATIENCE
//! ```
//!
//! Frames that are decoded later than that are dropped for being late, and decoding them keeps other streams behind as well. A
//! burst after a pause of the network is decoded within the patience and loses nothing.

use weir_types::{Span, Timestamp};

/// Time for which a stream must be behind: two seconds of frames that come at once are decoded in less.
const PATIENCE: Span = Span::from_millis(500);

/// The time for which one stream has been behind.
#[derive(Debug, Clone, Copy, Default)]
pub struct CatchUp {
    behind_since: Option<Timestamp>,
}

impl CatchUp {
    /// A frame was decoded `lag` after it was sent; says whether to leave out the rest of its group of pictures.
    pub fn on_frame(&mut self, lag: Span, slo: Span, now: Timestamp) -> bool {
        if lag <= slo / 2 {
            self.behind_since = None;
            return false;
        }
        let since = *self.behind_since.get_or_insert(now);
        let resumes = now.since(since) >= PATIENCE;
        if resumes {
            self.behind_since = None;
        }
        resumes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Frames of 30 a second that are decoded at `rate` a second, from a lag of `lag_ms` on: when the first group is left out.
    fn resumes_at_ms(lag_ms: u64, rate: f64) -> Option<u64> {
        let mut catch_up = CatchUp::default();
        (0..300_u64).find_map(|frame| {
            let decoded_ms = lag_ms + (frame as f64 * 1_000.0 / rate) as u64;
            let sent_ms = frame * 1_000 / 30;
            let now_ms = decoded_ms.max(sent_ms);
            let now = Timestamp::ZERO + Span::from_millis(now_ms);
            let lag = Span::from_millis(now_ms - sent_ms);
            catch_up
                .on_frame(lag, Span::from_millis(400), now)
                .then_some(now_ms)
        })
    }

    #[test]
    fn a_stream_that_stays_behind_resumes_and_a_burst_is_caught_up_with() {
        assert_eq!(resumes_at_ms(0, 30.0), None, "it keeps up");
        assert_eq!(resumes_at_ms(2_000, 300.0), None, "two seconds after a pause");
        assert_eq!(resumes_at_ms(150, 30.0), None, "always a little behind");
        let slow = resumes_at_ms(0, 20.0).unwrap();
        assert!(
            (1_000..1_500).contains(&slow),
            "it falls behind more and more: {slow}"
        );
        assert_eq!(resumes_at_ms(300, 30.0), Some(800), "always too late");
    }
}
