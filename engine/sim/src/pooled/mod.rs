//! Pooled pipelines in virtual time: one queue a model, batches booked through shares and links by the same
//! [`Reservations`](weir_policy::reservations::Reservations) that serve live, or dispatched reactively, pool by pool.
//!
//! It simulates one stage of an application and no graph; PARD's rules are simulated elsewhere.

mod arrivals;
mod executor;
mod reactive;
mod spec;
mod world;

pub use arrivals::{bursty, poisson};
pub use spec::{Dispatch, PooledRun, PooledSpec, PooledStats, PooledStream, ResourceUsage};

use weir_types::Timestamp;
use weir_types::invariant::panicking;

/// Runs it to the end: until all that arrived is out or dropped.
///
/// # Panics
/// Where an [invariant](weir_types::invariant) is broken, in every build.
#[must_use]
pub fn simulate_pooled(spec: &PooledSpec, arrivals: &[Vec<Timestamp>]) -> PooledRun {
    panicking(|| match spec.dispatch {
        Dispatch::Reserved => world::World::new(spec, arrivals).run(),
        Dispatch::Reactive => reactive::World::new(spec, arrivals).run(),
    })
}

/// The greatest load factor, from 1.00 down by 0.05, of which at most 1 % is missed; 0 where there is none.
/// `missed(load_factor)` tells which part is.
pub fn load_factor(mut missed: impl FnMut(f64) -> f64) -> f64 {
    (1..=20_u32)
        .rev()
        .map(|step| f64::from(step) * 0.05)
        .find(|&factor| missed(factor) <= 0.01)
        .unwrap_or(0.0)
}

#[cfg(test)]
mod tests;
