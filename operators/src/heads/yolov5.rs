//! YOLOv5 in its usual export, and models with the same output: `[boxes, 5 + classes]` with boxes decoded in the graph.
//!
//! Input: red, green, blue over 255, letterboxed over 114. Output: centre and size in input pixels, objectness,
//! classes.

use std::sync::Arc;

use weir_flow::{HeadOutput, Inference, Points, Settings};

use super::detection::DetectionFilter;
use super::input::{BYTES, Input, InputDefaults, ItemTransform};
use super::labels::{COCO, Labels};
use super::settings::{DETECTION_KEYS, INPUT_KEYS, LABEL_KEYS};
use super::{Head, HeadKind, Output, OutputSpec, single};
use crate::pixels::Channels;

/// Shared with YOLOv8.
pub(super) const INPUT_DEFAULTS: InputDefaults = InputDefaults {
    channels: Channels::Rgb,
    std: [255.0; 3],
    size: (640, 640),
    multiple: 32,
    ..BYTES
};

pub(super) const KIND: HeadKind = HeadKind {
    name: "yolov5",
    about: "YOLOv5 export: RGB /255, letterbox over 114; [boxes, 5 + classes] in input pixels; score 0.25, NMS 0.45",
    output: HeadOutput::Boxes,
    classes: COCO,
    keys: &[DETECTION_KEYS, LABEL_KEYS, INPUT_KEYS],
    input_defaults: INPUT_DEFAULTS,
    build,
};

struct Yolov5 {
    filter: DetectionFilter,
    channels: usize,
}

fn build(settings: &Settings, _: &Input, specs: &[OutputSpec]) -> Result<Box<dyn Head>, String> {
    let expected = "one of [boxes, 5 + classes]";
    let shape = single(specs, expected, 2)?;
    if shape[1] < 6 || shape[0] < shape[1] {
        return Err(super::unfit(specs, expected));
    }
    let labels = Labels::read(settings, COCO, shape[1] - 5)?;
    Ok(Box::new(Yolov5 {
        filter: DetectionFilter::read(settings, 0.25, 0.45, labels)?,
        channels: shape[1],
    }))
}

impl Head for Yolov5 {
    fn classes(&self) -> &[Arc<str>] {
        self.filter.labels.names()
    }

    fn decode(&self, outputs: &[Output<'_>], transform: &ItemTransform) -> Inference {
        let Some(output) = outputs.first() else {
            return Inference::default();
        };
        let candidates = self.filter.rows(output.data, self.channels, 5, |_| Points::None);
        self.filter.objects(candidates, transform)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_flow::Rect;

    #[test]
    fn decoded_boxes_are_used_unchanged() {
        let input = Input::read(
            &INPUT_DEFAULTS,
            &Settings::default(),
            &[Some(1), Some(3), Some(64), Some(64)],
        )
        .expect("read");
        let specs = [OutputSpec {
            name: "output0".to_owned(),
            shape: vec![252, 85],
            readable: true,
        }];
        let head = KIND.build(&Settings::default(), &input, &specs).expect("fits");
        let mut data = vec![0.0; 252 * 85];
        data[85 * 7..85 * 7 + 5].copy_from_slice(&[20.0, 30.0, 10.0, 20.0, 0.9]);
        data[85 * 7 + 5 + 7] = 0.5;
        let outputs = [Output { data: &data }];
        let found = head.decode(&outputs, &ItemTransform::identity(64, 64)).objects;
        assert_eq!(
            (&*found[0].class, found[0].rect),
            ("truck", Rect::new(15.0, 20.0, 25.0, 40.0))
        );
    }
}
