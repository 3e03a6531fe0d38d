//! Regions of a frame that a later stage of a cascade is asked instead of the whole: crops around what a detector is not certain
//! of. What it found there goes with them, so that the objects of the next stage take its place.
//!
//! Each box of a certainty below the one that is asked for is widened to twice its sides, at least [`MIN_SIDE`] pixels. Regions
//! that meet become one; of more than [`MAX_REGIONS`] those two whose union adds the least area do. A region also covers every
//! object whose centre is in it, so that none is cut. Where all together cover more than half of the frame, the whole frame is
//! asked: it is one item, and a region costs as much.

use std::sync::Arc;

use weir_flow::{Frame, Inference, Item, Object, Points, Rect, Region, SplitAnswer};

/// Regions of one frame: each is an item, and costs what a frame does.
const MAX_REGIONS: usize = 4;

/// Boxes that are looked at, the least certain first.
const MAX_BOXES: usize = 64;

/// By how much of its sides a box is widened: an object is not known by itself alone.
const CONTEXT: f32 = 1.0;

/// Least side of a region, in pixels of the frame.
const MIN_SIDE: f32 = 64.0;

/// Part of the frame above which all of it is asked.
const MAX_COVERED: f32 = 0.5;

/// Part of an object above which it is the same as another one of its class that covers so much of it.
const SAME: f32 = 0.5;

/// Divides the answer to a whole frame; `None` where it is to be handed on as it is.
pub(super) fn split(item: &Item, inference: &Inference, least: f32) -> Option<SplitAnswer> {
    if item.region != Region::Whole {
        return None;
    }
    let regions = regions(&item.frame, inference, least);
    let size = Rect::new(
        0.0,
        0.0,
        item.frame.image.width as f32,
        item.frame.image.height as f32,
    );
    let covered: f32 = regions.iter().map(Rect::area).sum();
    if regions.is_empty() || covered > MAX_COVERED * size.area() {
        return None;
    }
    let of = |rect: &Rect| regions.iter().position(|region| region.contains(rect.centre()));
    let part = |place: Option<usize>| {
        let boxes = inference
            .boxes
            .iter()
            .filter(|decided| of(&decided.rect) == place);
        let boxes: Vec<_> = boxes.copied().collect();
        let objects = inference
            .objects
            .iter()
            .filter(|object| of(&object.rect) == place);
        Inference {
            objects: objects.cloned().collect(),
            certainty: Some(boxes.iter().map(|decided| decided.certainty).fold(1.0, f32::min)),
            boxes,
            ..Inference::default()
        }
    };
    let crop = |(place, rect): (usize, &Rect)| {
        let item = Item {
            frame: Arc::clone(&item.frame),
            region: Region::Crop {
                rect: *rect,
                points: Points::None,
            },
            object: item.object,
            class: item.class.clone(),
        };
        (item, part(Some(place)))
    };
    let rest = Inference {
        attribute: inference.attribute.clone(),
        not_finite: inference.not_finite,
        implausible: inference.implausible,
        ..part(None)
    };
    Some(SplitAnswer {
        rest,
        regions: regions.iter().enumerate().map(crop).collect(),
    })
}

/// Boxes around what is not certain enough, which do not meet.
fn regions(frame: &Frame, inference: &Inference, least: f32) -> Vec<Rect> {
    let (width, height) = (frame.image.width as f32, frame.image.height as f32);
    let mut uncertain: Vec<_> = inference
        .boxes
        .iter()
        .filter(|decided| decided.certainty < least && decided.rect.area() > 0.0)
        .collect();
    uncertain.sort_by(|a, b| a.certainty.total_cmp(&b.certainty));
    uncertain.truncate(MAX_BOXES);
    let around = |rect: &Rect| {
        let (wide, centre) = (rect.widen(CONTEXT), rect.centre());
        let half = MIN_SIDE / 2.0;
        let least = Rect::new(centre.x - half, centre.y - half, centre.x + half, centre.y + half);
        wide.union(&least).clamp(width, height)
    };
    let mut regions: Vec<Rect> = uncertain.iter().map(|decided| around(&decided.rect)).collect();
    join(&mut regions, meet, 0);
    join(&mut regions, |_, _| true, MAX_REGIONS);
    join(&mut regions, meet, 0);
    // Each round at least one more object is covered whole.
    while cover(&mut regions, &inference.objects) {
        join(&mut regions, meet, 0);
    }
    regions
}

