//! A subscription: what comes out of a graph, for a program that embeds the engine.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use weir_flow::{Delivery, Notice, Sink, SinkError, SinkFactory, StreamNames};
use weir_graph::WhenSlow;

use crate::assembly::Assembly;

/// Name of the sink that a subscription is; no sink of a graph can have it. Reports list it so.
const NAME: &str = "(subscription)";

/// An event that a subscriber receives.
#[derive(Debug, Clone)]
pub enum Update {
    /// A frame that passed the graph, with all that any module found in it. Those of one stream come in frame order.
    Delivery(Box<Delivery>),
    /// A frame was dropped, or a stream changed its state.
    Notice(Notice),
    /// The stream of that name was removed: nothing of it follows.
    Removed(String),
}

impl Assembly {
    /// The same with a subscription to all that comes out of any stream. `capacity` updates wait for a subscriber that is
    /// slow, and then as many as [`RunOptions::max_sink_waiting`](crate::RunOptions::max_sink_waiting); what comes then is
    /// skipped and counted in the report, so that the subscriber never slows the engine. It ends with the engine.
    #[must_use]
    pub fn subscribe(mut self, capacity: usize) -> (Self, Receiver<Update>) {
        let (updates, receiver) = sync_channel(capacity);
        self.graph = self
            .graph
            .with_observer(NAME, "subscription", WhenSlow::Skip, StreamNames::default());
        self.sinks.push(Box::new(Subscriber(updates)));
        (self, receiver)
    }
}

/// Passes on what it takes; for a subscriber that is gone it does nothing.
#[derive(Clone)]
struct Subscriber(SyncSender<Update>);

impl SinkFactory for Subscriber {
    fn open(&self) -> Result<Box<dyn Sink>, SinkError> {
        Ok(Box::new(self.clone()))
    }
}

impl Sink for Subscriber {
    fn accept(&mut self, delivery: &Delivery) -> Result<(), SinkError> {
        let _ = self.0.send(Update::Delivery(Box::new(delivery.clone())));
        Ok(())
    }

    fn on_notice(&mut self, notice: &Notice) -> Result<(), SinkError> {
        let _ = self.0.send(Update::Notice(notice.clone()));
        Ok(())
    }

    fn wants_notices(&self) -> bool {
        true
    }

    fn on_stream_removed(&mut self, stream: &str) -> Result<(), SinkError> {
        let _ = self.0.send(Update::Removed(stream.to_owned()));
        Ok(())
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        Ok(())
    }
}
