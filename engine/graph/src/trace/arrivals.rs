//! Arrival times, drawn from a trace.

use std::iter::FusedIterator;
use std::sync::Arc;

use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;
use weir_types::Span;

use super::process::GapSampler;
use super::{ArrivalProcess, Trace};

/// Arrival times since the start of a trace, in order, all before its end. The same trace, process and seed give the same
/// times.
///
/// A stationary [`ArrivalProcess`] of unit rate is drawn, and its time mapped to that of the trace by the inverse of the
/// cumulative rate `Λ(t) = ∫ rate`: an arrival at `u` is at `t` with `Λ(t) = u`.
#[derive(Debug, Clone)]
pub struct Arrivals {
    slot: Span,
    rates: Arc<[f64]>,
    gaps: GapSampler,
    random: Pcg64Mcg,
    /// Index of the slot of the last arrival.
    at: usize,
    /// Cumulative rate from the start of that slot to the last arrival, in requests.
    into_slot: f64,
    /// Cumulative rate over that slot, in requests.
    slot_requests: f64,
    /// Microseconds a request, in that slot.
    us_per_request: f64,
    next_gap: NextGap,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NextGap {
    /// From a time chosen independently of arrivals to the first of them.
    Residual,
    /// None: the first arrival is at time zero.
    Zero,
    /// From one arrival to the next.
    Whole,
}

impl Arrivals {
    /// Arrivals of a process that is already running at time zero.
    #[must_use]
    pub fn new(trace: &Trace, process: ArrivalProcess, seed: u64) -> Self {
        let mut arrivals = Self {
            slot: trace.slot,
            rates: Arc::clone(&trace.rates),
            gaps: GapSampler::new(process),
            random: Pcg64Mcg::seed_from_u64(seed),
            at: 0,
            into_slot: 0.0,
            slot_requests: 0.0,
            us_per_request: 0.0,
            next_gap: NextGap::Residual,
        };
        arrivals.enter(0);
        arrivals
    }

    /// Arrivals of which the first is at time zero, or as soon as the rate is above zero.
    #[must_use]
    pub fn starting_at_zero(trace: &Trace, process: ArrivalProcess, seed: u64) -> Self {
        Self {
            next_gap: NextGap::Zero,
            ..Self::new(trace, process, seed)
        }
    }

    fn enter(&mut self, slot: usize) -> Option<()> {
        self.at = slot;
        // Beyond the end there is room for no arrival, however often `next` is called.
        self.slot_requests = 0.0;
        let rate = *self.rates.get(slot)?;
        self.slot_requests = rate * self.slot.as_secs_f64();
        self.us_per_request = 1e6 / rate;
        Some(())
    }
}

impl Iterator for Arrivals {
    type Item = Span;

    fn next(&mut self) -> Option<Span> {
        let gap = match self.next_gap {
            NextGap::Whole => self.gaps.gap(&mut self.random),
            NextGap::Residual => self.gaps.residual(&mut self.random),
            NextGap::Zero => 0.0,
        };
        self.next_gap = NextGap::Whole;
        self.into_slot += gap;
        while self.into_slot >= self.slot_requests {
            self.into_slot -= self.slot_requests;
            self.enter(self.at.saturating_add(1))?;
        }
        // Rounding must not carry an arrival into the next slot, whose rate may be zero.
        let micros = ((self.into_slot * self.us_per_request).round() as u64).min(self.slot.micros() - 1);
        Some(self.slot * self.at as u64 + Span::from_micros(micros))
    }
}

impl FusedIterator for Arrivals {}
