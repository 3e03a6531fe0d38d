//! From the outputs of modules to the objects of a delivery: numbered from 0, each with all its attributes.

use std::collections::BTreeSet;

use weir_analytics::FrameAnalytics;
use weir_flow::{DeliveredObject, Object, ObjectRef, RequestResults};

/// The objects that are taken, in the order of modules, each with its track and the attributes of modules that give some; and
/// their names, ascending, by number. Candidates are there only where they are asked for, or confirmed by one of the trackers.
pub(crate) fn assemble(
    results: &RequestResults,
    takes: impl Fn(u32, &Object) -> bool,
    gives: impl Fn(u32) -> bool,
    candidates: bool,
    (found, trackers): (&FrameAnalytics, &BTreeSet<u32>),
) -> (Vec<DeliveredObject>, Vec<ObjectRef>) {
    let mut objects: Vec<DeliveredObject> = Vec::new();
    let mut names: Vec<ObjectRef> = Vec::new();
    for (name, object) in results
        .objects()
        .filter(|(name, object)| takes(name.module, object))
    {
        let candidate = object.candidate && !found.is_confirmed(name, trackers);
        if candidate && !candidates {
            continue;
        }
        names.push(name);
        objects.push(DeliveredObject {
            id: objects.len() as u32,
            object: Object {
                candidate,
                ..object.clone()
            },
            parent: None,
            attributes: Vec::new(),
            track: found.track(name, trackers).cloned(),
        });
    }
    // Results have their objects in the order of names.
    let number = |name: &ObjectRef| names.binary_search(name).ok();
    for labelled in &mut objects {
        let parent = labelled.object.parent.as_ref().and_then(number);
        labelled.parent = parent.map(|parent| parent as u32);
    }
    for (_, output) in results.outputs().filter(|(module, _)| gives(*module)) {
        for attribute in &output.attributes {
            if let Some(number) = number(&attribute.object) {
                objects[number]
                    .attributes
                    .push((attribute.name.clone(), attribute.attribute.clone()));
            }
        }
    }
    (objects, names)
}

#[cfg(test)]
mod tests {
    use weir_flow::{Attribute, ModuleOutput, ObjectAttribute, Points, Rect};

    use super::*;

    #[test]
    fn children_name_their_parent_and_attributes_their_object() {
        let object = |class: &str, parent| Object {
            class: class.into(),
            score: 0.9,
            rect: Rect::default(),
            parent,
            points: Points::None,
            candidate: false,
        };
        let car = ObjectRef { module: 0, index: 1 };
        let plate = ObjectRef { module: 2, index: 0 };
        let text = Attribute::Text {
            text: "A1".to_owned(),
            score: 0.8,
        };
        let mut results = RequestResults::default();
        results.add(
            2,
            ModuleOutput {
                objects: vec![object("plate", Some(car))],
                attributes: vec![],
            },
        );
        results.add(
            0,
            ModuleOutput {
                objects: vec![object("person", None), object("car", None)],
                attributes: vec![],
            },
        );
        let attribute = ObjectAttribute {
            object: plate,
            name: "plate".into(),
            attribute: text.clone(),
        };
        results.add(
            3,
            ModuleOutput {
                objects: vec![],
                attributes: vec![attribute],
            },
        );
        let assembled = |modules: std::ops::Range<u32>| {
            let has = |module: u32| modules.contains(&module);
            let tracked = (&FrameAnalytics::default(), &BTreeSet::new());
            assemble(&results, |module, _| has(module), has, false, tracked)
        };
        let (shown, names) = assembled(0..4);
        assert_eq!(names[2], plate);
        let classes: Vec<_> = shown
            .iter()
            .map(|labelled| (&*labelled.object.class, labelled.parent))
            .collect();
        assert_eq!(classes, [("person", None), ("car", None), ("plate", Some(1))]);
        assert_eq!(shown[2].attributes, [("plate".into(), text)]);
        assert_eq!(
            assembled(2..3).0[0].parent,
            None,
            "a parent that is not shown is not named"
        );
    }
}
