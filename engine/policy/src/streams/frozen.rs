//! Frozen pictures: frames arrive and show the same, pixel for pixel. The noise of a sensor changes some pixel of a working camera
//! within seconds, also at night.

use std::collections::VecDeque;

use weir_types::{Span, Timestamp};

/// Interval between two pictures that are compared.
const COMPARISON_INTERVAL: Span = Span::from_secs(1);

/// Time without a new picture after which a camera counts as frozen.
const FROZEN_AFTER: Span = Span::from_secs(30);

/// Pictures that are remembered. The encoder of a frozen camera writes the same picture in other ways, and begins again with each key
/// frame.
const REMEMBERED: usize = 64;

/// Finds out whether the picture of one camera is frozen.
#[derive(Debug, Clone, Default)]
pub struct FrozenWatch {
    /// Hashes of the newest different pictures.
    known: VecDeque<u64>,
    /// Time of the last picture that was new.
    since: Option<Timestamp>,
    /// Time of the picture that was compared last.
    compared: Option<Timestamp>,
}

impl FrozenWatch {
    /// Whether a picture that arrives at `now` is to be compared.
    #[must_use]
    pub fn is_due(&self, now: Timestamp) -> bool {
        self.compared
            .is_none_or(|before| now.since(before) >= COMPARISON_INTERVAL)
    }

    /// A picture with the hash of all its pixels has arrived. Returns the time of the last picture that was new, if the camera is
    /// frozen.
    pub fn on_picture(&mut self, hash: u64, now: Timestamp) -> Option<Timestamp> {
        self.compared = Some(now);
        if !self.known.contains(&hash) {
            if self.known.len() == REMEMBERED {
                self.known.pop_front();
            }
            self.known.push_back(hash);
            self.since = Some(now);
        }
        self.since.filter(|since| now.since(*since) >= FROZEN_AFTER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(s: u64) -> Timestamp {
        Timestamp::from_micros(s * 1_000_000)
    }

    #[test]
    fn a_picture_without_any_change_is_frozen_until_one_changes() {
        let mut watch = FrozenWatch::default();
        assert!(watch.is_due(at(5)));
        for second in 5..35 {
            assert_eq!(watch.on_picture(1, at(second)), None, "{second}");
        }
        assert!(!watch.is_due(at(34)) && watch.is_due(at(35)));
        assert_eq!(watch.on_picture(1, at(35)), Some(at(5)));
        assert_eq!(watch.on_picture(1, at(90)), Some(at(5)));
        assert_eq!(watch.on_picture(2, at(91)), None);
        // As an encoder repeats a picture, with and without its last refinement.
        for second in 92..121 {
            assert_eq!(watch.on_picture(1 + second % 2, at(second)), None, "{second}");
        }
        assert_eq!(watch.on_picture(1, at(121)), Some(at(91)));
        // A working camera shows each picture once.
        for hash in 100..500 {
            assert_eq!(watch.on_picture(hash, at(hash + 100)), None, "{hash}");
        }
        assert_eq!(watch.known.len(), REMEMBERED);
    }
}
