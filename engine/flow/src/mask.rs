//! Masks of objects: the pixels that they cover, as runs over a grid in their box, and the notation of COCO.

use crate::geometry::Rect;

/// Largest coordinate of a pixel in a mask.
const MAX_COORDINATE: f32 = 65_536.0;
/// Cells of a grid along one side, first try: a box that is larger has cells of several pixels.
const MAX_SIDE: u32 = 256;
/// Coarsest grid, which never has more than [`MAX_RUNS`] runs.
const MIN_SIDE: u32 = 32;
/// Runs of one mask. An outline has two or four a column; a mask of noise is kept on a coarser grid.
const MAX_RUNS: usize = 2048;

/// The pixels of a picture that an object covers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mask {
    /// Pixels under the grid: left, top, width, height.
    area: [u32; 4],
    columns: u32,
    rows: u32,
    /// Lengths of runs of cells, column by column from top to bottom: outside the object, within it, and so on.
    runs: Box<[u32]>,
}

/// Consecutive pixels of a column of a picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MaskSpan {
    /// Column of the pixels.
    pub x: u32,
    /// Row of the first pixel.
    pub top: u32,
    /// Row below the last pixel.
    pub bottom: u32,
}

impl Mask {
    /// The mask of an object within `rect`; `covers` is asked at the centre of each cell, in pixels. `None` if no cell is covered.
    #[must_use]
    pub fn sample(rect: &Rect, covers: impl Fn(f32, f32) -> bool) -> Option<Self> {
        // A cast turns NaN into 0.
        let start = |low: f32| low.clamp(0.0, MAX_COORDINATE).floor() as u32;
        let end = |high: f32| high.clamp(0.0, MAX_COORDINATE).ceil() as u32;
        let length = |low: f32, high: f32| end(high).saturating_sub(start(low));
        let (left, top) = (start(rect.x0), start(rect.y0));
        let (width, height) = (length(rect.x0, rect.x1), length(rect.y0, rect.y1));
        if width == 0 || height == 0 {
            return None;
        }
        let mut side = MAX_SIDE;
        loop {
            let (columns, rows) = (width.min(side), height.min(side));
            let runs = runs(columns, rows, |column, row| {
                covers(
                    left as f32 + (column as f32 + 0.5) * width as f32 / columns as f32,
                    top as f32 + (row as f32 + 0.5) * height as f32 / rows as f32,
                )
            });
            if runs.len() <= MAX_RUNS || side <= MIN_SIDE {
                // The only run of an empty mask is that of the cells outside.
                return (runs.len() > 1).then(|| Self {
                    area: [left, top, width, height],
                    columns,
                    rows,
                    runs: runs.into(),
                });
            }
            side /= 2;
        }
    }

    /// The covered pixels, by column and then by row.
    #[must_use]
    pub fn spans(&self) -> Vec<MaskSpan> {
        let [left, top, width, height] = self.area;
        let of_columns = self.intervals();
        // The first pixel whose centre is in the cell or behind its beginning.
        let pixel = |row: u32| {
            let (row, rows) = (u64::from(row), u64::from(self.rows));
            ((2 * u64::from(height) * row + rows - 1) / (2 * rows)) as u32
        };
        let mut spans = Vec::new();
        for x in 0..width {
            let column = (2 * u64::from(x) + 1) * u64::from(self.columns) / (2 * u64::from(width));
            let Some(intervals) = of_columns.get(column as usize) else {
                continue;
            };
            for (from, to) in intervals {
                let (from, to) = (pixel(*from), pixel(*to));
                if to > from {
                    spans.push(MaskSpan {
                        x: left + x,
                        top: top + from,
                        bottom: top + to,
                    });
                }
            }
        }
        spans
    }

    /// Columns and rows of the grid.
    pub(crate) const fn grid(&self) -> (usize, usize) {
        (self.columns as usize, self.rows as usize)
    }

    /// Pixels under the grid.
    pub(crate) fn bounds(&self) -> Rect {
        let [left, top, width, height] = self.area.map(|at| at as f32);
        Rect::new(left, top, left + width, top + height)
    }

    /// Covered cells of each column of the grid: first row, row after the last.
    pub(crate) fn intervals(&self) -> Vec<Vec<(u32, u32)>> {
        let mut of_columns = vec![Vec::new(); self.columns as usize];
        let mut at = 0;
        for (number, run) in self.runs.iter().enumerate() {
            let end = at + run;
            while number % 2 == 1 && at < end {
                let (column, row) = (at / self.rows, at % self.rows);
                let to = (row + (end - at)).min(self.rows);
                of_columns[column as usize].push((row, to));
                at += to - row;
            }
            at = end;
        }
        of_columns
    }

