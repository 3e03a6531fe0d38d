//! Single pictures of streams for clients that ask for one. A stream has at most one a second, however many ask; a stream that
//! nothing asks for costs nothing.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use weir_flow::{Frame, Packet, PacketFormat, PacketObserver, PictureLimits};
use weir_runtime::Control;

use super::Live;
use super::sink::frame_picture;

/// Bounds of a picture: enough to draw zones on it.
const LIMITS: PictureLimits = PictureLimits {
    max_side: 1_280,
    max_bytes: 400 << 10,
};

/// Age up to which a picture is given again.
const MAX_AGE: Duration = Duration::from_secs(1);

/// Longest wait for a frame.
const MAX_WAIT: Duration = Duration::from_secs(3);

/// Longest wait for the next key frame of a stream outside its schedule.
const MAX_IDLE_WAIT: Duration = Duration::from_secs(6);

/// Requests that wait at a time: each takes a thread of the API, which has 8.
const MAX_WAITING: usize = 3;

/// Reason why there is no picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoStill {
    /// Too many requests wait.
    Busy,
    /// No frame was delivered meanwhile.
    Late,
    /// Frames of the stream show nothing, such as those of emulated streams.
    Empty,
}

/// Pictures of streams, and requests that wait for them.
#[derive(Default)]
pub(crate) struct Stills {
    state: Mutex<State>,
    taken: Condvar,
    /// Requests that wait; read for every delivery.
    waiting: AtomicUsize,
}

#[derive(Default)]
struct State {
    /// Requests that wait for a frame, by stream.
    wanted: BTreeMap<String, usize>,
    /// Newest pictures, by stream.
    taken: BTreeMap<String, Still>,
}

/// Picture of a stream.
struct Still {
    /// Time at which it was taken.
    at: Instant,
    /// `None`: the frame shows nothing.
    jpeg: Option<Arc<[u8]>>,
}

#[expect(
    clippy::disallowed_methods,
    reason = "the age of a picture decides whether another one is taken"
)]
fn now() -> Instant {
    Instant::now()
}

impl Stills {
    /// A picture of a stream, at most [`MAX_AGE`] old.
    ///
    /// # Errors
    /// [`NoStill`].
    pub(crate) fn get(&self, stream: &str) -> Result<Arc<[u8]>, NoStill> {
        self.get_within(stream, MAX_WAIT)
    }

    fn get_within(&self, stream: &str, limit: Duration) -> Result<Arc<[u8]>, NoStill> {
        let mut state = self.lock();
        state.taken.retain(|_, still| still.at.elapsed() < MAX_AGE);
        if let Some(still) = state.taken.get(stream) {
            return still.jpeg.clone().ok_or(NoStill::Empty);
        }
        if self.waiting.load(Ordering::Relaxed) >= MAX_WAITING {
            return Err(NoStill::Busy);
        }
        *state.wanted.entry(stream.to_owned()).or_default() += 1;
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let waited = self
            .taken
            .wait_timeout_while(state, limit, |state| !state.taken.contains_key(stream));
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        if let Some(count) = state.wanted.get_mut(stream) {
            *count -= 1;
            if *count == 0 {
                state.wanted.remove(stream);
            }
        }
        match state.taken.get(stream) {
            Some(still) => still.jpeg.clone().ok_or(NoStill::Empty),
            None => Err(NoStill::Late),
        }
    }

    /// Takes the picture of a frame of a stream, if one is awaited.
    pub(super) fn offer(&self, stream: &str, frame: &Frame) {
        if self.waiting.load(Ordering::Relaxed) == 0 {
            return;
        }
        let is_due = |state: &State| state.wanted.contains_key(stream) && !state.taken.contains_key(stream);
        if !is_due(&self.lock()) {
            return;
        }
        let jpeg = frame_picture(frame, LIMITS).map(Arc::from);
        let mut state = self.lock();
        let still = Still { at: now(), jpeg };
        state.taken.insert(stream.to_owned(), still);
        drop(state);
        self.taken.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Offers frames of streams outside their schedules, which no delivery has.
struct IdleFrames(Arc<Live>);

impl PacketObserver for IdleFrames {
    fn on_format(&self, _stream: &Arc<str>, _format: &Arc<PacketFormat>) {}

    fn on_packet(&self, _stream: &Arc<str>, _packet: &Packet) {}

    fn on_idle_frame(&self, stream: &Arc<str>, frame: &Frame, _time_ms: u64) {
        self.0.stills.offer(stream, frame);
    }

    fn is_view(&self) -> bool {
        true
    }
}

impl Live {
    /// A picture of a stream outside its schedule: its next key frame is decoded for that.
    ///
    /// # Errors
    /// [`NoStill`]; [`NoStill::Late`] also if the pictures of the stream hide something, which only deliveries do.
    pub(crate) fn idle_still(
        self: &Arc<Self>,
        control: &Control,
        stream: &str,
    ) -> Result<Arc<[u8]>, NoStill> {
        let frames = Arc::new(IdleFrames(Arc::clone(self)));
        let observed = control.observe_packets(stream, frames);
        let _subscription = observed.map_err(|_| NoStill::Late)?;
        self.stills.get_within(stream, MAX_IDLE_WAIT)
    }
}
