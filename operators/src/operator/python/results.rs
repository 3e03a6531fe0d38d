//! From the answer of a worker process to inferences. Everything in it is checked: it is what a program of the user says.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_flow::{Attribute, Inference, Object, Points, Rect};

use super::protocol::{AttributeAnswer, ItemAnswer, ObjectAnswer};
use crate::heads::ItemTransform;

/// Attributes of one item.
const MAX_ATTRIBUTES: usize = 32;
/// Objects in one item.
const MAX_OBJECTS: usize = 1_000;
/// Bytes of a name or a label.
const MAX_NAME_BYTES: usize = 64;
/// Bytes of the text of an attribute.
const MAX_TEXT_BYTES: usize = 1_024;
/// Boxes may lie outside of the picture by this many pixels, as rounding has it.
const TOLERANCE: f64 = 1.0;

/// Pixels of the frame that an item was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Placed {
    pub(super) left: u32,
    pub(super) top: u32,
    pub(super) width: u32,
    pub(super) height: u32,
}

/// The inferences of the items, in their order.
///
/// # Errors
/// The item and the field that cannot be, and what is expected.
pub(super) fn inferences(answers: Vec<ItemAnswer>, items: &[Placed]) -> Result<Vec<Inference>, String> {
    if answers.len() != items.len() {
        return Err(format!(
            "the operator returned {} results for {} items",
            answers.len(),
            items.len()
        ));
    }
    let answered = answers.into_iter().zip(items).enumerate();
    answered
        .map(|(index, (answer, placed))| inference(answer, *placed, &format!("item {index}")))
        .collect()
}

/// The inferences of the items of a head, in their order. An item with a wrong result has the reason in place of it.
pub(super) fn head_inferences(
    answers: Vec<ItemAnswer>,
    items: &[ItemTransform],
    head: &str,
) -> Vec<Inference> {
    let answered = answers.into_iter().zip(items).enumerate();
    let inferences = answered.map(|(index, (answer, item))| {
        let frame = Placed {
            left: 0,
            top: 0,
            width: item.frame.0 as u32,
            height: item.frame.1 as u32,
        };
        let read = match answer.error {
            Some(reason) => Err(reason),
            None => inference(answer, frame, &format!("item {index}")),
        };
        read.unwrap_or_else(|reason| Inference {
            failure: Some(format!("{head}: {reason}").into()),
            ..Inference::default()
        })
    });
    inferences.collect()
}

/// Checked names and values of attributes of `what`.
pub(super) fn named_attributes(
    attributes: BTreeMap<String, AttributeAnswer>,
    what: &str,
) -> Result<Vec<(Arc<str>, Attribute)>, String> {
    if attributes.len() > MAX_ATTRIBUTES {
        return Err(format!(
            "{what} has {} attributes; {MAX_ATTRIBUTES} are the most",
            attributes.len()
        ));
    }
    let named = attributes.into_iter().map(|(name, value)| {
        check_name(&name, &format!("the name of an attribute of {what}"))?;
        let attribute = attribute(value, &format!("\"{name}\" of {what}"))?;
        Ok((Arc::from(name), attribute))
    });
    named.collect()
}

fn inference(answer: ItemAnswer, placed: Placed, item: &str) -> Result<Inference, String> {
    let objects = answer.objects;
    if objects.len() > MAX_OBJECTS {
        return Err(format!(
            "{item} has {} objects; {MAX_OBJECTS} are the most",
            objects.len()
        ));
    }
    let named = named_attributes(answer.attributes, item)?;
    let objects = objects.into_iter().enumerate();
    let objects = objects.map(|(index, object)| found(object, placed, &format!("object {index} of {item}")));
    Ok(Inference {
        objects: objects.collect::<Result<_, String>>()?,
        named,
        ..Inference::default()
    })
}

fn attribute(value: AttributeAnswer, field: &str) -> Result<Attribute, String> {
    match value {
        AttributeAnswer::Number(value) if (value as f32).is_finite() => {
            Ok(Attribute::Number { value: value as f32 })
        }
        AttributeAnswer::Number(value) => Err(format!("{field} is {value}, which is too large")),
        AttributeAnswer::Text(text, score) => {
            let score = score_of(score, field)?;
            if text.len() > MAX_TEXT_BYTES {
                return Err(format!(
                    "{field} has {} bytes; {MAX_TEXT_BYTES} are the most",
                    text.len()
                ));
            }
            let class = text.into();
            Ok(Attribute::Class { class, score })
        }
    }
}

