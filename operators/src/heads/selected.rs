//! Objects that a model has selected itself, one row each: class, score, corners. Their number says nothing of the classes, so these
//! must have names.

use weir_flow::{Inference, Rect, Settings};

use super::detection::{Candidate, DetectionFilter, is_no_probability};
use super::input::{Input, ItemTransform};
use super::labels::{DeclaredNames, Labels};
use super::layouts::Layout;

/// An object as the model gives it, in input pixels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Row {
    /// Number of the class, from 0 on.
    pub(super) class: f32,
    pub(super) score: f32,
    pub(super) rect: Rect,
}

/// The classes that the keys or the file name.
///
/// # Errors
/// Nothing names them.
pub(super) fn named_classes(settings: &Settings) -> Result<Labels, String> {
    let declared = DeclaredNames::read(settings)?;
    let classes = match declared.classes() {
        Some((classes, _)) => classes,
        // They are not counted by the shape.
        None if declared.are_unread() => 1,
        None => {
            return Err(
                "nothing names its classes, which its output does not count: name them by `labels` or `labels_file`, \
                 labels = [\"coco\"] if it was trained on COCO, or export it with its names"
                    .to_owned(),
            );
        }
    };
    Labels::choose(declared, &[], classes)
}

/// The filter of a head whose model suppresses by itself.
///
/// # Errors
/// As [`DetectionFilter::read`].
pub(super) fn filter(settings: &Settings, threshold: f64, labels: Labels) -> Result<DetectionFilter, String> {
    DetectionFilter::read(settings, threshold, 1.0, labels)
}

/// The rows above the threshold, as objects in source pixels.
pub(super) fn objects(
    filter: &DetectionFilter,
    rows: impl Iterator<Item = Row>,
    transform: &ItemTransform,
) -> Inference {
    let found = rows.filter(|row| row.score >= filter.threshold && row.class >= 0.0);
    let candidates = found.map(|row| Candidate::new(row.class as usize, row.score, row.rect));
    filter.objects(candidates.collect(), transform)
}

/// Looks whether the rows are objects of so many classes in an input. Rows without a score are none.
///
/// # Errors
/// The value that is none of such a row.
pub(super) fn inspect(
    rows: impl Iterator<Item = Row>,
    classes: Option<usize>,
    input: &Input,
) -> Result<Option<String>, String> {
    let (mut count, mut largest) = (0, 0.0_f32);
    for row in rows.filter(|row| row.score != 0.0 && row.class >= 0.0) {
        if is_no_probability(row.score) {
            return Err(format!("a score is {}, and scores are from 0 to 1", row.score));
        }
        let is_whole = row.class.fract() == 0.0;
        if !is_whole || classes.is_some_and(|classes| row.class >= classes as f32) {
            let classes = classes.map_or(String::new(), |classes| format!(" below {classes}"));
            return Err(format!(
                "a class is {}, and classes are whole numbers from 0 on{classes}: give the names of all classes by `labels`, or it \
                 is another layout",
                row.class
            ));
        }
        if row.rect.x1 < row.rect.x0 || row.rect.y1 < row.rect.y0 {
            return Err("its boxes end before they begin: they are no corners".to_owned());
        }
        count += 1;
        largest = [row.rect.x1, row.rect.y1].into_iter().fold(largest, f32::max);
    }
    if count > 1 && largest <= 2.0 {
        return Err(format!(
            "its boxes are from 0 to {largest} in an input of {} by {}; {}",
            input.spec.width,
            input.spec.height,
            Layout::Relative.found()
        ));
    }
    Ok(None)
}

/// Number of named classes, where the names are read.
pub(super) fn known_classes(settings: &Settings, labels: &Labels) -> Option<usize> {
    (!settings.0.contains_key(super::UNREAD_NAMES)).then(|| labels.names().len())
}
