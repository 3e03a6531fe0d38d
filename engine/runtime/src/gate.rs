//! Where frames become requests: the places of a stream, and the bytes that its decoded frames may take.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use weir_flow::StopFlag;
use weir_policy::{Admission, ConcurrencyLimit, ConcurrencyLimitSpec};
use weir_types::{DropReason, Timestamp};

use crate::clock::Clock;

/// How often a source that is held back looks whether the run is to stop.
const LOOK_UP: Duration = Duration::from_millis(20);

/// The bytes that decoded frames of one stream may take together: its share of the bound of all.
#[derive(Debug)]
pub(crate) struct Memory {
    bytes: u64,
    taken: AtomicU64,
}

impl Memory {
    pub(crate) fn new(bytes: u64) -> Arc<Self> {
        Arc::new(Self {
            bytes,
            taken: AtomicU64::new(0),
        })
    }

    /// Takes `bytes` if they can be had. A frame larger than the bound is let in when nothing else is.
    pub(crate) fn take(self: &Arc<Self>, bytes: u64) -> Option<Loan> {
        let fits = |taken: u64| (taken == 0 || taken + bytes <= self.bytes).then_some(taken + bytes);
        self.taken
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits)
            .ok()?;
        Some(Loan {
            memory: Arc::clone(self),
            bytes,
        })
    }

    pub(crate) fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }
}

/// Bytes that are given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Loan {
    memory: Arc<Memory>,
    bytes: u64,
}

impl Drop for Loan {
    fn drop(&mut self) {
        self.memory.taken.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// The gate of one stream, passed by its decoding thread and given back to by whoever ends a request.
#[derive(Debug)]
pub(crate) struct StreamGate {
    gate: Mutex<ConcurrencyLimit>,
    left: Condvar,
    memory: Arc<Memory>,
    clock: Clock,
}

/// A place among the requests of a stream; free again when it is dropped.
#[derive(Debug)]
pub(crate) struct Pass {
    gate: Option<(Arc<StreamGate>, Timestamp)>,
}

impl Pass {
    /// The pass of a frame that never got in.
    pub(crate) fn none() -> Self {
        Self { gate: None }
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        if let Some((gate, entered)) = &self.gate {
            let held = gate.clock.now().since(*entered);
            gate.lock().on_ended(held);
            gate.left.notify_one();
        }
    }
}

impl StreamGate {
    pub(crate) fn new(spec: ConcurrencyLimitSpec, memory: Arc<Memory>, clock: Clock) -> Arc<Self> {
        Arc::new(Self {
            gate: Mutex::new(ConcurrencyLimit::new(spec)),
            left: Condvar::new(),
            memory,
            clock,
        })
    }

    /// Bytes that frames of the stream take now.
    pub(crate) fn bytes(&self) -> u64 {
        self.memory.taken()
    }

    fn lock(&self) -> MutexGuard<'_, ConcurrencyLimit> {
        self.gate.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks for a frame of `bytes` to be let in; blocks while the stream is to be held back. `None` when the run stops
    /// meanwhile.
    pub(crate) fn enter(
        self: &Arc<Self>,
        bytes: u64,
        stop: &StopFlag,
    ) -> Option<Result<(Pass, Loan), DropReason>> {
        let mut gate = self.lock();
        loop {
            let loan = self.memory.take(bytes);
            match (gate.admit(loan.is_some()), loan) {
                (Admission::Enter, Some(loan)) => {
                    return Some(Ok((
                        Pass {
                            gate: Some((Arc::clone(self), self.clock.now())),
                        },
                        loan,
                    )));
                }
                (Admission::Drop(reason), _) => return Some(Err(reason)),
                (Admission::Enter | Admission::Wait, _) if stop.is_raised() => return None,
                (Admission::Enter | Admission::Wait, _) => {
                    // Bytes come back when a frame goes, which signals nobody, hence the time-out.
                    let woken = self.left.wait_timeout(gate, LOOK_UP);
                    gate = woken.unwrap_or_else(PoisonError::into_inner).0;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_policy::Overflow;
    use weir_types::Span;

    use super::*;

    fn gate(overflow: Overflow, most: u32, memory: &Arc<Memory>) -> Arc<StreamGate> {
        let spec = ConcurrencyLimitSpec {
            overflow,
            initial: most,
            max: most,
            slo: Span::from_millis(400),
        };
        StreamGate::new(spec, Arc::clone(memory), Clock::start())
    }

    #[test]
    fn bytes_and_places_come_back() {
        let memory = Memory::new(100);
        let gate = gate(Overflow::Drop, 2, &memory);
        let stop = StopFlag::default();
        let first = gate.enter(60, &stop).unwrap();
        assert!(first.is_ok());
        assert_eq!(gate.enter(60, &stop).unwrap().err(), Some(DropReason::MemoryFull));
        drop(first);
        assert_eq!(memory.taken(), 0);
        let huge = gate.enter(1_000, &stop).unwrap();
        assert!(huge.is_ok(), "one frame larger than the bound gets in alone");
    }

    #[test]
    fn a_held_source_stops_when_asked() {
        let gate = gate(Overflow::Backpressure, 1, &Memory::new(100));
        let stop = StopFlag::default();
        let _first = gate.enter(1, &stop).unwrap().unwrap();
        stop.raise();
        assert!(gate.enter(1, &stop).is_none());
    }
}
