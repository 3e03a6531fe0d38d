//! Admission of frames as requests: permits bound the requests of a stream in flight, and a budget bounds the
//! bytes of its decoded frames.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use weir_flow::StopFlag;
use weir_policy::{Admission, ConcurrencyLimit, ConcurrencyLimitSpec};
use weir_types::invariant;
use weir_types::invariant::Kind;
use weir_types::{DropReason, Span, Timestamp};

use crate::clock::Clock;

/// Time between two tries of a source under backpressure.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The bytes that decoded frames of one stream may take together: its share of the bound of all streams.
#[derive(Debug)]
pub(crate) struct MemoryBudget {
    max_bytes: AtomicU64,
    used_bytes: AtomicU64,
}

impl MemoryBudget {
    pub(crate) fn new(max_bytes: u64) -> Arc<Self> {
        Arc::new(Self {
            max_bytes: AtomicU64::new(max_bytes),
            used_bytes: AtomicU64::new(0),
        })
    }

    /// Changes the share of the stream; what exceeds it now is given back as its frames end.
    pub(crate) fn set_max_bytes(&self, max_bytes: u64) {
        self.max_bytes.store(max_bytes, Ordering::Relaxed);
    }

    /// Takes `bytes` where they are free. A frame larger than the budget is admitted when no other is held.
    pub(crate) fn acquire(self: &Arc<Self>, bytes: u64) -> Option<MemoryPermit> {
        let max_bytes = self.max_bytes.load(Ordering::Relaxed);
        let fits = |used: u64| (used == 0 || used + bytes <= max_bytes).then_some(used + bytes);
        self.used_bytes
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits)
            .ok()?;
        Some(MemoryPermit {
            memory: Arc::clone(self),
            bytes,
        })
    }

    /// Gives bytes back. The count stops at none: where it wrapped round, no frame would be admitted any more.
    fn release(&self, bytes: u64) {
        let subtract = |used: u64| Some(used.saturating_sub(bytes));
        let updated = self
            .used_bytes
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, subtract);
        let (Ok(used) | Err(used)) = updated;
        invariant!(
            bytes <= used,
            Kind::FrameMemory,
            "{bytes} bytes of frames are given back and {used} are taken"
        );
    }

    pub(crate) fn used_bytes(&self) -> u64 {
        self.used_bytes.load(Ordering::Relaxed)
    }
}

/// Bytes that are free again when it is dropped.
#[derive(Debug)]
pub(crate) struct MemoryPermit {
    memory: Arc<MemoryBudget>,
    bytes: u64,
}

impl Drop for MemoryPermit {
    fn drop(&mut self) {
        self.memory.release(self.bytes);
    }
}

/// Admits the frames of one stream: asked by its decoding thread; permits return from wherever a request ends.
#[derive(Debug)]
pub(crate) struct StreamAdmission {
    limit: Mutex<ConcurrencyLimit>,
    released: Condvar,
    memory: Arc<MemoryBudget>,
    clock: Clock,
}

/// A place among the requests of a stream in flight; free again when it is dropped.
#[derive(Debug)]
pub(crate) struct StreamPermit {
    /// The stream, and when the frame was admitted.
    admitted: Option<(Arc<StreamAdmission>, Timestamp)>,
}

impl StreamPermit {
    /// Of a frame that was never admitted.
    pub(crate) fn empty() -> Self {
        Self { admitted: None }
    }
}

impl Drop for StreamPermit {
    fn drop(&mut self) {
        if let Some((stream, admitted_at)) = &self.admitted {
            let held = stream.clock.now().since(*admitted_at);
            stream.lock().on_ended(held);
            stream.released.notify_one();
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

    pub(crate) fn used_bytes(&self) -> u64 {
        self.memory.used_bytes()
    }

    /// The stream has another latency objective.
    pub(crate) fn set_slo(&self, slo: Span) {
        self.lock().set_slo(slo);
    }

    /// Changes the share of the stream of the frame memory.
    pub(crate) fn set_max_bytes(&self, max_bytes: u64) {
        self.memory.set_max_bytes(max_bytes);
    }

    fn lock(&self) -> MutexGuard<'_, ConcurrencyLimit> {
        self.limit.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Admits a frame of `bytes`; blocks while the stream is under backpressure. `None` when the run stops meanwhile.
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
                            admitted: Some((Arc::clone(self), self.clock.now())),
                        },
                        memory,
                    )));
                }
                (Admission::Drop(reason), _) => return Some(Err(reason)),
                (Admission::Enter | Admission::Wait, _) if stop.is_raised() => return None,
                (Admission::Enter | Admission::Wait, _) => {
                    // Bytes that are freed signal nothing, hence the time-out.
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
    use weir_types::invariant::counted;

    use super::*;

    fn admission(overflow: Overflow, max: u32, memory: &Arc<MemoryBudget>) -> Arc<StreamAdmission> {
        let spec = ConcurrencyLimitSpec {
            overflow,
            initial: max,
            max,
            slo: Span::from_millis(400),
        };
        StreamAdmission::new(spec, Arc::clone(memory), Clock::start())
    }

    #[test]
    fn bytes_and_permits_are_free_again_when_dropped() {
        let memory = MemoryBudget::new(100);
        let admission = admission(Overflow::Drop, 2, &memory);
        let stop = StopFlag::default();
        let first = admission.admit(60, &stop).unwrap();
        assert!(first.is_ok());
        assert_eq!(
            admission.admit(60, &stop).unwrap().err(),
            Some(DropReason::MemoryFull)
        );
        drop(first);
        assert_eq!(memory.used_bytes(), 0);
        let huge = admission.admit(1_000, &stop).unwrap();
        assert!(huge.is_ok(), "one frame larger than the budget is admitted alone");
    }

    #[test]
    fn bytes_that_are_given_back_twice_are_a_violation_and_free_no_more_than_the_budget() {
        let memory = MemoryBudget::new(100);
        let (_, violations) = counted(|| {
            let permit = memory.acquire(60).unwrap();
            memory.release(60);
            drop(permit);
        });
        assert_eq!(violations.iter().collect::<Vec<_>>(), [(Kind::FrameMemory, 1)]);
        assert_eq!(memory.used_bytes(), 0);
        let held = (memory.acquire(60), memory.acquire(60));
        assert!(held.0.is_some() && held.1.is_none());
    }

    #[test]
    fn a_source_under_backpressure_stops_when_asked() {
        let admission = admission(Overflow::Backpressure, 1, &MemoryBudget::new(100));
        let stop = StopFlag::default();
        let _first = admission.admit(1, &stop).unwrap().unwrap();
        stop.raise();
        assert!(admission.admit(1, &stop).is_none());
    }
}
