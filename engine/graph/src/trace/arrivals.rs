//! The times of arrivals, drawn from a trace.

use std::iter::FusedIterator;
use std::sync::Arc;

use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;
use weir_types::Span;

use super::process::Gaps;
use super::{Process, Trace};

/// Times of arrivals since the beginning of a trace, in order, none before the beginning or at the end or after it. The
/// same trace, process and seed give the same times.
///
/// A stationary [`Process`] of unit rate is drawn, and its time turned into that of the trace through the inverse of the
/// cumulative rate `Λ(t) = ∫ rate`: an arrival at `u` comes at `t` with `Λ(t) = u`.
#[derive(Debug, Clone)]
pub struct Arrivals {
    slot: Span,
    rates: Arc<[f64]>,
    gaps: Gaps,
    random: Pcg64Mcg,
    /// Which slot the last arrival was in.
    at: usize,
    /// Cumulative rate from the beginning of that slot to that arrival, in requests.
    into_slot: f64,
    /// Cumulative rate over that slot.
    slot_holds: f64,
    /// Microseconds a request, in that slot.
    micros_each: f64,
    begun: Begun,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Begun {
    No,
    /// The first arrival is at the very beginning.
    AtOnce,
    Yes,
}

impl Arrivals {
    /// Arrivals as someone sees them who begins to look at time zero.
    #[must_use]
    pub fn new(trace: &Trace, process: Process, seed: u64) -> Self {
        let mut arrivals = Self {
            slot: trace.slot,
            rates: Arc::clone(&trace.rates),
            gaps: Gaps::new(process),
            random: Pcg64Mcg::seed_from_u64(seed),
            at: 0,
            into_slot: 0.0,
            slot_holds: 0.0,
            micros_each: 0.0,
            begun: Begun::No,
        };
        arrivals.enter(0);
        arrivals
    }

    /// Arrivals of which the first is at time zero, or as soon as the rate is above zero.
    #[must_use]
    pub fn from_the_first(trace: &Trace, process: Process, seed: u64) -> Self {
        Self {
            begun: Begun::AtOnce,
            ..Self::new(trace, process, seed)
        }
    }

    fn enter(&mut self, slot: usize) -> Option<()> {
        self.at = slot;
        // Beyond the end there is no room for any arrival, however often the next is asked for.
        self.slot_holds = 0.0;
        let rate = *self.rates.get(slot)?;
        self.slot_holds = rate * self.slot.as_secs_f64();
        self.micros_each = 1e6 / rate;
        Some(())
    }
}

impl Iterator for Arrivals {
    type Item = Span;

    fn next(&mut self) -> Option<Span> {
        let gap = match self.begun {
            Begun::Yes => self.gaps.gap(&mut self.random),
            Begun::No => self.gaps.first(&mut self.random),
            Begun::AtOnce => 0.0,
        };
        self.begun = Begun::Yes;
        self.into_slot += gap;
        while self.into_slot >= self.slot_holds {
            self.into_slot -= self.slot_holds;
            self.enter(self.at.saturating_add(1))?;
        }
        // Rounding must not carry an arrival into the next slot, whose rate may be zero.
        let micros = ((self.into_slot * self.micros_each).round() as u64).min(self.slot.micros() - 1);
        Some(self.slot * self.at as u64 + Span::from_micros(micros))
    }
}

impl FusedIterator for Arrivals {}