fn found(object: ObjectAnswer, placed: Placed, field: &str) -> Result<Object, String> {
    check_name(&object.label, &format!("the label of {field}"))?;
    let score = score_of(object.score, field)?;
    let (width, height) = (f64::from(placed.width), f64::from(placed.height));
    let within = |side: f64, most: f64| {
        let is_within = (-TOLERANCE..=most + TOLERANCE).contains(&side);
        is_within.then(|| side.clamp(0.0, most))
    };
    let [x0, y0, x1, y1] = object.r#box;
    let sides = [
        within(x0, width),
        within(y0, height),
        within(x1, width),
        within(y1, height),
    ];
    let rect = match sides {
        [Some(left), Some(top), Some(right), Some(bottom)] if left < right && top < bottom => {
            let x = |side: f64| (side + f64::from(placed.left)) as f32;
            let y = |side: f64| (side + f64::from(placed.top)) as f32;
            Rect::new(x(left), y(top), x(right), y(bottom))
        }
        _ => {
            return Err(format!(
                "the box of {field} is ({x0}, {y0}, {x1}, {y1}), which is no box within {width} x {height} pixels: \
                 give left, top, right and bottom in pixels of the item"
            ));
        }
    };
    Ok(Object {
        class: object.label.into(),
        score,
        rect,
        parent: None,
        points: Points::None,
        candidate: false,
    })
}

fn score_of(score: f64, field: &str) -> Result<f32, String> {
    if (0.0..=1.0).contains(&score) {
        return Ok(score as f32);
    }
    Err(format!(
        "the score of {field} is {score}; scores lie between 0 and 1"
    ))
}

pub(super) fn check_name(name: &str, field: &str) -> Result<(), String> {
    if name.len() > MAX_NAME_BYTES {
        return Err(format!(
            "{field} has {} bytes; {MAX_NAME_BYTES} are the most",
            name.len()
        ));
    }
    if name.trim().is_empty() || name.chars().any(char::is_control) {
        return Err(format!("{field} is empty, or has control characters"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operator::python::protocol::Answer;

    const PLACED: Placed = Placed {
        left: 100,
        top: 50,
        width: 40,
        height: 20,
    };

    fn results(items: &str) -> Result<Vec<Inference>, String> {
        let answer: Answer =
            serde_json::from_str(&format!("{{\"items\": {items}}}")).map_err(|e| e.to_string())?;
        inferences(answer.items, &[PLACED])
    }

    #[test]
    fn attributes_keep_their_names_and_objects_get_pixels_of_the_frame() {
        let read =
            results(r#"[{"attributes": {"colour": ["red", 0.5], "length": 3}, "objects": []}]"#).unwrap();
        let (colour, length) = (&read[0].named[0], &read[0].named[1]);
        assert_eq!((&*colour.0, &*length.0), ("colour", "length"));
        assert!(matches!(&colour.1, Attribute::Class { class, score } if &**class == "red" && *score == 0.5));
        assert_eq!(length.1, Attribute::Number { value: 3.0 });
        let found = r#"[{"objects": [{"label": "plate", "score": 1, "box": [-0.5, 0, 10, 20.5]}]}]"#;
        let found = results(found).unwrap();
        assert_eq!(found[0].objects[0].rect, Rect::new(100.0, 50.0, 110.0, 70.0));
        assert!(results("[{}]").unwrap()[0].named.is_empty());
    }

    #[test]
    fn impossible_results_name_item_and_field() {
        let long = "x".repeat(65);
        let text = "y".repeat(1_025);
        let object = |label: &str, score: &str, side: &str| {
            format!(r#"[{{"objects": [{{"label": "{label}", "score": {score}, "box": {side}}}]}}]"#)
        };
        for (items, says) in [
            ("[]".to_owned(), "returned 0 results for 1 items"),
            (
                format!(r#"[{{"attributes": {{"{long}": 1}}}}]"#),
                "the name of an attribute of item 0 has 65 bytes",
            ),
            (
                r#"[{"attributes": {"": 1}}]"#.to_owned(),
                "the name of an attribute of item 0 is empty",
            ),
            (
                format!(r#"[{{"attributes": {{"a": ["{text}", 1]}}}}]"#),
                "\"a\" of item 0 has 1025 bytes",
            ),
            (
                r#"[{"attributes": {"a": ["red", 1.5]}}]"#.to_owned(),
                "the score of \"a\" of item 0 is 1.5",
            ),
            (
                r#"[{"attributes": {"a": 1e300}}]"#.to_owned(),
                "\"a\" of item 0 is",
            ),
            (
                object("a", "2", "[0, 0, 1, 1]"),
                "the score of object 0 of item 0 is 2",
            ),
            (
                object(&long, "1", "[0, 0, 1, 1]"),
                "the label of object 0 of item 0",
            ),
            (object("a", "1", "[0, 0, 42, 1]"), "the box of object 0 of item 0"),
            (object("a", "1", "[5, 0, 5, 1]"), "the box of object 0 of item 0"),
        ] {
            let error = results(&items).unwrap_err();
            assert!(error.contains(says), "{error}");
        }
        let many = vec![r#"{"label": "a", "score": 1, "box": [0, 0, 1, 1]}"#; 1_001].join(",");
        let error = results(&format!(r#"[{{"objects": [{many}]}}]"#)).unwrap_err();
        assert!(error.contains("item 0 has 1001 objects"), "{error}");
    }
}
