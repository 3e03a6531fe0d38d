//! One stream on its way to a server: a bounded queue of packets, and the thread that sends them and connects again.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use weir_flow::{Packet, PacketFormat, SinkError, SourceLogin, StopFlag, mask_credentials};

use super::super::outbox::Backoff;
use crate::media::StreamOutput;

/// Packets and bytes that may wait: seconds of a stream, while the server is slow.
const MAX_PACKETS: usize = 1_024;
const MAX_BYTES: usize = 8 << 20;

/// Longest time that the server may take to connect, and for a packet.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Time after which a connection counts as a good one: the next wait begins at its shortest again.
const GOOD_AFTER: Duration = Duration::from_secs(10);

/// Destination of one stream.
#[derive(Debug, Clone)]
pub(super) struct Destination {
    pub(super) stream: Arc<str>,
    pub(super) address: String,
    pub(super) login: Option<SourceLogin>,
}

/// Counts of one stream.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    pub(super) sent: u64,
    /// Packets that were not sent: the server was away or too slow.
    pub(super) lost: u64,
    pub(super) connections: u64,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Item>,
    packets: usize,
    bytes: usize,
    /// A packet did not fit: packets up to the next key frame are of no use.
    is_torn: bool,
    is_closed: bool,
    counts: Counts,
    outage: Option<String>,
}

