//! A sink's thread: takes deliveries from a bounded channel, counts what is written and what is lost, and completes the
//! sink when the channel closes.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded};
use weir_flow::{Delivery, Notice, RunHeader, Sink, SinkError, StopFlag};
use weir_graph::WhenSlow;
use weir_policy::SinkReport;
use weir_types::Timestamp;

use crate::clock::{Clock, duration};
use crate::gate::Pass;
use crate::worker::words;

/// What a sink is given, with what is free again once it was taken.
struct Freight {
    what: Said,
    /// The place that the request keeps in its stream until the sink has taken it: a sink that is slow holds its sources
    /// back.
    _pass: Arc<Pass>,
    /// Counts notices that hold no such place.
    _loose: Option<Arc<()>>,
}

enum Said {
    Delivery(Arc<Delivery>),
    Notice(Arc<Notice>),
}

/// What the thread has come to, kept up to date by it.
#[derive(Default)]
struct Standing {
    report: SinkReport,
    /// All that was taken from the channel and done with.
    done: u64,
}

/// How often a closing sink is looked at.
const LOOK_UP: Duration = Duration::from_millis(5);

/// The runtime's end of a sink.
pub(crate) struct SinkLine {
    sender: Option<Sender<Freight>>,
    when_slow: WhenSlow,
    skipped: u64,
    notices_skipped: u64,
    wants_notices: bool,
    /// Its clones are notices under way that no place in a stream holds back.
    loose: Arc<()>,
    loose_most: usize,
    standing: Arc<Mutex<Standing>>,
    thread: Option<JoinHandle<()>>,
    /// When it was closed, and how many deliveries it was done with then.
    closed: Option<(Timestamp, u64)>,
}

/// How long a sink is waited for that does not go on.
pub(crate) struct Patience<'a> {
    pub(crate) clock: Clock,
    /// Nobody is left behind before this is raised.
    pub(crate) stop: &'a StopFlag,
    /// Without any progress.
    pub(crate) grace: Duration,
}

/// How much may wait before a sink.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Room {
    /// Requests of all streams that can be under way: a sink that is waited for has room for each of them, so handing over
    /// never blocks.
    pub(crate) under_way_most: usize,
    /// Deliveries before a sink that skips, and before any sink notices of frames that never were under way.
    pub(crate) waiting_most: usize,
}

impl SinkLine {
    /// Starts the thread, which begins with `header`. `stop` is raised when the sink's reader goes away.
    pub(crate) fn start(
        name: &str,
        sink: Box<dyn Sink>,
        when_slow: WhenSlow,
        room: Room,
        header: RunHeader,
        stop: &StopFlag,
    ) -> std::io::Result<Self> {
        let waiting_most = room.waiting_most.max(1);
        let room = match when_slow {
            WhenSlow::Wait => room.under_way_most.max(1),
            WhenSlow::Skip => waiting_most,
        };
        let wants_notices = sink.wants_notices();
        let (sender, deliveries) = bounded(if wants_notices { room + waiting_most } else { room });
        let standing: Arc<Mutex<Standing>> = Arc::default();
        let writer = Writer {
            name: name.to_owned(),
            sink,
            standing: Arc::clone(&standing),
            stop: stop.clone(),
            panicked: false,
            closed: false,
        };
        let builder = std::thread::Builder::new().name(format!("weir-sink-{name}"));
        let thread = builder.spawn(move || writer.write(&header, &deliveries))?;
        Ok(Self {
            sender: Some(sender),
            when_slow,
            skipped: 0,
            notices_skipped: 0,
            wants_notices,
            loose: Arc::default(),
            loose_most: waiting_most,
            standing,
            thread: Some(thread),
            closed: None,
        })
    }

    /// Whether it is to be given notices.
    pub(crate) fn wants_notices(&self) -> bool {
        self.wants_notices
    }

    /// Hands a delivery over.
    pub(crate) fn take(&mut self, delivery: &Arc<Delivery>, pass: &Arc<Pass>) {
        if !self.send(Said::Delivery(Arc::clone(delivery)), Some(pass), None) {
            self.skipped += 1;
        }
    }

