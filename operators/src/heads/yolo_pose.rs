//! YOLO models that find objects with their key points, as Ultralytics exports YOLOv8, YOLO11 and YOLO26 for pose.
//!
//! Input: red, green, blue over 255, letterboxed over 114. Output: `[4 + classes + points * values, boxes]`, centre and size in input
//! pixels, classes, then x, y in input pixels and mostly a probability of each point; or `[n, 6 + points * values]` where the model
//! selects its objects: left, top, right, bottom, score, class, points.

use std::sync::Arc;

use weir_flow::{COCO_KEY_POINTS, HeadOutput, Inference, KeyPoint, Point, Points, Settings};

use super::detection::{Candidate, DetectionFilter, is_no_probability};
use super::input::{Input, ItemTransform};
use super::labels::Labels;
use super::selected;
use super::settings::{DETECTION_KEYS, INPUT_KEYS, LABEL_KEYS};
use super::task_rows::{COCO_POSE, Extra, RowsRequest, TaskRows};
use super::{Head, HeadKind, KEY_POINT_NAMES, KEY_POINT_SHAPE, Output, OutputSpec, unfit};

pub(super) const KIND: HeadKind = HeadKind {
    name: "yolo-pose",
    about: "YOLO for pose (v8, 11, 26): RGB /255, letterbox over 114; [4 + classes + 3 x points, boxes], or end to end \
            [n, 6 + 3 x points]; objects with the attribute keypoints; score 0.25, NMS 0.45",
    output: HeadOutput::Boxes,
    classes: &[],
    keys: &[DETECTION_KEYS, LABEL_KEYS, INPUT_KEYS],
    input_defaults: super::yolov5::INPUT_DEFAULTS,
    build,
};

/// Points of an object: more belong to another layout.
const MAX_POINTS: usize = 1000;
/// Largest coordinate of key points that are relative to the picture instead of in pixels.
const RELATIVE: f32 = 2.0;

struct YoloPose {
    filter: DetectionFilter,
    rows: TaskRows,
    /// Values of a point: x, y, and a probability where there are three.
    values: usize,
    /// Names of the points; none where nothing names them.
    names: Vec<Arc<str>>,
    /// Number of classes, if they are named.
    classes: Option<usize>,
}

fn build(settings: &Settings, input: &Input, specs: &[OutputSpec]) -> Result<Box<dyn Head>, String> {
    let expected = "one of [4 + classes + 3 x points, boxes], or of [n, 6 + 3 x points]";
    let [output] = specs else {
        return Err(unfit(specs, expected));
    };
    let shape = shape(settings)?;
    let extra = shape.map_or(Extra::Points, |(points, values)| Extra::Fixed(points * values));
    let is_person = output.shape.contains(&(4 + 1 + COCO_POSE));
    let request = RowsRequest {
        settings,
        input,
        specs,
        rows: output,
        expected,
        default: if is_person { &["person"] } else { &[] },
    };
    let (rows, labels) = TaskRows::read(&request, extra)?;
    let (points, values) = match (shape, rows.extra()) {
        (Some(shape), _) => shape,
        (None, extra) if extra % 3 == 0 => (extra / 3, 3),
        (None, extra) if extra % 2 == 0 => (extra / 2, 2),
        (None, extra) => {
            return Err(format!(
                "{}; {extra} values are no key points of two or three values each",
                unfit(specs, expected)
            ));
        }
    };
    let names = names(settings, points, &labels);
    let classes = selected::known_classes(settings, &labels);
    let filter = match rows.is_selected {
        true => selected::filter(settings, 0.25, labels)?,
        false => DetectionFilter::read(settings, 0.25, 0.45, labels)?,
    };
    Ok(Box::new(YoloPose {
        filter,
        rows,
        values,
        names,
        classes,
    }))
}

/// Number of points and of the values of each, where the file says it.
///
/// # Errors
/// The file says something else.
fn shape(settings: &Settings) -> Result<Option<(usize, usize)>, String> {
    let Some(sizes) = settings.texts(KEY_POINT_SHAPE) else {
        return Ok(None);
    };
    let numbers: Option<Vec<usize>> = sizes.iter().map(|size| size.trim().parse().ok()).collect();
    match numbers.as_deref() {
        Some(&[points @ 1..=MAX_POINTS, values @ 2..=3]) => Ok(Some((points, values))),
        _ => Err(format!(
            "`{KEY_POINT_SHAPE}` in the file is [{}], and the head expects a number of points with 2 or 3 values each",
            sizes.join(", ")
        )),
    }
}

/// Names of the points: those in the file, else COCO's for 17 points of persons.
fn names(settings: &Settings, points: usize, labels: &Labels) -> Vec<Arc<str>> {
    if let Some(names) = settings.texts(KEY_POINT_NAMES)
        && names.len() == points
    {
        return names.iter().map(|name| Arc::from(name.as_str())).collect();
    }
    match labels.names() {
        [class] if points == COCO_KEY_POINTS.len() && class.eq_ignore_ascii_case("person") => {
            COCO_KEY_POINTS.iter().map(|name| Arc::from(*name)).collect()
        }
        _ => Vec::new(),
    }
}

impl YoloPose {
    /// Key points of a box in source pixels; none where a value is no number.
    fn points(&self, data: &[f32], candidate: &Candidate, transform: &ItemTransform) -> Points {
        let values: Vec<f32> = self.rows.extras(data, candidate.index).collect();
        if !values.iter().all(|value| value.is_finite()) {
            return Points::None;
        }
        let point = |(number, at): (usize, &[f32])| KeyPoint {
            name: self.names.get(number).cloned(),
            at: transform.point(Point::new(at[0], at[1])),
            score: at.get(2).copied().unwrap_or(candidate.score).clamp(0.0, 1.0),
        };
        Points::Pose(values.chunks_exact(self.values).enumerate().map(point).collect())
    }
}

impl Head for YoloPose {
    fn labels(&self) -> Option<&Labels> {
        Some(&self.filter.labels)
    }

    fn inspect(&self, outputs: &[Output<'_>], input: &Input) -> Result<Option<String>, String> {
        let Some(data) = outputs.first().map(|output| output.data) else {
            return Ok(None);
        };
        let rect = |index| self.rows.rect(data, index);
        let finding = self.rows.inspect(data, input, self.classes, rect)?;
        let (mut count, mut largest) = (0, 0.0_f32);
        for index in self.rows.used(data) {
            count += 1;
            for (place, value) in self.rows.extras(data, index).enumerate() {
                if place % self.values < 2 {
                    largest = largest.max(value);
                } else if is_no_probability(value) {
                    return Err(format!(
                        "the probability of a key point is {value}: it is no pose model, or one whose points have two values (export \
                         it with `kpt_shape` in its metadata)"
                    ));
                }
            }
        }
        if count > 1 && largest <= RELATIVE {
            return Err(format!(
                "its key points reach to {largest} in an input of {} by {}: it is no pose model, or one with points relative to the \
                 picture (export it with points in pixels of its input)",
                input.spec.width, input.spec.height
            ));
        }
        Ok(finding)
    }

    fn decode(&self, outputs: &[Output<'_>], transform: &ItemTransform) -> Inference {
        let Some(data) = outputs.first().map(|output| output.data) else {
            return Inference::default();
        };
        let found = self.rows.found(data, self.filter.threshold).into_iter();
        let candidates = found.map(|found| Candidate {
            index: found.index,
            ..Candidate::new(found.class, found.score, self.rows.rect(data, found.index))
        });
        self.filter
            .objects_with(candidates.collect(), transform, |candidate| {
                Some(self.points(data, candidate, transform))
            })
    }
}
