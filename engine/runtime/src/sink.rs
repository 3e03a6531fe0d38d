//! The thread of a sink: takes deliveries from a bounded channel, counts what is written and what is lost, and completes
//! the sink when the channel closes.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded, unbounded};
use weir_flow::{
    Delivery, Description, Notice, PacketObserver, RunHeader, Settings, Sink, SinkError, StopFlag,
};
use weir_graph::WhenSlow;
use weir_policy::SinkReport;
use weir_types::Timestamp;

use crate::admission::StreamPermit;
use crate::clock::{Clock, duration};
use crate::lock::lock;
use crate::panic_message::panic_message;
use crate::processor_time::{ProcessorTimes, ThreadKind, ThreadTimer};

/// An item in the queue of a sink. Its permits are released after the sink has processed it.
struct SinkItem {
    payload: Payload,
    /// The request keeps it until the sink has taken this: a slow sink puts its sources under backpressure.
    _permit: Arc<StreamPermit>,
    /// Counts notices that hold no permit.
    _unpermitted: Option<Arc<()>>,
}

enum Payload {
    Delivery(Arc<Delivery>),
    Notice(Arc<Notice>),
    /// The stream of that name was removed; nothing of it follows.
    StreamRemoved {
        stream: Arc<str>,
        /// Alive until the sink has completed what it has of the stream; `None` if that is not awaited.
        _pending: Option<Arc<()>>,
    },
    /// Other values of its live keys.
    Settings(Settings),
}

/// Progress of the thread of a sink.
#[derive(Default)]
struct SinkProgress {
    report: SinkReport,
    /// Items that were taken from the channel, written or not.
    processed: u64,
    /// Descriptions for other sinks, at most [`MAX_DESCRIPTIONS`].
    descriptions: Vec<Description>,
}

/// Descriptions that wait for the egress, which takes them twice a second.
const MAX_DESCRIPTIONS: usize = 1_024;

/// Time between two looks at a closing sink.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Time between two looks at what a sink counts while nothing comes.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);

/// Sends to a sink, and closes it.
pub(crate) struct SinkHandle {
    sender: Option<Sender<SinkItem>>,
    when_slow: WhenSlow,
    skipped: u64,
    notices_skipped: u64,
    wants_notices: bool,
    packet_observer: Option<Arc<dyn PacketObserver>>,
    wants_candidates: bool,
    describes: bool,
    /// Its clones are notices in flight that hold no permit.
    unpermitted: Arc<()>,
    max_unpermitted: usize,
    progress: Arc<Mutex<SinkProgress>>,
    thread: Option<JoinHandle<()>>,
    /// When it was closed, and how many items it had processed then.
    closed: Option<(Timestamp, u64)>,
}

/// Limit of the wait for a closing sink that makes no progress.
pub(crate) struct CloseTimeout<'a> {
    pub(crate) clock: Clock,
    /// No sink is left behind before this is raised.
    pub(crate) stop: &'a StopFlag,
    /// Time without progress.
    pub(crate) grace: Duration,
}

/// Bounds of the queue of a sink.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QueueLimits {
    /// Requests of all streams that can be in flight: the queue of a sink that is waited for holds each of them, so sending
    /// never blocks. `None` where streams come and go: the permits of their requests, which are in the queue with them,
    /// are its bound then.
    pub(crate) max_in_flight: Option<usize>,
    /// Deliveries to a sink that skips, and to any sink notices of frames that were never admitted.
    pub(crate) max_waiting: usize,
}

