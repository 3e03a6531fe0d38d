//! A stream before its thread starts: what opens it, and how many of its requests may be in flight.

use weir_flow::{SourceError, SourceFactory, StopFlag};
use weir_graph::{Decoding, SourceMode, SourceNode};
use weir_policy::{ConcurrencyLimitSpec, Overflow};
use weir_types::Span;

use crate::assembly::RunError;
use crate::emulated::EmulatedSource;

/// Requests of one live stream in flight: a fast camera for seconds; what bounds memory is the bytes of all frames
/// together.
const MAX_IN_FLIGHT_LIVE: u32 = 256;

/// The lower bound for one lossless stream: results wait for their turn and for the sinks.
const MIN_IN_FLIGHT_LOSSLESS: u32 = 4;

/// Settings from which a source thread starts.
pub(crate) struct StreamSetup {
    pub(crate) factory: Box<dyn SourceFactory>,
    pub(crate) mode: SourceMode,
    pub(crate) limit: ConcurrencyLimitSpec,
    /// Whether frames may be dropped before they are decoded.
    pub(crate) decoded_as_needed: bool,
}

/// Bounds on the requests of each stream in flight.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InFlightLimits {
    /// Latency objective of streams without one of their own.
    pub(crate) slo: Span,
    /// Bound of one stream as set in the options of the run; `None` derives it.
    pub(crate) fixed: Option<u32>,
    /// Initial bound for all lossless streams together, in requests.
    pub(crate) lossless: u32,
}

impl StreamSetup {
    /// Stream `index` of `streams`, emulated where no factory is given.
    ///
    /// # Errors
    /// An address of an emulated stream that says nothing.
    pub(crate) fn new(
        node: &SourceNode,
        given: Option<Box<dyn SourceFactory>>,
        (index, streams): (u64, usize),
        limits: InFlightLimits,
    ) -> Result<Self, SourceError> {
        let lossless = limits
            .lossless
            .div_ceil(streams.max(1) as u32)
            .max(MIN_IN_FLIGHT_LOSSLESS);
        let factory = match given {
            Some(factory) => factory,
            None => Box::new(EmulatedSource::parse(&node.uri, index)?),
        };
        let (overflow, initial, max) = match node.mode {
            SourceMode::Live => (Overflow::Drop, MAX_IN_FLIGHT_LIVE, MAX_IN_FLIGHT_LIVE),
            SourceMode::Lossless => (Overflow::Backpressure, lossless, 4 * lossless),
        };
        let (initial, max) = limits.fixed.map_or((initial, max), |fixed| (fixed, fixed));
        Ok(Self {
            factory,
            mode: node.mode,
            limit: ConcurrencyLimitSpec {
                overflow,
                initial,
                max,
                slo: node.slo.unwrap_or(limits.slo),
            },
            // Sampling wants all frames to choose from.
            decoded_as_needed: node.mode == SourceMode::Live
                && node.decoding == Decoding::AsNeeded
                && node.sample.is_none(),
        })
    }
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
