//! A stream before its thread starts: what opens it, and how many of its requests may be in flight.

use weir_flow::{SourceError, SourceFactory, StopFlag};
use weir_graph::{Decoding, SourceMode, SourceNode};
use weir_policy::ConcurrencyLimitSpec;
use weir_types::Span;

use crate::assembly::RunError;
use crate::emulated::EmulatedSource;

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
        let factory = match given {
            Some(factory) => factory,
            None => Box::new(EmulatedSource::parse(&node.uri, index)?),
        };
        let slo = node.slo.unwrap_or(limits.slo);
        let limit = match node.mode {
            SourceMode::Live => ConcurrencyLimitSpec::live(slo),
            SourceMode::Lossless => ConcurrencyLimitSpec::lossless(limits.lossless, streams, slo),
        };
        let fixed = |fixed: u32| ConcurrencyLimitSpec {
            initial: fixed,
            max: fixed,
            ..limit
        };
        Ok(Self {
            factory,
            mode: node.mode,
            limit: limits.fixed.map_or(limit, fixed),
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
