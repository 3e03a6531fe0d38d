//! Decode levels of sources, and the counts that set them. The source thread and the egress count; the
//! decode-level actor reads the counts and sets the levels.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weir_flow::GroupCounts;
use weir_policy::{DecodeEvent, DecodeObservation};
use weir_types::{DecodeLevel, Span, StreamId};

/// The levels of all streams that are decoded as needed.
#[derive(Debug, Clone, Default)]
pub(crate) struct SharedDecodeLevels(Arc<Mutex<BTreeMap<StreamId, SharedDecodeLevel>>>);

impl SharedDecodeLevels {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<StreamId, SharedDecodeLevel>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a stream.
    pub(crate) fn add(&self, stream: StreamId) -> SharedDecodeLevel {
        let level = SharedDecodeLevel::new(stream);
        self.lock().insert(stream, level.clone());
        level
    }

    pub(crate) fn get(&self, stream: StreamId) -> Option<SharedDecodeLevel> {
        self.lock().get(&stream).cloned()
    }

    /// Takes the observations of all streams since the last call. Streams that have ended are removed.
    pub(crate) fn take(&self) -> Vec<DecodeEvent> {
        let mut levels = self.lock();
        let events = levels.values().filter_map(SharedDecodeLevel::take).collect();
        levels.retain(|_, level| !level.lock().ended);
        events
    }
}

/// The level of one stream, and what became of its frames since that was taken last.
#[derive(Debug, Clone)]
pub(crate) struct SharedDecodeLevel(Arc<Mutex<Shared>>);

#[derive(Debug)]
struct Shared {
    level: DecodeLevel,
    observed: DecodeObservation,
    /// Whether anything was observed of its pictures, so that a level has an effect.
    has_groups: bool,
    /// Counts of the open source when they were observed last.
    groups: GroupCounts,
    /// Groups that had begun before it was opened.
    groups_before: u64,
    ended: bool,
}

impl SharedDecodeLevel {
    pub(crate) fn new(stream: StreamId) -> Self {
        Self(Arc::new(Mutex::new(Shared {
            level: DecodeLevel::ALL,
            observed: DecodeObservation::empty(stream),
            has_groups: false,
            groups: GroupCounts::default(),
            groups_before: 0,
            ended: false,
        })))
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        // Counts are valid at any moment, so also after a panic of their writer.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The level by the group numbers of the source as it was opened last.
    pub(crate) fn level(&self) -> DecodeLevel {
        let shared = self.lock();
        let every = u64::from(shared.level.every.max(1));
        let turn = u64::from(shared.level.turn) + every - shared.groups_before % every;
        DecodeLevel {
            turn: u32::try_from(turn % every).unwrap_or(0),
            ..shared.level
        }
    }

    pub(crate) fn set_level(&self, level: DecodeLevel) {
        self.lock().level = level;
    }

    /// The source was opened, again or for the first time: its counts begin.
    pub(crate) fn on_open(&self) {
        let mut shared = self.lock();
        let ended = std::mem::take(&mut shared.groups);
        shared.groups_before += ended.groups;
    }

    /// A picture was decoded, which took `processor` time; frames are `interval` apart.
    pub(crate) fn on_picture(&self, interval: Span, processor: Span, groups: GroupCounts) {
        let mut shared = self.lock();
        let before = std::mem::replace(&mut shared.groups, groups);
        shared.has_groups = true;
        let groups_before = shared.groups_before;
        let observed = &mut shared.observed;
        observed.interval = interval;
        observed.processor += processor;
        observed.pictures += 1;
        observed.full += grown(before.full_pictures, groups.full_pictures);
        observed.bidirectional += grown(before.bidirectional, groups.bidirectional);
        observed.offered += grown(before.offered, groups.offered);
        observed.left_out += grown(before.left_out, groups.left_out);
        (observed.group, observed.longest_group) = (groups.group, groups.longest_group);
        observed.groups = groups_before + groups.groups;
        observed.in_group = groups.in_group;
    }

    /// A request of the stream ended, after device time was spent on it or `unused`.
    pub(crate) fn on_request_ended(&self, unused: bool) {
        let observed = &mut self.lock().observed;
        let count = if unused {
            &mut observed.unused
        } else {
            &mut observed.used
        };
        *count = count.saturating_add(1);
    }

    /// The stream sends no more frames.
    pub(crate) fn on_ended(&self) {
        self.lock().ended = true;
    }

    /// Takes the observations since the last call; `None` if there are none.
    pub(crate) fn take(&self) -> Option<DecodeEvent> {
        let mut shared = self.lock();
        let stream = shared.observed.stream;
        if !shared.has_groups {
            return None;
        }
        if shared.ended {
            shared.has_groups = false;
            return Some(DecodeEvent::Ended { stream });
        }
        let observed = shared.observed;
        let is_empty = observed.pictures == 0 && observed.used == 0 && observed.unused == 0;
        // What does not change between two pictures is kept.
        shared.observed = DecodeObservation {
            interval: observed.interval,
            group: observed.group,
            longest_group: observed.longest_group,
            ..DecodeObservation::empty(stream)
        };
        (!is_empty).then_some(DecodeEvent::Observed(observed))
    }
}

fn grown(before: u64, after: u64) -> u32 {
    u32::try_from(after.saturating_sub(before)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_taken_once_and_end_with_the_stream() {
        let shared = SharedDecodeLevel::new(StreamId(2));
        shared.on_request_ended(false);
        assert_eq!(shared.take(), None, "of a source that ignores levels");
        let groups = |offered| GroupCounts {
            offered,
            group: 30,
            ..GroupCounts::default()
        };
        let (interval, took) = (Span::from_millis(40), Span::from_millis(2));
        shared.on_picture(interval, took, groups(3));
        shared.on_picture(interval, took, groups(5));
        shared.on_request_ended(true);
        let Some(DecodeEvent::Observed(observed)) = shared.take() else {
            panic!("there is something to observe")
        };
        assert_eq!((observed.stream, observed.interval), (StreamId(2), interval));
        assert_eq!((observed.pictures, observed.processor), (2, took * 2));
        assert_eq!((observed.used, observed.unused, observed.offered), (1, 1, 5));
        assert_eq!(shared.take(), None);
        // Opened again: its counts begin at zero.
        shared.on_open();
        shared.on_picture(interval, took, groups(1));
        assert!(matches!(
            shared.take(),
            Some(DecodeEvent::Observed(DecodeObservation {
                offered: 1,
                group: 30,
                ..
            }))
        ));
        shared.on_ended();
        assert_eq!(shared.take(), Some(DecodeEvent::Ended { stream: StreamId(2) }));
        assert_eq!(shared.take(), None);
    }
}
