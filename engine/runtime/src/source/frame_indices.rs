//! Indices of the frames of a stream, over all openings of its source. Frames that a source leaves out have indices, too.

use weir_flow::SourceCounts;

/// Counts the frames of a stream, and those that were left out before the next one.
#[derive(Debug)]
pub(super) struct FrameIndices {
    /// The index of the frame that the open source calls 0.
    first: u64,
    /// The lowest index that the next frame may have.
    next: u64,
    /// By how much the index of the last frame exceeds that of the one before: more than 1 where the source leaves some out.
    steps: u64,
    /// Frames that arrived so far, over all openings.
    frames: u64,
    /// Frames that were not decoded and have not arrived yet: they arrive with the next that is.
    left_out: u64,
    /// Frames in which nothing moves and that were not decoded, which likewise arrive with the next.
    still: u64,
    /// Frames that the source left out in its last reading.
    passed_over: u64,
    /// Counts of earlier openings.
    closed: SourceCounts,
    /// Counts of the last opening so far.
    open: SourceCounts,
}

impl Default for FrameIndices {
    fn default() -> Self {
        Self {
            first: 0,
            next: 0,
            steps: 1,
            frames: 0,
            left_out: 0,
            still: 0,
            passed_over: 0,
            closed: SourceCounts::default(),
            open: SourceCounts::default(),
        }
    }
}

impl FrameIndices {
    /// The source was opened, and counts from 0 again. Frames that the end of the last opening left out keep their indices.
    pub(super) fn on_open(&mut self) {
        self.closed = self.closed + std::mem::take(&mut self.open);
        self.first = self.next + self.left_out + self.still;
    }

    /// The open source reports its counts: frames that it left out are before the next one.
    pub(super) fn on_counts(&mut self, counts: SourceCounts) {
        let left_out = counts.not_decoded.saturating_sub(self.open.not_decoded);
        let still = counts.still.saturating_sub(self.open.still);
        self.left_out += left_out;
        self.still += still;
        self.passed_over = left_out + still;
        self.open = counts;
    }

    /// A frame that the open source calls `source_index` arrived. Returns the [steps](Self::steps) to it.
    pub(super) fn on_arrival(&mut self, source_index: u64) -> u64 {
        let index = (self.first + source_index).max(self.next);
        self.steps = index - self.next + 1;
        self.steps
    }

    /// Returns the index of the frame that arrived last, before which `missing` frames were lost on their path.
    pub(super) fn assign(&mut self, missing: u64) -> u64 {
        let index = self.next + self.steps - 1 + missing;
        self.first += missing;
        self.next = index + 1;
        self.frames += 1;
        index
    }

    /// By how much the index of the last frame exceeds that of the one before, without frames that were lost on their path.
    pub(super) fn steps(&self) -> u64 {
        self.steps
    }

    /// The [steps](Self::steps) without frames of which the source read the packets and left them out: at least 1.
    pub(super) fn unread_steps(&self) -> u64 {
        self.steps.saturating_sub(self.passed_over).max(1)
    }

    /// Number of frames that arrived so far.
    pub(super) fn frames(&self) -> u64 {
        self.frames
    }

    /// Frames that were not decoded and have not arrived yet.
    pub(super) fn left_out(&self) -> u64 {
        self.left_out
    }

    /// The index that follows all frames so far, also those that were left out.
    pub(super) fn end(&self) -> u64 {
        self.next + self.still + self.left_out
    }

    /// Counts frames that were not decoded as still: no model would have looked at them, so they are not dropped.
    pub(super) fn count_left_out_as_still(&mut self) {
        self.still += std::mem::take(&mut self.left_out);
    }

    /// Takes the number of frames that were not decoded, and of those in which nothing moves, before the next frame.
    pub(super) fn take_left_out(&mut self) -> (u64, u64) {
        (
            std::mem::take(&mut self.left_out),
            std::mem::take(&mut self.still),
        )
    }

    /// Counts of all openings.
    pub(super) fn counts(&self) -> SourceCounts {
        self.closed + self.open
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrive(indices: &mut FrameIndices, source_index: u64, missing: u64) -> (u64, u64) {
        (indices.on_arrival(source_index), indices.assign(missing))
    }

    #[test]
    fn frames_that_are_left_out_or_lost_have_indices() {
        let mut indices = FrameIndices::default();
        indices.on_open();
        assert_eq!(arrive(&mut indices, 0, 0), (1, 0));
        assert_eq!(arrive(&mut indices, 3, 0), (3, 3), "the source left out two");
        assert_eq!(
            arrive(&mut indices, 4, 10),
            (1, 14),
            "ten were lost on their path"
        );
        assert_eq!(arrive(&mut indices, 5, 0), (1, 15));
        assert_eq!((indices.frames(), indices.end()), (4, 16));
    }

    #[test]
    fn frames_that_the_source_read_and_left_out_are_no_unread_steps() {
        let mut indices = FrameIndices::default();
        indices.on_open();
        arrive(&mut indices, 0, 0);
        let counts = SourceCounts {
            still: 249,
            ..SourceCounts::default()
        };
        indices.on_counts(counts);
        assert_eq!(arrive(&mut indices, 250, 0).0, 250);
        assert_eq!(indices.unread_steps(), 1);
        indices.on_counts(counts);
        assert_eq!(arrive(&mut indices, 261, 0).0, 11);
        assert_eq!(indices.unread_steps(), 11, "it read none of them");
    }

    #[test]
    fn indices_continue_after_frames_that_the_last_opening_left_out() {
        let mut indices = FrameIndices::default();
        indices.on_open();
        arrive(&mut indices, 0, 0);
        let counts = SourceCounts {
            damaged: 1,
            not_decoded: 3,
            still: 2,
            ..SourceCounts::default()
        };
        indices.on_counts(counts);
        indices.on_counts(counts);
        assert_eq!((indices.left_out(), indices.end()), (3, 6));
        indices.on_open();
        assert_eq!(arrive(&mut indices, 0, 0), (6, 6));
        indices.count_left_out_as_still();
        assert_eq!(indices.take_left_out(), (0, 5));
        assert_eq!(indices.take_left_out(), (0, 0));
        assert_eq!(indices.counts(), counts, "of the opening before");
    }
}
