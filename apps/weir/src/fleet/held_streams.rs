//! Streams that this engine is to have, beside those that it has. This file uses no engine.
//!
//! ```text
//! wanted --added--> added --frames arrive--> live
//! not wanted any more --removal begins--> removing --frames in flight are finished--> gone
//! ```

use std::collections::{BTreeMap, BTreeSet};

use weir_policy::fleet::StreamKey;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct HeldStreams {
    /// Streams that this engine is to have.
    wanted: BTreeSet<StreamKey>,
    /// Streams that were added to the engine.
    added: BTreeSet<StreamKey>,
    /// Streams of which frames arrive.
    live: BTreeSet<StreamKey>,
    /// Streams that are being removed. They can be added again only afterwards.
    removing: BTreeSet<StreamKey>,
    /// The last reason why a stream could not be added.
    problems: BTreeMap<StreamKey, String>,
}

impl HeldStreams {
    /// The engine is to have a stream.
    pub(super) fn take(&mut self, stream: StreamKey) {
        self.wanted.insert(stream);
    }

    /// The engine is not to have a stream any more.
    pub(super) fn release(&mut self, stream: StreamKey) {
        self.wanted.remove(&stream);
        self.live.remove(&stream);
        self.problems.remove(&stream);
    }

    /// True if a stream that the engine is to have has no frames yet.
    pub(super) fn lacks_frames(&self) -> bool {
        self.wanted.iter().any(|stream| !self.live.contains(stream))
    }

    /// Whether the stream was added to the engine.
    pub(super) fn is_added(&self, stream: StreamKey) -> bool {
        self.added.contains(&stream)
    }

    /// Streams of which frames arrive.
    pub(super) fn live(&self) -> impl Iterator<Item = StreamKey> {
        self.live.iter().copied()
    }

    /// The last reason why the stream could not be added.
    pub(super) fn problem(&self, stream: StreamKey) -> Option<&str> {
        self.problems.get(&stream).map(String::as_str)
    }

    /// Streams to add to the engine now.
    pub(super) fn to_add(&self) -> Vec<StreamKey> {
        let missing = self.wanted.difference(&self.added);
        let free = missing.filter(|stream| !self.removing.contains(stream));
        free.copied().collect()
    }

    /// Streams to remove from the engine now.
    pub(super) fn to_remove(&self) -> Vec<StreamKey> {
        self.added.difference(&self.wanted).copied().collect()
    }

    /// A stream was added to the engine.
    pub(super) fn on_added(&mut self, stream: StreamKey) {
        self.added.insert(stream);
        self.problems.remove(&stream);
    }

    /// A stream could not be added. Returns whether the reason is another one than at the last attempt.
    pub(super) fn on_not_added(&mut self, stream: StreamKey, reason: &str) -> bool {
        let is_new = self.problem(stream) != Some(reason);
        if is_new {
            self.problems.insert(stream, reason.to_owned());
        }
        is_new
    }

    /// Frames of a stream of the engine arrive. Returns whether they are the first of a stream that it is to have.
    pub(super) fn on_frames(&mut self, stream: StreamKey) -> bool {
        self.wanted.contains(&stream) && self.added.contains(&stream) && self.live.insert(stream)
    }

    /// The engine has only those of the added streams that pass `has`: a client may have removed others.
    pub(super) fn on_streams(&mut self, has: impl Fn(StreamKey) -> bool) {
        self.added.retain(|stream| has(*stream));
    }

    /// The removal of a stream began.
    pub(super) fn on_removing(&mut self, stream: StreamKey) {
        self.added.remove(&stream);
        self.live.remove(&stream);
        self.removing.insert(stream);
    }

    /// The removal of a stream has ended.
    pub(super) fn on_removed(&mut self, stream: StreamKey) {
        self.removing.remove(&stream);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: StreamKey = StreamKey(7);

    #[test]
    fn stream_wanted_during_its_removal_is_added_afterwards() {
        let mut held = HeldStreams::default();
        held.take(STREAM);
        assert_eq!(held.to_add(), [STREAM]);
        held.on_added(STREAM);
        assert!(held.on_frames(STREAM) && !held.on_frames(STREAM) && !held.lacks_frames());
        held.release(STREAM);
        assert_eq!((held.to_add(), held.to_remove()), (vec![], vec![STREAM]));
        held.on_removing(STREAM);
        held.take(STREAM);
        assert_eq!((held.to_add(), held.to_remove()), (vec![], vec![]));
        assert!(held.lacks_frames() && !held.on_frames(STREAM), "frames in flight");
        held.on_removed(STREAM);
        assert_eq!(held.to_add(), [STREAM]);
    }

    #[test]
    fn stream_that_a_client_removed_is_added_again() {
        let mut held = HeldStreams::default();
        held.take(STREAM);
        held.on_added(STREAM);
        held.on_streams(|stream| stream == STREAM);
        assert!(held.is_added(STREAM));
        held.on_streams(|_| false);
        assert_eq!(held.to_add(), [STREAM]);
    }

    #[test]
    fn reason_for_a_failed_addition_is_new_once() {
        let mut held = HeldStreams::default();
        held.take(STREAM);
        assert!(held.on_not_added(STREAM, "no memory"));
        assert!(!held.on_not_added(STREAM, "no memory"));
        assert!(held.on_not_added(STREAM, "too many streams"));
        assert_eq!(held.problem(STREAM), Some("too many streams"));
        held.on_added(STREAM);
        assert_eq!(held.problem(STREAM), None);
    }
}