fn meet(a: &Rect, b: &Rect) -> bool {
    a.intersection(b).area() > 0.0
}

/// Merges pairs of regions for which `joins` is true, until at most `most` regions or no such pair remains.
/// Each step merges the pair whose union adds the least area.
fn join(regions: &mut Vec<Rect>, joins: impl Fn(&Rect, &Rect) -> bool, most: usize) {
    while regions.len() > most {
        let added = |a: &Rect, b: &Rect| a.union(b).area() - a.area() - b.area();
        let mut best: Option<(f32, usize, usize)> = None;
        for (place, a) in regions.iter().enumerate() {
            for (other, b) in regions.iter().enumerate().skip(place + 1) {
                let adds = added(a, b);
                if joins(a, b) && best.is_none_or(|(least, ..)| adds < least) {
                    best = Some((adds, place, other));
                }
            }
        }
        let Some((_, place, other)) = best else { return };
        let union = regions[place].union(&regions[other]);
        regions.remove(other);
        regions[place] = union;
    }
}

/// Widens regions to cover whole the objects whose centres are in them; whether any was widened.
fn cover(regions: &mut [Rect], objects: &[Object]) -> bool {
    let mut is_wider = false;
    for object in objects {
        let Some(region) = regions
            .iter_mut()
            .find(|region| region.contains(object.rect.centre()))
        else {
            continue;
        };
        let union = region.union(&object.rect);
        is_wider |= union != *region;
        *region = union;
    }
    is_wider
}

/// Whether the items are a frame and regions of it.
pub(super) fn is_split(items: &[Item]) -> bool {
    match items {
        [whole, regions @ ..] => {
            whole.region == Region::Whole
                && !regions.is_empty()
                && regions.iter().all(|item| item.region != Region::Whole)
        }
        [] => false,
    }
}

/// The objects of a frame and of its regions, each with the place of its item, without those of regions that are the seen part
/// of an object that lies mostly beside the region.
pub(super) fn whole_objects(objects: Vec<(usize, Object)>) -> Vec<Object> {
    let beside: Vec<(Arc<str>, Rect)> = (objects.iter())
        .filter(|(place, _)| *place == 0)
        .map(|(_, object)| (Arc::clone(&object.class), object.rect))
        .collect();
    let is_part = |object: &Object| {
        let covered = |rect: &Rect| rect.intersection(&object.rect).area() > SAME * object.rect.area();
        (beside.iter()).any(|(class, rect)| *class == object.class && covered(rect))
    };
    let kept = objects
        .into_iter()
        .filter(|(place, object)| *place == 0 || !is_part(object));
    kept.map(|(_, object)| object).collect()
}

#[cfg(test)]
mod tests {
    use weir_flow::{BoxCertainty, Image};

    use super::*;

    fn whole() -> Item {
        let image = Image::from_rgb(1_000, 500, vec![0; 1_000 * 500 * 3]);
        Item {
            frame: Arc::new(Frame::new(0, 0.0, image)),
            region: Region::Whole,
            object: None,
            class: None,
        }
    }

    fn object(class: &str, rect: Rect) -> Object {
        Object {
            class: class.into(),
            score: 0.5,
            rect,
            parent: None,
            points: Points::None,
            candidate: false,
        }
    }

    /// Objects of class "car" by box and certainty; those of a negative one are too weak to be objects.
    fn found(boxes: &[(Rect, f32)]) -> Inference {
        Inference {
            objects: (boxes.iter().filter(|(_, certainty)| *certainty >= 0.0))
                .map(|(rect, _)| object("car", *rect))
                .collect(),
            boxes: (boxes.iter())
                .map(|(rect, certainty)| BoxCertainty {
                    rect: *rect,
                    certainty: certainty.abs(),
                })
                .collect(),
            ..Inference::default()
        }
    }

