//! Pictures of one stream: those that its source has yet to read, and those that are in the graph, by their frame indices.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use weir_flow::{Frame, Image, Source, SourceError, SourceFactory, SourceInfo, StopFlag};
use weir_serve::{ApiError, PictureSender, Refusal};

use crate::lock::lock;

/// Decoded pictures that wait to be read by the source, in bytes.
const MAX_WAITING_BYTES: u64 = 256 << 20;

/// Time between two looks of the source whether the run stops.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Milliseconds of media time between two pictures. They do not follow each other, so that any length will do.
const STEP_MS: f64 = 1.0;

#[derive(Default)]
pub(super) struct PictureQueue {
    state: Mutex<State>,
    arrived: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<(Image, PictureSender)>,
    waiting_bytes: u64,
    /// Clients of the pictures that are in the graph, by their indices.
    sent: BTreeMap<u64, PictureSender>,
    /// Index of the next picture.
    next: u64,
    closed: bool,
}

impl PictureQueue {
    /// Adds a picture, and the client that waits for its results.
    pub(super) fn push(&self, image: Image, answer: PictureSender) -> Result<(), ApiError> {
        let mut state = lock(&self.state);
        if state.closed {
            return Err(ApiError::new(Refusal::Unavailable, "the engine is stopping"));
        }
        let bytes = image.bytes();
        if !state.waiting.is_empty() && state.waiting_bytes + bytes > MAX_WAITING_BYTES {
            let what = format!("{} pictures wait to be processed", state.waiting.len());
            return Err(ApiError::new(Refusal::Busy, what).retry_after(1));
        }
        state.waiting_bytes += bytes;
        state.waiting.push_back((image, answer));
        drop(state);
        self.arrived.notify_one();
        Ok(())
    }

    /// The client that waits for the results of a frame.
    pub(super) fn take(&self, frame: u64) -> Option<PictureSender> {
        lock(&self.state).sent.remove(&frame)
    }

    /// True once the source has ended: no picture of the queue is read any more.
    pub(super) fn is_closed(&self) -> bool {
        lock(&self.state).closed
    }

    /// The next picture with its index; `None` once the run stops.
    fn pop(&self, stop: &StopFlag) -> Option<(u64, Image)> {
        let mut state = lock(&self.state);
        while !stop.is_raised() {
            if let Some((image, answer)) = state.waiting.pop_front() {
                let index = state.next;
                state.next += 1;
                state.waiting_bytes -= image.bytes();
                state.sent.insert(index, answer);
                return Some((index, image));
            }
            let waited = self.arrived.wait_timeout(state, POLL_INTERVAL);
            (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
        None
    }

    /// Ends the source: pictures that it has not read are answered by the end of their senders, the others by the sink.
    fn close(&self) {
        let mut state = lock(&self.state);
        state.closed = true;
        state.waiting.clear();
        state.waiting_bytes = 0;
    }

    /// No more results come.
    pub(super) fn end(&self) {
        self.close();
        lock(&self.state).sent.clear();
    }
}

pub(super) struct QueueFactory(pub(super) Arc<PictureQueue>);

impl SourceFactory for QueueFactory {
    fn open(&self, stop: &StopFlag) -> Result<Box<dyn Source>, SourceError> {
        let first = lock(&self.0.state).next;
        Ok(Box::new(QueueSource {
            queue: Arc::clone(&self.0),
            first,
            stop: stop.clone(),
        }))
    }
}

struct QueueSource {
    queue: Arc<PictureQueue>,
    /// Index of the first picture since it was opened.
    first: u64,
    stop: StopFlag,
}

impl Source for QueueSource {
    fn info(&self) -> SourceInfo {
        SourceInfo {
            fps: Some(1e3 / STEP_MS),
            ..SourceInfo::default()
        }
    }

    fn next(&mut self) -> Result<Option<Frame>, SourceError> {
        let next = self.queue.pop(&self.stop);
        Ok(next.map(|(index, image)| {
            let index = index - self.first;
            Frame::new(index, index as f64 * STEP_MS, image)
        }))
    }
}

impl Drop for QueueSource {
    fn drop(&mut self) {
        self.queue.close();
    }
}
