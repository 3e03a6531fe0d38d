//! Traces of sampled requests: what each module did with them and when, as facts for a program that exports them. Nothing is
//! decided by them, and a request that is not sampled costs a hash.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weir_policy::BatchSlice;
use weir_types::{RequestId, Span, Timestamp};

use crate::clock::Clock;

/// Requests in flight that are traced at a time; further ones are not.
const MAX_OPEN: usize = 4_096;

/// Phases of a request that are kept; a frame with more batches shows the first.
const MAX_PHASES: usize = 256;

/// Kind of a phase of a request in a module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PhaseKind {
    /// From entering the mailbox to joining a batch.
    Queue,
    /// From joining the batch to its start.
    BatchWait,
    /// The batch on its slot, or its path.
    Execution,
}

/// A phase of a request in a module.
#[derive(Debug, Clone, PartialEq)]
pub struct Phase {
    /// Name of the module.
    pub module: Arc<str>,
    /// Kind of the phase.
    pub kind: PhaseKind,
    /// Start of the phase, measured from the start of the request.
    pub began: Span,
    /// Duration of the phase.
    pub took: Span,
    /// Number of items of the request in the batch, and of all items in the batch; `None` for a phase in a
    /// queue.
    pub items: Option<(u32, u32)>,
    /// Whether the batch failed.
    pub failed: bool,
}

/// Timeline of one request, from the arrival of its frame to its end.
#[derive(Debug, Clone, PartialEq)]
pub struct RequestTrace {
    /// The request, unique in its run.
    pub request: u64,
    /// Name of the stream.
    pub stream: Arc<str>,
    /// Number of its frame in the stream.
    pub frame: u64,
    /// When its frame came, in milliseconds since 1970.
    pub time_ms: u64,
    /// From then to its end.
    pub took: Span,
    /// `delivered`, `late`, or the reason why it was dropped.
    pub outcome: &'static str,
    /// The module that dropped it.
    pub dropped_by: Option<Arc<str>>,
    /// In the order in which they were known.
    pub phases: Vec<Phase>,
}

/// Takes traces of requests that have ended. It must not wait: it is called on the thread of control.
pub trait TraceExporter: Send + Sync {
    /// Exports the trace of one request.
    fn export(&self, trace: RequestTrace);
}

/// Sampling rate and exporter of request traces.
#[derive(Clone)]
pub struct TraceOptions {
    /// Fraction of requests that are traced, from 0 to 1.
    pub rate: f64,
    /// Receives the traces of sampled requests when they end.
    pub exporter: Arc<dyn TraceExporter>,
}

impl fmt::Debug for TraceOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TraceOptions")
            .field("rate", &self.rate)
            .finish_non_exhaustive()
    }
}

/// Collects the facts of sampled requests; one for all actors of a run.
#[derive(Clone, Default)]
pub(crate) struct RequestTracer(Option<Arc<Tracing>>);

struct Tracing {
    clock: Clock,
    /// Requests whose hash is below it are sampled.
    threshold: u64,
    exporter: Arc<dyn TraceExporter>,
    open: Mutex<BTreeMap<RequestId, Open>>,
}

struct Open {
    sent_at: Timestamp,
    trace: RequestTrace,
}

impl RequestTracer {
    pub(crate) fn new(options: Option<&TraceOptions>, clock: Clock) -> Self {
        let options = options.filter(|options| options.rate > 0.0);
        Self(options.map(|options| {
            Arc::new(Tracing {
                clock,
                // All of them for a rate of 1: the conversion saturates.
                threshold: (options.rate * u64::MAX as f64) as u64,
                exporter: Arc::clone(&options.exporter),
                open: Mutex::default(),
            })
        }))
    }

    fn sampling(&self, request: RequestId) -> Option<&Tracing> {
        let tracing = self.0.as_deref()?;
        (hash(request.0) <= tracing.threshold).then_some(tracing)
    }

    /// A request began with a frame.
    pub(crate) fn on_arrived(&self, request: RequestId, stream: &str, frame: u64, sent_at: Timestamp) {
        let Some(tracing) = self.sampling(request) else {
            return;
        };
        let mut open = tracing.open();
        if open.len() >= MAX_OPEN {
            return;
        }
        let trace = RequestTrace {
            request: request.0,
            stream: stream.into(),
            frame,
            time_ms: tracing.clock.utc_ms(sent_at),
            took: Span::ZERO,
            outcome: "",
            dropped_by: None,
            phases: Vec::new(),
        };
        open.insert(request, Open { sent_at, trace });
    }