impl SinkHandle {
    /// Starts the thread, which begins with `header`. `stop` is raised when the reader of the sink closes.
    pub(crate) fn start(
        name: &str,
        sink: Box<dyn Sink>,
        when_slow: WhenSlow,
        limits: QueueLimits,
        header: RunHeader,
        (stop, processor): (&StopFlag, &Arc<ProcessorTimes>),
    ) -> std::io::Result<Self> {
        let max_waiting = limits.max_waiting.max(1);
        // Beside the deliveries of a sink that is waited for there is room for notices, so that none takes their place.
        let capacity = match when_slow {
            WhenSlow::Wait => limits.max_in_flight.map(|max| max.max(1) + max_waiting),
            WhenSlow::Skip => Some(max_waiting),
        };
        let wants_notices = sink.wants_notices();
        let packet_observer = sink.packet_observer();
        let wants_candidates = sink.wants_candidates();
        let describes = sink.describes();
        let kind = if sink.encodes_video() {
            ThreadKind::Encoding
        } else {
            ThreadKind::Sinks
        };
        let (sender, deliveries) = match capacity {
            Some(capacity) if wants_notices && when_slow == WhenSlow::Skip => bounded(capacity + max_waiting),
            Some(capacity) => bounded(capacity),
            None => unbounded(),
        };
        let progress: Arc<Mutex<SinkProgress>> = Arc::default();
        let writer = Writer {
            name: name.to_owned(),
            sink,
            progress: Arc::clone(&progress),
            stop: stop.clone(),
            panicked: false,
            closed: false,
        };
        let builder = std::thread::Builder::new().name(format!("weir-sink-{name}"));
        let processor = Arc::clone(processor);
        let thread = builder.spawn(move || writer.write(&header, &deliveries, processor.timer(kind)))?;
        Ok(Self {
            sender: Some(sender),
            when_slow,
            skipped: 0,
            notices_skipped: 0,
            wants_notices,
            packet_observer,
            wants_candidates,
            describes,
            unpermitted: Arc::default(),
            max_unpermitted: max_waiting,
            progress,
            thread: Some(thread),
            closed: None,
        })
    }

    /// Whether the sink takes notices of drops and states.
    pub(crate) fn wants_notices(&self) -> bool {
        self.wants_notices
    }

    /// Returns the observer that takes the packets of the streams of this sink, if it requests packets.
    pub(crate) fn packet_observer(&self) -> Option<Arc<dyn PacketObserver>> {
        self.packet_observer.clone()
    }

    /// Whether its deliveries have the candidates.
    pub(crate) fn wants_candidates(&self) -> bool {
        self.wants_candidates
    }

    /// Whether the sink describes incidents for others.
    pub(crate) fn describes(&self) -> bool {
        self.describes
    }

    /// Takes the descriptions that came since the last call.
    pub(crate) fn take_descriptions(&self) -> Vec<Description> {
        if !self.describes {
            return Vec::new();
        }
        std::mem::take(&mut lock(&self.progress).descriptions)
    }

    /// Sends a delivery, or counts it as skipped where the queue is full.
    pub(crate) fn send_delivery(&mut self, delivery: &Arc<Delivery>, permit: &Arc<StreamPermit>) {
        if !self.send(Payload::Delivery(Arc::clone(delivery)), Some(permit), None) {
            self.skipped += 1;
        }
    }

    /// Sends a notice, with the permit of its request where it still has one. Without one it causes no backpressure: beyond
    /// a bound it is skipped and counted.
    pub(crate) fn send_notice(&mut self, notice: &Arc<Notice>, permit: Option<&Arc<StreamPermit>>) {
        let permit = permit.filter(|_| self.when_slow == WhenSlow::Wait);
        let unpermitted = permit.is_none().then(|| Arc::clone(&self.unpermitted));
        // The handle here, and the one that was just made.
        let is_full =
            unpermitted.is_some() && Arc::strong_count(&self.unpermitted) > self.max_unpermitted + 2;
        if is_full || !self.send(Payload::Notice(Arc::clone(notice)), permit, unpermitted) {
            self.notices_skipped += 1;
        }
    }

    /// The stream of that name was removed: the sink completes what it has of it. A sink that skips and is full then
    /// completes it at the end of the run. A sink that observes packets keeps a clone of `pending` until then: packets of another
    /// stream of that name reach it beside its queue.
    pub(crate) fn send_stream_removed(&mut self, stream: &Arc<str>, pending: &Arc<()>) {
        let payload = Payload::StreamRemoved {
            stream: Arc::clone(stream),
            _pending: self.packet_observer.is_some().then(|| Arc::clone(pending)),
        };
        self.send(payload, None, None);
    }

