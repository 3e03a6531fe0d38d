//! Things made by several threads and taken in their order.

use std::sync::mpsc::sync_channel;
use std::thread;

/// Number of results that each thread may compute ahead of the one that is needed next. Enough to bridge a
/// slow result, and a limit on memory, since each may be a picture.
const AHEAD: usize = 2;

/// Calls `make` for 0 to `count` on `threads` threads, and `take` on this one for each result, in order. After an error
/// of `take` no more is made.
///
/// # Errors
/// The first of `take`.
pub(crate) fn in_order<T: Send>(
    count: u64,
    threads: usize,
    make: impl Fn(u64) -> T + Sync,
    mut take: impl FnMut(u64, T) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let threads = threads.clamp(1, usize::try_from(count).unwrap_or(usize::MAX).max(1));
    thread::scope(|scope| {
        // Thread k makes every `threads`-th result from k on, so the order is known without messages.
        let makers: Vec<_> = (0..threads)
            .map(|first| {
                let (made, ready) = sync_channel(AHEAD);
                let make = &make;
                scope.spawn(move || {
                    for index in (first as u64..count).step_by(threads) {
                        // Nobody listens any more after an error.
                        if made.send(make(index)).is_err() {
                            return;
                        }
                    }
                });
                ready
            })
            .collect();
        for (index, ready) in (0..count).zip(makers.iter().cycle()) {
            let thing = ready.recv();
            take(
                index,
                thing.map_err(|_| anyhow::anyhow!("a thread that renders ended early"))?,
            )?;
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn whatever_the_threads_the_order_is_the_same() {
        for (count, threads) in [(0, 3), (1, 8), (7, 2), (50, 3), (9, 9)] {
            let mut taken = Vec::new();
            let take = |index, square| {
                taken.push((index, square));
                Ok(())
            };
            in_order(count, threads, |index| index * index, take).expect("taken");
            let expected: Vec<_> = (0..count).map(|index| (index, index * index)).collect();
            assert_eq!(taken, expected);
        }
    }

    #[test]
    fn an_error_ends_the_making() {
        let made = AtomicU64::new(0);
        let make = |_| made.fetch_add(1, Ordering::Relaxed);
        let result = in_order(1_000_000, 2, make, |index, _| {
            anyhow::ensure!(index < 5, "enough");
            Ok(())
        });
        assert!(result.is_err_and(|error| error.to_string() == "enough"));
        assert!(made.load(Ordering::Relaxed) < 100);
    }
}
