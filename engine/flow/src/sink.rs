//! Where deliveries go: a sink and its factory.

use std::path::PathBuf;

use crate::delivery::{Delivery, Notice, RunHeader};
use crate::error::SinkError;

/// Where deliveries go; used by one thread. Deliveries of one stream come in frame order.
pub trait Sink: Send {
    /// A run begins; called once, when everything that the run needs is there and before anything else is given.
    ///
    /// # Errors
    /// As [`Sink::accept`].
    fn begin(&mut self, _run: &RunHeader) -> Result<(), SinkError> {
        Ok(())
    }
    /// Takes one delivery.
    ///
    /// # Errors
    /// [`SinkError`]: the delivery is counted as not written and the run goes on.
    fn accept(&mut self, delivery: &Delivery) -> Result<(), SinkError>;
    /// Takes word of what happened beside deliveries.
    ///
    /// # Errors
    /// As [`Sink::accept`].
    fn on_notice(&mut self, _notice: &Notice) -> Result<(), SinkError> {
        Ok(())
    }
    /// Whether it has any use for notices; only then it is given them.
    fn wants_notices(&self) -> bool {
        false
    }
    /// Whether whoever read what it writes went away (`weir run GRAPH.toml | head`): then the run may end, and what
    /// could not be written is no failure.
    fn is_reader_gone(&self) -> bool {
        false
    }
    /// Completes what was written; called once, also after errors.
    ///
    /// # Errors
    /// [`SinkError`] where it cannot be completed.
    fn finish(&mut self) -> Result<(), SinkError>;
}

/// Opens a sink when a run starts.
pub trait SinkFactory: Send + Sync {
    /// Opens it.
    ///
    /// # Errors
    /// [`SinkError`] where the target cannot be made. Nothing that was there before is changed.
    fn open(&self) -> Result<Box<dyn Sink>, SinkError>;
    /// The files that it may write, for the streams that it was made for; none where it writes no files.
    fn targets(&self) -> Vec<PathBuf> {
        Vec::new()
    }
}
