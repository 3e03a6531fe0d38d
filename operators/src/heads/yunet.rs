//! YuNet: faces with five landmarks, from four outputs for each of the strides 8, 16 and 32.
//!
//! Input: blue, green, red as bytes 0 to 255, letterboxed over 0, sides a multiple of 32. Output: `cls_s`, `obj_s`
//! `[cells, 1]`, `bbox_s` `[cells, 4]`, `kps_s` `[cells, 10]`: score = sqrt(cls * obj), centre = (xy + cell) * s, size
//! = exp(wh) * s, landmarks = (p + cell) * s: eyes, nose, mouth corners, left to right in the image.

use weir_flow::{HeadOutput, Inference, Point, Points, Settings};

use super::detection::{Candidate, DetectionFilter, cell, centred_rect, grid};
use super::input::{BYTES, Input, InputDefaults, ItemTransform};
use super::labels::Labels;
use super::settings::{DETECTION_KEYS, INPUT_KEYS, LABEL_KEYS};
use super::{Head, HeadKind, Output, OutputSpec, unfit};

pub(super) const KIND: HeadKind = HeadKind {
    name: "yunet",
    about: "YuNet: BGR 0-255, letterbox over 0; cls, obj, bbox, kps per stride 8, 16, 32; faces with five points; \
            score 0.6, NMS 0.4",
    output: HeadOutput::Faces,
    classes: &["face"],
    keys: &[DETECTION_KEYS, LABEL_KEYS, INPUT_KEYS],
    input_defaults: InputDefaults {
        fill: 0.0,
        size: (320, 320),
        multiple: 32,
        ..BYTES
    },
    build,
};

const STRIDES: [u32; 3] = [8, 16, 32];

struct Yunet {
    filter: DetectionFilter,
    /// Indices of `cls`, `obj`, `bbox`, `kps` for each stride.
    levels: [[usize; 4]; 3],
}

fn build(settings: &Settings, input: &Input, specs: &[OutputSpec]) -> Result<Box<dyn Head>, String> {
    let (width, height) = (input.spec.width, input.spec.height);
    let expected =
        "cls_s [cells, 1], obj_s [cells, 1], bbox_s [cells, 4], kps_s [cells, 10] for s = 8, 16, 32";
    let mut levels = [[0; 4]; 3];
    for (stride, level) in STRIDES.iter().zip(&mut levels) {
        let (columns, rows) = grid(width, height, *stride);
        for ((name, size), place) in [("cls", 1), ("obj", 1), ("bbox", 4), ("kps", 10)]
            .iter()
            .zip(level)
        {
            let shape = [columns * rows, *size];
            *place = specs
                .iter()
                .position(|output| {
                    output.name == format!("{name}_{stride}") && output.readable && output.shape == shape
                })
                .ok_or_else(|| unfit(specs, expected))?;
        }
    }
    let labels = Labels::read_fixed(settings, KIND.classes, 1)?;
    Ok(Box::new(Yunet {
        filter: DetectionFilter::read(settings, 0.6, 0.4, labels)?,
        levels,
    }))
}

impl Head for Yunet {
    fn labels(&self) -> Option<&Labels> {
        Some(&self.filter.labels)
    }

    fn decode(&self, outputs: &[Output<'_>], transform: &ItemTransform) -> Inference {
        let mut candidates = Vec::new();
        for (stride, level) in STRIDES.iter().zip(&self.levels) {
            let (columns, _) = grid(transform.width, transform.height, *stride);
            let stride = *stride as f32;
            let [classes, objects, boxes, points] = level.map(|place| outputs[place].data);
            for (index, (class, object)) in classes.iter().zip(objects).enumerate() {
                let score = (class.clamp(0.0, 1.0) * object.clamp(0.0, 1.0)).sqrt();
                if score < self.filter.threshold {
                    continue;
                }
                let at = cell(index, columns);
                let [x, y, width, height] = std::array::from_fn(|side| boxes[index * 4 + side]);
                let rect = centred_rect(
                    (x + at.x) * stride,
                    (y + at.y) * stride,
                    width.exp() * stride,
                    height.exp() * stride,
                );
                let points = std::array::from_fn(|point| {
                    let [x, y] = std::array::from_fn(|axis| points[index * 10 + point * 2 + axis]);
                    Point::new((x + at.x) * stride, (y + at.y) * stride)
                });
                candidates.push(Candidate {
                    points: Points::Face(points),
                    ..Candidate::new(0, score, rect)
                });
            }
        }
        self.filter.objects(candidates, transform)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_flow::Rect;

    #[test]
    fn a_face_and_its_landmarks_are_decoded() {
        let port = [Some(1), Some(3), Some(64), Some(64)];
        let input = Input::read(&KIND.input_defaults, &Settings::default(), &port).expect("read");
        let mut specs = Vec::new();
        for (name, size) in [("cls", 1), ("obj", 1), ("bbox", 4), ("kps", 10)] {
            for (stride, cells) in [(8, 64), (16, 16), (32, 4)] {
                specs.push(OutputSpec {
                    name: format!("{name}_{stride}"),
                    shape: vec![cells, size],
                    readable: true,
                });
            }
        }
        let head = KIND.build(&Settings::default(), &input, &specs).expect("fits");
        let mut data: Vec<Vec<f32>> = specs
            .iter()
            .map(|output| vec![0.0; output.shape.iter().product()])
            .collect();
        (data[1][6], data[4][6]) = (0.81, 1.0); // stride 16, column 2, row 1
        data[10][6 * 10 + 4] = 0.5; // the nose, half a cell to the right
        let outputs: Vec<Output<'_>> = data.iter().map(|data| Output { data }).collect();
        let found = head.decode(&outputs, &ItemTransform::identity(64, 64)).objects;
        assert_eq!(
            (found[0].score, found[0].rect),
            (0.9, Rect::new(24.0, 8.0, 40.0, 24.0))
        );
        let Points::Face(points) = &found[0].points else {
            panic!("no points")
        };
        assert_eq!(
            (points[0], points[2]),
            (Point::new(32.0, 16.0), Point::new(40.0, 16.0))
        );
    }
}
