//! Order of transfers over the uplink of a worker: one after another, in the order in which they are booked, whichever
//! destination they have. Reservations assume the same of a link.
//!
//! A turn ends with its transfer, or after some time: a destination that stalls does not delay the others.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crossbeam_channel::Receiver;
use weir_types::{Span, Timestamp};

use crate::time::Now;
use crate::timeouts::duration;

/// Time after which a waiting transfer looks at the turns again, if nothing wakes it.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Transfers to one destination that are sorted at a time; the ones behind them keep the order in which they came.
const MAX_SORTED: usize = 64;

/// Turns on the uplink.
#[derive(Default)]
pub(super) struct LinkTurns {
    turns: Mutex<Turns>,
    changed: Condvar,
}

#[derive(Default)]
struct Turns {
    /// Waiting transfers, by their booked start and then in the order in which they came.
    waiting: BTreeSet<(Timestamp, u64)>,
    came: u64,
    /// Number of the transfer that has the link, and the end of its turn on the worker's clock.
    holder: Option<(u64, Timestamp)>,
}

/// The turn of a transfer, until it is dropped.
pub(super) struct LinkTurn<'a> {
    link: &'a LinkTurns,
    number: u64,
}

impl LinkTurns {
    fn lock(&self) -> MutexGuard<'_, Turns> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the turn of a transfer that is booked from `booked` on. Others may begin once it has lasted `longest`.
    pub(super) fn wait(&self, booked: Timestamp, longest: Span, clock: &Now) -> LinkTurn<'_> {
        let mut turns = self.lock();
        let number = turns.came;
        turns.came += 1;
        turns.waiting.insert((booked, number));
        loop {
            let now = clock();
            let left = turns.holder.map_or(Span::ZERO, |(_, ends)| ends.since(now));
            if left == Span::ZERO && turns.waiting.first() == Some(&(booked, number)) {
                turns.waiting.pop_first();
                turns.holder = Some((number, now + longest));
                return LinkTurn { link: self, number };
            }
            let interval = match left {
                Span::ZERO => POLL_INTERVAL,
                left => duration(left).min(POLL_INTERVAL),
            };
            let woken = self.changed.wait_timeout(turns, interval);
            turns = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Drop for LinkTurn<'_> {
    fn drop(&mut self) {
        self.link
            .lock()
            .holder
            .take_if(|(number, _)| *number == self.number);
        self.link.changed.notify_all();
    }
}

/// Transfers to one destination, sorted by their booked start and then in the order in which they came.
pub(super) struct SendQueue<T> {
    sorted: BTreeMap<(Timestamp, u64), T>,
    came: u64,
}

impl<T> SendQueue<T> {
    pub(super) fn new() -> Self {
        Self {
            sorted: BTreeMap::new(),
            came: 0,
        }
    }

    pub(super) fn push(&mut self, (booked, transfer): (Timestamp, T)) {
        self.sorted.insert((booked, self.came), transfer);
        self.came += 1;
    }

    /// Takes in what has come, and gives the transfer that is booked first.
    pub(super) fn next(&mut self, came: &Receiver<(Timestamp, T)>) -> Option<(Timestamp, T)> {
        while self.sorted.len() < MAX_SORTED
            && let Ok(transfer) = came.try_recv()
        {
            self.push(transfer);
        }
        let ((booked, _), transfer) = self.sorted.pop_first()?;
        Some((booked, transfer))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use crossbeam_channel::unbounded;

    use super::*;

    fn at(micros: u64) -> Timestamp {
        Timestamp::from_micros(micros)
    }

    fn stopped_clock() -> Now {
        Arc::new(|| Timestamp::ZERO)
    }

    #[test]
    fn transfers_take_turns_in_the_order_of_their_bookings() {
        let link = LinkTurns::default();
        let clock = stopped_clock();
        let first = link.wait(at(40), Span::from_secs(1), &clock);
        let (sender, order) = unbounded();
        std::thread::scope(|threads| {
            for (waiting, booked) in [30, 20, 10, 20].into_iter().enumerate() {
                let (link, clock, sender) = (&link, &clock, sender.clone());
                threads.spawn(move || {
                    let _turn = link.wait(at(booked), Span::from_secs(1), clock);
                    sender.send((booked, waiting)).unwrap();
                });
                while link.lock().waiting.len() <= waiting {
                    std::thread::yield_now();
                }
            }
            assert!(order.is_empty(), "the link is in use");
            drop(first);
        });
        let order: Vec<(u64, usize)> = order.try_iter().collect();
        assert_eq!(order, [(10, 2), (20, 1), (20, 3), (30, 0)]);
    }

    #[test]
    fn transfer_that_stalls_loses_its_turn() {
        let link = LinkTurns::default();
        let micros = Arc::new(AtomicU64::new(0));
        let clock: Now = {
            let micros = Arc::clone(&micros);
            Arc::new(move || at(micros.load(Ordering::Relaxed)))
        };
        let stalled = link.wait(at(0), Span::from_millis(1), &clock);
        micros.store(1_000, Ordering::Relaxed);
        let second = link.wait(at(5), Span::from_millis(1), &clock);
        drop(stalled);
        assert!(link.lock().holder.is_some(), "the turn of the second goes on");
        drop(second);
        assert!(link.lock().holder.is_none());
    }

    #[test]
    fn turn_of_no_length_delays_nothing() {
        let (link, clock) = (LinkTurns::default(), stopped_clock());
        let first = link.wait(at(0), Span::ZERO, &clock);
        let second = link.wait(at(5), Span::from_secs(1), &clock);
        drop(first);
        assert!(link.lock().holder.is_some());
        drop(second);
    }

    #[test]
    fn transfers_to_one_destination_are_sorted_by_booking() {
        let (sender, came) = unbounded();
        let mut queue = SendQueue::new();
        for (number, booked) in [30, 10, 20, 10].into_iter().enumerate() {
            sender.send((at(booked), number)).unwrap();
        }
        assert_eq!(queue.next(&came), Some((at(10), 1)));
        sender.send((at(5), 4)).unwrap();
        let order: Vec<usize> = std::iter::from_fn(|| queue.next(&came))
            .map(|(_, number)| number)
            .collect();
        assert_eq!(order, [4, 3, 2, 0]);
    }
}
