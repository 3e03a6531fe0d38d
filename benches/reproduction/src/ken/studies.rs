//! Runs all parts of the evaluation.

use std::thread::ScopedJoinHandle;

use weir_types::Span;

use super::ReproduceError;
use super::placement::{self, AtPlacement};
use super::planner::{self, Search, Size};
use super::published::Published;
use super::robust::{self, Robust};
use super::setting::{Load, MEAN, MINUTE};
use super::trade_off::TradeOff;

/// Seeds of every load.
pub const SEEDS: [u64; 5] = [1, 2, 3, 4, 5];

/// Results of all studies.
#[derive(Debug, Clone, PartialEq)]
pub struct Studies {
    /// Published models and cascades that were used.
    pub published: Published,
    /// Trade-offs on one V100, and on two.
    pub trade_offs: Vec<TradeOff>,
    /// Three cascades, by placement.
    pub placements: Vec<AtPlacement>,
    /// Comparison of searches.
    pub searches: Vec<Search>,
    /// Planning times by problem size.
    pub sizes: Vec<Size>,
    /// Robustness: plans made for other loads.
    pub robust: Vec<Robust>,
}

impl Studies {
    /// Runs all of them, side by side: planning times are of the processor, whatever else runs there.
    ///
    /// # Errors
    /// [`ReproduceError`]: no asset pack, or no plan.
    pub fn run() -> Result<Self, ReproduceError> {
        let published = Published::from_env()?;
        let load = Load::tweet(MEAN, MINUTE, &SEEDS)?;
        let short = Load::tweet(MEAN, Span::from_secs(8), &SEEDS[..1])?;
        let one_seed = Load::tweet(MEAN, MINUTE, &SEEDS[..1])?;
        let (searches, sizes, trade_offs, robust) = std::thread::scope(|scope| {
            let searches = scope.spawn(|| planner::compare(&published, &short));
            let sizes = scope.spawn(|| planner::scaling(&published, &one_seed));
            let trade_offs = scope.spawn(|| {
                let of = |slots| TradeOff::run(&published, slots, &load);
                [1, 2].map(of).into_iter().collect::<Result<Vec<_>, _>>()
            });
            let robust = robust::run(&published, &load, &SEEDS);
            (join(searches), join(sizes), join(trade_offs), robust)
        });
        Ok(Self {
            placements: placement::run(&published, &load),
            published,
            trade_offs: trade_offs?,
            searches: searches?,
            sizes: sizes?,
            robust: robust?,
        })
    }
}

/// Waits for a study and returns its result; passes a panic on.
fn join<T>(study: ScopedJoinHandle<'_, T>) -> T {
    study
        .join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
