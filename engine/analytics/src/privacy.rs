//! Privacy of a camera: classes of objects and regions of its picture that encoded pictures hide.
//!
//! Detectors miss objects in single frames, and boxes are a little too tight now and then. So a box is hidden with a
//! margin, and an object that is not found again stays hidden for [`HOLD_MS`] at its last place, which grows meanwhile.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use weir_flow::{HiddenArea, HiddenForm, HiddenShape, Object, Point, Rect};

use crate::transforms::Outline;

/// Media time for which an object stays hidden that is not found again.
pub const HOLD_MS: f64 = 1_000.0;

/// Part of the found box by which the hidden one is wider and higher.
const MARGIN: f32 = 0.25;

/// Parts of a box by which it grows in a second without the object.
const GROWTH: f64 = 1.0;

/// Overlap of two boxes of consecutive frames, as intersection over union, that are of one object.
const SAME: f32 = 0.3;

/// Boxes that are kept of recent objects.
const MAX_HELD: usize = 4_096;

/// Settings of a camera.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Privacy {
    /// Classes of objects that are hidden, each with its form.
    pub classes: BTreeMap<Arc<str>, HiddenForm>,
    /// Regions of the picture that are hidden.
    pub regions: Vec<(HiddenForm, Outline)>,
    /// True if the camera's own video is neither recorded nor shown.
    pub private: bool,
}

impl Privacy {
    /// True if pictures of the camera hide anything.
    #[must_use]
    pub fn hides(&self) -> bool {
        !self.classes.is_empty() || !self.regions.is_empty()
    }

    /// Boxes of those objects that are hidden, each with its form.
    pub fn hidden<'a>(&'a self, objects: &'a [Object]) -> impl Iterator<Item = (HiddenForm, Rect)> + 'a {
        let form = |object: &Object| self.classes.get(&object.class).copied();
        objects
            .iter()
            .filter_map(move |object| Some((form(object)?, object.rect)))
    }

    /// Regions of frames of that size.
    #[must_use]
    pub fn regions_of(&self, (width, height): (u32, u32)) -> Vec<HiddenArea> {
        let regions = self.regions.iter().map(|(form, outline)| {
            let points = outline.in_pixels(f64::from(width), f64::from(height)).into_iter();
            let points = points.map(|at| Point::new(at.x as f32, at.y as f32));
            HiddenArea {
                form: *form,
                shape: HiddenShape::Polygon(points.collect()),
            }
        });
        regions.collect()
    }
}

/// Recent objects of one stream, and what its last frame hid.
#[derive(Debug, Default)]
pub struct PrivacyMemory {
    /// Media time, form and box of objects, the oldest first.
    held: VecDeque<(f64, HiddenForm, Rect)>,
    last: Option<Vec<HiddenArea>>,
}

impl PrivacyMemory {
    /// Areas that the next frame hides, in which `found` was found.
    pub fn on_frame(
        &mut self,
        privacy: &Privacy,
        size: (u32, u32),
        pts_ms: f64,
        found: &[(HiddenForm, Rect)],
    ) -> Vec<HiddenArea> {
        self.held
            .retain(|(at_ms, ..)| (0.0..=HOLD_MS).contains(&(pts_ms - at_ms)));
        for (form, rect) in found {
            self.forget(*form, rect);
        }
        let area = |form: HiddenForm, rect: Rect| HiddenArea {
            form,
            shape: HiddenShape::Box(rect),
        };
        let mut areas = privacy.regions_of(size);
        areas.extend(found.iter().map(|(form, rect)| area(*form, rect.widen(MARGIN))));
        areas.extend(self.held.iter().map(|(at_ms, form, rect)| {
            let grown = ((pts_ms - at_ms) / 1e3 * GROWTH) as f32;
            area(*form, rect.widen(MARGIN + grown))
        }));
        let now = found.iter().map(|(form, rect)| (pts_ms, *form, *rect));
        self.held.extend(now);
        let excess = self.held.len().saturating_sub(MAX_HELD);
        self.held.drain(..excess);
        self.last = Some(areas.clone());
        areas
    }

    /// Areas that a frame hides in which nothing changed since the last one; `None` if that one is not known.
    #[must_use]
    pub fn on_still(&self) -> Option<Vec<HiddenArea>> {
        self.last.clone()
    }

    /// The objects of a frame are not known.
    pub fn on_unknown(&mut self) {
        self.last = None;
    }

