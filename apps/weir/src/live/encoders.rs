//! Threads that encode pictures of streams for browsers that do not play their video. A frame is encoded once for all of its
//! watchers. A stream has one picture at a time here, so that pictures stay in order and further frames are skipped.
//! An encoder holds nothing that must be kept: the program ends without waiting for it.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use weir_flow::Picture;
use weir_serve::{LiveKind, LiveMessage};

use super::channel::Channel;
use crate::process::cores;

/// Processors per encoder. An encoder rests as long as it worked, so it takes half of a processor at most.
const PROCESSORS_PER_ENCODER: usize = 8;

/// Maximum number of encoders.
const MAX_ENCODERS: usize = 4;

/// Streams whose pictures are here at a time; each holds the pixels of one, up to 640 pixels wide.
const MAX_STREAMS: usize = 32;

/// Time without a picture after which an encoder ends.
const IDLE_TIMEOUT: Duration = Duration::from_secs(5);

/// Longest rest after a picture.
const MAX_REST: Duration = Duration::from_millis(200);

#[expect(clippy::disallowed_methods, reason = "an encoder rests as long as it worked")]
fn now() -> Instant {
    Instant::now()
}

/// See the module.
#[derive(Default)]
pub(super) struct Encoders(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    offered: Condvar,
    /// Maximum number of encoders on this machine.
    max_encoders: usize,
}

impl Default for Shared {
    fn default() -> Self {
        Self {
            state: Mutex::default(),
            offered: Condvar::new(),
            max_encoders: (cores() / PROCESSORS_PER_ENCODER).clamp(1, MAX_ENCODERS),
        }
    }
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Job>,
    /// Streams with a picture that waits or is encoded.
    busy: BTreeSet<Arc<str>>,
    /// Encoders that run.
    running: usize,
}

impl State {
    fn takes(&self, stream: &str) -> bool {
        self.busy.len() < MAX_STREAMS && !self.busy.contains(stream)
    }

    /// Drops queued pictures if no encoder runs, so that their streams are free for the next frame.
    fn free_unless_running(&mut self) {
        if self.running == 0 {
            self.waiting.clear();
            self.busy.clear();
        }
    }
}

/// A picture to be encoded.
pub(super) struct Job {
    pub(super) stream: Arc<str>,
    pub(super) picture: Arc<dyn Picture>,
    /// Arrival of its frame, in milliseconds since 1970 (UTC).
    pub(super) time_ms: u64,
    /// Channels whose watchers want it.
    pub(super) channels: Vec<Arc<Channel>>,
}

impl Encoders {
    /// True if a picture of the stream can be offered now.
    pub(super) fn takes(&self, stream: &str) -> bool {
        self.0.lock().takes(stream)
    }

    /// Encodes a picture on another thread. A stream that has one here already keeps that one.
    pub(super) fn offer(&self, job: Job) {
        let mut state = self.0.lock();
        if !state.takes(&job.stream) {
            return;
        }
        state.busy.insert(Arc::clone(&job.stream));
        state.waiting.push_back(job);
        if state.running < state.busy.len().min(self.0.max_encoders) {
            let shared = Arc::clone(&self.0);
            let encoder = std::thread::Builder::new().name("weir-pictures".to_owned());
            if encoder.spawn(move || encode(&shared)).is_ok() {
                state.running += 1;
            } else {
                state.free_unless_running();
            }
        }
        drop(state);
        self.0.offered.notify_one();
    }
}

/// The stream of a picture that is encoded; free again when this is dropped, also by a panic.
struct Busy<'a>(&'a Shared, Arc<str>);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.lock().busy.remove(&self.1);
    }
}

/// An encoder that runs until this is dropped. A picture may have been offered to it after its last look at the queue, or it panics
/// while pictures wait for it.
struct Running<'a>(&'a Shared);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.running -= 1;
        state.free_unless_running();
    }
}

/// Encodes pictures until none has come for a while.
fn encode(shared: &Shared) {
    let _running = Running(shared);
    while let Some(job) = shared.next() {
        let began = now();
        let busy = Busy(shared, job.stream);
        let jpeg = job.picture.jpeg();
        if !jpeg.is_empty() {
            let message = LiveMessage::binary(LiveKind::Note, jpeg.to_vec());
            for channel in &job.channels {
                channel.picture(&message, job.time_ms);
            }
        }
        drop(busy);
        std::thread::sleep(began.elapsed().min(MAX_REST));
    }
}

impl Shared {
    fn next(&self) -> Option<Job> {
        let waited = self
            .offered
            .wait_timeout_while(self.lock(), IDLE_TIMEOUT, |state| state.waiting.is_empty());
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.waiting.pop_front()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::{Receiver, channel};

    use weir_serve::LiveQueue;

    use super::*;

    /// A picture that is encoded once a test lets it, and counts how often.
    #[derive(Debug)]
    struct Gated(Mutex<Receiver<()>>, AtomicUsize);

    impl Picture for Gated {
        fn jpeg(&self) -> &[u8] {
            self.1.fetch_add(1, Ordering::Relaxed);
            let _ = self.0.lock().unwrap().recv();
            b"JPEG"
        }
    }

    /// A picture whose encoder panics once a test lets it.
    #[derive(Debug)]
    struct Broken(Mutex<Receiver<()>>);

    impl Picture for Broken {
        fn jpeg(&self) -> &[u8] {
            let _ = self.0.lock().unwrap().recv();
            panic!("a picture that breaks its encoder");
        }
    }

    #[test]
    fn panic_of_an_encoder_frees_streams_whose_pictures_wait_for_it() {
        let encoders = Encoders::default();
        let offer = |stream: &str, picture: Arc<dyn Picture>| {
            encoders.offer(Job {
                stream: stream.into(),
                picture,
                time_ms: 1_000,
                channels: Vec::new(),
            });
        };
        let (open, gate) = channel();
        offer("north", Arc::new(Broken(Mutex::new(gate))));
        offer("south", Arc::new(Vec::<u8>::new()));
        drop(open);
        while !encoders.takes("north") || !encoders.takes("south") {
            std::thread::yield_now();
        }
    }

    #[test]
    fn frame_is_encoded_once_for_fifty_watchers() {
        let (encoders, shown) = (Encoders::default(), Arc::new(Channel::new(false)));
        let queues: Vec<Arc<LiveQueue>> = (0..50).map(|_| Arc::default()).collect();
        for queue in &queues {
            shown.join(queue, true);
        }
        let offer = || {
            let (open, gate) = channel();
            let picture = Arc::new(Gated(Mutex::new(gate), AtomicUsize::new(0)));
            encoders.offer(Job {
                stream: "north".into(),
                picture: Arc::clone(&picture) as _,
                time_ms: 1_000,
                channels: vec![Arc::clone(&shown)],
            });
            (open, picture)
        };
        assert!(encoders.takes("north") && shown.wants_picture(1_000));
        let (open, first) = offer();
        assert!(!encoders.takes("north") && encoders.takes("south"));
        // The stream has a picture here: the next frame is skipped.
        let (_skip, second) = offer();
        open.send(()).unwrap();
        while !encoders.takes("north") {
            std::thread::yield_now();
        }
        let count = |picture: &Gated| picture.1.load(Ordering::Relaxed);
        assert_eq!((count(&first), count(&second)), (1, 0));
        // Each has got it, and wants the next one after an interval.
        assert!(queues.iter().all(|queue| !queue.wants_picture(1_100)));
        assert!(queues.iter().all(|queue| queue.wants_picture(1_200)));
    }
}
