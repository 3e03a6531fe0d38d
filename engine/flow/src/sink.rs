//! Where deliveries go: a sink and its factory.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use crate::delivery::{Delivery, Notice, RunHeader};
use crate::error::SinkError;
use crate::packet::PacketObserver;

/// Writes deliveries; used by one thread. Deliveries of one stream arrive in frame order.
pub trait Sink: Send {
    /// Starts a run; called once, when all resources of the run are open and before any delivery.
    ///
    /// # Errors
    /// As [`Sink::accept`].
    fn begin(&mut self, _run: &RunHeader) -> Result<(), SinkError> {
        Ok(())
    }
    /// Writes one delivery.
    ///
    /// # Errors
    /// [`SinkError`]: the delivery is counted as not written and the run continues.
    fn accept(&mut self, delivery: &Delivery) -> Result<(), SinkError>;
    /// Receives a drop or a change of a stream's state, only if [`Sink::wants_notices`]; and in any case what ended without a
    /// delivery ([`Notice::Analytics`]).
    ///
    /// # Errors
    /// As [`Sink::accept`].
    fn on_notice(&mut self, _notice: &Notice) -> Result<(), SinkError> {
        Ok(())
    }
    /// Whether it receives notices of drops and states.
    fn wants_notices(&self) -> bool {
        false
    }
    /// What takes the encoded packets of the streams that it shows, from when they begin until they are removed; asked once,
    /// before [`Sink::begin`]. `None`: it wants none.
    fn packet_observer(&self) -> Option<Arc<dyn PacketObserver>> {
        None
    }
    /// Whether deliveries have the candidates, too: objects below the operating thresholds of their classes.
    fn wants_candidates(&self) -> bool {
        false
    }
    /// Whether it encodes video: its processor time is counted apart from that of other sinks.
    fn encodes_video(&self) -> bool {
        false
    }
    /// A stream was removed while the run goes on: completes what is its alone, such as its file. Nothing of it follows, but
    /// another stream may have its name later.
    ///
    /// # Errors
    /// As [`Sink::finish`].
    fn on_stream_removed(&mut self, _stream: &str) -> Result<(), SinkError> {
        Ok(())
    }
    /// What it came to until now beside the deliveries that it took, by names that reports show.
    fn counts(&self) -> BTreeMap<&'static str, u64> {
        BTreeMap::new()
    }
    /// Reason why its output does not reach its destination now, while the run goes on and it tries again, such as a full disk or a
    /// server that is down. `None`: it writes.
    fn outage(&self) -> Option<String> {
        None
    }
    /// Bytes that are free where it writes, for sinks that record; asked after each delivery.
    fn free_bytes(&self) -> Option<u64> {
        None
    }
    /// Whether the reader of its output closed it (`weir run GRAPH.toml | head`): then the run may end, and unwritten
    /// deliveries are no failure.
    fn is_reader_gone(&self) -> bool {
        false
    }
    /// Completes the output; called once, also after errors.
    ///
    /// # Errors
    /// [`SinkError`] where it cannot be completed.
    fn finish(&mut self) -> Result<(), SinkError>;
}

/// Opens a sink when a run starts.
pub trait SinkFactory: Send + Sync {
    /// Opens the sink.
    ///
    /// # Errors
    /// [`SinkError`] where the target cannot be created. Existing content is not changed.
    fn open(&self) -> Result<Box<dyn Sink>, SinkError>;
    /// The files that it may write for its streams; empty if it writes no files.
    fn targets(&self) -> Vec<PathBuf> {
        Vec::new()
    }
    /// The folder that it writes files to whose names are not known before.
    fn folder(&self) -> Option<PathBuf> {
        None
    }
    /// The folders of its streams, which it also removes files from: `{stream}` stands for the name of any.
    fn stream_folders(&self) -> Option<PathBuf> {
        None
    }
}
