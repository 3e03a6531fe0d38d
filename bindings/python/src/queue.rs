//! Deliveries of the engine that wait for Python in a bounded queue, and the latest notices beside it. The thread of
//! the sink puts them in, and threads with an interpreter take them out.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use weir::flow::{
    Delivery, Frame, Image, Incident, Notice, OwnedPlanes, Sink, SinkError, SinkFactory, StreamState,
    TrackEnd,
};
use weir::graph::WhenSlow;

/// Notices that are kept for a program that asks for them now and then: the drops of some seconds of overload.
pub(crate) const MAX_NOTICES: usize = 1_024;

/// Deliveries and notices for Python.
pub(crate) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
    capacity: usize,
    when_slow: WhenSlow,
    keeps_frames: bool,
}

#[derive(Default)]
struct State {
    deliveries: VecDeque<Delivery>,
    notices: VecDeque<Happened>,
    /// Deliveries that were discarded because Python was slow.
    skipped: u64,
    /// Notices that were discarded before Python took them.
    notices_skipped: u64,
    /// Iterators that there are.
    consumers: usize,
    /// Whether iterators there were have all gone, or the engine is waited for without one.
    is_abandoned: bool,
    /// Whether the engine was asked to stop.
    is_stopping: bool,
    /// Whether the engine has ended, so that no delivery follows.
    ended: bool,
    /// Written to when there is something for an event loop.
    wakers: Vec<(u64, UnixStream)>,
    last_waker: u64,
}

/// An event of a stream other than a delivery.
#[derive(Clone)]
pub(crate) enum Happened {
    Dropped {
        stream: Arc<str>,
        frame: u64,
        time_ms: u64,
        module: Option<Arc<str>>,
        reason: &'static str,
    },
    Still {
        stream: Arc<str>,
        frame: u64,
        frames: u64,
        time_ms: u64,
    },
    State {
        stream: Arc<str>,
        state: StreamState,
        time_ms: u64,
    },
    Ended {
        stream: Arc<str>,
        tracks: Vec<TrackEnd>,
        incidents: Vec<Incident>,
    },
    Removed(Arc<str>),
}

/// Result of taking from the queue.
pub(crate) enum Taken {
    Delivery(Box<Delivery>),
    Empty,
    Ended,
}

impl Queue {
    pub(crate) fn new(capacity: usize, when_slow: WhenSlow, keeps_frames: bool) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::default(),
            changed: Condvar::new(),
            capacity: capacity.max(1),
            when_slow,
            keeps_frames,
        })
    }

    pub(crate) fn when_slow(&self) -> WhenSlow {
        self.when_slow
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, delivery: Delivery) {
        let mut state = self.lock();
        while state.deliveries.len() >= self.capacity {
            if self.when_slow == WhenSlow::Wait && state.is_awaited() {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            } else {
                state.deliveries.pop_front();
                state.skipped += 1;
            }
        }
        state.deliveries.push_back(delivery);
        state.wake();
        self.changed.notify_all();
    }

    fn note(&self, happened: Happened) {
        let mut state = self.lock();
        if state.notices.len() >= MAX_NOTICES {
            state.notices.pop_front();
            state.notices_skipped += 1;
        }
        state.notices.push_back(happened);
    }

    fn end(&self) {
        let mut state = self.lock();
        state.ended = true;
        state.wake();
        self.changed.notify_all();
    }

    /// From now on a full queue loses its oldest delivery, and the engine is not held up.
    pub(crate) fn stop(&self) {
        self.lock().is_stopping = true;
        self.changed.notify_all();
    }

    /// The same while no iterator takes what comes.
    pub(crate) fn abandon(&self) {
        self.lock().is_abandoned = true;
        self.changed.notify_all();
    }

    /// Takes the oldest delivery, waiting for at most that time.
    pub(crate) fn take(&self, timeout: Duration) -> Taken {
        let state = self.lock();
        let waited = self.changed.wait_timeout_while(state, timeout, |state| {
            state.deliveries.is_empty() && !state.ended
        });
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let taken = match state.deliveries.pop_front() {
            Some(delivery) => Taken::Delivery(Box::new(delivery)),
            None if state.ended => Taken::Ended,
            None => Taken::Empty,
        };
        self.changed.notify_all();
        taken
    }

    pub(crate) fn take_notices(&self) -> Vec<Happened> {
        self.lock().notices.drain(..).collect()
    }

    pub(crate) fn skipped(&self) -> u64 {
        self.lock().skipped
    }
}

impl State {
    /// Whether a full queue holds up the engine until something is taken.
    fn is_awaited(&self) -> bool {
        !self.is_stopping && (self.consumers > 0 || !self.is_abandoned)
    }

    fn wake(&mut self) {
        for (_, waker) in &mut self.wakers {
            // A waker that is full wakes anyway.
            let _ = waker.write_all(&[0]);
        }
    }
}

