//! Arrivals of benches: at random, and the same each time.

use weir_types::Timestamp;

/// `requests` arrivals at a mean rate of `rate` per second.
pub fn arrivals(rate: f64, requests: u64) -> impl Iterator<Item = Timestamp> {
    let mut state = 88_172_645_463_325_252_u64;
    let mut at = 0.0_f64;
    (0..requests).map(move |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let draw = (state >> 11) as f64 / (1_u64 << 53) as f64;
        at += -(1.0 - draw).ln() / rate;
        Timestamp::from_micros((at * 1e6) as u64)
    })
}