    fn boxed(x: f32, y: f32, side: f32) -> Rect {
        Rect::new(x, y, x + side, y + side)
    }

    fn rects(split: &SplitAnswer) -> Vec<Rect> {
        let rect = |(item, _): &(Item, Inference)| match &item.region {
            Region::Crop { rect, .. } => *rect,
            Region::Whole => panic!("a region is no crop"),
        };
        split.regions.iter().map(rect).collect()
    }

    #[test]
    fn what_is_uncertain_is_cut_out_with_what_is_around_it() {
        let inference = found(&[
            (boxed(100.0, 100.0, 50.0), 0.9),
            (boxed(500.0, 300.0, 50.0), 0.3),
            (boxed(800.0, 100.0, 10.0), -0.2),
        ]);
        let split = split(&whole(), &inference, 0.5).expect("two are uncertain");
        // By rising certainty: the weak box, which has the least side, and the object with as much again around it.
        assert_eq!(
            rects(&split),
            [
                Rect::new(773.0, 73.0, 837.0, 137.0),
                Rect::new(475.0, 275.0, 575.0, 375.0)
            ]
        );
        let [(_, weak), (_, uncertain)] = &split.regions[..] else {
            panic!("{split:?}")
        };
        assert_eq!((weak.objects.len(), weak.certainty), (0, Some(0.2)));
        assert_eq!((uncertain.objects.len(), uncertain.certainty), (1, Some(0.3)));
        assert_eq!((split.rest.objects.len(), split.rest.certainty), (1, Some(0.9)));
    }

    #[test]
    fn no_object_is_cut_by_a_region() {
        // The centre of the long one is in the region of the first, and the third is in that of the long one then.
        let long = Rect::new(430.0, 120.0, 630.0, 140.0);
        let inference = found(&[
            (boxed(500.0, 100.0, 60.0), 0.1),
            (long, 0.9),
            (boxed(700.0, 400.0, 20.0), 0.9),
        ]);
        let split = split(&whole(), &inference, 0.5).expect("one is uncertain");
        assert_eq!(rects(&split), [Rect::new(430.0, 70.0, 630.0, 190.0)]);
        assert_eq!(split.regions[0].1.objects.len(), 2);
        assert_eq!(split.rest.objects.len(), 1);
    }

    #[test]
    fn regions_are_few_and_the_frame_is_whole_where_they_are_most_of_it() {
        let many: Vec<(Rect, f32)> = (0..12)
            .map(|x| (boxed(80.0 * x as f32, 10.0 + 35.0 * (x % 2) as f32, 6.0), 0.1))
            .collect();
        let divided = split(&whole(), &found(&many), 0.5).expect("they are small");
        let regions = rects(&divided);
        assert!(regions.len() <= MAX_REGIONS, "{regions:?}");
        for (place, a) in regions.iter().enumerate() {
            let meets = |b: &Rect| a.intersection(b).area() > 0.0;
            assert!(!regions[place + 1..].iter().any(meets), "{regions:?}");
        }
        let objects: usize = divided.regions.iter().map(|(_, found)| found.objects.len()).sum();
        assert_eq!(objects + divided.rest.objects.len(), many.len());
        assert!(split(&whole(), &found(&[(boxed(100.0, 50.0, 400.0), 0.1)]), 0.5).is_none());
        assert!(split(&whole(), &found(&[(boxed(100.0, 50.0, 40.0), 0.6)]), 0.5).is_none());
        let (crop, _) = &divided.regions[0];
        assert!(
            split(crop, &found(&many), 0.5).is_none(),
            "a region is not divided again"
        );
    }

    #[test]
    fn the_seen_part_of_an_object_beside_a_region_is_none() {
        let beside = object("car", Rect::new(0.0, 0.0, 100.0, 50.0));
        let seen = object("car", Rect::new(60.0, 0.0, 105.0, 50.0));
        let other = object("person", seen.rect);
        let own = object("car", Rect::new(90.0, 0.0, 150.0, 50.0));
        let kept = whole_objects(vec![
            (0, beside.clone()),
            (1, seen),
            (1, other.clone()),
            (1, own.clone()),
        ]);
        assert_eq!(kept, [beside, other, own]);
    }
}