/// One that takes deliveries. While there is one, the engine may be held up by it.
pub(crate) struct Taker {
    pub(crate) queue: Arc<Queue>,
    /// The end that an event loop waits for, with its number in the queue.
    woken: Mutex<Option<(u64, UnixStream)>>,
}

impl Taker {
    pub(crate) fn new(queue: &Arc<Queue>) -> Self {
        let mut state = queue.lock();
        state.consumers += 1;
        drop(state);
        Self {
            queue: Arc::clone(queue),
            woken: Mutex::default(),
        }
    }

    /// A descriptor that is readable when there may be something to take.
    pub(crate) fn descriptor(&self) -> std::io::Result<RawFd> {
        let mut woken = self.woken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, woken)) = &*woken {
            return Ok(woken.as_raw_fd());
        }
        let (waker, own) = UnixStream::pair()?;
        waker.set_nonblocking(true)?;
        own.set_nonblocking(true)?;
        let mut state = self.queue.lock();
        state.last_waker += 1;
        let number = state.last_waker;
        state.wakers.push((number, waker));
        // Something may be there already.
        state.wake();
        drop(state);
        let descriptor = own.as_raw_fd();
        *woken = Some((number, own));
        Ok(descriptor)
    }

    /// Takes what is there; the descriptor is readable again once more comes.
    pub(crate) fn take_now(&self) -> Taken {
        if let Some((_, woken)) = &mut *self.woken.lock().unwrap_or_else(PoisonError::into_inner) {
            let mut bytes = [0; 256];
            loop {
                match woken.read(&mut bytes) {
                    Ok(count) if count == bytes.len() => {}
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    _ => break,
                }
            }
        }
        self.queue.take(Duration::ZERO)
    }
}

impl Drop for Taker {
    fn drop(&mut self) {
        let woken = self
            .woken
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let mut state = self.queue.lock();
        state.consumers -= 1;
        state.is_abandoned = true;
        if let Some((number, _)) = woken {
            state.wakers.retain(|(known, _)| *known != number);
        }
        drop(state);
        self.queue.changed.notify_all();
    }
}

/// The sink that fills the queue.
pub(crate) struct QueueFactory(pub(crate) Arc<Queue>);

impl SinkFactory for QueueFactory {
    fn open(&self) -> Result<Box<dyn Sink>, SinkError> {
        Ok(Box::new(QueueSink(Arc::clone(&self.0))))
    }
}

struct QueueSink(Arc<Queue>);

impl Sink for QueueSink {
    fn accept(&mut self, delivery: &Delivery) -> Result<(), SinkError> {
        let mut delivery = delivery.clone();
        if !self.0.keeps_frames {
            delivery.frame = without_samples(&delivery.frame);
        }
        self.0.put(delivery);
        Ok(())
    }

    fn on_notice(&mut self, notice: &Notice) -> Result<(), SinkError> {
        self.0.note(match notice.clone() {
            Notice::Dropped {
                stream,
                frame,
                time_ms,
                module,
                reason,
                ..
            } => Happened::Dropped {
                stream,
                frame,
                time_ms,
                module,
                reason,
            },
            Notice::Sink { .. } | Notice::Described { .. } => return Ok(()),
            Notice::Still {
                stream,
                frame,
                frames,
                time_ms,
                ..
            } => Happened::Still {
                stream,
                frame,
                frames,
                time_ms,
            },
            Notice::State {
                stream,
                state,
                time_ms,
            } => Happened::State {
                stream,
                state,
                time_ms,
            },
            Notice::Analytics {
                stream,
                ended_tracks,
                incidents,
            } => Happened::Ended {
                stream,
                tracks: ended_tracks,
                incidents,
            },
        });
        Ok(())
    }

    fn wants_notices(&self) -> bool {
        true
    }

    fn on_stream_removed(&mut self, stream: &str) -> Result<(), SinkError> {
        self.0.note(Happened::Removed(stream.into()));
        Ok(())
    }

    fn counts(&self) -> std::collections::BTreeMap<&'static str, u64> {
        let state = self.0.lock();
        let counts = [
            ("skipped", state.skipped),
            ("notices_skipped", state.notices_skipped),
        ];
        counts.into_iter().filter(|(_, count)| *count > 0).collect()
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        Ok(())
    }
}

/// Also where the engine failed.
impl Drop for QueueSink {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// The same frame without its picture, whose memory is free for the engine then.
fn without_samples(frame: &Frame) -> Arc<Frame> {
    let image = Image {
        planes: Arc::new(OwnedPlanes::default()),
        ..frame.image.clone()
    };
    Arc::new(Frame {
        stamp_ms: frame.stamp_ms,
        concealed: frame.concealed,
        file: frame.file.clone(),
        stream: Arc::clone(&frame.stream),
        ..Frame::new(frame.index, frame.pts_ms, image)
    })
}
