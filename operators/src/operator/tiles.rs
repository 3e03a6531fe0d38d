//! Objects of a frame from those of its tiles: boxes that several tiles have of one object become one.
//!
//! ```text
//! IoU(a, b) = |a and b| / |a or b|            IoS(a, b) = |a and b| / min(|a|, |b|)
//! greedy-nmm: the best box takes up each other one with IoS >= threshold; if a seam cuts it, it is the union of both from then on
//! nms:        the best box suppresses each other one with IoS >= threshold
//! ```
//!
//! These are GREEDYNMM and NMS of SAHI (Akyon, Altinuc and Temizel, ICIP 2022; `sahi/postprocess/combine.py` of its package), with
//! its defaults: greedy-nmm, IoS, 0.5, and boxes of different classes apart. What differs:
//!
//! - Only boxes that a seam cuts become unions. A weak box, or one of the whole picture, in which small objects are coarse, enlarges
//!   no box that a tile has whole. In SAHI each box that is taken up does: on the clip of `make bench NAME=tiles` that halves the
//!   average precision.
//! - Boxes of one tile are different objects, which its head has decided, and are never merged with each other. So a crowd stays a
//!   crowd, and an object has at most one box of each tile.
//! - Merging is repeated until nothing merges, since a union may meet what its parts did not: two pieces of one object, and the tile
//!   that has it whole.
//! - In `nms` a box that a seam cuts is never the best one while there is a whole one, and of cut ones the largest is.
//! - Ties are broken by the boxes themselves, so that the order of tiles changes nothing.
//!
//! Landmarks, key points, angles and masks have no union: an object with any has the box and the points of the best tile that does
//! not cut it, and if all do, of the largest box.

use std::cmp::Ordering;

use weir_flow::{Item, Object, Points, Rect, Settings};

/// Boxes of a frame that are compared with each other, the best first. More are left out: each is compared with every other one.
const MAX_BOXES: usize = 2_000;

/// Pixels from an edge of a tile within which a box counts as cut there.
const CUT_MARGIN: f32 = 2.0;

/// The way in which objects of several tiles become one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Merging {
    /// Whether boxes that seams cut are united, instead of the others being suppressed.
    unites: bool,
    /// Whether the overlap is relative to the smaller box, instead of to the union.
    by_smaller: bool,
    threshold: f32,
}

impl Merging {
    /// By the keys of a module.
    pub(super) fn of(settings: &Settings) -> Self {
        Self {
            unites: settings.text("merge") != Some("nms"),
            by_smaller: settings.text("merge_by") != Some("iou"),
            threshold: settings.number("merge_threshold", 0.5) as f32,
        }
    }

    fn overlap(&self, a: &Rect, b: &Rect) -> f32 {
        if !self.by_smaller {
            return a.iou(b);
        }
        let smaller = a.area().min(b.area());
        let shared = a.intersection(b).area();
        if smaller > 0.0 { shared / smaller } else { 0.0 }
    }

