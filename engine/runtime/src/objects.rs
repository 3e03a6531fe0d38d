//! From the outputs of modules to the objects of a delivery: numbered from 0, each with all its attributes.

use std::collections::{BTreeMap, BTreeSet};

use weir_flow::{DeliveredObject, ObjectRef, RequestResults, TrackState};

/// The objects of the modules in `shown`, in the order of modules, each with its track; candidates only where they are asked
/// for.
pub(crate) fn assemble_objects(
    results: &RequestResults,
    shown: &BTreeSet<u32>,
    candidates: bool,
    track: impl Fn(ObjectRef) -> Option<TrackState>,
) -> Vec<DeliveredObject> {
    let mut numbers: BTreeMap<ObjectRef, u32> = BTreeMap::new();
    let mut objects: Vec<DeliveredObject> = Vec::new();
    let all = results.objects().filter(|(name, object)| {
        let is_wanted = candidates || !object.candidate;
        is_wanted && shown.contains(&name.module)
    });
    for (id, (name, object)) in (0..).zip(all) {
        numbers.insert(name, id);
        objects.push(DeliveredObject {
            id,
            object: object.clone(),
            parent: None,
            attributes: Vec::new(),
            track: track(name),
        });
    }
    for labelled in &mut objects {
        labelled.parent = labelled
            .object
            .parent
            .and_then(|parent| numbers.get(&parent).copied());
    }
    for (_, output) in results.outputs().filter(|(module, _)| shown.contains(module)) {
        for attribute in &output.attributes {
            if let Some(&id) = numbers.get(&attribute.object) {
                objects[id as usize]
                    .attributes
                    .push((attribute.name.clone(), attribute.attribute.clone()));
            }
        }
    }
    objects
}

#[cfg(test)]
mod tests {
    use weir_flow::{Attribute, ModuleOutput, Object, ObjectAttribute, Points, Rect};

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
        let shown = assemble_objects(&results, &(0..4).collect(), false, |_| None);
        let classes: Vec<_> = shown
            .iter()
            .map(|labelled| (&*labelled.object.class, labelled.parent))
            .collect();
        assert_eq!(classes, [("person", None), ("car", None), ("plate", Some(1))]);
        assert_eq!(shown[2].attributes, [("plate".into(), text)]);
        assert_eq!(
            assemble_objects(&results, &[2].into(), false, |_| None)[0].parent,
            None,
            "a parent that is not shown is not named"
        );
    }
}
