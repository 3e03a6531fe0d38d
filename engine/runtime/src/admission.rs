//! Where frames become requests: the places of a stream, and the bytes that its decoded frames may take.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use weir_flow::StopFlag;
use weir_policy::{Admission, ConcurrencyLimit, ConcurrencyLimitSpec};
use weir_types::{DropReason, Timestamp};

use crate::clock::Clock;

/// How often a source that is held back looks whether the run is to stop.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The bytes that decoded frames of one stream may take together: its share of the bound of all.
#[derive(Debug)]
pub(crate) struct MemoryBudget {
    bytes: u64,
    used_bytes: AtomicU64,
}

impl MemoryBudget {
    pub(crate) fn new(bytes: u64) -> Arc<Self> {
        Arc::new(Self {
            bytes,
            used_bytes: AtomicU64::new(0),
        })
    }

    /// Takes `bytes` if they can be had. A frame larger than the bound is let in when nothing else is.
    pub(crate) fn acquire(self: &Arc<Self>, bytes: u64) -> Option<MemoryPermit> {
        let fits = |used_bytes: u64| {
            (used_bytes == 0 || used_bytes + bytes <= self.bytes).then_some(used_bytes + bytes)
        };
        self.used_bytes
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits)
            .ok()?;
        Some(MemoryPermit {
            memory: Arc::clone(self),
            bytes,
        })
    }

    pub(crate) fn used_bytes(&self) -> u64 {
        self.used_bytes.load(Ordering::Relaxed)
    }
}

/// Bytes that are given back when it is dropped.
#[derive(Debug)]
pub(crate) struct MemoryPermit {
    memory: Arc<MemoryBudget>,
    bytes: u64,
}

impl Drop for MemoryPermit {
    fn drop(&mut self) {
        self.memory.used_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// The gate of one stream, passed by its decoding thread and given back to by whoever ends a request.
#[derive(Debug)]
pub(crate) struct StreamAdmission {
    limit: Mutex<ConcurrencyLimit>,
    released: Condvar,
    memory: Arc<MemoryBudget>,
    clock: Clock,
}

/// A place among the requests of a stream; free again when it is dropped.
#[derive(Debug)]
pub(crate) struct StreamPermit {
    limit: Option<(Arc<StreamAdmission>, Timestamp)>,
}

impl StreamPermit {
    /// The pass of a frame that never got in.
    pub(crate) fn none() -> Self {
        Self { limit: None }
    }
}

impl Drop for StreamPermit {
    fn drop(&mut self) {
        if let Some((limit, entered)) = &self.limit {
            let held = limit.clock.now().since(*entered);
            limit.lock().on_ended(held);
            limit.released.notify_one();
        }
    }
}

impl StreamAdmission {
    pub(crate) fn new(spec: ConcurrencyLimitSpec, memory: Arc<MemoryBudget>, clock: Clock) -> Arc<Self> {
        Arc::new(Self {
            limit: Mutex::new(ConcurrencyLimit::new(spec)),
            released: Condvar::new(),
            memory,
            clock,
        })
    }

    /// Bytes that frames of the stream take now.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.memory.used_bytes()
    }

    fn lock(&self) -> MutexGuard<'_, ConcurrencyLimit> {
        self.limit.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks for a frame of `bytes` to be let in; blocks while the stream is to be held back. `None` when the run stops
    /// meanwhile.
    pub(crate) fn admit(
        self: &Arc<Self>,
        bytes: u64,
        stop: &StopFlag,
    ) -> Option<Result<(StreamPermit, MemoryPermit), DropReason>> {
        let mut limit = self.lock();
        loop {
            let memory = self.memory.acquire(bytes);
            match (limit.admit(memory.is_some()), memory) {
                (Admission::Enter, Some(memory)) => {
                    return Some(Ok((
                        StreamPermit {
                            limit: Some((Arc::clone(self), self.clock.now())),
                        },
                        memory,
                    )));
                }
                (Admission::Drop(reason), _) => return Some(Err(reason)),
                (Admission::Enter | Admission::Wait, _) if stop.raised() => return None,
                (Admission::Enter | Admission::Wait, _) => {
                    // Bytes come back when a frame goes, which signals nobody, hence the time-out.
                    let woken = self.released.wait_timeout(limit, POLL_INTERVAL);
                    limit = woken.unwrap_or_else(PoisonError::into_inner).0;
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

    fn limit(overflow: Overflow, max: u32, memory: &Arc<MemoryBudget>) -> Arc<StreamAdmission> {
        let spec = ConcurrencyLimitSpec {
            overflow,
            initial: max,
            max: max,
            slo: Span::from_millis(400),
        };
        StreamAdmission::new(spec, Arc::clone(memory), Clock::start())
    }

    #[test]
    fn bytes_and_places_come_back() {
        let memory = MemoryBudget::new(100);
        let limit = limit(Overflow::Drop, 2, &memory);
        let stop = StopFlag::default();
        let first = limit.admit(60, &stop).unwrap();
        assert!(first.is_ok());
        assert_eq!(
            limit.admit(60, &stop).unwrap().err(),
            Some(DropReason::MemoryFull)
        );
        drop(first);
        assert_eq!(memory.used_bytes(), 0);
        let huge = limit.admit(1_000, &stop).unwrap();
        assert!(huge.is_ok(), "one frame larger than the bound gets in alone");
    }

    #[test]
    fn a_held_source_stops_when_asked() {
        let limit = limit(Overflow::Backpressure, 1, &MemoryBudget::new(100));
        let stop = StopFlag::default();
        let _first = limit.admit(1, &stop).unwrap().unwrap();
        stop.raise();
        assert!(limit.admit(1, &stop).is_none());
    }
}