enum Item {
    Format(Arc<PacketFormat>),
    Packet(Packet),
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next item, once there is one; `None` after the last.
    fn take(&self) -> Option<Item> {
        let mut state = self.lock();
        loop {
            if let Some(item) = state.waiting.pop_front() {
                if let Item::Packet(packet) = &item {
                    state.packets -= 1;
                    state.bytes -= packet.data.len();
                }
                return Some(item);
            }
            if state.is_closed {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// See the module.
pub(super) struct Lane {
    shared: Arc<Shared>,
    stop: StopFlag,
    thread: Option<JoinHandle<()>>,
}

impl Lane {
    /// Starts the thread, which connects with the first key frame.
    ///
    /// # Errors
    /// There is no further thread.
    pub(super) fn start(destination: Destination) -> Result<Self, SinkError> {
        let shared = Arc::<Shared>::default();
        let stop = StopFlag::default();
        let sender = Sender {
            shared: Arc::clone(&shared),
            stop: stop.clone(),
            destination,
            format: None,
            output: None,
            connected: None,
            backoff: Backoff::new(),
            retry_at: None,
        };
        let thread = std::thread::Builder::new().name("weir-push".to_owned());
        let thread = thread.spawn(move || sender.run()).map_err(|error| SinkError {
            target: "to a server".to_owned(),
            reason: format!("cannot start a thread: {error}"),
        })?;
        Ok(Self {
            shared,
            stop,
            thread: Some(thread),
        })
    }

    pub(super) fn on_format(&self, format: &Arc<PacketFormat>) {
        let mut state = self.shared.lock();
        // Formats alone make no queue long: only the newest of several in a row counts.
        if matches!(state.waiting.back(), Some(Item::Format(_))) {
            state.waiting.pop_back();
        }
        state.waiting.push_back(Item::Format(Arc::clone(format)));
        self.shared.changed.notify_one();
    }

    /// Queues a packet, if there is room for it.
    pub(super) fn on_packet(&self, packet: &Packet) {
        let mut state = self.shared.lock();
        let fits = state.packets < MAX_PACKETS && state.bytes + packet.data.len() <= MAX_BYTES;
        if !fits || state.is_torn && !packet.key {
            state.counts.lost += 1;
            state.is_torn = true;
            return;
        }
        state.is_torn = false;
        state.packets += 1;
        state.bytes += packet.data.len();
        state.waiting.push_back(Item::Packet(packet.clone()));
        self.shared.changed.notify_one();
    }

    /// The stream has nothing to send, for this reason.
    pub(super) fn on_refused(&self, reason: &str) {
        self.shared.lock().outage = Some(reason.to_owned());
    }

    pub(super) fn counts(&self) -> Counts {
        self.shared.lock().counts
    }

    /// Reason why nothing is sent now.
    pub(super) fn outage(&self) -> Option<String> {
        self.shared.lock().outage.clone()
    }

    /// Nothing follows: what waits is sent if the server is connected.
    pub(super) fn close(&self) {
        let mut state = self.shared.lock();
        state.is_closed = true;
        if state.outage.is_some() {
            // Another try is of no use.
            self.stop.raise();
        }
        drop(state);
        self.shared.changed.notify_all();
    }

    /// Waits until the thread has ended, which [`Lane::close`] asked it to.
    pub(super) fn join(mut self) -> Counts {
        if let Some(thread) = self.thread.take() {
            // A panic of it is in the log.
            let _ = thread.join();
        }
        self.counts()
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        if self.thread.is_some() {
            self.stop.raise();
        }
        self.close();
    }
}

struct Sender {
    shared: Arc<Shared>,
    stop: StopFlag,
    destination: Destination,
    format: Option<Arc<PacketFormat>>,
    output: Option<StreamOutput>,
    /// Time of the last connection.
    connected: Option<Instant>,
    backoff: Backoff,
    retry_at: Option<Instant>,
}

impl Sender {
    fn run(mut self) {
        while let Some(item) = self.shared.take() {
            match item {
                Item::Format(format) => {
                    // The server learns the parameter sets when the stream is announced.
                    if self.format.as_ref().is_some_and(|known| *known != format) {
                        self.output = None;
                    }
                    self.format = Some(format);
                }
                Item::Packet(packet) => {
                    let sent = self.send(&packet);
                    let mut state = self.shared.lock();
                    state.counts.sent += u64::from(sent);
                    state.counts.lost += u64::from(!sent);
                }
            }
        }
    }

    fn send(&mut self, packet: &Packet) -> bool {
        if self.output.is_none() && !self.connect(packet) {
            return false;
        }
        let Some(output) = &mut self.output else {
            return false;
        };
        match output.write(packet) {
            Ok(()) => true,
            Err(reason) => {
                self.output = None;
                self.on_failure(&reason);
                false
            }
        }
    }

    /// Connects with a key frame, unless it is too early for another try.
    fn connect(&mut self, packet: &Packet) -> bool {
        let is_early = self.retry_at.is_some_and(|at| now() < at);
        let Some(format) = self.format.clone().filter(|_| packet.key && !is_early) else {
            return false;
        };
        if self.shared.lock().is_closed {
            return false;
        }
        let Destination { address, login, .. } = &self.destination;
        match StreamOutput::open(address, login.as_ref(), &format, packet, TIMEOUT, &self.stop) {
            Ok(output) => {
                self.output = Some(output);
                self.connected = Some(now());
                let mut state = self.shared.lock();
                state.counts.connections += 1;
                state.outage = None;
                drop(state);
                tracing::info!(stream = %self.destination.stream, "it is sent to {}", self.shown());
                true
            }
            Err(reason) => {
                self.on_failure(&reason);
                false
            }
        }
    }

    fn on_failure(&mut self, reason: &str) {
        let connected = self.connected.take();
        if connected.is_some_and(|connected| now().duration_since(connected) >= GOOD_AFTER) {
            self.backoff.reset();
        }
        self.retry_at = now().checked_add(self.backoff.next_wait());
        let reason = format!("{}: {reason}", self.shown());
        let before = self.shared.lock().outage.replace(reason.clone());
        if before.is_none() {
            tracing::warn!(stream = %self.destination.stream, "it is not sent: {reason}; trying again");
        }
    }

    fn shown(&self) -> String {
        mask_credentials(&self.destination.address).into_owned()
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a server that is away is tried again at intervals of real time"
)]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(bytes: usize, key: bool) -> Packet {
        Packet {
            data: vec![0; bytes].into(),
            pts_ms: 0.0,
            dts_ms: 0.0,
            duration_ms: 0.0,
            key,
            sound: false,
            time_ms: 0,
        }
    }

    #[test]
    fn packets_that_do_not_fit_are_counted_and_the_stream_resumes_with_a_key_frame() {
        let shared = Arc::<Shared>::default();
        let lane = Lane {
            shared: Arc::clone(&shared),
            stop: StopFlag::default(),
            thread: None,
        };
        lane.on_packet(&packet(MAX_BYTES - 10, true));
        lane.on_packet(&packet(11, false));
        lane.on_packet(&packet(1, false));
        lane.on_packet(&packet(2, true));
        lane.on_packet(&packet(3, false));
        assert_eq!(lane.counts().lost, 2);
        lane.close();
        let taken: Vec<usize> = std::iter::from_fn(|| shared.take())
            .filter_map(|item| match item {
                Item::Packet(packet) => Some(packet.data.len()),
                Item::Format(_) => None,
            })
            .collect();
        assert_eq!(taken, [MAX_BYTES - 10, 2, 3]);
    }
}