    /// Another graph has other values of keys that the open sink takes over, after all that is queued.
    pub(crate) fn send_settings(&self, settings: Settings) {
        if !self.send(Payload::Settings(settings), None, None) {
            tracing::warn!("a sink is too slow to take other settings over: reload the graph again");
        }
    }

    /// Counts so far: those of the sink's thread, with the deliveries and notices that the queue had no room
    /// for.
    pub(crate) fn report(&self) -> SinkReport {
        let mut report = lock(&self.progress).report.clone();
        report.skipped += self.skipped;
        report.notices_lost += self.notices_skipped;
        report
    }

    /// Why its output does not reach its destination at present.
    pub(crate) fn outage(&self) -> Option<String> {
        lock(&self.progress).report.outage.clone()
    }

    fn send(
        &self,
        payload: Payload,
        permit: Option<&Arc<StreamPermit>>,
        unpermitted: Option<Arc<()>>,
    ) -> bool {
        // A sink that is not waited for must cause no backpressure either.
        let permit = permit.filter(|_| self.when_slow == WhenSlow::Wait);
        let item = SinkItem {
            payload,
            _permit: permit.map_or_else(|| Arc::new(StreamPermit::empty()), Arc::clone),
            _unpermitted: unpermitted,
        };
        let sent = self.sender.as_ref().map(|sender| sender.try_send(item));
        matches!(sent, Some(Ok(())))
    }

    /// Closes the channel: all sinks write what is queued side by side, and are waited for from the same moment on.
    pub(crate) fn close(&mut self, now: Timestamp) {
        self.sender = None;
        self.closed = Some((now, self.processed()));
    }

    fn processed(&self) -> u64 {
        lock(&self.progress).processed
    }

    /// Closes the channel and waits until all is written. A sink that hangs after the run was asked to stop is left behind:
    /// its thread ends with the program.
    pub(crate) fn finish(&mut self, timeout: &CloseTimeout<'_>) -> SinkReport {
        self.sender = None;
        let finished = self.wait(timeout);
        let mut report = self.report();
        if !finished {
            let left = "it hung and was left behind; what it had not written is lost".to_owned();
            report.error.get_or_insert(left);
        }
        report
    }

