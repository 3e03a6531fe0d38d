//! Scenes of rendered frames, against which reports can be evaluated.

use super::{Scene, Thing, classes, place};
use crate::{FrameTruth, TruthAttribute, TruthObject};

/// Attributes of plates and faces that reports speak of, as the applications' graphs name them.
const PLATE: &str = "plate";
const IDENTITY: &str = "identity";

/// Thing of a frame. Flags tell which parts a report must mention and which it may leave out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrueThing {
    /// All that is known about it.
    pub thing: Thing,
    /// True if a report must mention it: it is large enough, and visible.
    pub is_asked: bool,
    /// Whether its plate can be.
    pub plate_is_asked: bool,
    /// Whether its name can be, by its face.
    pub name_is_asked: bool,
}

/// The things of a frame that reports speak of, in the order of the truth; `size` is that of the picture.
#[must_use]
pub fn things(frame: &FrameTruth, size: (u32, u32)) -> Vec<TrueThing> {
    let is_meant = |object: &&TruthObject| classes().any(|(class, _)| *class == *object.class);
    let objects = frame.objects.iter().filter(is_meant);
    objects.map(|object| true_thing(object, frame, size)).collect()
}

fn true_thing(object: &TruthObject, frame: &FrameTruth, size: (u32, u32)) -> TrueThing {
    let parts = || frame.objects.iter().filter(|part| part.parent == Some(object.id));
    let plate = parts().find_map(|part| match part.attributes.get(PLATE) {
        Some(TruthAttribute::Text { text }) => Some((text.clone(), !part.ignore)),
        _ => None,
    });
    let name = parts().find_map(|part| match part.attributes.get(IDENTITY) {
        Some(TruthAttribute::Match { r#match: Some(name) }) => Some((name.clone(), !part.ignore)),
        _ => None,
    });
    let is_asked = !object.ignore;
    TrueThing {
        is_asked,
        plate_is_asked: is_asked && plate.as_ref().is_some_and(|(_, asked)| *asked),
        name_is_asked: is_asked && name.as_ref().is_some_and(|(_, asked)| *asked),
        thing: Thing {
            class: object.class.clone(),
            place: place(&object.r#box, size),
            plate: plate.map(|(text, _)| text),
            name: name.map(|(name, _)| name),
        },
    }
}

impl Scene {
    /// Scene of a frame with the things that a report must mention; no thing is new.
    #[must_use]
    pub fn of(frame: &FrameTruth, size: (u32, u32)) -> Self {
        let asked = things(frame, size).into_iter().filter(|it| it.is_asked);
        let things = asked.map(|it| Thing {
            plate: it.thing.plate.filter(|_| it.plate_is_asked),
            name: it.thing.name.filter(|_| it.name_is_asked),
            ..it.thing
        });
        Self {
            new: None,
            things: things.collect(),
        }
    }
}
