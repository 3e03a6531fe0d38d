//! How much time a request must have to spare so that it is worth being run before others (rule `weir`).
//!
//! Under overload somebody is let go whatever the order; the question is with how much slack the others leave. With none
//! (least budget first) every delay further on is fatal to them; with all (high budget first) those that waited are lost
//! although they could have been served when the burst is over. In between lies a margin, and how large it must be shows
//! itself: losses further on, in requests that were run here, ask for more of it, none for less.

use crate::time::Span;

/// Share of all losses, here and further on, that may happen further on.
const SHARE: f64 = 0.02;
/// Factor by which the margin grows at a reading with too many losses further on.
const GROWTH: f64 = 1.5;
/// Factor by which it shrinks otherwise.
const DECAY: f64 = 0.97;

/// The margin of one module.
#[derive(Debug, Clone)]
pub(crate) struct Spare {
    margin: f64,
    here: u64,
    further: u64,
}

impl Default for Spare {
    fn default() -> Self {
        Self {
            margin: 1.0,
            here: 0,
            further: 0,
        }
    }
}

impl Spare {
    /// Takes in how many requests were lost so far, here and further on.
    pub(crate) fn reading(&mut self, here: u64, further: u64) {
        let (now_here, now_further) = (
            here.saturating_sub(self.here),
            further.saturating_sub(self.further),
        );
        (self.here, self.further) = (here, further);
        let lost = now_here + now_further;
        if lost == 0 {
            return;
        }
        let factor = if now_further as f64 > SHARE * lost as f64 {
            GROWTH
        } else {
            DECAY
        };
        self.margin = (self.margin * factor).clamp(LEAST, MOST);
    }

    /// The margin beyond the way ahead.
    pub(crate) fn margin(&self, ahead: Span, slo: Span) -> Span {
        (ahead / 2 + slo / 12).scale(self.margin).min(slo)
    }
}

/// Bounds of the factor.
const LEAST: f64 = 0.5;
const MOST: f64 = 16.0;
