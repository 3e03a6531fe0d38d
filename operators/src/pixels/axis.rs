//! One direction of a resampling: the samples of each output pixel, and their weights.

use std::ops::Range;

/// Two neighbouring cells and the weight of the second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Tap {
    /// First cell, counted from [`Axis::first`].
    pub(crate) at: usize,
    /// Second cell; the same as the first at an edge.
    pub(crate) next: usize,
    /// Weight of `next`, 0 to 1.
    pub(crate) weight: f32,
}

/// The taps of one direction over a grid of cells; a cell is the mean of `factor` neighbouring samples.
#[derive(Debug, Default)]
pub(crate) struct Axis {
    /// Samples per cell.
    pub(crate) factor: usize,
    /// First sample of the first cell that is read.
    pub(crate) first: usize,
    /// End of the samples that are read, exclusive.
    pub(crate) end: usize,
    /// One for each output pixel.
    pub(crate) taps: Vec<Tap>,
}

/// The samples that outputs `0..count` cover: the centre of output `i` is `start + (i + 0.5) * step`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct AxisSpan {
    /// Position of the first output's edge, in samples.
    pub(crate) start: f64,
    /// Samples per output.
    pub(crate) step: f64,
    /// Number of outputs.
    pub(crate) count: usize,
}

impl AxisSpan {
    fn centre(&self, index: usize) -> f64 {
        self.start + (index as f64 + 0.5) * self.step
    }

    /// Outputs whose centre lies within `0..size`.
    pub(crate) fn outputs_inside(&self, size: u32) -> Range<usize> {
        let within = |index: &usize| (0.0..f64::from(size)).contains(&self.centre(*index));
        let Some(first) = (0..self.count).find(within) else {
            return 0..0;
        };
        let last = (first..self.count).rev().find(within).unwrap_or(first);
        first..last + 1
    }

    /// The same range in samples of a plane whose sides are divided by `by`.
    pub(crate) fn subsampled(&self, by: u32) -> Self {
        Self {
            start: self.start / f64::from(by),
            step: self.step / f64::from(by),
            count: self.count,
        }
    }
}

impl Axis {
    /// Samples per cell over a plane of `size` samples, and the first sample of the first cell. With `boxes`, cells are averages
    /// of `floor(step)` samples.
    pub(crate) fn cells_of(span: &AxisSpan, size: usize, boxes: bool) -> (usize, usize) {
        let factor = if boxes {
            (span.step.floor() as usize).clamp(1, MAX_FACTOR)
        } else {
            1
        };
        // Cells start at the region's own corner, so that a whole picture is divided into whole cells.
        let base = if factor == 1 {
            0
        } else {
            (span.start.floor().max(0.0) as usize).min(size - 1)
        };
        (factor, base)
    }

    /// Computes the taps of `outputs` over a plane of `size` samples. With `boxes`, cells are averages of `floor(step)`
    /// samples.
    pub(crate) fn prepare(&mut self, span: &AxisSpan, outputs: &Range<usize>, size: usize, boxes: bool) {
        let (factor, base) = Self::cells_of(span, size, boxes);
        let cells = (size - base).div_ceil(factor);
        let position = |index: usize| {
            let cell = (span.centre(index) - base as f64) / factor as f64 - 0.5;
            cell.clamp(0.0, (cells - 1) as f64)
        };
        let lowest = position(outputs.start) as usize;
        self.taps.clear();
        self.taps.extend(outputs.clone().map(|index| {
            let cell = position(index);
            let at = cell as usize;
            let next = (at + 1).min(cells - 1);
            Tap {
                at: at - lowest,
                next: next - lowest,
                weight: (cell - at as f64) as f32,
            }
        }));
        self.factor = factor;
        self.first = base + lowest * factor;
        let last = self.taps.last().map_or(0, |tap| tap.next) + 1;
        self.end = (self.first + last * factor).min(size);
    }

    /// Cells that are read.
    pub(crate) fn cells(&self) -> usize {
        self.taps.last().map_or(0, |tap| tap.next) + 1
    }

    /// The samples of cell `cell`; fewer than `factor` at the edge of the picture.
    pub(crate) fn samples(&self, cell: usize) -> Range<usize> {
        let start = self.first + cell * self.factor;
        start..(start + self.factor).min(self.end)
    }
}

/// Sums of a box's column are stored in `u16`: at most 255 * 257.
const MAX_FACTOR: usize = 257;
