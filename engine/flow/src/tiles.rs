//! Tiles: a large picture read in overlapping parts, so that small objects keep enough pixels in the input of a model.
//!
//! ```text
//! width of a tile  w = W / (columns - (columns - 1) * overlap)
//! distance of two  s = w * (1 - overlap)
//! ```
//!
//! All tiles have one size and together cover the picture exactly; neighbours share at least `overlap` of a tile. Rows likewise.
//! SAHI (Akyon, Altinuc and Temizel, "Slicing Aided Hyper Inference and Fine-tuning for Small Object Detection", ICIP 2022) slices by
//! the size of a tile instead, and moves the last one back into the picture; with `overlap = 0.2` and the size of these tiles its
//! slices are the same up to a pixel.

use std::sync::Arc;

use weir_types::TileGrid;

use crate::catalog::Settings;
use crate::frame::Frame;
use crate::geometry::Rect;
use crate::item::{Item, Region};
use crate::results::Points;

/// Part of a tile that it shares with its neighbour, by default; that of SAHI.
const OVERLAP: f64 = 0.2;

/// Part of a pixel below which an edge between two pixels is one of theirs.
const ROUNDING: f64 = 1e-3;

/// The tiles in which a module reads its frames.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tiling {
    /// Number of columns and rows.
    pub grid: TileGrid,
    /// Part of a tile, 0 to 0.5, that it shares with the next one.
    pub overlap: f32,
    /// Whether the whole picture is one more item, for objects that are larger than the overlap.
    pub whole: bool,
}

impl Tiling {
    /// The tiling that the keys of a module set; `None` without `tiles`.
    #[must_use]
    pub fn of(settings: &Settings) -> Option<Self> {
        Some(Self {
            grid: TileGrid::new(settings.pair("tiles")?)?,
            overlap: settings.number("overlap", OVERLAP) as f32,
            whole: settings.flag("whole", true),
        })
    }

    /// Number of items that a frame brings.
    #[must_use]
    pub fn items(&self) -> u32 {
        match self.grid.count() {
            // The one tile is the whole picture.
            1 => 1,
            tiles => tiles + u32::from(self.whole),
        }
    }

    /// The items of a frame, those of [`Self::regions`].
    #[must_use]
    pub fn items_of(&self, frame: &Arc<Frame>) -> Vec<Item> {
        let regions = self.regions(frame.size()).into_iter();
        regions.map(|region| Item::of_frame(frame, region)).collect()
    }

    /// The tiles of a picture row by row, in whole pixels, and the whole picture last where it is an item.
    #[must_use]
    pub fn regions(&self, (width, height): (u32, u32)) -> Vec<Region> {
        if self.grid.count() == 1 {
            return vec![Region::Whole];
        }
        let columns = spans(width, self.grid.columns(), self.overlap);
        let rows = spans(height, self.grid.rows(), self.overlap);
        let tiles = rows.iter().flat_map(|&(y0, y1)| {
            columns.iter().map(move |&(x0, x1)| Region::Crop {
                rect: Rect::new(x0, y0, x1, y1),
                points: Points::None,
            })
        });
        tiles.chain(self.whole.then_some(Region::Whole)).collect()
    }
}

/// Begin and end of the tiles along a side of `length` pixels.
fn spans(length: u32, tiles: u32, overlap: f32) -> Vec<(f32, f32)> {
    let (length, count, overlap) = (f64::from(length), f64::from(tiles), f64::from(overlap));
    let tile = length / (count - (count - 1.0) * overlap);
    let step = tile * (1.0 - overlap);
    let span = |index: u32| {
        let begin = f64::from(index) * step;
        // A tile that begins or ends within a pixel has all of it.
        let end = if index + 1 == tiles { length } else { begin + tile };
        let (begin, end) = (begin + ROUNDING, end.min(length) - ROUNDING);
        (begin.floor() as f32, end.ceil() as f32)
    };
    (0..tiles).map(span).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::catalog::Value;

    fn tiling(columns: u32, rows: u32, overlap: f32, whole: bool) -> Tiling {
        Tiling {
            grid: TileGrid::new([columns, rows]).expect("within bounds"),
            overlap,
            whole,
        }
    }

    #[test]
    fn tiles_of_a_large_picture_overlap_by_a_fifth() {
        let regions = tiling(2, 1, 0.2, true).regions((1_800, 600));
        let crop = |x0, x1| Region::Crop {
            rect: Rect::new(x0, 0.0, x1, 600.0),
            points: Points::None,
        };
        assert_eq!(regions, [crop(0.0, 1_000.0), crop(800.0, 1_800.0), Region::Whole]);
    }

    #[test]
    fn one_tile_is_the_whole_picture_once() {
        let one = tiling(1, 1, 0.2, true);
        assert_eq!((one.regions((640, 360)), one.items()), (vec![Region::Whole], 1));
    }

    #[test]
    fn keys_without_tiles_are_no_tiling() {
        let settings = Settings([("overlap".to_owned(), Value::Number(0.3))].into());
        assert_eq!(Tiling::of(&settings), None);
        let settings = Settings([("tiles".to_owned(), Value::Pair([3, 2]))].into());
        assert_eq!(Tiling::of(&settings), Some(tiling(3, 2, 0.2, true)));
    }

    proptest! {
        /// Tiles cover the picture, are within it, and each box that is no larger than the overlap is whole in one of them.
        #[test]
        fn a_box_within_the_overlap_is_whole_in_a_tile(
            (columns, rows) in (1_u32..=8, 1_u32..=8),
            overlap in 0.05_f32..=0.5,
            (width, height) in (64_u32..4_000, 64_u32..3_000),
            (x, y) in (0.0_f32..1.0, 0.0_f32..1.0),
            (w, h) in (0.0_f32..=1.0, 0.0_f32..=1.0),
        ) {
            let tiling = tiling(columns, rows, overlap, false);
            let regions = tiling.regions((width, height));
            prop_assert_eq!(regions.len() as u32, tiling.items());
            let picture = Rect::new(0.0, 0.0, width as f32, height as f32);
            let rects = regions.iter().map(|region| match region {
                Region::Whole => picture,
                Region::Crop { rect, .. } => *rect,
            });
            let rects: Vec<Rect> = rects.collect();
            prop_assert!(rects.iter().all(|rect| rect.intersection(&picture) == *rect && rect.area() > 0.0));
            let shared = |length: u32, tiles: u32| {
                let (length, tiles) = (length as f32, tiles as f32);
                overlap * length / (tiles - (tiles - 1.0) * overlap)
            };
            let (w, h) = (w * shared(width, columns), h * shared(height, rows));
            let (x, y) = (x * (picture.x1 - w), y * (picture.y1 - h));
            let object = Rect::new(x, y, x + w, y + h);
            let within = |rect: &Rect| {
                rect.x0 <= object.x0 + 0.01
                    && rect.y0 <= object.y0 + 0.01
                    && rect.x1 >= object.x1 - 0.01
                    && rect.y1 >= object.y1 - 0.01
            };
            prop_assert!(rects.iter().any(within), "{:?} in {:?}", object, rects);
        }
    }
}
