//! The queue of messages from one stream to one client. Its size in bytes is bounded: if the client is slow,
//! queued video is dropped, and video resumes at the next key frame.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use axum::body::Bytes;
use axum::extract::ws::{Message, Utf8Bytes};

/// Maximum number of bytes that are queued per client and stream: some seconds of video.
pub const MAX_QUEUED_BYTES: usize = 4 << 20;

/// Bytes that a queued message takes in memory beside its content.
const MESSAGE_BYTES: usize = 128;

/// Pictures on the way to a client at a time: it is sent the next one when it acknowledges one. Enough for 25 pictures a second
/// if an acknowledgement takes 130 ms.
const MAX_UNACKNOWLEDGED: u32 = 4;

/// Shortest interval between two pictures for a client that has acknowledged none, in milliseconds.
const UNPACED_INTERVAL_MS: u64 = 200;

/// Form in which a client is shown a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LiveView {
    /// Its video as the camera encoded it. Video that browsers do not play is shown by JPEGs.
    Video,
    /// Its video with its sound, if the camera has sound.
    Sound,
    /// JPEGs of its frames, for a browser that does not play the video.
    Pictures,
}

/// Dependency of a message on the messages before it, which decides what a full queue drops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LiveKind {
    /// Another video of the stream begins, or none is available: messages queued before are useless and are
    /// dropped.
    Begin,
    /// Fragments need this header until the next `Begin`; it is never dropped for lack of room.
    Setup,
    /// A group of pictures begins; the message needs no other fragment.
    Key,
    /// The message needs all fragments since the last `Key`.
    Delta,
    /// The message needs no other, and it may be dropped.
    Note,
}

/// A message to watchers. A clone shares its bytes.
#[derive(Debug, Clone)]
pub struct LiveMessage {
    kind: LiveKind,
    message: Message,
    bytes: usize,
}

impl LiveMessage {
    /// Creates a message from a text.
    #[must_use]
    pub fn text(kind: LiveKind, text: String) -> Self {
        let bytes = text.len() + MESSAGE_BYTES;
        Self {
            kind,
            message: Message::Text(Utf8Bytes::from(text)),
            bytes,
        }
    }

    /// Creates a message from binary data, such as a video fragment or a JPEG.
    #[must_use]
    pub fn binary(kind: LiveKind, data: Vec<u8>) -> Self {
        let bytes = data.len() + MESSAGE_BYTES;
        Self {
            kind,
            message: Message::Binary(Bytes::from(data)),
            bytes,
        }
    }

    /// Returns the content of the message.
    #[must_use]
    pub fn content(&self) -> &[u8] {
        match &self.message {
            Message::Text(text) => text.as_bytes(),
            Message::Binary(bytes) => bytes,
            Message::Ping(_) | Message::Pong(_) | Message::Close(_) => &[],
        }
    }

    /// The message as the socket sends it.
    pub(crate) fn into_message(self) -> Message {
        self.message
    }

    /// Returns the size of the message as bounds count it: its content and a fixed overhead.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

/// The messages of one stream that wait for one watcher.
#[derive(Debug, Default)]
pub struct LiveQueue {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    messages: VecDeque<LiveMessage>,
    bytes: usize,
    /// A key message was queued since the last `Begin`, and all deltas after it. Without it, deltas are dropped.
    has_key: bool,
    is_closed: bool,
    pictures: Pictures,
}

/// Pace of the pictures of one stream for one watcher.
#[derive(Debug, Default)]
struct Pictures {
    unacknowledged: u32,
    /// The watcher acknowledges pictures.
    is_paced: bool,
    /// Arrival of the frame that was sent last, in milliseconds since 1970 (UTC).
    sent_ms: Option<u64>,
}

impl Pictures {
    fn wants(&self, time_ms: u64) -> bool {
        if self.is_paced {
            return self.unacknowledged < MAX_UNACKNOWLEDGED;
        }
        let is_due = |sent: u64| time_ms.abs_diff(sent) >= UNPACED_INTERVAL_MS;
        self.sent_ms.is_none_or(is_due)
    }
}

impl LiveQueue {
    /// Adds a message; never waits.
    pub fn push(&self, message: &LiveMessage) {
        self.lock().push(message);
    }

    /// True if the watcher can be sent a picture of a frame that arrived at `time_ms`: earlier ones have reached it.
    #[must_use]
    pub fn wants_picture(&self, time_ms: u64) -> bool {
        self.lock().pictures.wants(time_ms)
    }

    /// Adds a JPEG of a frame that arrived at `time_ms`, if the watcher can be sent one.
    pub fn push_picture(&self, jpeg: &LiveMessage, time_ms: u64) {
        let mut state = self.lock();
        if !state.pictures.wants(time_ms) {
            return;
        }
        state.push(jpeg);
        state.pictures.sent_ms = Some(time_ms);
        state.pictures.unacknowledged = state.pictures.unacknowledged.saturating_add(1);
    }

    /// True until a key message is queued, and again after fragments were dropped: video needs the next key message.
    #[must_use]
    pub fn waits_for_key(&self) -> bool {
        !self.lock().has_key
    }

    /// Takes in that the watcher has shown a picture.
    pub(crate) fn acknowledge(&self) {
        let pictures = &mut self.lock().pictures;
        pictures.is_paced = true;
        pictures.unacknowledged = pictures.unacknowledged.saturating_sub(1);
    }

