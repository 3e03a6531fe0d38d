//! A stream before its thread starts: what opens it, and how many of its requests may be in flight.

use weir_flow::{SourceFactory, StopFlag};
use weir_graph::{Graph, SourceMode};
use weir_policy::{ConcurrencyLimitSpec, Overflow};

use crate::assembly::{RunError, RunOptions};
use crate::emulated::EmulatedSource;

/// Requests of one live stream in flight: a fast camera for seconds; what bounds memory is the bytes of all frames
/// together.
const MAX_IN_FLIGHT_LIVE: u32 = 256;

/// The lower bound for one lossless stream: results wait for their turn and for the sinks.
const MIN_IN_FLIGHT_LOSSLESS: u32 = 4;

/// What a source thread is made from.
pub(crate) struct StreamSetup {
    pub(crate) factory: Box<dyn SourceFactory>,
    pub(crate) mode: SourceMode,
    pub(crate) limit: ConcurrencyLimitSpec,
}

/// The streams of `graph`, emulated ones included. `lossless_limit` is how many requests all lossless streams together may
/// have in flight in the beginning.
pub(crate) fn stream_setups(
    graph: &Graph,
    sources: Vec<Option<Box<dyn SourceFactory>>>,
    lossless_limit: u32,
    options: &RunOptions,
) -> Result<Vec<StreamSetup>, RunError> {
    let lossless = lossless_limit
        .div_ceil(graph.sources().len().max(1) as u32)
        .max(MIN_IN_FLIGHT_LOSSLESS);
    let mut setups = Vec::new();
    for ((index, node), given) in (0..).zip(graph.sources()).zip(sources) {
        let factory = match given {
            Some(factory) => factory,
            None => Box::new(EmulatedSource::parse(&node.uri, index)?),
        };
        let (overflow, initial, max) = match node.mode {
            SourceMode::Live => (Overflow::Drop, MAX_IN_FLIGHT_LIVE, MAX_IN_FLIGHT_LIVE),
            SourceMode::Lossless => (Overflow::Backpressure, lossless, 4 * lossless),
        };
        let (initial, max) = options
            .max_in_flight
            .map_or((initial, max), |fixed| (fixed, fixed));
        let limit = ConcurrencyLimitSpec {
            overflow,
            initial,
            max,
            slo: node.slo.unwrap_or(graph.slo()),
        };
        setups.push(StreamSetup {
            factory,
            mode: node.mode,
            limit,
        });
    }
    Ok(setups)
}

/// Checks that there is a source to run on: where none can be opened, nothing else is touched. One that cannot be opened
/// does not keep the others from running.
pub(crate) fn check_sources(streams: &[StreamSetup], stop: &StopFlag) -> Result<(), RunError> {
    let mut first = None;
    for stream in streams {
        match stream.factory.check(stop) {
            Ok(()) => return Ok(()),
            // A source that is stopped while it opens returns an error.
            Err(_) if stop.is_raised() => return Ok(()),
            Err(error) => first = first.or(Some(error)),
        }
    }
    first.map_or(Ok(()), |error| Err(error.into()))
}
