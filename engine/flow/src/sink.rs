//! Sinks, which receive deliveries, and their factory.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use crate::analytics::Description;
use crate::catalog::Settings;
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
    /// delivery ([`Notice::Analytics`]), and descriptions of incidents ([`Notice::Described`]).
    ///
    /// # Errors
    /// As [`Sink::accept`].
    fn on_notice(&mut self, _notice: &Notice) -> Result<(), SinkError> {
        Ok(())
    }
    /// True if the sink receives notices of drops and states.
    fn wants_notices(&self) -> bool {
        false
    }
    /// Observer of the encoded packets of the streams that the sink shows, from their start until they are
    /// removed. Called once, before [`Sink::begin`]. `None`: it needs no packets.
    fn packet_observer(&self) -> Option<Arc<dyn PacketObserver>> {
        None
    }
    /// True if deliveries include candidates: objects below the operating thresholds of their classes.
    fn wants_candidates(&self) -> bool {
        false
    }
    /// True if the sink encodes video; its processor time is then reported separately.
    fn encodes_video(&self) -> bool {
        false
    }
    /// A stream was removed during the run. The sink completes the stream's own outputs, such as its file.
    /// Nothing follows for this stream, but a later stream may have the same name. Its packets reach the observer of the sink
    /// after this call, unless the call takes longer than the run waits for a stream to end.
    ///
    /// # Errors
    /// As [`Sink::finish`].
    fn on_stream_removed(&mut self, _stream: &str) -> Result<(), SinkError> {
        Ok(())
    }
    /// Takes over other values of the keys that its factory names as [`SinkFactory::live_keys`].
    fn set_settings(&mut self, _settings: &Settings) {}
    /// True if the sink describes incidents. At the end of a run it is completed before the other sinks, which receive its
    /// descriptions.
    fn describes(&self) -> bool {
        false
    }
    /// Takes the descriptions that came since the last call, only if [`Sink::describes`].
    fn take_descriptions(&mut self) -> Vec<Description> {
        Vec::new()
    }
    /// Counters of the sink beside the deliveries that it accepted, by their names in reports.
    fn counts(&self) -> BTreeMap<&'static str, u64> {
        BTreeMap::new()
    }
    /// Packets that a sink which records did not record, by stream.
    fn packets_lost(&self) -> BTreeMap<Arc<str>, u64> {
        BTreeMap::new()
    }
    /// Reason why output currently does not reach its destination, such as a full disk or a server that is
    /// down, while the sink keeps retrying. `None`: it works.
    fn outage(&self) -> Option<String> {
        None
    }
    /// Free bytes at its destination, for sinks that record; called after each delivery.
    fn free_bytes(&self) -> Option<u64> {
        None
    }
    /// True if the reader of its output closed it (`weir run GRAPH.toml | head`). The run may then end, and
    /// unwritten deliveries are no failure.
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
    /// Folder in which it creates files with names that are not known in advance.
    fn folder(&self) -> Option<PathBuf> {
        None
    }
    /// Keys whose values an open sink can take over ([`Sink::set_settings`]). A sink that differs in another key is
    /// opened anew.
    fn live_keys(&self) -> &'static [&'static str] {
        &[]
    }
    /// Folder pattern of its streams, in which it also deletes files; `{stream}` is replaced by a stream's
    /// name.
    fn stream_folders(&self) -> Option<PathBuf> {
        None
    }
}
