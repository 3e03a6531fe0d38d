//! Keys of objects in event lines beyond the upright box: the box at an angle, and the mask.

use serde::Serialize;
use weir_flow::{Point, Points, coco_text};

/// A box at an angle.
#[derive(Serialize)]
pub(super) struct RotatedEntry {
    centre: [f32; 2],
    width: f32,
    height: f32,
    /// Degrees from the x axis to the side `width`, clockwise, from 0 to below 180.
    angle: f32,
    corners: [[f32; 2]; 4],
}

impl RotatedEntry {
    /// `None` for an object without an angle.
    pub(super) fn of(points: &Points) -> Option<Self> {
        let Points::Rotated(rotated) = points else {
            return None;
        };
        let degrees = pixel(rotated.angle.to_degrees());
        Some(Self {
            centre: [rotated.centre.x, rotated.centre.y].map(pixel),
            width: pixel(rotated.width),
            height: pixel(rotated.height),
            // Rounding can reach a half turn, which is no angle of its own.
            angle: if degrees >= 180.0 { 0.0 } else { degrees },
            corners: rotated.corners().map(|corner| [corner.x, corner.y].map(pixel)),
        })
    }
}

/// Notation of masks in events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum MaskForm {
    /// The run-length encoding of COCO.
    #[default]
    Runs,
    /// Outlines of few corners.
    Polygons,
}

/// A mask of a picture.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct MaskEntry {
    /// Height and width of the picture.
    size: [u32; 2],
    #[serde(flatten)]
    pixels: MaskPixels,
}

#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
enum MaskPixels {
    /// Run lengths as COCO's compressed text.
    Counts(String),
    /// Corners of each outline, x and y in turns.
    Polygons(Vec<Vec<f32>>),
}

impl MaskEntry {
    /// The mask in a picture of that width and height; `None` for an object without one.
    pub(super) fn of(points: &Points, (width, height): (u32, u32), form: MaskForm) -> Option<Self> {
        let Points::Mask(mask) = points else {
            return None;
        };
        let flat = |outline: Vec<Point>| {
            let corners = outline.into_iter().flat_map(|corner| [corner.x, corner.y]);
            corners.map(pixel).collect()
        };
        Some(Self {
            size: [height, width],
            pixels: match form {
                MaskForm::Runs => MaskPixels::Counts(coco_text(&mask.coco_counts(width, height))),
                MaskForm::Polygons => MaskPixels::Polygons(mask.outlines().into_iter().map(flat).collect()),
            },
        })
    }
}

/// Rounds pixels and degrees to a tenth; adding zero turns -0.0 into 0.0.
pub(super) fn pixel(value: f32) -> f32 {
    (value * 10.0).round() / 10.0 + 0.0
}

/// Rounds scores to four digits; JSON writes no others of a double.
pub(super) fn digits(score: f32) -> f64 {
    (f64::from(score) * 1e4).round() / 1e4
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use weir_flow::{Mask, Rect, RotatedRect};

    use super::*;

    #[test]
    fn rotated_box_has_degrees_and_corners() {
        let rotated = RotatedRect::new(Point::new(50.0, 40.0), 20.0, 10.0, std::f32::consts::FRAC_PI_2);
        let entry = RotatedEntry::of(&Points::Rotated(rotated)).expect("it is rotated");
        let json = serde_json::to_string(&entry).expect("JSON");
        assert_eq!(
            json,
            r#"{"centre":[50.0,40.0],"width":20.0,"height":10.0,"angle":90.0,"#.to_owned()
                + r#""corners":[[55.0,30.0],[55.0,50.0],[45.0,50.0],[45.0,30.0]]}"#
        );
        let below = RotatedRect {
            angle: std::f32::consts::PI - 1e-5,
            ..rotated
        };
        let entry = RotatedEntry::of(&Points::Rotated(below)).expect("it is rotated");
        assert!(entry.angle < 180.0, "{}", entry.angle);
        assert!(RotatedEntry::of(&Points::None).is_none());
    }

    #[test]
    fn mask_has_the_size_of_the_picture_and_its_runs_or_outlines() {
        let mask = Mask::sample(&Rect::new(1.0, 1.0, 3.0, 2.0), |_, _| true).expect("covers all");
        let points = Points::Mask(Arc::new(mask));
        // Columns of three pixels: 4 outside, 1 within, 2 outside, 1 within, 4 outside.
        let json = |form: MaskForm| {
            let entry = MaskEntry::of(&points, (4, 3), form).expect("it has a mask");
            serde_json::to_string(&entry).expect("JSON")
        };
        let counts = coco_text(&[4, 1, 2, 1, 4]);
        assert_eq!(
            json(MaskForm::Runs),
            format!(r#"{{"size":[3,4],"counts":"{counts}"}}"#)
        );
        assert_eq!(
            json(MaskForm::Polygons),
            r#"{"size":[3,4],"polygons":[[1.0,1.0,3.0,1.0,3.0,2.0,1.0,2.0]]}"#
        );
        assert_eq!(MaskEntry::of(&Points::None, (4, 3), MaskForm::Runs), None);
    }
}
