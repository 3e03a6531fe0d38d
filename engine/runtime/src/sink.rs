//! A sink's thread: takes deliveries from a bounded channel, counts what is written and what is lost, and completes the
//! sink when the channel closes.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded};
use weir_flow::{Delivery, Sink, SinkError, StopFlag};
use weir_graph::WhenSlow;
use weir_policy::SinkReport;

use crate::clock::{Clock, duration};
use crate::gate::Pass;
use crate::worker::words;

/// A delivery with the place that its request keeps in its stream until the sink has taken it: a sink that is slow
/// holds its sources back.
type Freight = (Arc<Delivery>, Arc<Pass>);

/// How often a closing sink is looked at.
const LOOK_UP: Duration = Duration::from_millis(5);

/// The runtime's end of a sink.
pub(crate) struct SinkLine {
    sender: Option<Sender<Freight>>,
    when_slow: WhenSlow,
    skipped: u64,
    /// Kept up to date by the thread.
    report: Arc<Mutex<SinkReport>>,
    thread: Option<JoinHandle<()>>,
}

/// How long a sink is waited for that does not go on.
pub(crate) struct Patience<'a> {
    pub(crate) clock: Clock,
    /// Nobody is left behind before this is raised.
    pub(crate) stop: &'a StopFlag,
    /// Without any progress.
    pub(crate) grace: Duration,
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
        let (sender, deliveries) = bounded(room);
        let report: Arc<Mutex<SinkReport>> = Arc::default();
        let writer = Writer {
            name: name.to_owned(),
            sink,
            report: Arc::clone(&report),
            panicked: false,
        };
        let builder = std::thread::Builder::new().name(format!("weir-sink-{name}"));
        let thread = builder.spawn(move || writer.write(&deliveries))?;
        Ok(Self {
            sender: Some(sender),
            when_slow,
            skipped: 0,
            report,
            thread: Some(thread),
        })
    }

    /// Hands a delivery over.
    pub(crate) fn take(&mut self, delivery: &Arc<Delivery>, pass: &Arc<Pass>) {
        let freight = match self.when_slow {
            WhenSlow::Wait => (Arc::clone(delivery), Arc::clone(pass)),
            // Who is not waited for must not hold a source back either.
            WhenSlow::Skip => (Arc::clone(delivery), Arc::new(Pass::none())),
        };
        let sent = self.sender.as_ref().map(|sender| sender.try_send(freight));
        if !matches!(sent, Some(Ok(()))) {
            self.skipped += 1;
        }
    }

    /// Closes the channel and waits until all is written. A sink that hangs when the run was told to stop is left
    /// behind: its thread ends with the program.
    pub(crate) fn finish(mut self, patience: &Patience<'_>) -> SinkReport {
        self.sender = None;
        let finished = self.wait(patience);
        let mut report = lock(&self.report).clone();
        report.skipped += self.skipped;
        if !finished {
            let left = "it hung and was left behind; what it had not written is lost".to_owned();
            report.error.get_or_insert(left);
        }
        report
    }

    fn wait(&mut self, patience: &Patience<'_>) -> bool {
        let Some(thread) = self.thread.take() else {
            return true;
        };
        let mut since = patience.clock.now();
        let mut seen = 0;
        while !thread.is_finished() {
            let done = {
                let report = lock(&self.report);
                report.written + report.lost
            };
            let now = patience.clock.now();
            if done != seen || !patience.stop.raised() {
                (seen, since) = (done, now);
            } else if duration(now.since(since)) >= patience.grace {
                return false;
            }
            std::thread::sleep(LOOK_UP);
        }
        // The thread catches what the sink panics about.
        let _ = thread.join();
        true
    }
}

fn lock(report: &Mutex<SinkReport>) -> MutexGuard<'_, SinkReport> {
    report.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The sink on its thread.
struct Writer {
    name: String,
    sink: Box<dyn Sink>,
    report: Arc<Mutex<SinkReport>>,
    /// Who panicked once is given nothing more.
    panicked: bool,
}

impl Writer {
    fn write(mut self, deliveries: &Receiver<Freight>) {
        for (delivery, pass) in deliveries {
            let written = !self.panicked && self.attempt(|sink| sink.accept(&delivery));
            let mut report = lock(&self.report);
            if written {
                report.written += 1;
            } else {
                report.lost += 1;
            }
            drop(report);
            drop(pass);
        }
        // What a sink that panicked has written so far is worth completing.
        self.attempt(|sink| sink.finish());
        let Self { sink, .. } = self;
        let _ = catch_unwind(AssertUnwindSafe(move || drop(sink)));
    }

    /// Whether it went well; what did not is noted.
    fn attempt(&mut self, act: impl FnOnce(&mut dyn Sink) -> Result<(), SinkError>) -> bool {
        let error = match catch_unwind(AssertUnwindSafe(|| act(self.sink.as_mut()))) {
            Ok(Ok(())) => return true,
            Ok(Err(error)) => error.to_string(),
            Err(panic) => {
                self.panicked = true;
                format!("the sink panicked: {}", words(panic.as_ref()))
            }
        };
        let mut report = lock(&self.report);
        if report.error.is_none() {
            tracing::debug!(
                sink = self.name,
                "{error}; the run goes on without what this sink cannot write"
            );
            report.error = Some(error);
        }
        false
    }
}
