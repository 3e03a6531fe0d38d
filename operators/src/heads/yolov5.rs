//! YOLOv5 in its usual export, and models with the same output: `[boxes, 5 + classes]` with boxes decoded in the graph.
//!
//! Input: red, green, blue over 255, letterboxed over 114. Output: centre and size in input pixels, objectness,
//! classes.

use weir_flow::{HeadOutput, Inference, Points, Settings};

use super::detection::DetectionFilter;
use super::input::{BYTES, Input, InputDefaults, ItemTransform};
use super::labels::Labels;
use super::layouts::BoxValues;
use super::settings::{DETECTION_KEYS, INPUT_KEYS, LABEL_KEYS};
use super::{Head, HeadKind, Output, OutputSpec, unfit};
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
    classes: &[],
    keys: &[DETECTION_KEYS, LABEL_KEYS, INPUT_KEYS],
    input_defaults: INPUT_DEFAULTS,
    build,
};

struct Yolov5 {
    filter: DetectionFilter,
    values: BoxValues,
}

fn build(settings: &Settings, input: &Input, specs: &[OutputSpec]) -> Result<Box<dyn Head>, String> {
    let expected = "one of [boxes, 5 + classes]";
    let (values, declared) = BoxValues::read(settings, input, specs, (5, expected))?;
    if !values.boxes_first {
        let transposed = "it is transposed: export the model without the transposition, or as YOLOv8's for the head yolov8";
        return Err(format!("{}; {transposed}", unfit(specs, expected)));
    }
    let labels = Labels::choose(declared, &[], values.channels - 5)?;
    Ok(Box::new(Yolov5 {
        filter: DetectionFilter::read(settings, 0.25, 0.45, labels)?,
        values,
    }))
}

impl Head for Yolov5 {
    fn labels(&self) -> Option<&Labels> {
        Some(&self.filter.labels)
    }

    fn inspect(&self, outputs: &[Output<'_>], input: &Input) -> Result<Option<String>, String> {
        outputs
            .first()
            .map_or(Ok(None), |output| self.values.inspect(output.data, input))
    }

    fn decode(&self, outputs: &[Output<'_>], transform: &ItemTransform) -> Inference {
        let Some(output) = outputs.first() else {
            return Inference::default();
        };
        let candidates = self
            .filter
            .rows(output.data, self.values.channels, 5, |_| Points::None);
        self.filter.objects(candidates, transform)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_flow::{Rect, Value};

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
        let labels = Value::Texts(vec!["coco".to_owned()]);
        let coco = Settings([("labels".to_owned(), labels)].into());
        let head = KIND.build(&coco, &input, &specs).expect("fits");
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
