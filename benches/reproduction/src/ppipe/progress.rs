//! Progress messages on standard error during long computations.

use std::io::Write as _;
use std::sync::Mutex;

use super::load_factor::parallel_map;

/// Applies `work` to every item on `threads` threads, and prints a line for every fifth of them. Results are
/// in the order of the items.
pub fn map_with_progress<T: Sync, R: Send>(
    name: &str,
    items: &[T],
    threads: usize,
    work: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    let done = Mutex::new(0_usize);
    parallel_map(items, threads, |item| {
        let result = work(item);
        if let Ok(mut done) = done.lock() {
            let before = 5 * *done / items.len();
            *done += 1;
            let percent = 100 * *done / items.len();
            if 5 * *done / items.len() > before {
                // Standard error may be closed.
                let _ = writeln!(std::io::stderr(), "{name}: {percent} %");
            }
        }
        result
    })
}
