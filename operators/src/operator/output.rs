//! The output of a module: objects with their parents, and attributes of the objects that were cropped.

use std::sync::Arc;

use weir_flow::{
    Attribute, Frame, Inference, Item, KeyPoint, ModuleOutput, Object, ObjectAttribute, ObjectRef, Points,
};

use super::{ConfiguredOperator, regions};

/// Overlapping crops may show one object: boxes of a class that overlap more (IoU) are merged. The threshold is low,
/// since boxes found at different scales agree less than those of one crop.
const SAME: f32 = 0.35;

/// Attribute of objects whose detector gives key points.
const KEY_POINTS: &str = "keypoints";

pub(super) fn module_output(
    operator: &ConfiguredOperator,
    module: u32,
    items: &[Item],
    inferences: Vec<Inference>,
) -> ModuleOutput {
    let mut output = ModuleOutput::default();
    if regions::is_split(items) {
        let objects = (inferences.into_iter().enumerate())
            .flat_map(|(place, inference)| inference.objects.into_iter().map(move |object| (place, object)));
        let objects = objects.filter(|(_, object)| keeps(operator, object));
        output.objects = regions::whole_objects(objects.collect());
        note_poses(module, &mut output);
        return output;
    }
    if let Some((_, merging)) = operator.tiles.as_ref().filter(|_| items.len() > 1) {
        let of_item = |(item, inference): (_, Inference)| {
            let objects = inference.objects.into_iter();
            objects.map(move |object| (item, object))
        };
        let found = items.iter().zip(inferences).flat_map(of_item);
        output.objects = merging.merge(found.filter(|(_, object)| keeps(operator, object)));
        note_poses(module, &mut output);
        return output;
    }
    for (item, inference) in items.iter().zip(inferences) {
        for mut object in inference.objects {
            if !keeps(operator, &object) {
                continue;
            }
            object.parent = item.object;
            output.objects.push(object);
        }
        if let Some(attribute) = inference.attribute {
            note(
                operator,
                module,
                item,
                operator.gallery.match_nearest(attribute),
                &mut output,
            );
        }
        note_named(module, item, inference.named, &mut output);
    }
    if items.len() > 1 {
        output.objects = distinct(output.objects);
    }
    note_poses(module, &mut output);
    output
}

/// Makes key points that a detector found with its objects attributes of these, as those of models that look at crops.
fn note_poses(module: u32, output: &mut ModuleOutput) {
    for (index, object) in (0..).zip(&mut output.objects) {
        let Points::Pose(points) = &mut object.points else {
            continue;
        };
        output.attributes.push(ObjectAttribute {
            object: ObjectRef { module, index },
            name: KEY_POINTS.into(),
            attribute: Attribute::Points(std::mem::take(points)),
        });
        object.points = Points::None;
    }
}

/// Whether the object's class is kept.
fn keeps(operator: &ConfiguredOperator, object: &Object) -> bool {
    operator.labels.is_empty() || operator.labels.iter().any(|label| **label == *object.class)
}

fn note(
    operator: &ConfiguredOperator,
    module: u32,
    item: &Item,
    attribute: Attribute,
    output: &mut ModuleOutput,
) {
    let name = || Arc::clone(&operator.attribute);
    let Some(of) = item.object else {
        // The item is the frame itself, which becomes an object to carry the attribute.
        let (class, score, rest) = match attribute {
            Attribute::Class { class, score } if operator.classifies => (class, score, None),
            other => ("frame".into(), 1.0, Some(other)),
        };
        let index = u32::try_from(output.objects.len()).unwrap_or(u32::MAX);
        output.objects.push(Object {
            class,
            score,
            ..whole_frame(&item.frame)
        });
        if let Some(attribute) = rest {
            output.attributes.push(ObjectAttribute {
                object: ObjectRef { module, index },
                name: name(),
                attribute,
            });
        }
        return;
    };
    // The two eyes of a face are consecutive items.
    if let (Some(before), Attribute::Iris { eyes, radius }) = (output.attributes.last_mut(), &attribute)
        && before.object == of
        && let Attribute::Iris {
            eyes: before_eyes,
            radius: before_radius,
        } = &mut before.attribute
    {
        let mut both: Vec<(KeyPoint, f32)> = before_eyes
            .iter()
            .cloned()
            .zip(before_radius.iter().copied())
            .collect();
        both.extend(eyes.iter().cloned().zip(radius.iter().copied()));
        both.sort_by(|(a, _), (b, _)| a.at.x.total_cmp(&b.at.x));
        (*before_eyes, *before_radius) = both.into_iter().unzip();
        return;
    }
    output.attributes.push(ObjectAttribute {
        object: of,
        name: name(),
        attribute,
    });
}

/// Adds attributes with names of their own to the object that an item was made for, or to one that stands for the frame.
pub(super) fn note_named(
    module: u32,
    item: &Item,
    named: Vec<(Arc<str>, Attribute)>,
    output: &mut ModuleOutput,
) {
    if named.is_empty() {
        return;
    }
    let object = item.object.unwrap_or_else(|| {
        // The frame becomes an object to carry its attributes.
        let index = u32::try_from(output.objects.len()).unwrap_or(u32::MAX);
        output.objects.push(whole_frame(&item.frame));
        ObjectRef { module, index }
    });
    output
        .attributes
        .extend(named.into_iter().map(|(name, attribute)| ObjectAttribute {
            object,
            name,
            attribute,
        }));
}

/// The object that stands for a frame, to carry its attributes.
pub(super) fn whole_frame(frame: &Frame) -> Object {
    Object {
        class: "frame".into(),
        score: 1.0,
        rect: frame.image.bounds(),
        parent: None,
        points: Points::None,
        candidate: false,
    }
}

/// The best of the objects that several crops found, in their order.
fn distinct(objects: Vec<Object>) -> Vec<Object> {
    let mut by_score: Vec<usize> = (0..objects.len()).collect();
    by_score.sort_by(|a, b| objects[*b].score.total_cmp(&objects[*a].score));
    let mut kept: Vec<usize> = Vec::new();
    for index in by_score {
        let same = |other: &Object| {
            other.class == objects[index].class
                && other.parent != objects[index].parent
                && other.rect.iou(&objects[index].rect) > SAME
        };
        if !kept.iter().any(|kept| same(&objects[*kept])) {
            kept.push(index);
        }
    }
    kept.sort_unstable();
    let mut kept = kept.into_iter().peekable();
    let all = objects.into_iter().enumerate();
    all.filter_map(|(index, object)| kept.next_if_eq(&index).map(|_| object))
        .collect()
}