    /// Run lengths in a picture of that size, column by column: of pixels outside, then of pixels of the object, in turns.
    #[must_use]
    pub fn coco_counts(&self, width: u32, height: u32) -> Vec<u32> {
        let spans = self.spans();
        let mut counts = Vec::with_capacity(2 * spans.len() + 1);
        let mut end = 0_u64;
        let pixels = u64::from(width) * u64::from(height);
        let run = |from: u64, to: u64| u32::try_from(to - from).unwrap_or(u32::MAX);
        for span in spans.iter().filter(|span| span.x < width) {
            let (top, bottom) = (span.top.min(height), span.bottom.min(height));
            if top >= bottom {
                continue;
            }
            let place = |y: u32| u64::from(span.x) * u64::from(height) + u64::from(y);
            let (first, after) = (place(top), place(bottom));
            match counts.last_mut() {
                // It goes on from the bottom of the column before.
                Some(last) if first == end => *last += run(first, after),
                _ => counts.extend([run(end, first), run(first, after)]),
            }
            end = after;
        }
        if end < pixels || counts.is_empty() {
            counts.push(run(end, pixels));
        }
        counts
    }
}

/// Runs of cells of a grid, column by column; the first is of cells that are not covered.
fn runs(columns: u32, rows: u32, covers: impl Fn(u32, u32) -> bool) -> Vec<u32> {
    let mut runs = vec![0];
    let mut is_within = false;
    for column in 0..columns {
        for row in 0..rows {
            if covers(column, row) != is_within {
                is_within = !is_within;
                runs.push(0);
            }
            if let Some(run) = runs.last_mut() {
                *run += 1;
            }
        }
    }
    runs
}

/// Run lengths as the compressed text of COCO: from the third on each as the difference to the one two before, in groups of five
/// bits.
#[must_use]
pub fn coco_text(counts: &[u32]) -> String {
    let mut text = String::new();
    for (place, count) in counts.iter().enumerate() {
        let before = if place > 2 { counts[place - 2] } else { 0 };
        let mut rest = i64::from(*count) - i64::from(before);
        loop {
            let group = (rest & 0x1f) as u8;
            rest >>= 5;
            // The highest bit of the last group is the sign.
            let is_last = rest == if group & 0x10 == 0 { 0 } else { -1 };
            let more = if is_last { 0 } else { 0x20 };
            text.push(char::from(group + more + 48));
            if is_last {
                break;
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_those_of_the_columns_of_the_picture() {
        let mask = Mask::sample(&Rect::new(1.0, 1.0, 3.0, 2.0), |_, _| true).expect("pixels");
        assert_eq!(mask.coco_counts(4, 3), [4, 1, 2, 1, 4]);
        let whole = Mask::sample(&Rect::new(0.0, 0.0, 4.0, 3.0), |_, _| true).expect("pixels");
        assert_eq!(whole.coco_counts(4, 3), [0, 12]);
        assert_eq!(
            whole.coco_counts(2, 2),
            [0, 4],
            "what is outside of the picture is left out"
        );
        let hole = Mask::sample(&Rect::new(0.0, 0.0, 1.0, 5.0), |_, y| y != 2.5).expect("pixels");
        assert_eq!(
            (hole.spans().len(), hole.coco_counts(1, 5)),
            (2, vec![0, 2, 1, 2])
        );
    }

    #[test]
    fn boxes_without_a_covered_pixel_have_no_mask() {
        assert_eq!(Mask::sample(&Rect::new(0.0, 0.0, 9.0, 9.0), |_, _| false), None);
        for rect in [
            Rect::new(f32::NAN, 0.0, 9.0, 9.0),
            Rect::new(5.0, 5.0, 1.0, 1.0),
            Rect::new(-9.0, -9.0, -1.0, -1.0),
        ] {
            let mask = Mask::sample(&rect, |x, _| x < 0.0);
            assert_eq!(mask, None, "{rect:?}");
        }
    }

    #[test]
    fn texts_are_those_of_coco() {
        for (counts, text) in [
            (&[2, 2, 2][..], "222"),
            (&[0, 15, 16, 31, 1000][..], "0?`0`0hn0"),
            (&[5, 40, 3, 10][..], "5X13RO"),
            (&[][..], ""),
        ] {
            assert_eq!(coco_text(counts), text, "{counts:?}");
        }
    }

    #[test]
    fn large_mask_is_near_and_bounded() {
        let disc = |x: f32, y: f32| (x - 1000.0).hypot(y - 600.0) < 500.0;
        let mask = Mask::sample(&Rect::new(480.0, 80.0, 1520.0, 1120.0), disc).expect("covers some");
        let area: u32 = mask.spans().iter().map(|span| span.bottom - span.top).sum();
        let exact = std::f32::consts::PI * 500.0 * 500.0;
        assert!((area as f32 / exact - 1.0).abs() < 0.01, "{area} of {exact}");
        let stripes = |x: f32, y: f32| (x + y) % 32.0 < 16.0;
        let noisy = Mask::sample(&Rect::new(0.0, 0.0, 4000.0, 3000.0), stripes).expect("covers some");
        assert!(noisy.runs.len() <= MAX_RUNS, "{}", noisy.runs.len());
    }
}
