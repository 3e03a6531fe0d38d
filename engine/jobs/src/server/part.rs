//! What is to be done next for a video, by what is known of it. A part is what one message says; it may be out of date by the time
//! that it is taken.

use std::collections::BTreeSet;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::claim::Task;

/// Parts of a video that is not to be gone through by one engine. Frames before a part are decoded and left out, so more parts
/// decode more: eight of them some four times as much as one.
const MAX_PARTS: u32 = 8;

/// What a message asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "do")]
pub(super) enum Part {
    /// To cut the video.
    Cut,
    /// To process these segments.
    Segments {
        /// The first.
        first: u32,
        /// The one after the last.
        end: u32,
    },
    /// To put the results where they belong.
    Finish,
}

/// What of a video matters here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Progress {
    /// Whether it has ended, or its job.
    pub(super) is_over: bool,
    /// Segments that it is cut into; `None` before that.
    pub(super) segments: Option<u32>,
    /// Segments that are committed.
    pub(super) committed: BTreeSet<u32>,
}

impl Progress {
    fn missing(&self, range: Range<u32>) -> Option<u32> {
        range
            .into_iter()
            .find(|segment| !self.committed.contains(segment))
    }

    /// What is left of a part; `None`: nothing.
    pub(super) fn task(&self, part: &Part) -> Option<Task> {
        if self.is_over {
            return None;
        }
        match (part, self.segments) {
            (Part::Cut, None) => Some(Task::Cut),
            (Part::Segments { first, end }, Some(segments)) => {
                let end = (*end).min(segments);
                self.missing(*first..end).map(|first| Task::Segments(first..end))
            }
            (Part::Finish, Some(segments)) if self.missing(0..segments).is_none() => Some(Task::Finish),
            _ => None,
        }
    }

    /// The parts that are to be done where none waits and none is worked on. Where results depend on all frames before, one engine
    /// goes through the video as a `whole`.
    pub(super) fn needed(&self, whole: bool) -> Vec<Part> {
        if self.is_over {
            return Vec::new();
        }
        let Some(segments) = self.segments else {
            return vec![Part::Cut];
        };
        let length = segments.div_ceil(if whole { 1 } else { MAX_PARTS }).max(1);
        let starts = (0..segments).step_by(length as usize);
        let parts = starts.map(|first| first..(first + length).min(segments));
        let open = parts.filter(|part| self.missing(part.clone()).is_some());
        let open: Vec<Part> = open
            .map(|part| Part::Segments {
                first: part.start,
                end: part.end,
            })
            .collect();
        if open.is_empty() { vec![Part::Finish] } else { open }
    }
}

impl Part {
    /// Its segments, where it has any.
    pub(super) fn range(&self) -> Option<Range<u32>> {
        match self {
            Self::Segments { first, end } => (first < end).then_some(*first..*end),
            Self::Cut | Self::Finish => None,
        }
    }

    /// By which a server knows it when it is sent twice.
    pub(super) fn label(&self) -> String {
        match self {
            Self::Cut => "cut".to_owned(),
            Self::Segments { first, end } => format!("{first}-{end}"),
            Self::Finish => "finish".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(segments: Option<u32>, committed: &[u32]) -> Progress {
        Progress {
            is_over: false,
            segments,
            committed: committed.iter().copied().collect(),
        }
    }

    #[test]
    fn a_video_is_cut_then_its_parts_are_done_then_it_is_finished() {
        assert_eq!(progress(None, &[]).needed(false), [Part::Cut]);
        let part = |first, end| Part::Segments { first, end };
        assert_eq!(progress(Some(3), &[1]).needed(false), [part(0, 1), part(2, 3)]);
        assert_eq!(progress(Some(3), &[0]).needed(true), [part(0, 3)]);
        let many = progress(Some(20), &[0, 1, 2, 4]).needed(false);
        assert_eq!(many.first(), Some(&part(3, 6)));
        assert_eq!((many.len(), many.last()), (6, Some(&part(18, 20))));
        assert_eq!(progress(Some(2), &[0, 1]).needed(true), [Part::Finish]);
        let over = Progress {
            is_over: true,
            ..progress(None, &[])
        };
        assert!(over.needed(false).is_empty() && over.task(&Part::Cut).is_none());
    }

    #[test]
    fn what_is_left_of_a_part_begins_with_the_first_segment_that_is_missing() {
        let part = Part::Segments { first: 2, end: 5 };
        let task = |committed: &[u32]| progress(Some(5), committed).task(&part);
        assert_eq!(task(&[]), Some(Task::Segments(2..5)));
        assert_eq!(task(&[2, 4]), Some(Task::Segments(3..5)));
        assert_eq!(task(&[2, 3, 4]), None);
        assert_eq!(progress(None, &[]).task(&part), None);
        assert_eq!(progress(Some(1), &[]).task(&Part::Cut), None);
        assert_eq!(progress(Some(1), &[]).task(&Part::Finish), None);
        assert_eq!(progress(Some(1), &[0]).task(&Part::Finish), Some(Task::Finish));
    }
}
