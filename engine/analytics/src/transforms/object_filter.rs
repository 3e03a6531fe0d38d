//! Objects of a camera that count: masks of its picture, and sizes, shapes and scores by class.
//!
//! A filter is applied as a detector has looked at a whole frame, before modules that cut objects out of it. Objects found within
//! the crop of another one belong to that one.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_flow::{ModuleOutput, Object, Rect};

use super::geometry::{Anchor, Position};
use super::ground::{GroundMap, GroundView};
use super::spec::Outline;

/// Bounds of the objects of a class. Areas are parts of the frame's; sides of a ratio are in pixels.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ObjectRule {
    /// Polygons, in one of which an object must stand; empty: anywhere.
    pub only: Vec<Outline>,
    /// Polygons in which no object counts.
    pub ignore: Vec<Outline>,
    /// Smallest area of a box.
    pub min_area: Option<f64>,
    /// Largest area of a box.
    pub max_area: Option<f64>,
    /// Smallest ratio of width to height.
    pub min_ratio: Option<f64>,
    /// Largest ratio of width to height.
    pub max_ratio: Option<f64>,
    /// Least height of the object in metres, by the map of the ground.
    pub min_height_m: Option<f64>,
    /// Greatest height of the object in metres.
    pub max_height_m: Option<f64>,
    /// Least confidence. A weaker object is a candidate: of use to a tracker that follows the object already.
    pub min_score: Option<f64>,
}

/// Result of a filter for one object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The object counts.
    Kept,
    /// It is a candidate.
    Weak,
    /// It is left out.
    Dropped,
}

/// Rules for the objects of a camera: one for all classes, and more by class. An object must keep to the masks of both; a bound of
/// its class takes the place of that for all.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ObjectFilter {
    /// Rule for the objects of all classes.
    pub all: ObjectRule,
    /// Rules of single classes.
    pub classes: BTreeMap<Arc<str>, ObjectRule>,
    /// Map of the ground, by which heights are measured.
    pub ground: Option<GroundMap>,
}

impl ObjectFilter {
    /// Whether it leaves every object as it is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.all == ObjectRule::default() && self.classes.is_empty()
    }

    /// Whether it has a bound of heights, which needs a map of the ground.
    #[must_use]
    pub fn has_heights(&self) -> bool {
        let mut rules = std::iter::once(&self.all).chain(self.classes.values());
        rules.any(|rule| rule.min_height_m.is_some() || rule.max_height_m.is_some())
    }

    /// The ground as frames of that size show it, if objects have bounds of their heights.
    fn ground_of(&self, size: (u32, u32)) -> Option<GroundView> {
        self.ground.as_ref().filter(|_| self.has_heights())?.view(size)
    }

    /// Polygons, each with its class, and whether objects are kept within it or left out.
    pub fn masks(&self) -> impl Iterator<Item = (Option<&Arc<str>>, &Outline, bool)> {
        let classes = self.classes.iter().map(|(class, rule)| (Some(class), rule));
        std::iter::once((None, &self.all))
            .chain(classes)
            .flat_map(|(class, rule)| {
                let only = rule.only.iter().map(move |outline| (class, outline, true));
                only.chain(rule.ignore.iter().map(move |outline| (class, outline, false)))
            })
    }

    /// Judges an object of a frame of that size.
    #[must_use]
    pub fn judge(&self, object: &Object, size: (u32, u32)) -> Verdict {
        self.judge_on(object, size, self.ground_of(size).as_ref())
    }

    fn judge_on(&self, object: &Object, size: (u32, u32), ground: Option<&GroundView>) -> Verdict {
        let (width, height) = (f64::from(size.0), f64::from(size.1));
        let own = self.classes.get(&object.class);
        let bound = |of: fn(&ObjectRule) -> Option<f64>| own.and_then(of).or_else(|| of(&self.all));
        let rect = &object.rect;
        let sides = (f64::from(rect.x1 - rect.x0), f64::from(rect.y1 - rect.y0));
        let area = sides.0 * sides.1 / (width * height).max(1.0);
        let ratio = sides.0 / sides.1.max(f64::MIN_POSITIVE);
        let is_between = |value: f64, min: Option<f64>, max: Option<f64>| {
            min.is_none_or(|min| value >= min) && max.is_none_or(|max| value <= max)
        };
        let has_size = is_between(area, bound(|rule| rule.min_area), bound(|rule| rule.max_area))
            && is_between(ratio, bound(|rule| rule.min_ratio), bound(|rule| rule.max_ratio));
        // A box that the edge of the picture cuts stands on the last row, within masks that reach down to it.
        let anchor = Anchor::Bottom.of(rect);
        let at = Position::new(
            anchor.x.clamp(0.5, (width - 0.5).max(0.5)),
            anchor.y.clamp(0.5, (height - 0.5).max(0.5)),
        );
        let is_in = |outline: &Outline| outline.polygon(width, height).contains(at);
        let mut rules = std::iter::once(&self.all).chain(own);
        let is_placed = rules.all(|rule| {
            (rule.only.is_empty() || rule.only.iter().any(is_in)) && !rule.ignore.iter().any(is_in)
        });
        let heights = (bound(|rule| rule.min_height_m), bound(|rule| rule.max_height_m));
        if !has_size || !is_placed || !has_height(rect, height, ground, heights) {
            Verdict::Dropped
        } else if bound(|rule| rule.min_score).is_some_and(|min| f64::from(object.score) < min) {
            Verdict::Weak
        } else {
            Verdict::Kept
        }
    }

    /// Applies the filter to the objects that a detector found in a whole frame of that size. Attributes of its output must be of
    /// objects of others.
    pub fn apply(&self, size: (u32, u32), output: &mut ModuleOutput) {
        let ground = self.ground_of(size);
        output.objects.retain_mut(|object| {
            if object.parent.is_some() {
                return true;
            }
            let verdict = self.judge_on(object, size, ground.as_ref());
            object.candidate |= verdict == Verdict::Weak;
            verdict != Verdict::Dropped
        });
    }
}

