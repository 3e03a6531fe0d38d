//! Masks of objects: the pixels that belong to one, as vertical spans, and their run lengths as COCO has them.

use crate::geometry::Rect;

/// Largest coordinate of a pixel in a mask.
const MAX_SIDE: f32 = 65_536.0;

/// Consecutive pixels of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MaskSpan {
    /// Column of the pixels.
    pub x: u32,
    /// Row of the first pixel.
    pub top: u32,
    /// Row below the last pixel.
    pub bottom: u32,
}

/// The pixels of an object, in source pixels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mask {
    /// By column and then by row; those of a column do not touch each other.
    spans: Vec<MaskSpan>,
}

impl Mask {
    /// The pixels within a box whose centres are covered; `None` if there are none.
    pub fn sample(rect: &Rect, is_covered: impl Fn(f32, f32) -> bool) -> Option<Self> {
        // Casts turn NaN into 0, and a box that is none into an empty range.
        let range = |low: f32, high: f32| {
            let side = |at: f32| at.clamp(0.0, MAX_SIDE) as u32;
            side(low.floor())..side(high.ceil())
        };
        let mut spans: Vec<MaskSpan> = Vec::new();
        for x in range(rect.x0, rect.x1) {
            let mut open: Option<MaskSpan> = None;
            for y in range(rect.y0, rect.y1) {
                if !is_covered(x as f32 + 0.5, y as f32 + 0.5) {
                    spans.extend(open.take());
                    continue;
                }
                let span = open.get_or_insert(MaskSpan { x, top: y, bottom: y });
                span.bottom = y + 1;
            }
            spans.extend(open);
        }
        (!spans.is_empty()).then_some(Self { spans })
    }

    /// Its pixels, by column and then by row.
    #[must_use]
    pub fn spans(&self) -> &[MaskSpan] {
        &self.spans
    }

    /// Run lengths in a picture of that size, column by column: of pixels outside, then of pixels of the object, in turns.
    #[must_use]
    pub fn coco_counts(&self, width: u32, height: u32) -> Vec<u32> {
        let mut counts = Vec::with_capacity(2 * self.spans.len() + 1);
        let mut end = 0_u64;
        let pixels = u64::from(width) * u64::from(height);
        let run = |from: u64, to: u64| u32::try_from(to - from).unwrap_or(u32::MAX);
        for span in self.spans.iter().filter(|span| span.x < width) {
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
}
