//! Cases on all processors.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Runs every case, on as many threads as there are processors; outcomes are in the order of the cases.
///
/// # Errors
/// The first of `run`, in that order.
pub fn in_parallel<C: Sync, O: Send, E: Send>(
    cases: &[C],
    run: impl Fn(&C) -> Result<O, E> + Sync,
) -> Result<Vec<O>, E> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicUsize::new(0);
    let mut found: Vec<(usize, Result<O, E>)> = std::thread::scope(|scope| {
        let work = || {
            let mut own = Vec::new();
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(case) = cases.get(index) else { return own };
                own.push((index, run(case)));
            }
        };
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let joined = workers.into_iter().map(|worker| worker.join());
        joined
            .flat_map(|own| own.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    found.sort_by_key(|(index, _)| *index);
    found.into_iter().map(|(_, outcome)| outcome).collect()
}
