//! Masks as COCO stores them: lengths of runs of pixels, column by column, outside the object and within it in turns.

use super::files::CocoError;

/// Largest width and height of a picture with masks.
const MAX_SIDE: u32 = 65_536;

/// The pixels of an object in a picture of a known size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Runs {
    height: u32,
    width: u32,
    /// First pixels of runs within the object and the pixels after their last, ascending; pixels are counted down the columns.
    spans: Vec<(u64, u64)>,
}

impl Runs {
    /// The mask of `counts`, which alternate and begin outside the object.
    pub(super) fn from_counts(counts: &[u64], height: u32, width: u32) -> Result<Self, CocoError> {
        let pixels = pixels(height, width)?;
        let (mut spans, mut at) = (Vec::new(), 0_u64);
        for (place, count) in counts.iter().enumerate() {
            let end = at.saturating_add(*count);
            if end > pixels {
                return Err(CocoError::Mask(format!(
                    "its runs have more pixels than its size of {height} x {width}"
                )));
            }
            if place % 2 == 1 && end > at {
                spans.push((at, end));
            }
            at = end;
        }
        Ok(Self { height, width, spans })
    }

    /// The mask of COCO's compressed text: numbers in groups of five bits, from the fourth on as differences to the one two before.
    pub(super) fn from_text(text: &str, height: u32, width: u32) -> Result<Self, CocoError> {
        let wrong = || CocoError::Mask("its `counts` are no compressed run lengths of COCO".to_owned());
        let mut counts: Vec<u64> = Vec::new();
        let mut bytes = text.bytes();
        while let Some(mut byte) = bytes.next() {
            let (mut number, mut shift) = (0_i64, 0);
            loop {
                let group = byte
                    .checked_sub(48)
                    .filter(|group| *group < 64)
                    .ok_or_else(wrong)?;
                number |= i64::from(group & 0x1f) << shift;
                shift += 5;
                if group & 0x20 == 0 {
                    if group & 0x10 != 0 {
                        number |= -1 << shift;
                    }
                    break;
                }
                // Seven groups hold every length of a picture.
                byte = bytes.next().filter(|_| shift < 35).ok_or_else(wrong)?;
            }
            if counts.len() > 2 {
                number = number.saturating_add_unsigned(counts[counts.len() - 2]);
            }
            counts.push(u64::try_from(number).map_err(|_| wrong())?);
        }
        Self::from_counts(&counts, height, width)
    }

    /// The pixels whose centres are within one of `polygons`, each a list of x, y, x, y in pixels.
    pub(super) fn from_polygons(polygons: &[Vec<f64>], height: u32, width: u32) -> Result<Self, CocoError> {
        pixels(height, width)?;
        let mut spans = Vec::new();
        for polygon in polygons {
            spans.extend(polygon_spans(polygon, height, width));
        }
        spans.sort_unstable();
        let mut merged: Vec<(u64, u64)> = Vec::with_capacity(spans.len());
        for (from, to) in spans {
            match merged.last_mut() {
                Some(last) if from <= last.1 => last.1 = last.1.max(to),
                _ => merged.push((from, to)),
            }
        }
        Ok(Self {
            height,
            width,
            spans: merged,
        })
    }

    /// Height and width of the picture.
    pub(super) fn size(&self) -> (u32, u32) {
        (self.height, self.width)
    }

    /// Pixels of the object.
    pub(super) fn area(&self) -> u64 {
        self.spans.iter().map(|(from, to)| to - from).sum()
    }

    /// Pixels that both masks have.
    pub(super) fn intersection(&self, other: &Self) -> u64 {
        let (mut mine, mut theirs) = (self.spans.iter().peekable(), other.spans.iter().peekable());
        let mut both = 0;
        while let (Some(a), Some(b)) = (mine.peek(), theirs.peek()) {
            both += a.1.min(b.1).saturating_sub(a.0.max(b.0));
            if a.1 < b.1 {
                mine.next()
            } else {
                theirs.next()
            };
        }
        both
    }
}

fn pixels(height: u32, width: u32) -> Result<u64, CocoError> {
    if height > MAX_SIDE || width > MAX_SIDE {
        return Err(CocoError::Mask(format!(
            "its picture is {width} x {height}: sides are at most {MAX_SIDE} pixels"
        )));
    }
    Ok(u64::from(height) * u64::from(width))
}

/// Runs of the pixels whose centres are within a polygon, by the even-odd rule, column by column.
fn polygon_spans(polygon: &[f64], height: u32, width: u32) -> Vec<(u64, u64)> {
    let corners: Vec<(f64, f64)> = polygon.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
    let mut crossings: Vec<Vec<f64>> = vec![Vec::new(); width as usize];
    for (index, from) in corners.iter().enumerate() {
        let to = &corners[(index + 1) % corners.len()];
        let (left, right) = if from.0 <= to.0 { (from, to) } else { (to, from) };
        // Columns whose centre is in [left, right).
        let column = |x: f64| (x - 0.5).ceil().clamp(0.0, f64::from(width)) as usize;
        let (first, after) = (column(left.0), column(right.0));
        let within = crossings.iter_mut().enumerate().take(after).skip(first);
        for (column, crossings) in within {
            let part = (column as f64 + 0.5 - left.0) / (right.0 - left.0);
            crossings.push(left.1 + part * (right.1 - left.1));
        }
    }
    let mut spans = Vec::new();
    for (column, mut crossings) in crossings.into_iter().enumerate() {
        crossings.sort_by(f64::total_cmp);
        let row = |y: f64| (y - 0.5).ceil().clamp(0.0, f64::from(height)) as u64;
        let start = column as u64 * u64::from(height);
        for pair in crossings.chunks_exact(2) {
            let (from, to) = (row(pair[0]), row(pair[1]));
            if to > from {
                spans.push((start + from, start + to));
            }
        }
    }
    spans
}