/// Whether an object is within bounds of its height. One that the frame cuts above is at least as high as its box; one that it cuts
/// below, or that does not stand on the ground, has no height.
fn has_height(
    rect: &Rect,
    frame_height: f64,
    ground: Option<&GroundView>,
    (min, max): (Option<f64>, Option<f64>),
) -> bool {
    let is_cut_below = f64::from(rect.y1) > frame_height - 1.0;
    let Some(ground) = ground.filter(|_| min.or(max).is_some() && !is_cut_below) else {
        return true;
    };
    let Some(height) = ground.height_m(rect) else {
        return true;
    };
    let is_cut_above = rect.y0 < 1.0;
    min.is_none_or(|min| height >= min || is_cut_above) && max.is_none_or(|max| height <= max)
}

#[cfg(test)]
mod tests {
    use weir_flow::{ObjectRef, Points};

    use super::super::read_polygon;
    use super::*;

    const SIZE: (u32, u32) = (200, 100);

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

    fn polygon(points: &[[f64; 2]]) -> Vec<Outline> {
        vec![read_polygon("ignore", points.to_vec()).expect("a polygon")]
    }

    fn filter(all: ObjectRule, car: ObjectRule) -> ObjectFilter {
        ObjectFilter {
            all,
            classes: BTreeMap::from([("car".into(), car)]),
            ground: None,
        }
    }

    /// An object of 20 x 10 pixels whose lower edge has its middle at that point.
    fn standing(class: &str, x: f32, y: f32) -> Object {
        object(class, 0.5, Rect::new(x - 10.0, y - 10.0, x + 10.0, y))
    }

    #[test]
    fn an_object_stands_at_its_lower_edge_and_within_masks_that_reach_the_edge_of_the_picture() {
        let lower_half = polygon(&[[0.0, 0.5], [1.0, 0.5], [1.0, 1.0], [0.0, 1.0]]);
        let ignoring = filter(
            ObjectRule {
                ignore: lower_half.clone(),
                ..ObjectRule::default()
            },
            ObjectRule::default(),
        );
        let only = filter(
            ObjectRule {
                only: lower_half,
                ..ObjectRule::default()
            },
            ObjectRule::default(),
        );
        for (y, is_in) in [(49.0, false), (51.0, true), (100.0, true)] {
            for class in ["car", "bus"] {
                let object = standing(class, 100.0, y);
                assert_eq!(ignoring.judge(&object, SIZE) == Verdict::Dropped, is_in, "{y}");
                assert_eq!(only.judge(&object, SIZE) == Verdict::Kept, is_in, "{y}");
            }
        }
    }

    #[test]
    fn bounds_of_a_class_take_the_place_of_those_of_all_and_masks_of_both_hold() {
        let left = polygon(&[[0.0, 0.0], [0.5, 0.0], [0.5, 1.0], [0.0, 1.0]]);
        let top = polygon(&[[0.0, 0.0], [1.0, 0.0], [1.0, 0.5], [0.0, 0.5]]);
        let all = ObjectRule {
            ignore: left,
            min_area: Some(0.02),
            max_ratio: Some(1.0),
            min_score: Some(0.6),
            ..ObjectRule::default()
        };
        let car = ObjectRule {
            ignore: top,
            min_area: Some(0.005),
            max_ratio: Some(3.0),
            min_score: Some(0.4),
            ..ObjectRule::default()
        };
        let filter = filter(all, car);
        let judge = |object: Object| filter.judge(&object, SIZE);
        // A hundredth of the frame, twice as wide as it is high.
        assert_eq!(judge(standing("car", 150.0, 90.0)), Verdict::Kept);
        assert_eq!(judge(standing("bus", 150.0, 90.0)), Verdict::Dropped);
        assert_eq!(judge(standing("car", 50.0, 90.0)), Verdict::Dropped);
        assert_eq!(judge(standing("car", 150.0, 40.0)), Verdict::Dropped);
        let square = |class: &str| object(class, 0.5, Rect::new(150.0, 60.0, 180.0, 90.0));
        assert_eq!(
            (judge(square("car")), judge(square("bus"))),
            (Verdict::Kept, Verdict::Weak)
        );
    }

