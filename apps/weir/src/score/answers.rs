//! Scores of single answers, by the rules that whole runs are scored by.

use weir_truth::{FrameTruth, TruthAttribute};

use super::event::AttributeValue;
use super::{Detection, Observed, matching};

/// Scores each object's attribute as 0 or 1, with the index of its detection. Objects without a detection or
/// without the attribute are left out.
pub(crate) fn rate_objects(truth: &FrameTruth, seen: &[Detection], attribute: &str) -> Vec<(usize, f64)> {
    let frame = observed(truth, seen);
    let pairs = matching::pair(&frame);
    let things = truth.objects.iter().zip(pairs);
    let rated = things.filter_map(|(thing, finding)| {
        let finding = finding?;
        let expected = thing.attributes.get(attribute)?;
        let said = seen.get(finding)?.attributes.get(attribute);
        Some((finding, f64::from(u8::from(is_right(expected, said)?))))
    });
    rated.collect()
}

/// Scores the detections of a whole frame: the harmonic mean of precision and recall (F1), or 1 if nothing is
/// there and nothing was found.
pub(crate) fn rate_frame(truth: &FrameTruth, seen: &[Detection]) -> f64 {
    let frame = observed(truth, seen);
    let found = matching::pair(&frame).into_iter().flatten().count() as f64;
    let things = truth.objects.iter().filter(|thing| !thing.ignore).count() as f64;
    // What is found of an ignored thing neither helps nor hurts.
    let of_ignored = |seen: &&Detection| {
        let ignored = truth
            .objects
            .iter()
            .filter(|thing| thing.ignore && thing.class == seen.class);
        let mut ignored = ignored;
        ignored.any(|thing| matching::iou(&thing.r#box, &seen.r#box) >= matching::MIN_IOU)
    };
    let said = seen.len() as f64 - seen.iter().filter(of_ignored).count().min(seen.len()) as f64;
    let all = things + said.max(found);
    if all > 0.0 { 2.0 * found / all } else { 1.0 }
}

fn observed<'a>(truth: &'a FrameTruth, seen: &'a [Detection]) -> Observed<'a> {
    Observed {
        sequence: 0,
        size: (0, 0),
        truth,
        seen: Some(seen),
    }
}

/// `None` for forms that are right by degrees, such as angles.
fn is_right(expected: &TruthAttribute, said: Option<&AttributeValue>) -> Option<bool> {
    match expected {
        TruthAttribute::Text { text } => {
            Some(matches!(said, Some(AttributeValue::Text(said)) if said == text))
        }
        TruthAttribute::Class { class } => {
            Some(matches!(said, Some(AttributeValue::Class(said)) if said == class))
        }
        TruthAttribute::Match { r#match } => Some(
            matches!(said, Some(AttributeValue::Match { name, .. }) if name.as_ref() == r#match.as_ref()),
        ),
        _ => None,
    }
}