    /// A batch of these slices starts now in `module`.
    pub(crate) fn on_batch_started(&self, module: &str, slices: &[BatchSlice]) {
        // A request is in the batch where its first item runs.
        for slice in slices.iter().filter(|slice| slice.first == 0) {
            let Some(tracing) = self.sampling(slice.request) else {
                continue;
            };
            let joined = tracing.clock.now().saturating_sub(slice.waited);
            let entered = joined.saturating_sub(slice.queued);
            for (kind, began, took) in [
                (PhaseKind::Queue, entered, slice.queued),
                (PhaseKind::BatchWait, joined, slice.waited),
            ] {
                tracing.add(slice.request, began, |began| Phase {
                    module: module.into(),
                    kind,
                    began,
                    took,
                    items: None,
                    failed: false,
                });
            }
        }
    }

    /// A batch of these slices ended now in `module`, after `took`.
    pub(crate) fn on_batch_done(&self, module: &str, slices: &[BatchSlice], took: Span, failed: bool) {
        let of_batch: u32 = slices.iter().map(|slice| slice.count).sum();
        for slice in slices {
            let Some(tracing) = self.sampling(slice.request) else {
                continue;
            };
            let began = tracing.clock.now().saturating_sub(took);
            tracing.add(slice.request, began, |began| Phase {
                module: module.into(),
                kind: PhaseKind::Execution,
                began,
                took,
                items: Some((slice.count, of_batch)),
                failed,
            });
        }
    }

    /// A request is not counted: nothing is exported of it.
    pub(crate) fn forget(&self, request: RequestId) {
        if let Some(tracing) = self.sampling(request) {
            tracing.open().remove(&request);
        }
    }

    /// A request ended now.
    pub(crate) fn on_ended(&self, request: RequestId, outcome: &'static str, dropped_by: Option<Arc<str>>) {
        let Some(tracing) = self.sampling(request) else {
            return;
        };
        let Some(Open { sent_at, mut trace }) = tracing.open().remove(&request) else {
            return;
        };
        trace.took = tracing.clock.now().since(sent_at);
        trace.outcome = outcome;
        trace.dropped_by = dropped_by;
        tracing.exporter.export(trace);
    }
}

impl Tracing {
    fn add(&self, request: RequestId, began: Timestamp, phase: impl FnOnce(Span) -> Phase) {
        if let Some(Open { sent_at, trace }) = self.open().get_mut(&request)
            && trace.phases.len() < MAX_PHASES
        {
            trace.phases.push(phase(began.since(*sent_at)));
        }
    }

    fn open(&self) -> MutexGuard<'_, BTreeMap<RequestId, Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Spreads numbers that follow each other over all values (the finalizer of SplitMix64, by Sebastiano Vigna).
fn hash(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Taken(Mutex<Vec<RequestTrace>>);

    impl TraceExporter for Taken {
        fn export(&self, trace: RequestTrace) {
            self.0.lock().expect("a list").push(trace);
        }
    }

    fn tracer(rate: f64) -> (RequestTracer, Arc<Taken>) {
        let taken = Arc::<Taken>::default();
        let exporter = Arc::clone(&taken) as Arc<dyn TraceExporter>;
        let options = TraceOptions { rate, exporter };
        (RequestTracer::new(Some(&options), Clock::start()), taken)
    }

    #[test]
    fn that_share_of_the_requests_is_traced() {
        for (rate, expected) in [(0.0, 0..=0), (0.1, 900..=1_100), (1.0, 10_000..=10_000)] {
            let (tracer, taken) = tracer(rate);
            for id in 0..10_000 {
                tracer.on_arrived(RequestId(id), "north", id, Timestamp::from_micros(0));
                tracer.on_ended(RequestId(id), "delivered", None);
            }
            let count = taken.0.lock().expect("a list").len();
            assert!(expected.contains(&count), "{count} at {rate}");
        }
    }

    #[test]
    fn a_trace_has_the_phases_of_each_module_and_the_end() {
        let (tracer, taken) = tracer(1.0);
        let request = RequestId(7);
        let slice = BatchSlice {
            request,
            first: 0,
            count: 2,
            queued: Span::from_millis(3),
            waited: Span::from_millis(2),
        };
        tracer.on_arrived(request, "north", 41, Timestamp::from_micros(0));
        tracer.on_batch_started("detect", &[slice]);
        tracer.on_batch_done("detect", &[slice], Span::from_millis(5), false);
        tracer.on_ended(request, "infeasible", Some("plates".into()));
        let taken = taken.0.lock().expect("a list");
        let [trace] = &taken[..] else { panic!("one trace") };
        assert_eq!((trace.frame, trace.outcome), (41, "infeasible"));
        assert_eq!(trace.dropped_by.as_deref(), Some("plates"));
        let kinds: Vec<PhaseKind> = trace.phases.iter().map(|phase| phase.kind).collect();
        assert_eq!(
            kinds,
            [PhaseKind::Queue, PhaseKind::BatchWait, PhaseKind::Execution]
        );
        assert_eq!(trace.phases[0].took, Span::from_millis(3));
        assert_eq!(trace.phases[2].items, Some((2, 2)));
    }
}
