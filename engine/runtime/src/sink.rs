//! A sink's thread: takes deliveries from a bounded channel, counts what is written and what is lost, and completes the
//! sink when the channel closes.

use std::sync::Arc;
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
use weir_flow::{Delivery, Sink};
use weir_graph::WhenSlow;
use weir_policy::SinkReport;

use crate::gate::Pass;

/// A delivery with the place that its request keeps in its stream until the sink has taken it: a sink that is slow
/// holds its sources back.
type Freight = (Arc<Delivery>, Arc<Pass>);

/// The runtime's end of a sink.
pub(crate) struct SinkLine {
    sender: Sender<Freight>,
    when_slow: WhenSlow,
    skipped: u64,
    thread: JoinHandle<SinkReport>,
}

impl SinkLine {
    /// Starts the thread. `under_way_most` is how many requests of all streams can be under way: a sink that is waited
    /// for has room for each of them, so handing over never blocks; one that skips has room for `waiting_most`.
    pub(crate) fn start(
        name: &str,
        sink: Box<dyn Sink>,
        when_slow: WhenSlow,
        under_way_most: usize,
        waiting_most: usize,
    ) -> std::io::Result<Self> {
        let room = match when_slow {
            WhenSlow::Wait => under_way_most.max(1),
            WhenSlow::Skip => waiting_most.max(1),
        };
        let (sender, receiver) = bounded(room);
        let name = name.to_owned();
        let builder = std::thread::Builder::new().name(format!("weir-sink-{name}"));
        let thread = builder.spawn(move || write(&name, sink, &receiver))?;
        Ok(Self {
            sender,
            when_slow,
            skipped: 0,
            thread,
        })
    }

    /// Hands a delivery over.
    pub(crate) fn take(&mut self, delivery: &Arc<Delivery>, pass: &Arc<Pass>) {
        let freight = match self.when_slow {
            WhenSlow::Wait => (Arc::clone(delivery), Arc::clone(pass)),
            // Who is not waited for must not hold a source back either.
            WhenSlow::Skip => (Arc::clone(delivery), Arc::new(Pass::none())),
        };
        if let Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) = self.sender.try_send(freight) {
            self.skipped += 1;
        }
    }

    /// Closes the channel and waits until all is written.
    pub(crate) fn finish(self) -> SinkReport {
        drop(self.sender);
        let mut report = self.thread.join().unwrap_or_else(|_| SinkReport {
            error: Some("the sink panicked; what it had not written is lost".to_owned()),
            ..SinkReport::default()
        });
        report.skipped += self.skipped;
        report
    }
}

fn write(name: &str, mut sink: Box<dyn Sink>, deliveries: &Receiver<Freight>) -> SinkReport {
    let mut report = SinkReport::default();
    let note = |report: &mut SinkReport, error: weir_flow::SinkError| {
        if report.error.is_none() {
            tracing::error!(
                sink = name,
                "{error}; the run goes on without what this sink cannot write"
            );
            report.error = Some(error.to_string());
        }
    };
    for (delivery, pass) in deliveries {
        match sink.accept(&delivery) {
            Ok(()) => report.written += 1,
            Err(error) => {
                report.lost += 1;
                note(&mut report, error);
            }
        }
        drop(pass);
    }
    if let Err(error) = sink.finish() {
        note(&mut report, error);
    }
    report
}