    /// The objects of a frame, from those of its tiles, the best first. `found` has each with the item that it was found in.
    pub(super) fn merge<'a>(&self, found: impl IntoIterator<Item = (&'a Item, Object)>) -> Vec<Object> {
        let mut tiles: Vec<Rect> = Vec::new();
        let seen = |(item, object): (&Item, Object)| {
            let tile = item.bounds();
            let place = tiles.iter().position(|known| *known == tile);
            let place = place.unwrap_or_else(|| {
                tiles.push(tile);
                tiles.len() - 1
            });
            let is_cut = is_cut(&object.rect, &tile, &item.frame.image.bounds());
            Seen {
                extent: object.rect,
                object,
                // At most 64 tiles and the whole picture.
                tiles: 1_u128 << place.min(127),
                tile,
                is_cut,
            }
        };
        let mut seen: Vec<Seen> = found.into_iter().map(seen).collect();
        seen.sort_by(|a, b| self.order(a, b));
        seen.truncate(MAX_BOXES);
        loop {
            let before = seen.len();
            seen = self.pass(seen);
            if seen.len() == before {
                return seen.into_iter().map(Seen::into_object).collect();
            }
        }
    }

    /// The best first.
    fn order(&self, a: &Seen, b: &Seen) -> Ordering {
        let cut = a.is_cut.cmp(&b.is_cut);
        let area = |seen: &Seen| if seen.is_cut { seen.extent.area() } else { 0.0 };
        let by_cut = match self.unites {
            true => Ordering::Equal,
            false => cut.then_with(|| area(b).total_cmp(&area(a))),
        };
        by_cut
            .then_with(|| b.object.score.total_cmp(&a.object.score))
            .then(cut)
            .then_with(|| compare(&a.extent, &b.extent))
            .then_with(|| compare(&a.tile, &b.tile))
            .then_with(|| a.object.class.cmp(&b.object.class))
    }

    /// Each box in turn takes up those that match it.
    fn pass(&self, seen: Vec<Seen>) -> Vec<Seen> {
        let mut kept: Vec<Seen> = Vec::with_capacity(seen.len());
        let mut open: Vec<Option<Seen>> = seen.into_iter().map(Some).collect();
        for place in 0..open.len() {
            let Some(mut best) = open[place].take() else {
                continue;
            };
            let overlap = |other: &Seen| self.overlap(&best.extent, &other.extent);
            let rest = open.iter().enumerate().skip(place + 1);
            let mut matching: Vec<(f32, usize)> = rest
                .filter_map(|(place, other)| {
                    let other = other.as_ref().filter(|other| best.may_be(other))?;
                    let overlap = overlap(other);
                    (overlap >= self.threshold).then_some((overlap, place))
                })
                .collect();
            // Of those of one tile the one that overlaps most is this object; of equals the better one, which comes first.
            matching.sort_by(|(a, _), (b, _)| b.total_cmp(a));
            for (_, place) in matching {
                let is_same = |other: &mut Seen| {
                    best.may_be(other) && self.overlap(&best.extent, &other.extent) >= self.threshold
                };
                if let Some(other) = open[place].take_if(is_same) {
                    best.take_up(other, self.unites);
                }
            }
            kept.push(best);
        }
        kept
    }
}

/// An object as one or more tiles have it.
#[derive(Debug)]
struct Seen {
    object: Object,
    /// The box that others are compared with; a union where seams cut its parts.
    extent: Rect,
    /// The items that have it, a bit for each.
    tiles: u128,
    /// The tile in which the best box of it is.
    tile: Rect,
    /// Whether a seam cuts the box of `object`.
    is_cut: bool,
}

impl Seen {
    /// Whether two boxes may be of one object.
    fn may_be(&self, other: &Self) -> bool {
        self.tiles & other.tiles == 0 && self.object.class == other.object.class
    }

    fn take_up(&mut self, other: Self, unites: bool) {
        self.tiles |= other.tiles;
        if !unites || !self.is_cut {
            return;
        }
        self.extent = self.extent.union(&other.extent);
        let is_larger = other.object.rect.area() > self.object.rect.area();
        if !other.is_cut || is_larger {
            self.object = Object {
                // The best one has the higher score, whichever tile has the object whole.
                score: self.object.score.max(other.object.score),
                candidate: self.object.candidate && other.object.candidate,
                ..other.object
            };
            self.is_cut = other.is_cut;
        }
    }

    fn into_object(self) -> Object {
        match self.object.points {
            Points::None => Object {
                rect: self.extent,
                ..self.object
            },
            _ => self.object,
        }
    }
}

fn compare(a: &Rect, b: &Rect) -> Ordering {
    let edges = |rect: &Rect| [rect.x0, rect.y0, rect.x1, rect.y1];
    let both = edges(a).into_iter().zip(edges(b));
    both.fold(Ordering::Equal, |order, (a, b)| order.then(a.total_cmp(&b)))
}

