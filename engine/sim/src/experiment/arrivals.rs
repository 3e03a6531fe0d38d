//! Arrival times of the requests of a run.

use weir_graph::{ArrivalProcess, Arrivals, EmulatedStream, Trace};
use weir_types::{Span, StreamId, Timestamp};

use crate::scheduled::{ScheduledChange, presence};
use crate::traces::TokenTrace;

/// Seconds at the start of the arrivals whose rate sets the initial size of pools that scale.
const INITIAL_SECONDS: u64 = 5;

/// Source of the requests of a run.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Source {
    /// A trace, and how requests follow each other in it.
    Trace {
        trace: Trace,
        process: ArrivalProcess,
        seed: u64,
    },
    /// The streams of a graph, merged; they keep their own seeds.
    Streams(Vec<EmulatedStream>),
    /// Requests at their own times.
    Requests(TokenTrace),
}

impl Source {
    /// The rate in the beginning.
    pub(super) fn initial_rate(&self) -> f64 {
        let of = |trace: &Trace| {
            let rates = (0..INITIAL_SECONDS).map(|second| trace.rate_at(Span::from_secs(second)));
            rates.sum::<f64>() / INITIAL_SECONDS as f64
        };
        match self {
            Self::Trace { trace, .. } => of(trace),
            // Streams with unreadable files were reported when they were checked.
            Self::Streams(streams) => streams
                .iter()
                .filter_map(|stream| stream.trace().ok())
                .map(|trace| of(&trace))
                .sum(),
            Self::Requests(trace) => {
                let first = Span::from_secs(INITIAL_SECONDS);
                let count = trace.requests().partition_point(|request| request.at < first);
                count as f64 / INITIAL_SECONDS as f64
            }
        }
    }

    /// Arrival times below `length`, in order and with their streams, as long as `changes` keep each stream
    /// running. `None` if there are no streams.
    pub(super) fn of_streams(
        &self,
        changes: &[ScheduledChange],
        length: Span,
    ) -> Option<Vec<(Timestamp, StreamId)>> {
        let Self::Streams(streams) = self else {
            return None;
        };
        let of = |(number, stream): (u32, &EmulatedStream)| {
            let id = StreamId(number);
            let during = |(from, to): (Span, Span)| {
                let times = stream.arrivals(u64::from(number)).into_iter().flatten();
                let times = times.map(move |at| from + at).take_while(move |&at| at < to);
                times.map(move |at| (Timestamp::ZERO + at, id))
            };
            let spans = presence(changes, id, length).into_iter();
            spans.flat_map(during).collect::<Vec<_>>()
        };
        let mut all: Vec<_> = (0..).zip(streams).flat_map(of).collect();
        all.sort_unstable();
        Some(all)
    }

    /// The times in order, before `length` is over.
    pub(super) fn times(&self, length: Span) -> Vec<Timestamp> {
        let within = |times: &mut dyn Iterator<Item = Span>| -> Vec<Timestamp> {
            let times = times.take_while(|&at| at < length);
            times.map(|at| Timestamp::ZERO + at).collect()
        };
        match self {
            Self::Trace { trace, process, seed } => within(&mut Arrivals::new(trace, *process, *seed)),
            Self::Streams(streams) => {
                let of = |(number, stream): (u64, &EmulatedStream)| {
                    let times = stream.arrivals(number).ok();
                    times.map(|mut times| within(&mut times)).unwrap_or_default()
                };
                let mut all: Vec<Timestamp> = (0..).zip(streams).flat_map(of).collect();
                all.sort_unstable();
                all
            }
            Self::Requests(trace) => within(&mut trace.requests().iter().map(|request| request.at)),
        }
    }
}