    fn wait(&mut self, timeout: &CloseTimeout<'_>) -> bool {
        let Some(thread) = self.thread.take() else {
            return true;
        };
        let (mut since, mut seen) = self.closed.unwrap_or((timeout.clock.now(), 0));
        while !thread.is_finished() {
            let processed = self.processed();
            let now = timeout.clock.now();
            if processed != seen || !timeout.stop.is_raised() {
                (seen, since) = (processed, now);
            } else if duration(now.since(since)) >= timeout.grace {
                return false;
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        // The thread catches what the sink panics about.
        let _ = thread.join();
        true
    }
}

/// The sink on its thread.
struct Writer {
    name: String,
    sink: Box<dyn Sink>,
    progress: Arc<Mutex<SinkProgress>>,
    stop: StopFlag,
    /// A sink that panicked once is given nothing more.
    panicked: bool,
    /// Its reader closed.
    closed: bool,
}

impl Writer {
    fn write(mut self, header: &RunHeader, items: &Receiver<SinkItem>, mut timer: ThreadTimer) {
        self.attempt(|sink| sink.begin(header));
        loop {
            let item = match items.recv_timeout(LOOK_INTERVAL) {
                Ok(item) => item,
                Err(RecvTimeoutError::Timeout) => {
                    // What goes on beside the deliveries shows, too.
                    self.look();
                    continue;
                }
                Err(RecvTimeoutError::Disconnected) => break,
            };
            let written = !self.panicked
                && !self.closed
                && self.attempt(|sink| match &item.payload {
                    Payload::Delivery(delivery) => sink.accept(delivery),
                    Payload::Notice(notice) => sink.on_notice(notice),
                    Payload::StreamRemoved { stream, .. } => sink.on_stream_removed(stream),
                    Payload::Settings(settings) => {
                        sink.set_settings(settings);
                        Ok(())
                    }
                });
            self.look();
            let mut progress = lock(&self.progress);
            progress.processed += 1;
            let report = &mut progress.report;
            match (&item.payload, written) {
                (Payload::Delivery(_), true) => report.written += 1,
                (Payload::Delivery(_), false) => report.lost += 1,
                (Payload::Notice(_), true) | (Payload::StreamRemoved { .. } | Payload::Settings(_), _) => {}
                (Payload::Notice(_), false) => report.notices_lost += 1,
            }
            drop(progress);
            drop(item);
            timer.update();
        }
        // What a sink that panicked has written so far is worth completing.
        self.attempt(|sink| sink.finish());
        self.look();
        // Nothing waits any more: what is lost is counted, and an error.
        lock(&self.progress).report.outage = None;
        let Self { sink, .. } = self;
        let _ = catch_unwind(AssertUnwindSafe(move || drop(sink)));
    }

    /// Updates the counts, the outage and the free bytes of the report.
    fn look(&mut self) {
        let counts = self.counts();
        let (outage, free_bytes, packets_lost) = self.health();
        let mut described = self.descriptions();
        let mut progress = lock(&self.progress);
        let room = MAX_DESCRIPTIONS.saturating_sub(progress.descriptions.len());
        let lost = described.len().saturating_sub(room);
        described.truncate(room);
        progress.descriptions.append(&mut described);
        let report = &mut progress.report;
        report.notices_lost += lost as u64;
        (report.counts, report.outage, report.free_bytes) = (counts, outage, free_bytes);
        report.packets_lost = packets_lost;
    }

    /// Own counters of the sink, by name; empty if reading them panics.
    fn counts(&self) -> BTreeMap<String, u64> {
        let counts = catch_unwind(AssertUnwindSafe(|| self.sink.counts())).unwrap_or_default();
        counts
            .into_iter()
            .map(|(name, count)| (name.to_owned(), count))
            .collect()
    }

    /// Descriptions of the sink since the last look; none if reading them panics.
    fn descriptions(&mut self) -> Vec<Description> {
        if self.panicked || !self.sink.describes() {
            return Vec::new();
        }
        catch_unwind(AssertUnwindSafe(|| self.sink.take_descriptions())).unwrap_or_default()
    }

    /// Why the sink can write nothing now, the bytes that are free where it records, and the packets that it lost by stream.
    fn health(&self) -> (Option<String>, Option<u64>, BTreeMap<String, u64>) {
        let ask = || {
            let lost = self.sink.packets_lost().into_iter();
            let lost = lost.map(|(stream, count)| (stream.to_string(), count));
            (self.sink.outage(), self.sink.free_bytes(), lost.collect())
        };
        catch_unwind(AssertUnwindSafe(ask)).unwrap_or_default()
    }

    /// Calls the sink; `false` where that fails. The first error is logged and kept.
    fn attempt(&mut self, act: impl FnOnce(&mut dyn Sink) -> Result<(), SinkError>) -> bool {
        let error = match catch_unwind(AssertUnwindSafe(|| act(self.sink.as_mut()))) {
            Ok(Ok(())) => return true,
            Ok(Err(_)) if self.sink.is_reader_gone() => {
                // The rest of the run has no reader.
                self.closed = true;
                self.stop.raise();
                lock(&self.progress).report.closed = true;
                return false;
            }
            Ok(Err(error)) => error.to_string(),
            Err(panic) => {
                self.panicked = true;
                format!("the sink panicked: {}", panic_message(panic.as_ref()))
            }
        };
        let mut progress = lock(&self.progress);
        if progress.report.error.is_none() {
            tracing::warn!(
                sink = self.name,
                "{error}; the run continues, and results that this sink cannot write are lost"
            );
            progress.report.error = Some(error);
        }
        false
    }
}
