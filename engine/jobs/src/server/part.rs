//! Decides the next task for a video from the known progress. A part is the content of one message; it may be
//! outdated when it is taken.

use std::collections::BTreeSet;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::claim::Task;

/// Maximum number of parts of a video that several engines share. Frames before a part are decoded and
/// discarded, so more parts decode more: eight of them about four times as much as one.
const MAX_PARTS: u32 = 8;

/// Content of a message: the task that it requests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "do")]
pub(super) enum Part {
    /// Cut the video.
    Cut,
    /// Process these segments.
    Segments {
        /// First segment, from 0.
        first: u32,
        /// Segment after the last one.
        end: u32,
    },
    /// Move the results to their targets.
    Finish,
}

/// Progress of a video as far as it decides the next task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Progress {
    /// True if the video or its job has ended.
    pub(super) is_over: bool,
    /// Number of segments; `None` before the video was cut.
    pub(super) segments: Option<u32>,
    /// Indices of the segments that are committed.
    pub(super) committed: BTreeSet<u32>,
}

impl Progress {
    fn missing(&self, range: Range<u32>) -> Option<u32> {
        range
            .into_iter()
            .find(|segment| !self.committed.contains(segment))
    }

    /// Remaining task of a part; `None` if nothing is left to do.
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

    /// Parts that are needed if none is queued or in progress. If results depend on all frames before, one
    /// engine processes the video as a `whole`.
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
    /// Segments of the part; `None` for other tasks.
    pub(super) fn range(&self) -> Option<Range<u32>> {
        match self {
            Self::Segments { first, end } => (first < end).then_some(*first..*end),
            Self::Cut | Self::Finish => None,
        }
    }

    /// Label by which a server detects a part that is sent twice.
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
