//! Resampling of one plane row by row: cells are averaged, rows blended, and taps read along x.

use std::ops::Range;

use weir_flow::Planes;

use super::axis::{Axis, AxisSpan};

/// The outputs of a picture in one plane.
pub(crate) struct Window<'a> {
    /// Horizontal axis of the outputs.
    pub(crate) across: &'a AxisSpan,
    /// Range of `across` that lies within the picture.
    pub(crate) columns: &'a Range<usize>,
    /// Vertical axis of the outputs.
    pub(crate) down: &'a AxisSpan,
    /// Range of `down` that lies within the picture.
    pub(crate) rows: &'a Range<usize>,
    /// Whether boxes are averaged.
    pub(crate) boxes: bool,
}

/// Resamples a plane of `C` interleaved channels. Scratch buffers are reused from picture to picture.
#[derive(Debug, Default)]
pub(crate) struct Resampler<const C: usize> {
    x: Axis,
    y: Axis,
    cached: [Cells; 2],
    blended: Vec<f32>,
    sums: Vec<u16>,
}

/// One row of cells.
#[derive(Debug, Default)]
struct Cells {
    row: Option<usize>,
    values: Vec<f32>,
}

impl<const C: usize> Resampler<C> {
    /// Prepares for a plane of `width` by `height`.
    pub(crate) fn prepare(&mut self, window: &Window<'_>, width: usize, height: usize) {
        self.x.prepare(window.across, window.columns, width, window.boxes);
        self.y.prepare(window.down, window.rows, height, window.boxes);
        let length = self.x.cells() * C;
        for cells in &mut self.cached {
            cells.row = None;
            cells.values.resize(length, 0.0);
        }
        self.blended.resize(length, 0.0);
    }

    /// Row `row` of the outputs within the picture, channel by channel; each of `out` has one element per column.
    pub(crate) fn row(&mut self, planes: &dyn Planes, plane: usize, row: usize, out: &mut [&mut [f32]; C]) {
        let tap = self.y.taps[row];
        let first = self.cells(planes, plane, tap.at);
        if tap.weight == 0.0 || tap.next == tap.at {
            pick(&self.cached[first].values, &self.x, out);
            return;
        }
        let second = self.cells(planes, plane, tap.next);
        let (top, bottom) = (&self.cached[first].values, &self.cached[second].values);
        for ((blend, &a), &b) in self.blended.iter_mut().zip(top).zip(bottom) {
            *blend = a + (b - a) * tap.weight;
        }
        pick(&self.blended, &self.x, out);
    }

    /// The cache slot with row `row` of cells. Rows are read in order and two are needed at a time, so even and odd
    /// ones each have a slot.
    fn cells(&mut self, planes: &dyn Planes, plane: usize, row: usize) -> usize {
        let slot = row % 2;
        if self.cached[slot].row == Some(row) {
            return slot;
        }
        let (samples, stride) = planes.plane(plane);
        let columns = self.x.first * C..self.x.end * C;
        let values = &mut self.cached[slot].values;
        let lines = self.y.samples(row);
        if self.x.factor == 1 && self.y.factor == 1 {
            let start = lines.start * stride;
            for (value, &sample) in values.iter_mut().zip(&samples[start..][columns]) {
                *value = f32::from(sample);
            }
        } else {
            self.sums.clear();
            self.sums.resize(columns.len(), 0);
            for line in lines.clone() {
                for (sum, &sample) in self
                    .sums
                    .iter_mut()
                    .zip(&samples[line * stride..][columns.clone()])
                {
                    *sum += u16::from(sample);
                }
            }
            average::<C>(&self.sums, self.x.factor, lines.len(), values);
        }
        self.cached[slot].row = Some(row);
        slot
    }
}

/// Averages boxes of `factor` column sums, each of `lines` samples.
fn average<const C: usize>(sums: &[u16], factor: usize, lines: usize, values: &mut [f32]) {
    let whole = 1.0 / (factor * lines) as f32;
    for (cell, sums) in values
        .as_chunks_mut::<C>()
        .0
        .iter_mut()
        .zip(sums.chunks(factor * C))
    {
        let pixels = sums.len() / C;
        let share = if pixels == factor {
            whole
        } else {
            1.0 / (pixels * lines) as f32
        };
        let mut totals = [0_u32; C];
        for pixel in sums.as_chunks::<C>().0 {
            for (total, &sum) in totals.iter_mut().zip(pixel) {
                *total += u32::from(sum);
            }
        }
        for (value, total) in cell.iter_mut().zip(totals) {
            *value = total as f32 * share;
        }
    }
}

/// Reads the taps along x.
fn pick<const C: usize>(cells: &[f32], axis: &Axis, out: &mut [&mut [f32]; C]) {
    let cells = cells.as_chunks::<C>().0;
    for (index, tap) in axis.taps.iter().enumerate() {
        let (a, b) = (cells[tap.at], cells[tap.next]);
        for channel in 0..C {
            out[channel][index] = a[channel] + (b[channel] - a[channel]) * tap.weight;
        }
    }
}
