//! YOLO models that find rotated boxes (OBB), as Ultralytics exports YOLOv8, YOLO11 and YOLO26 for them.
//!
//! Input: red, green, blue over 255, letterboxed over 114. Output: `[4 + classes + 1, boxes]`: centre, width and height in input
//! pixels, classes, and the angle of the width in radians, clockwise; or `[n, 7]` where the model selects its objects: centre,
//! width, height, score, class, angle.

use weir_flow::{HeadOutput, Inference, Point, Points, RotatedRect, Settings};

use super::detection::{Candidate, DetectionFilter, centred_rect};
use super::input::{Fit, Input, ItemTransform};
use super::labels::Labels;
use super::selected;
use super::settings::{DETECTION_KEYS, INPUT_KEYS, LABEL_KEYS};
use super::task_rows::{Extra, RowsRequest, TaskRows};
use super::{Head, HeadKind, Output, OutputSpec, unfit};

pub(super) const KIND: HeadKind = HeadKind {
    name: "yolo-obb",
    about: "YOLO for rotated boxes (v8, 11, 26): RGB /255, letterbox over 114; [4 + classes + 1, boxes], or end to end [n, 7]: \
            centre, size, score, class, angle; objects with their angle; score 0.25, NMS 0.45 by ProbIoU",
    output: HeadOutput::Boxes,
    classes: &[],
    keys: &[DETECTION_KEYS, LABEL_KEYS, INPUT_KEYS],
    input_defaults: super::yolov5::INPUT_DEFAULTS,
    build,
};

/// Largest angle in radians: models without bounds are trained to less than a turn, and other values are no angles.
const MAX_ANGLE: f32 = 4.0 * std::f32::consts::PI;

struct YoloObb {
    filter: DetectionFilter,
    rows: TaskRows,
    /// Number of classes, if they are named.
    classes: Option<usize>,
}

fn build(settings: &Settings, input: &Input, specs: &[OutputSpec]) -> Result<Box<dyn Head>, String> {
    let expected = "one of [4 + classes + 1, boxes], or of [n, 7]";
    let [output] = specs else {
        return Err(unfit(specs, expected));
    };
    let request = RowsRequest {
        settings,
        input,
        specs,
        rows: output,
        expected,
        default: &[],
    };
    let (rows, labels) = TaskRows::read(&request, Extra::Fixed(1))?;
    if input.fit == Fit::Stretch {
        return Err(
            "a stretched input has other angles than the picture: leave `resize` out, or set resize = \"letterbox\""
                .to_owned(),
        );
    }
    let classes = selected::known_classes(settings, &labels);
    let filter = match rows.is_selected {
        true => selected::filter(settings, 0.25, labels)?,
        false => DetectionFilter::read(settings, 0.25, 0.45, labels)?,
    };
    Ok(Box::new(YoloObb {
        filter,
        rows,
        classes,
    }))
}

impl YoloObb {
    /// The rotated box in input pixels; `None` where a value is no number.
    fn rotated(&self, data: &[f32], index: usize) -> Option<RotatedRect> {
        let [x, y, width, height] = self.rows.four(data, index);
        let angle = self.rows.extras(data, index).next()?;
        let is_finite = (x + y + width + height + angle).is_finite();
        is_finite.then(|| RotatedRect::new(Point::new(x, y), width, height, angle))
    }
}

impl Head for YoloObb {
    fn labels(&self) -> Option<&Labels> {
        Some(&self.filter.labels)
    }

    fn inspect(&self, outputs: &[Output<'_>], input: &Input) -> Result<Option<String>, String> {
        let Some(data) = outputs.first().map(|output| output.data) else {
            return Ok(None);
        };
        let upright = |index| {
            let [x, y, width, height] = self.rows.four(data, index);
            centred_rect(x, y, width, height)
        };
        let finding = self.rows.inspect(data, input, self.classes, upright)?;
        let angles = self.rows.used(data);
        let mut angles = angles.filter_map(|index| self.rows.extras(data, index).next());
        if let Some(angle) = angles.find(|angle| angle.is_finite() && angle.abs() > MAX_ANGLE) {
            return Err(format!(
                "its last value is {angle}, and angles are radians: it is no model of rotated boxes"
            ));
        }
        Ok(finding)
    }

    fn decode(&self, outputs: &[Output<'_>], transform: &ItemTransform) -> Inference {
        let Some(data) = outputs.first().map(|output| output.data) else {
            return Inference::default();
        };
        let found = self.rows.found(data, self.filter.threshold).into_iter();
        let candidates = found.filter_map(|found| {
            let rotated = self.rotated(data, found.index)?;
            Some(Candidate {
                points: Points::Rotated(rotated),
                ..Candidate::new(found.class, found.score, rotated.bounds())
            })
        });
        self.filter.objects(candidates.collect(), transform)
    }
}
