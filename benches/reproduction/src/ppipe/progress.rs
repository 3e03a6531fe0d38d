//! What is being done, on standard error, while it takes its time.

use std::io::Write as _;
use std::sync::Mutex;

use super::load_factor::parallel_map;

/// `work` on every item on so many threads, with a line for every fifth of them; results in the order of the items.
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
