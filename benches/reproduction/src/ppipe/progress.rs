//! What is being done, on standard error, while it takes its time.

use std::io::Write as _;
use std::sync::Mutex;

use super::load_factor::over_all;

/// `work` on every item on so many threads, telling every fifth of the way; results in the order of the items.
pub fn told<T: Sync, R: Send>(
    name: &str,
    items: &[T],
    threads: usize,
    work: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    let done = Mutex::new(0_usize);
    over_all(items, threads, |item| {
        let result = work(item);
        if let Ok(mut done) = done.lock() {
            let before = 5 * *done / items.len();
            *done += 1;
            let percent = 100 * *done / items.len();
            if 5 * *done / items.len() > before {
                // Nobody may be listening.
                let _ = writeln!(std::io::stderr(), "{name}: {percent} %");
            }
        }
        result
    })
}
