//! Parts of objects that a detector finds in the whole frame: the plate of a car, the face of a person. What is read of them
//! belongs to what they are part of.

use std::sync::Arc;

use crate::{ObjectRef, Rect, RequestResults};

/// Least share of a part that lies within the box of what it is part of.
const MIN_WITHIN: f32 = 0.7;

/// Classes that are parts, each with the classes that have it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Parts(Vec<(Arc<str>, Vec<Arc<str>>)>);

impl Parts {
    /// Reads texts such as `"plate of car, van"`.
    ///
    /// # Errors
    /// Says which text cannot be read, and how to write it.
    pub fn read(texts: &[String]) -> Result<Self, String> {
        let mut parts: Vec<(Arc<str>, Vec<Arc<str>>)> = Vec::new();
        for text in texts {
            let wrong =
                || format!("\"{text}\" does not say what is part of what: write \"plate of car, van\"");
            let (part, owners) = text.split_once(" of ").ok_or_else(wrong)?;
            let part = part.trim();
            let owners: Vec<Arc<str>> = owners.split(',').map(|owner| owner.trim().into()).collect();
            if part.is_empty() || owners.iter().any(|owner| owner.is_empty()) {
                return Err(wrong());
            }
            if parts.iter().any(|(known, _)| **known == *part) {
                return Err(format!(
                    "\"{part}\" is there twice: name all that have it in one text"
                ));
            }
            parts.push((part.into(), owners));
        }
        let is_part = |class: &Arc<str>| parts.iter().any(|(part, _)| part == class);
        if let Some(owner) = parts.iter().flat_map(|(_, owners)| owners).find(|it| is_part(it)) {
            return Err(format!("\"{owner}\" is a part, and cannot have one"));
        }
        Ok(Self(parts))
    }

    /// True if objects of that class are parts of other objects.
    #[must_use]
    pub fn contains(&self, class: &str) -> bool {
        self.0.iter().any(|(part, _)| **part == *class)
    }

    /// Object to which a part belongs; both are of modules that `is_of` accepts, and the object's box
    /// contains the part. If there are several, objects that events report come before mere candidates for
    /// trackers; among these the one with the nearest horizontal middle is chosen, by distance relative to
    /// its width.
    #[must_use]
    pub fn owner(
        &self,
        results: &RequestResults,
        part: ObjectRef,
        is_of: &dyn Fn(u32) -> bool,
    ) -> Option<ObjectRef> {
        let object = results.object(part).filter(|_| is_of(part.module))?;
        let (_, owners) = self.0.iter().find(|(class, _)| *class == object.class)?;
        let shared = |rect: &Rect| {
            let wide = rect.x1.min(object.rect.x1) - rect.x0.max(object.rect.x0);
            let high = rect.y1.min(object.rect.y1) - rect.y0.max(object.rect.y0);
            wide.max(0.0) * high.max(0.0)
        };
        let (least, part) = (MIN_WITHIN * object.rect.area(), object.rect.centre().x);
        results
            .objects()
            .filter(|(name, it)| is_of(name.module) && owners.contains(&it.class))
            .filter(|(_, it)| shared(&it.rect) >= least)
            .min_by(|(_, one), (_, other)| {
                let by_middle = || off_middle(&one.rect, part).total_cmp(&off_middle(&other.rect, part));
                one.candidate.cmp(&other.candidate).then_with(by_middle)
            })
            .map(|(name, _)| name)
    }
}

/// Horizontal distance of a point from the middle of a box, as a fraction of the box's width.
fn off_middle(rect: &Rect, x: f32) -> f32 {
    (x - rect.centre().x).abs() / rect.width().max(f32::MIN_POSITIVE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ModuleOutput, Object, Points};

    fn parts(texts: &[&str]) -> Result<Parts, String> {
        Parts::read(&texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn texts_say_what_is_part_of_what_or_what_is_wrong_with_them() {
        let read = parts(&["plate of car, police van", "face of person"]).unwrap();
        assert!(read.contains("plate") && read.contains("face") && !read.contains("car"));
        for (texts, says) in [
            (&["plate"][..], "does not say"),
            (&["plate of "], "does not say"),
            (&["plate of car", "plate of van"], "twice"),
            (&["plate of car", "car of person"], "is a part"),
        ] {
            let error = parts(texts).unwrap_err();
            assert!(error.contains(says), "{error}");
        }
    }

    #[test]
    fn a_part_belongs_to_the_one_that_has_it_in_its_middle() {
        let object = |class: &str, rect: Rect| Object {
            candidate: false,
            class: class.into(),
            score: 0.9,
            rect,
            parent: None,
            points: Points::None,
        };
        let candidate = Object {
            candidate: true,
            ..object("car", Rect::new(70.0, 0.0, 80.0, 100.0))
        };
        let objects = vec![
            object("car", Rect::new(0.0, 0.0, 100.0, 100.0)),
            object("car", Rect::new(20.0, 20.0, 140.0, 140.0)),
            object("person", Rect::new(0.0, 0.0, 200.0, 200.0)),
            object("plate", Rect::new(60.0, 60.0, 90.0, 70.0)),
            object("plate", Rect::new(85.0, 5.0, 115.0, 15.0)),
            candidate,
            object("plate", Rect::new(71.0, 5.0, 79.0, 15.0)),
        ];
        let mut results = RequestResults::default();
        results.add(
            0,
            ModuleOutput {
                objects,
                attributes: vec![],
            },
        );
        let name = |index| ObjectRef { module: 0, index };
        let read = parts(&["plate of car"]).unwrap();
        let owner = |index| read.owner(&results, name(index), &|module| module == 0);
        assert_eq!(owner(3), Some(name(1)), "not the person, and not the car beside");
        assert_eq!(owner(4), None, "half of it is not within");
        assert_eq!(owner(6), Some(name(0)), "and not what is no event");
        assert_eq!(owner(0), None, "no part at all");
        assert_eq!(read.owner(&results, name(3), &|module| module == 1), None);
    }
}