    /// Hands a notice over, with the place of its request where it still has one. One that has none cannot hold its
    /// source back: beyond a bound it is left out and counted.
    pub(crate) fn take_notice(&mut self, notice: &Arc<Notice>, pass: Option<&Arc<Pass>>) {
        let pass = pass.filter(|_| self.when_slow == WhenSlow::Wait);
        let loose = pass.is_none().then(|| Arc::clone(&self.loose));
        // The handle here, and the one that was just made.
        let is_full = loose.is_some() && Arc::strong_count(&self.loose) > self.loose_most + 2;
        if is_full || !self.send(Said::Notice(Arc::clone(notice)), pass, loose) {
            self.notices_skipped += 1;
        }
    }

    fn send(&self, what: Said, pass: Option<&Arc<Pass>>, loose: Option<Arc<()>>) -> bool {
        // Who is not waited for must not hold a source back either.
        let pass = pass.filter(|_| self.when_slow == WhenSlow::Wait);
        let freight = Freight {
            what,
            _pass: pass.map_or_else(|| Arc::new(Pass::none()), Arc::clone),
            _loose: loose,
        };
        let sent = self.sender.as_ref().map(|sender| sender.try_send(freight));
        matches!(sent, Some(Ok(())))
    }

    /// Closes the channel: all sinks write what they have left side by side, and are waited for from the same moment on.
    pub(crate) fn close(&mut self, now: Timestamp) {
        self.sender = None;
        self.closed = Some((now, self.done()));
    }

    /// What was taken from the channel and done with.
    fn done(&self) -> u64 {
        lock(&self.standing).done
    }

    /// Closes the channel and waits until all is written. A sink that hangs when the run was told to stop is left
    /// behind: its thread ends with the program.
    pub(crate) fn finish(mut self, patience: &Patience<'_>) -> SinkReport {
        self.sender = None;
        let finished = self.wait(patience);
        let mut report = lock(&self.standing).report.clone();
        report.skipped += self.skipped;
        report.notices_lost += self.notices_skipped;
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
        let (mut since, mut seen) = self.closed.unwrap_or((patience.clock.now(), 0));
        while !thread.is_finished() {
            let done = self.done();
            let now = patience.clock.now();
            if done != seen || !patience.stop.is_raised() {
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

fn lock(standing: &Mutex<Standing>) -> MutexGuard<'_, Standing> {
    standing.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The sink on its thread.
struct Writer {
    name: String,
    sink: Box<dyn Sink>,
    standing: Arc<Mutex<Standing>>,
    stop: StopFlag,
    /// Who panicked once is given nothing more.
    panicked: bool,
    /// Its reader went away.
    closed: bool,
}

impl Writer {
    fn write(mut self, header: &RunHeader, freights: &Receiver<Freight>) {
        self.attempt(|sink| sink.begin(header));
        for freight in freights {
            let written = !self.panicked
                && !self.closed
                && self.attempt(|sink| match &freight.what {
                    Said::Delivery(delivery) => sink.accept(delivery),
                    Said::Notice(notice) => sink.on_notice(notice),
                });
            let mut standing = lock(&self.standing);
            standing.done += 1;
            let report = &mut standing.report;
            match (&freight.what, written) {
                (Said::Delivery(_), true) => report.written += 1,
                (Said::Delivery(_), false) => report.lost += 1,
                (Said::Notice(_), true) => {}
                (Said::Notice(_), false) => report.notices_lost += 1,
            }
            drop(standing);
            drop(freight);
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
            Ok(Err(_)) if self.sink.is_reader_gone() => {
                // Nobody waits for the rest of the run.
                self.closed = true;
                self.stop.raise();
                lock(&self.standing).report.closed = true;
                return false;
            }
            Ok(Err(error)) => error.to_string(),
            Err(panic) => {
                self.panicked = true;
                format!("the sink panicked: {}", words(panic.as_ref()))
            }
        };
        let mut standing = lock(&self.standing);
        if standing.report.error.is_none() {
            tracing::warn!(
                sink = self.name,
                "{error}; the run goes on without what this sink cannot write"
            );
            standing.report.error = Some(error);
        }
        false
    }
}
