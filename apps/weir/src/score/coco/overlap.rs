//! Overlap of a result and an annotation, from 0 to 1: intersection over union of boxes and masks, similarity of key points.

use super::files::{Annotation, CocoError};
use super::runs::Runs;

/// Spread of the annotators' points of a person by COCO ("Keypoint Evaluation"), as a part of the square root of the area: nose,
/// eyes, ears, shoulders, elbows, wrists, hips, knees, ankles.
const SPREADS: [f64; 17] = [
    0.026, 0.025, 0.025, 0.035, 0.035, 0.079, 0.079, 0.072, 0.072, 0.062, 0.062, 0.107, 0.107, 0.087, 0.087,
    0.089, 0.089,
];

/// The part of a result that is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    Boxes,
    Masks,
    KeyPoints,
}

impl Shape {
    pub(super) const ALL: [Self; 3] = [Self::Boxes, Self::Masks, Self::KeyPoints];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Boxes => "boxes",
            Self::Masks => "masks",
            Self::KeyPoints => "keypoints",
        }
    }

    /// Results of one picture and class that are looked at, those of the highest scores.
    pub(super) fn max_results(self) -> usize {
        match self {
            Self::Boxes | Self::Masks => 100,
            Self::KeyPoints => 20,
        }
    }
}

/// The box, mask and key points of a result.
#[derive(Debug)]
pub(super) struct Outline {
    /// Left, top, width, height in pixels.
    pub(super) bbox: Option<[f64; 4]>,
    pub(super) mask: Option<Runs>,
    /// Key points: x, y, score.
    pub(super) keypoints: Vec<[f64; 3]>,
}

impl Outline {
    pub(super) fn has(&self, shape: Shape) -> bool {
        match shape {
            Shape::Boxes => self.bbox.is_some(),
            Shape::Masks => self.mask.is_some(),
            Shape::KeyPoints => !self.keypoints.is_empty(),
        }
    }

    /// Pixels that it covers; of key points, those of the box around them.
    pub(super) fn area(&self, shape: Shape) -> f64 {
        match shape {
            Shape::Boxes => self.bbox.map_or(0.0, |bbox| bbox[2] * bbox[3]),
            Shape::Masks => self.mask.as_ref().map_or(0.0, |mask| mask.area() as f64),
            Shape::KeyPoints => {
                let side = |axis: usize| {
                    let values = || self.keypoints.iter().map(|point| point[axis]);
                    values().fold(f64::MIN, f64::max) - values().fold(f64::MAX, f64::min)
                };
                side(0) * side(1)
            }
        }
    }

    /// Overlap with an annotation; 0 where either lacks the shape.
    pub(super) fn overlap(&self, with: &Annotation, shape: Shape) -> Result<f64, CocoError> {
        match shape {
            Shape::Boxes => Ok(self.bbox.map_or(0.0, |bbox| box_overlap(&bbox, with))),
            Shape::Masks => match (&self.mask, &with.mask) {
                (Some(mask), Some(truth)) => mask_overlap(mask, truth, with.crowd),
                _ => Ok(0.0),
            },
            Shape::KeyPoints => similarity(&self.keypoints, with),
        }
    }
}

/// Intersection over union, or over the result alone if the annotation is a crowd.
fn share_of(both: f64, found: f64, truth: f64, crowd: bool) -> f64 {
    let whole = if crowd { found } else { found + truth - both };
    if whole > 0.0 { both / whole } else { 0.0 }
}

fn box_overlap(found: &[f64; 4], truth: &Annotation) -> f64 {
    let side = |axis: usize| {
        let low = found[axis].max(truth.bbox[axis]);
        let high = (found[axis] + found[axis + 2]).min(truth.bbox[axis] + truth.bbox[axis + 2]);
        (high - low).max(0.0)
    };
    let area = |of: &[f64; 4]| of[2] * of[3];
    share_of(side(0) * side(1), area(found), area(&truth.bbox), truth.crowd)
}

fn mask_overlap(found: &Runs, truth: &Runs, crowd: bool) -> Result<f64, CocoError> {
    if found.size() != truth.size() {
        let ((height, width), (of_truth, by)) = (found.size(), truth.size());
        return Err(CocoError::Mask(format!(
            "a result's mask is of a picture of {width} x {height}, that of its annotation of {by} x {of_truth}"
        )));
    }
    let both = found.intersection(truth) as f64;
    Ok(share_of(both, found.area() as f64, truth.area() as f64, crowd))
}

/// Similarity of key points: the mean of `exp(-d² / (2 area (2 spread)²))` over labelled points, or, where none is labelled, over all
/// points by their distance from the box that has twice the margins of the annotation's.
fn similarity(found: &[[f64; 3]], truth: &Annotation) -> Result<f64, CocoError> {
    if found.is_empty() {
        return Ok(0.0);
    }
    for count in [found.len(), truth.keypoints.len()] {
        if count != SPREADS.len() && count > 0 {
            return Err(CocoError::KeyPoints(count));
        }
    }
    let any = truth.keypoints.iter().any(|point| point[2] > 0.0);
    let [left, top, width, height] = truth.bbox;
    let beyond =
        |value: f64, low: f64, size: f64| (low - size - value).max(0.0) + (value - low - 2.0 * size).max(0.0);
    let (mut sum, mut count) = (0.0, 0.0);
    for (index, (point, spread)) in found.iter().zip(SPREADS).enumerate() {
        let (dx, dy) = match truth.keypoints.get(index) {
            Some(truth) if any && truth[2] > 0.0 => (point[0] - truth[0], point[1] - truth[1]),
            _ if any => continue,
            _ => (beyond(point[0], left, width), beyond(point[1], top, height)),
        };
        let scale = 2.0 * (2.0 * spread).powi(2) * (truth.area + f64::EPSILON);
        sum += (-(dx * dx + dy * dy) / scale).exp();
        count += 1.0;
    }
    Ok(if count > 0.0 { sum / count } else { 0.0 })
}
