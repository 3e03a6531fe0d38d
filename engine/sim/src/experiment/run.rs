//! Runs in parallel, their results in order.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use weir_types::{Span, Timestamp};

use super::arrivals::Source;
use super::sweep::Label;
use crate::spec::WorldSpec;
use crate::world::{SimulationResult, simulate, simulate_streams};

/// Run of an experiment.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// Name of the run in reports.
    pub name: String,
    /// Swept keys with their values, in the order of the file.
    pub labels: Vec<(String, Label)>,
    /// Seed of arrivals and of all draws within the world.
    pub seed: u64,
    /// Description of the arrivals: a trace's name and process, or the streams of a graph.
    pub trace: String,
    /// World that is simulated.
    pub world: WorldSpec,
    pub(super) source: Source,
    pub(super) length: Span,
}

impl Run {
    /// Sending times of its requests, in order.
    #[must_use]
    pub fn arrivals(&self) -> Vec<Timestamp> {
        if !self.world.changes.is_empty()
            && let Some(arrivals) = self.source.of_streams(&self.world.changes, self.length)
        {
            return arrivals.into_iter().map(|(at, _)| at).collect();
        }
        self.source.times(self.length)
    }

    /// Time during which requests are sent.
    #[must_use]
    pub fn length(&self) -> Span {
        self.length
    }

    /// Runs it to its end.
    #[must_use]
    pub fn simulate(&self) -> SimulationResult {
        // Requests of equal streams may be assigned to the streams in turn, if no items are handed on.
        let streams = self
            .world
            .is_by_stream()
            .then(|| self.source.of_streams(&self.world.changes, self.length));
        if let Some(arrivals) = streams.flatten() {
            return simulate_streams(&self.world, &self.name, &mut arrivals.into_iter(), &mut |_| {});
        }
        let times = self.arrivals();
        simulate(&self.world, &self.name, &mut times.into_iter(), &mut |_| {})
    }
}

/// Runs all on `threads` threads. Each result is passed to `reduce` at once, on the thread that produced it,
/// so that the arrays of many runs do not accumulate. The reduced results are in the order of `runs`,
/// whatever the number of threads. `progress` is called with the number of finished runs.
pub fn run_all<T: Send>(
    runs: &[Run],
    threads: usize,
    reduce: &(dyn Fn(&Run, SimulationResult) -> T + Sync),
    progress: &(dyn Fn(usize) + Sync),
) -> Vec<T> {
    run_while(runs, threads, reduce, progress, &|| true)
}

/// As [`run_all`], but starts no further run once `keep_going` returns false. Returns the reduced results of
/// the runs that were made, in the order of `runs`.
pub fn run_while<T: Send>(
    runs: &[Run],
    threads: usize,
    reduce: &(dyn Fn(&Run, SimulationResult) -> T + Sync),
    progress: &(dyn Fn(usize) + Sync),
    keep_going: &(dyn Fn() -> bool + Sync),
) -> Vec<T> {
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let results: Mutex<Vec<(usize, T)>> = Mutex::new(Vec::with_capacity(runs.len()));
    let work = || {
        while keep_going() {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(run) = runs.get(index) else { return };
            let result = reduce(run, run.simulate());
            // A poisoned lock means that another thread panicked; the scope passes that on.
            if let Ok(mut results) = results.lock() {
                results.push((index, result));
            }
            progress(done.fetch_add(1, Ordering::Relaxed) + 1);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.clamp(1, runs.len().max(1)) {
            scope.spawn(work);
        }
        work();
    });
    let mut results = results.into_inner().unwrap_or_default();
    results.sort_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}
