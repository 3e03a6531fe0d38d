//! Licence plates with their four corners (HyperLPR's y5fu), boxes decoded in the graph.
//!
//! Input: red, green, blue over 255, letterboxed over 114. Output: `[boxes, 13 + classes]`: centre, size, objectness,
//! four corners (top left, top right, bottom right, bottom left), classes; score = objectness * best class.

use weir_flow::{HeadOutput, Inference, Point, Points, Settings};

use super::detection::DetectionFilter;
use super::input::{BYTES, Input, InputDefaults, ItemTransform};
use super::labels::Labels;
use super::settings::{DETECTION_KEYS, INPUT_KEYS, LABEL_KEYS};
use super::{Head, HeadKind, Output, OutputSpec, single, unfit};
use crate::pixels::Channels;

pub(super) const KIND: HeadKind = HeadKind {
    name: "plate-corners",
    about: "plates with corners: RGB /255, letterbox over 114; [boxes, 13 + classes]; score 0.4, NMS 0.5",
    output: HeadOutput::Quads,
    classes: &["plate"],
    keys: &[DETECTION_KEYS, LABEL_KEYS, INPUT_KEYS],
    input_defaults: InputDefaults {
        channels: Channels::Rgb,
        std: [255.0; 3],
        size: (320, 320),
        multiple: 32,
        ..BYTES
    },
    build,
};

/// Types of plates that need no labels; more classes belong to another model.
const MAX_PLATE_KINDS: usize = 8;

struct PlateCorners {
    filter: DetectionFilter,
    channels: usize,
}

fn build(settings: &Settings, _: &Input, specs: &[OutputSpec]) -> Result<Box<dyn Head>, String> {
    let expected = "one of [boxes, 13 + classes]";
    let shape = single(specs, expected, 2)?;
    if shape[1] < 14 || shape[0] < shape[1] {
        return Err(unfit(specs, expected));
    }
    if shape[1] - 13 > MAX_PLATE_KINDS && !Labels::are_set(settings) {
        return Err(format!(
            "it would distinguish {} types of plates: it is no plate detector, or name them by `labels`",
            shape[1] - 13
        ));
    }
    // Plates with one and two rows have one class, unless labels distinguish them.
    let labels = Labels::read_fixed(settings, &vec!["plate"; shape[1] - 13], shape[1] - 13)?;
    Ok(Box::new(PlateCorners {
        filter: DetectionFilter::read(settings, 0.4, 0.5, labels)?,
        channels: shape[1],
    }))
}

impl Head for PlateCorners {
    fn labels(&self) -> Option<&Labels> {
        Some(&self.filter.labels)
    }

    fn decode(&self, outputs: &[Output<'_>], transform: &ItemTransform) -> Inference {
        let Some(output) = outputs.first() else {
            return Inference::default();
        };
        let corners = |row: &[f32]| {
            Points::Corners(std::array::from_fn(|corner| {
                Point::new(row[5 + 2 * corner], row[6 + 2 * corner])
            }))
        };
        let candidates = self.filter.rows(output.data, self.channels, 13, corners);
        self.filter.objects(candidates, transform)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn corners_are_decoded_with_the_box() {
        let port = [Some(1), Some(3), Some(64), Some(64)];
        let input = Input::read(&KIND.input_defaults, &Settings::default(), &port).expect("read");
        let specs = [OutputSpec {
            name: "output".to_owned(),
            shape: vec![252, 15],
            readable: true,
        }];
        let head = KIND.build(&Settings::default(), &input, &specs).expect("fits");
        let mut data = vec![0.0; 252 * 15];
        let row = [
            20.0, 30.0, 20.0, 10.0, 0.9, 10.0, 25.0, 30.0, 26.0, 30.0, 35.0, 10.0, 34.0, 0.1, 0.9,
        ];
        data[15 * 3..15 * 4].copy_from_slice(&row);
        let found = head
            .decode(&[Output { data: &data }], &ItemTransform::identity(64, 64))
            .objects;
        let Points::Corners(corners) = &found[0].points else {
            panic!("no corners")
        };
        assert_eq!(
            (&*found[0].class, corners[1], corners[3]),
            ("plate", Point::new(30.0, 26.0), Point::new(10.0, 34.0))
        );
    }
}