    #[test]
    fn weak_objects_become_candidates_and_what_was_found_in_a_crop_stays() {
        let filter = filter(
            ObjectRule {
                min_score: Some(0.6),
                min_area: Some(0.5),
                ..ObjectRule::default()
            },
            ObjectRule {
                min_area: Some(0.0),
                ..ObjectRule::default()
            },
        );
        let parent = Some(ObjectRef { module: 0, index: 0 });
        let plate = Object {
            parent,
            ..standing("plate", 100.0, 50.0)
        };
        let mut output = ModuleOutput {
            objects: vec![
                standing("car", 100.0, 50.0),
                standing("bus", 100.0, 50.0),
                plate.clone(),
            ],
            attributes: Vec::new(),
        };
        filter.apply(SIZE, &mut output);
        let weak = Object {
            candidate: true,
            ..standing("car", 100.0, 50.0)
        };
        assert_eq!(output.objects, [weak, plate]);
        assert!(ObjectFilter::default().is_empty() && !filter.is_empty());
    }

    /// Four metres of a yard that a camera sees from three metres above the ground, 10 degrees downwards.
    fn yard() -> GroundMap {
        let points = [
            [0.3904, 0.48332],
            [0.6096, 0.48332],
            [0.73811, 0.83129],
            [0.26189, 0.83129],
        ];
        let metres = [[0.0, 10.0], [4.0, 10.0], [4.0, 0.0], [0.0, 0.0]];
        let at = |[x, y]: [f64; 2]| Position::new(x, y);
        GroundMap::new(points.map(at), metres.map(at)).unwrap()
    }

    #[test]
    fn heights_in_metres_depend_on_the_place_and_are_not_judged_where_they_are_not_seen() {
        let all = ObjectRule {
            min_height_m: Some(1.0),
            max_height_m: Some(2.5),
            ..ObjectRule::default()
        };
        let filter = ObjectFilter {
            ground: Some(yard()),
            ..filter(all, ObjectRule::default())
        };
        let size = (1_280, 720);
        let view = yard().view(size).unwrap();
        // A box that stands at a point of the picture and is so many metres high.
        let standing = |foot: Position, height_m: f64| {
            let head = view.above(foot, height_m).unwrap();
            let rect = Rect::new(
                foot.x as f32 - 10.0,
                head.y as f32,
                foot.x as f32 + 10.0,
                foot.y as f32,
            );
            object("person", 0.5, rect)
        };
        let verdict = |object: &Object| filter.judge(object, size);
        let mut rows = Vec::new();
        for y in [260.0, 400.0, 590.0] {
            let foot = Position::new(640.0, y);
            assert_eq!(verdict(&standing(foot, 0.8)), Verdict::Dropped, "{y}");
            assert_eq!(verdict(&standing(foot, 1.8)), Verdict::Kept, "{y}");
            assert_eq!(verdict(&standing(foot, 2.8)), Verdict::Dropped, "{y}");
            let rect = standing(foot, 1.8).rect;
            rows.push(rect.y1 - rect.y0);
        }
        assert!(rows[0] * 1.5 < rows[2], "far objects have lower boxes: {rows:?}");
        let cut_below = object("person", 0.5, Rect::new(600.0, 700.0, 660.0, 720.0));
        assert_eq!(verdict(&cut_below), Verdict::Kept);
        let cut_above = object("person", 0.5, Rect::new(600.0, 0.0, 660.0, 240.0));
        let height = view.height_m(&cut_above.rect).unwrap();
        assert_eq!(verdict(&cut_above) == Verdict::Dropped, height > 2.5, "{height}");
        let in_the_sky = object("person", 0.5, Rect::new(600.0, 4.0, 660.0, 12.0));
        assert_eq!(view.height_m(&in_the_sky.rect), None);
        assert_eq!(verdict(&in_the_sky), Verdict::Kept);
        assert!(filter.has_heights() && !filter.is_empty());
        let no_ground = ObjectFilter {
            ground: None,
            ..filter.clone()
        };
        assert_eq!(
            no_ground.judge(&standing(Position::new(640.0, 400.0), 0.5), size),
            Verdict::Kept
        );
    }
}