    /// True if the watcher shows pictures as fast as they come.
    pub(crate) fn has_paced_pictures(&self) -> bool {
        let pictures = &self.lock().pictures;
        pictures.is_paced && pictures.sent_ms.is_some()
    }

    /// Closes the queue: no message follows those that are queued.
    pub fn close(&self) {
        self.lock().is_closed = true;
    }

    /// Takes all messages that wait, in order; the flag is false if none can follow.
    #[must_use]
    pub fn take(&self) -> (Vec<LiveMessage>, bool) {
        let mut state = self.lock();
        state.bytes = 0;
        (state.messages.drain(..).collect(), !state.is_closed)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn push(&mut self, message: &LiveMessage) {
        match message.kind {
            LiveKind::Begin => {
                self.messages.clear();
                self.bytes = 0;
                self.has_key = false;
                self.pictures.unacknowledged = 0;
                self.pictures.sent_ms = None;
            }
            LiveKind::Key => self.has_key = true,
            LiveKind::Delta if !self.has_key => return,
            LiveKind::Setup | LiveKind::Delta | LiveKind::Note => {}
        }
        let needed = |kind| matches!(kind, LiveKind::Begin | LiveKind::Setup);
        if self.bytes + message.bytes > MAX_QUEUED_BYTES && !needed(message.kind) {
            self.messages.retain(|waiting| needed(waiting.kind));
            self.bytes = self.messages.iter().map(LiveMessage::bytes).sum();
            // Pictures that were dropped are never acknowledged.
            self.pictures.unacknowledged = 0;
            // Later deltas need the fragments that were dropped.
            self.has_key = message.kind == LiveKind::Key;
            if message.kind == LiveKind::Delta {
                return;
            }
        }
        self.bytes += message.bytes;
        self.messages.push_back(message.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(queue: &LiveQueue) -> Vec<LiveKind> {
        queue.lock().messages.iter().map(|message| message.kind).collect()
    }

    fn push(queue: &LiveQueue, kind: LiveKind, bytes: usize) {
        queue.push(&LiveMessage::binary(kind, vec![0; bytes]));
    }

    #[test]
    fn what_waits_for_a_slow_watcher_is_left_out_up_to_the_next_key_frame() {
        let queue = LiveQueue::default();
        push(&queue, LiveKind::Begin, 10);
        push(&queue, LiveKind::Setup, 10);
        push(&queue, LiveKind::Delta, 10);
        push(&queue, LiveKind::Key, MAX_QUEUED_BYTES / 2);
        push(&queue, LiveKind::Delta, MAX_QUEUED_BYTES / 4);
        assert_eq!(
            kinds(&queue),
            [LiveKind::Begin, LiveKind::Setup, LiveKind::Key, LiveKind::Delta]
        );
        push(&queue, LiveKind::Delta, MAX_QUEUED_BYTES / 2);
        push(&queue, LiveKind::Delta, 10);
        push(&queue, LiveKind::Note, 10);
        assert_eq!(kinds(&queue), [LiveKind::Begin, LiveKind::Setup, LiveKind::Note]);
        push(&queue, LiveKind::Key, 10);
        push(&queue, LiveKind::Delta, 10);
        assert_eq!(kinds(&queue)[3..], [LiveKind::Key, LiveKind::Delta]);
        assert!(queue.lock().bytes <= MAX_QUEUED_BYTES);
        push(&queue, LiveKind::Begin, 10);
        push(&queue, LiveKind::Delta, 10);
        assert_eq!(kinds(&queue), [LiveKind::Begin]);
    }

    #[test]
    fn deltas_after_dropped_fragments_wait_for_a_key_message() {
        let queue = LiveQueue::default();
        assert!(queue.waits_for_key());
        push(&queue, LiveKind::Begin, 10);
        push(&queue, LiveKind::Key, MAX_QUEUED_BYTES / 2);
        assert!(!queue.waits_for_key());
        // A note takes the place of the key message.
        push(&queue, LiveKind::Note, MAX_QUEUED_BYTES / 2);
        assert!(queue.waits_for_key());
        push(&queue, LiveKind::Delta, 10);
        assert_eq!(kinds(&queue), [LiveKind::Begin, LiveKind::Note]);
        push(&queue, LiveKind::Key, MAX_QUEUED_BYTES);
        assert!(!queue.waits_for_key());
    }

    #[test]
    fn pictures_follow_acknowledgements_and_without_them_an_interval() {
        let (queue, jpeg) = (
            LiveQueue::default(),
            LiveMessage::binary(LiveKind::Note, vec![0; 10]),
        );
        let mut time_ms = 1_000;
        let mut push = |count: usize| {
            for _ in 0..count {
                queue.push_picture(&jpeg, time_ms);
                time_ms += 40;
            }
            queue.take().0.len()
        };
        // Five a second.
        assert_eq!((push(25), queue.has_paced_pictures()), (5, false));
        for _ in 0..5 {
            queue.acknowledge();
        }
        assert_eq!(push(25), MAX_UNACKNOWLEDGED as usize);
        assert!(queue.has_paced_pictures());
        queue.acknowledge();
        assert_eq!(push(25), 1);
        assert_eq!(push(25), 0);
        // What was dropped is not waited for.
        queue.push(&LiveMessage::text(LiveKind::Begin, String::new()));
        assert!(!queue.has_paced_pictures());
        assert_eq!(push(25), 1 + MAX_UNACKNOWLEDGED as usize);
    }
}