    /// Forgets the earlier box that an object had which was found again in that form.
    fn forget(&mut self, form: HiddenForm, rect: &Rect) {
        let held = self.held.iter().enumerate();
        let overlaps = held
            .filter(|(_, (_, held, _))| *held <= form)
            .map(|(index, (.., held))| (index, held.iou(rect)));
        let same = overlaps.filter(|(_, overlap)| *overlap >= SAME);
        if let Some((index, _)) = same.max_by(|a, b| a.1.total_cmp(&b.1)) {
            self.held.remove(index);
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_flow::Points;

    use super::*;

    const SIZE: (u32, u32) = (640, 360);

    fn person() -> Rect {
        Rect::new(100.0, 100.0, 140.0, 200.0)
    }

    fn boxes(areas: &[HiddenArea]) -> Vec<Rect> {
        let boxes = areas.iter().filter_map(|area| match &area.shape {
            HiddenShape::Box(rect) => Some(*rect),
            HiddenShape::Polygon(_) => None,
        });
        boxes.collect()
    }

    #[test]
    fn an_object_that_is_missed_stays_hidden_for_a_second_and_its_place_grows() {
        let (privacy, mut memory) = (Privacy::default(), PrivacyMemory::default());
        let found = [(HiddenForm::Blur, person())];
        let first = boxes(&memory.on_frame(&privacy, SIZE, 0.0, &found));
        assert_eq!(first, [Rect::new(95.0, 87.5, 145.0, 212.5)]);
        let moved = Rect::new(104.0, 100.0, 144.0, 200.0);
        let again = boxes(&memory.on_frame(&privacy, SIZE, 40.0, &[(HiddenForm::Blur, moved)]));
        assert_eq!(again.len(), 1, "found again, it has one place");
        let missed = boxes(&memory.on_frame(&privacy, SIZE, 540.0, &[]));
        assert_eq!(missed, [Rect::new(89.0, 62.5, 159.0, 237.5)]);
        assert!(boxes(&memory.on_frame(&privacy, SIZE, 1_041.0, &[])).is_empty());
    }

    #[test]
    fn each_object_that_is_found_stands_for_one_of_the_frame_before() {
        let (privacy, mut memory) = (Privacy::default(), PrivacyMemory::default());
        let beside = Rect::new(115.0, 100.0, 155.0, 200.0);
        let both = [(HiddenForm::Blur, person()), (HiddenForm::Blur, beside)];
        memory.on_frame(&privacy, SIZE, 0.0, &both);
        let areas = boxes(&memory.on_frame(&privacy, SIZE, 40.0, &[(HiddenForm::Blur, person())]));
        assert_eq!(areas.len(), 2, "the other one is still hidden");
        let areas = boxes(&memory.on_frame(&privacy, SIZE, 80.0, &both));
        assert_eq!(areas.len(), 2);
    }

    #[test]
    fn a_blur_does_not_take_the_place_of_a_blackout() {
        let (privacy, mut memory) = (Privacy::default(), PrivacyMemory::default());
        memory.on_frame(&privacy, SIZE, 0.0, &[(HiddenForm::Blackout, person())]);
        let areas = memory.on_frame(&privacy, SIZE, 40.0, &[(HiddenForm::Blur, person())]);
        let forms: Vec<HiddenForm> = areas.iter().map(|area| area.form).collect();
        assert_eq!(forms, [HiddenForm::Blur, HiddenForm::Blackout]);
    }

    #[test]
    fn a_still_frame_hides_what_the_last_one_hid_unless_that_is_unknown() {
        let (privacy, mut memory) = (Privacy::default(), PrivacyMemory::default());
        assert_eq!(memory.on_still(), None);
        let areas = memory.on_frame(&privacy, SIZE, 0.0, &[(HiddenForm::Blur, person())]);
        assert_eq!(memory.on_still(), Some(areas));
        memory.on_unknown();
        assert_eq!(memory.on_still(), None);
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let (privacy, mut memory) = (Privacy::default(), PrivacyMemory::default());
        for frame in 0..4_u16 {
            let at = |index: u16| f32::from(frame * 3_000 + index) * 200.0;
            let apart = |index: u16| Rect::new(at(index), 0.0, at(index) + 10.0, 10.0);
            let found: Vec<_> = (0..2_000).map(|index| (HiddenForm::Blur, apart(index))).collect();
            memory.on_frame(&privacy, SIZE, f64::from(frame), &found);
        }
        assert_eq!(memory.held.len(), MAX_HELD);
    }

    #[test]
    fn objects_of_named_classes_are_hidden_candidates_too() {
        let privacy = Privacy {
            classes: BTreeMap::from([("person".into(), HiddenForm::Blur)]),
            ..Privacy::default()
        };
        let object = |class: &str, candidate| Object {
            class: class.into(),
            score: 0.2,
            rect: person(),
            parent: None,
            points: Points::None,
            candidate,
        };
        let objects = [
            object("person", false),
            object("person", true),
            object("car", false),
        ];
        assert_eq!(privacy.hidden(&objects).count(), 2);
        assert!(privacy.hides() && !Privacy::default().hides());
    }
}
