//! From the outputs of modules to the objects of a delivery: numbered from 0, each with all its attributes.

use std::collections::{BTreeMap, BTreeSet};

use weir_flow::{Evidence, Labelled, ObjectRef};

/// The objects of the modules in `shown`, in the order of modules.
pub(crate) fn assemble_objects(evidence: &Evidence, shown: &BTreeSet<u32>) -> Vec<Labelled> {
    let mut numbers: BTreeMap<ObjectRef, u32> = BTreeMap::new();
    let mut objects: Vec<Labelled> = Vec::new();
    for (id, (name, object)) in (0..).zip(
        evidence
            .objects()
            .filter(|(name, _)| shown.contains(&name.module)),
    ) {
        numbers.insert(name, id);
        objects.push(Labelled {
            id,
            object: object.clone(),
            parent: None,
            attributes: Vec::new(),
        });
    }
    for labelled in &mut objects {
        labelled.parent = labelled
            .object
            .parent
            .and_then(|parent| numbers.get(&parent).copied());
    }
    for (_, finding) in evidence.findings().filter(|(module, _)| shown.contains(module)) {
        for note in &finding.notes {
            if let Some(&id) = numbers.get(&note.object) {
                objects[id as usize]
                    .attributes
                    .push((note.name.clone(), note.attribute.clone()));
            }
        }
    }
    objects
}

#[cfg(test)]
mod tests {
    use weir_flow::{Attribute, Finding, Note, Object, Points, Rect};

    use super::*;

    #[test]
    fn children_name_their_parent_and_attributes_their_object() {
        let object = |class: &str, parent| Object {
            class: class.into(),
            score: 0.9,
            rect: Rect::default(),
            parent,
            points: Points::None,
        };
        let car = ObjectRef { module: 0, index: 1 };
        let plate = ObjectRef { module: 2, index: 0 };
        let text = Attribute::Text {
            text: "A1".to_owned(),
            score: 0.8,
        };
        let mut evidence = Evidence::default();
        evidence.add(
            2,
            Finding {
                objects: vec![object("plate", Some(car))],
                notes: vec![],
            },
        );
        evidence.add(
            0,
            Finding {
                objects: vec![object("person", None), object("car", None)],
                notes: vec![],
            },
        );
        let note = Note {
            object: plate,
            name: "plate".into(),
            attribute: text.clone(),
        };
        evidence.add(
            3,
            Finding {
                objects: vec![],
                notes: vec![note],
            },
        );
        let shown = assemble_objects(&evidence, &(0..4).collect());
        let classes: Vec<_> = shown
            .iter()
            .map(|labelled| (&*labelled.object.class, labelled.parent))
            .collect();
        assert_eq!(classes, [("person", None), ("car", None), ("plate", Some(1))]);
        assert_eq!(shown[2].attributes, [("plate".into(), text)]);
        assert_eq!(
            assemble_objects(&evidence, &[2].into())[0].parent,
            None,
            "a parent that is not shown is not named"
        );
    }
}