/// Whether a box touches an edge of its tile at which the picture goes on.
fn is_cut(rect: &Rect, tile: &Rect, picture: &Rect) -> bool {
    (tile.x0 > picture.x0 && rect.x0 <= tile.x0 + CUT_MARGIN)
        || (tile.y0 > picture.y0 && rect.y0 <= tile.y0 + CUT_MARGIN)
        || (tile.x1 < picture.x1 && rect.x1 >= tile.x1 - CUT_MARGIN)
        || (tile.y1 < picture.y1 && rect.y1 >= tile.y1 - CUT_MARGIN)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;
    use weir_flow::{Frame, Image, Point, RotatedRect, TileGrid, Tiling};

    use super::*;

    const SIZE: (u32, u32) = (1_000, 600);

    fn merging(unites: bool, by_smaller: bool) -> Merging {
        Merging {
            unites,
            by_smaller,
            threshold: 0.5,
        }
    }

    fn tiles(columns: u32, rows: u32, whole: bool) -> Vec<Item> {
        let image = Image::from_rgb(SIZE.0, SIZE.1, vec![0; (SIZE.0 * SIZE.1 * 3) as usize]);
        let frame = Arc::new(Frame::new(0, 0.0, image));
        let tiling = Tiling {
            grid: TileGrid::new([columns, rows]).expect("within bounds"),
            overlap: 0.2,
            whole,
        };
        tiling.items_of(&frame)
    }

    fn object(class: &str, score: f32, rect: Rect) -> Object {
        Object {
            class: class.into(),
            score,
            rect,
            parent: None,
            points: Points::None,
            candidate: false,
        }
    }

    fn square(x: f32, y: f32, side: f32) -> Rect {
        Rect::new(x, y, x + side, y + side)
    }

    /// The objects that a tile shows, cut at its edges, by a detector that finds everything of which it sees a tenth.
    fn seen<'a>(
        item: &'a Item,
        objects: &'a [Object],
        scores: u64,
    ) -> impl Iterator<Item = (&'a Item, Object)> {
        let tile = item.bounds();
        objects.iter().enumerate().filter_map(move |(index, object)| {
            let rect = object.rect.intersection(&tile);
            let score = 0.3 + ((scores >> (7 * index % 50)) % 64) as f32 / 100.0;
            (rect.area() > 0.1 * object.rect.area()).then(|| {
                let object = Object {
                    rect,
                    score,
                    ..object.clone()
                };
                (item, object)
            })
        })
    }

    #[test]
    fn pieces_at_a_seam_and_the_whole_of_another_tile_are_one_object() {
        let items = tiles(2, 1, true);
        let [left, right, whole] = &items[..] else {
            panic!("{items:?}")
        };
        // The tiles end and begin at 556 and 444. The pieces are more certain than the whole, and do not meet half of each other.
        let found = || {
            [
                (left, object("car", 0.9, Rect::new(300.0, 100.0, 556.0, 300.0))),
                (right, object("car", 0.8, Rect::new(444.0, 100.0, 700.0, 300.0))),
                (whole, object("car", 0.4, Rect::new(298.0, 98.0, 702.0, 302.0))),
                (whole, object("bus", 0.4, Rect::new(298.0, 98.0, 702.0, 302.0))),
            ]
        };
        let united = merging(true, true).merge(found());
        let car = object("car", 0.9, Rect::new(298.0, 98.0, 702.0, 302.0));
        assert_eq!(united, [car.clone(), object("bus", 0.4, car.rect)]);
        let kept = merging(false, true).merge(found());
        assert_eq!(kept, [object("bus", 0.4, car.rect), Object { score: 0.4, ..car }]);
    }

    #[test]
    fn boxes_of_one_tile_stay_apart() {
        let items = tiles(2, 1, false);
        // Two people behind each other, seen by both tiles.
        let near = Rect::new(460.0, 100.0, 500.0, 220.0);
        let far = Rect::new(475.0, 90.0, 510.0, 200.0);
        let found = items.iter().flat_map(|item| {
            let shift = if item.bounds().x0 > 0.0 { 1.0 } else { 0.0 };
            [(0.8, near), (0.7, far)].map(|(score, rect)| {
                let rect = Rect::new(rect.x0 + shift, rect.y0, rect.x1 + shift, rect.y1);
                (item, object("person", score, rect))
            })
        });
        let objects = merging(true, true).merge(found);
        let widths: Vec<f32> = objects.iter().map(|object| object.rect.width()).collect();
        assert_eq!(widths, [40.0, 35.0]);
    }

    #[test]
    fn overlap_is_relative_to_the_smaller_box_or_to_the_union() {
        let items = tiles(2, 1, false);
        let small = object("car", 0.6, square(450.0, 100.0, 20.0));
        let large = object("car", 0.5, square(450.0, 100.0, 90.0));
        let found = || [(&items[0], small.clone()), (&items[1], large.clone())];
        assert_eq!(merging(true, true).merge(found()).len(), 1);
        assert_eq!(merging(true, false).merge(found()).len(), 2);
    }

    #[test]
    fn only_an_object_at_a_seam_is_completed_by_a_weaker_box() {
        let items = tiles(2, 1, true);
        let [left, _, whole] = &items[..] else {
            panic!("{items:?}")
        };
        let weak = |rect| Object {
            candidate: true,
            ..object("car", 0.2, rect)
        };
        let merged = |strong: Rect, other: Rect| {
            let found = [(left, object("car", 0.9, strong)), (whole, weak(other))];
            let [car] = &merging(true, true).merge(found)[..] else {
                panic!("not one object")
            };
            assert!(!car.candidate && car.score == 0.9);
            car.rect
        };
        let inside = square(100.0, 100.0, 50.0);
        assert_eq!(merged(inside, square(90.0, 90.0, 80.0)), inside);
        let cut = Rect::new(500.0, 100.0, 556.0, 150.0);
        let complete = Rect::new(500.0, 100.0, 620.0, 150.0);
        assert_eq!(merged(cut, complete), complete);
    }

    #[test]
    fn points_are_those_of_the_tile_that_does_not_cut_the_object() {
        let items = tiles(2, 1, false);
        let turned = |rect: Rect| {
            let points = RotatedRect::new(rect.centre(), rect.width(), rect.height(), 0.3);
            Points::Rotated(points)
        };
        let cut = Rect::new(440.0, 100.0, 556.0, 140.0);
        let uncut = Rect::new(450.0, 100.0, 600.0, 140.0);
        let of = |rect: Rect, score| Object {
            points: turned(rect),
            ..object("ship", score, rect)
        };
        let merged = merging(true, true).merge([(&items[0], of(cut, 0.9)), (&items[1], of(uncut, 0.5))]);
        let [ship] = &merged[..] else { panic!("{merged:?}") };
        assert_eq!(
            (ship.score, ship.rect, &ship.points),
            (0.9, uncut, &turned(uncut))
        );
        assert_eq!(uncut.centre(), Point::new(525.0, 120.0));
    }

    #[test]
    fn as_many_boxes_as_there_are_take_bounded_work() {
        let items = tiles(8, 8, false);
        let many = items.iter().flat_map(|item| {
            let tile = item.bounds();
            (0..100).map(move |index| {
                (
                    item,
                    object("car", 0.5, square(tile.x0 + index as f32, tile.y0, 4.0)),
                )
            })
        });
        assert!(merging(true, true).merge(many).len() <= MAX_BOXES);
    }

    proptest! {
        /// With an overlap that is at least as large as objects, each is found once and whole, wherever it stands and whichever
        /// of its pieces is the most certain; in any order of the tiles.
        #[test]
        fn each_object_is_found_exactly_once(
            (columns, rows, whole) in (1_u32..=5, 1_u32..=5, any::<bool>()),
            places in prop::collection::vec((0.0_f32..1.0, 0.0_f32..1.0, 0.2_f32..1.0), 1..12),
            scores in any::<u64>(),
            turn in 0_usize..30,
            unites in any::<bool>(),
        ) {
            let mut items = tiles(columns, rows, whole);
            let side = |length: u32, count: u32| {
                let count = count as f32;
                0.2 * length as f32 / (count - (count - 1.0) * 0.2)
            };
            let largest = side(SIZE.0, columns).min(side(SIZE.1, rows));
            // One in each cell of a grid, so that none meets another one.
            let cells = (SIZE.0 as f32 / 4.0, SIZE.1 as f32 / 3.0);
            let objects: Vec<Object> = places.iter().enumerate().map(|(index, (x, y, size))| {
                let side = size * largest.min(cells.1 - 1.0);
                let x = (index % 4) as f32 * cells.0 + x * (cells.0 - side);
                let y = (index / 4) as f32 * cells.1 + y * (cells.1 - side);
                object("car", 0.5, square(x, y, side))
            }).collect();
            let merging = merging(unites, true);
            let merge = |items: &[Item]| {
                let found = items.iter().flat_map(|item| {
                    let tile = item.bounds();
                    // Scores are of the tile, and not of its place in the list.
                    let own = (tile.x0 * 31.0 + tile.y0 * 17.0 + tile.x1) as u32;
                    seen(item, &objects, scores.rotate_left(own % 64))
                });
                merging.merge(found)
            };
            let merged = merge(&items);
            let mut rects: Vec<Rect> = merged.iter().map(|object| object.rect).collect();
            let mut expected: Vec<Rect> = objects.iter().map(|object| object.rect).collect();
            rects.sort_by(compare);
            expected.sort_by(compare);
            prop_assert_eq!(rects.len(), expected.len(), "{:?}", merged);
            for (rect, expected) in rects.iter().zip(&expected) {
                prop_assert!(rect.iou(expected) > 0.999, "{:?} of {:?}", rect, expected);
            }
            let count = items.len();
            items.rotate_left(turn % count);
            prop_assert_eq!(merge(&items), merged);
        }
    }
}
