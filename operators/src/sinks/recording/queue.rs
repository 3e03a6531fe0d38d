//! Queue of the recording thread: packets as sources read them, bounded in bytes. Packets that do not fit are
//! dropped and counted, and their stream resumes with its next key frame.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use weir_flow::{Packet, PacketFormat, PacketObserver};

use super::books::MAX_STREAMS;

/// Bytes of packets that may wait: seconds of many cameras, while a disk is slow.
const MAX_BYTES: usize = 64 << 20;

/// Messages other than packets that may wait.
const MAX_OTHERS: usize = 4_096;

/// See the module. `T` is the type of the other messages from the sink.
pub(super) struct Queue<T> {
    /// Whether sound is taken, too.
    sound: bool,
    state: Mutex<State<T>>,
    changed: Condvar,
}

/// Message that the recording thread takes from the queue.
pub(super) enum Message<T> {
    Format(Arc<str>, Arc<PacketFormat>),
    Packet(Arc<str>, Packet),
    /// The time zone of the stream, by its name.
    TimeZone(Arc<str>, Arc<str>),
    /// The clock of the camera jumped before the next packet, which is a key frame.
    Jump(Arc<str>),
    /// The stream has nothing to record, for this reason.
    Refused(Arc<str>, String),
    Other(T),
    /// Nothing came in time.
    Idle,
}

struct State<T> {
    messages: VecDeque<Message<T>>,
    bytes: usize,
    others: usize,
    /// Streams of which a packet did not fit.
    torn: BTreeSet<Arc<str>>,
    /// Packets that did not fit, by stream.
    lost: BTreeMap<Arc<str>, u64>,
    is_closed: bool,
}

impl<T> Queue<T> {
    pub(super) fn new(sound: bool) -> Arc<Self> {
        Arc::new(Self {
            sound,
            state: Mutex::new(State {
                messages: VecDeque::new(),
                bytes: 0,
                others: 0,
                torn: BTreeSet::new(),
                lost: BTreeMap::new(),
                is_closed: false,
            }),
            changed: Condvar::new(),
        })
    }

    /// Hands something over; `false` where too much waits already.
    pub(super) fn push(&self, other: T) -> bool {
        let mut state = self.lock();
        if state.others >= MAX_OTHERS {
            return false;
        }
        state.others += 1;
        self.add(state, Message::Other(other));
        true
    }

    /// Nothing follows: the thread takes what is there, and ends.
    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_all();
    }

    /// The next message, once there is one, or [`Message::Idle`] after a wait; `None` where nothing follows.
    pub(super) fn take(&self, wait: Duration) -> Option<Message<T>> {
        let mut state = self.lock();
        loop {
            if let Some(message) = state.messages.pop_front() {
                match &message {
                    Message::Packet(_, packet) => state.bytes -= packet.data.len(),
                    Message::Other(_) => state.others -= 1,
                    Message::Format(..)
                    | Message::TimeZone(..)
                    | Message::Jump(_)
                    | Message::Refused(..)
                    | Message::Idle => {}
                }
                return Some(message);
            }
            if state.is_closed {
                return None;
            }
            let waited = self.changed.wait_timeout(state, wait);
            let (locked, waited) = waited.unwrap_or_else(PoisonError::into_inner);
            state = locked;
            if waited.timed_out() && state.messages.is_empty() && !state.is_closed {
                return Some(Message::Idle);
            }
        }
    }

    /// Packets that did not fit.
    pub(super) fn packets_lost(&self) -> u64 {
        self.lock().lost.values().sum()
    }

    /// Packets that did not fit, by stream.
    pub(super) fn lost(&self) -> BTreeMap<Arc<str>, u64> {
        self.lock().lost.clone()
    }

    fn add(&self, mut state: MutexGuard<'_, State<T>>, message: Message<T>) {
        if !state.is_closed {
            state.messages.push_back(message);
            drop(state);
            self.changed.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Send> PacketObserver for Queue<T> {
    fn on_format(&self, stream: &Arc<str>, format: &Arc<PacketFormat>) {
        let format = format.with_sound_if(self.sound);
        let message = Message::Format(Arc::clone(stream), format);
        self.add(self.lock(), message);
    }

    fn on_packet(&self, stream: &Arc<str>, packet: &Packet) {
        let mut state = self.lock();
        let fits = state.bytes + packet.data.len() <= MAX_BYTES;
        if !fits || (!packet.key && state.torn.contains(stream)) {
            let is_known = state.lost.contains_key(stream);
            let counted = if is_known || state.lost.len() < MAX_STREAMS {
                Arc::clone(stream)
            } else {
                "".into()
            };
            *state.lost.entry(counted).or_default() += 1;
            state.torn.insert(Arc::clone(stream));
            return;
        }
        state.torn.remove(stream);
        state.bytes += packet.data.len();
        self.add(state, Message::Packet(Arc::clone(stream), packet.clone()));
    }

    fn on_time_zone(&self, stream: &Arc<str>, zone: &str) {
        let message = Message::TimeZone(Arc::clone(stream), zone.into());
        self.add(self.lock(), message);
    }

    fn on_jump(&self, stream: &Arc<str>) {
        self.add(self.lock(), Message::Jump(Arc::clone(stream)));
    }

    fn on_refused(&self, stream: &Arc<str>, reason: &str) {
        let message = Message::Refused(Arc::clone(stream), reason.to_owned());
        self.add(self.lock(), message);
    }

    fn wants_sound(&self) -> bool {
        self.sound
    }
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
    fn what_does_not_fit_is_counted_and_the_stream_goes_on_with_a_key_frame() {
        let queue = Queue::<()>::new(false);
        let (north, south) = (Arc::from("north"), Arc::from("south"));
        queue.on_packet(&north, &packet(MAX_BYTES - 10, true));
        queue.on_packet(&north, &packet(11, false));
        queue.on_packet(&north, &packet(1, false));
        queue.on_packet(&south, &packet(1, true));
        queue.on_packet(&north, &packet(2, true));
        assert_eq!(queue.packets_lost(), 2);
        queue.close();
        let taken: Vec<usize> = std::iter::from_fn(|| queue.take(Duration::ZERO))
            .filter_map(|message| match message {
                Message::Packet(_, packet) => Some(packet.data.len()),
                _ => None,
            })
            .collect();
        assert_eq!(taken, [MAX_BYTES - 10, 1, 2]);
        queue.on_packet(&north, &packet(1, true));
        assert!(
            queue.take(Duration::ZERO).is_none(),
            "nothing is taken once it is closed"
        );
    }

    #[test]
    fn other_messages_are_bounded_too() {
        let queue = Queue::new(false);
        let pushed = (0..MAX_OTHERS + 1).filter(|number| queue.push(*number)).count();
        assert_eq!(pushed, MAX_OTHERS);
        assert!(matches!(queue.take(Duration::ZERO), Some(Message::Other(0))));
        assert!(queue.push(0));
    }
}
