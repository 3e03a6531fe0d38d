//! Detectors of TensorFlow and torchvision (SSD, Faster R-CNN, RetinaNet, FCOS) with their selection inside.
//!
//! Input: red, green, blue, stretched, as bytes for TensorFlow and over 255 for torchvision. Output of TensorFlow: `detection_boxes`
//! `[n, 4]` (top, left, bottom, right, relative), `detection_classes [n]`, `detection_scores [n]`; of torchvision: `boxes [n, 4]`
//! (corners in pixels), `labels [n]`, `scores [n]`. Classes are numbered from 1: 0 is the background.

use weir_flow::{HeadOutput, Inference, Rect, Settings};

use super::detection::DetectionFilter;
use super::input::{Input, ItemTransform};
use super::labels::{Labels, coco_by_number};
use super::rtdetr::{rows, triple};
use super::selected::{self, Row};
use super::settings::{DETECTION_KEYS, INPUT_KEYS, LABEL_KEYS};
use super::{Head, HeadKind, INPUTS, Output, OutputSpec, unfit};

pub(super) const KIND: HeadKind = HeadKind {
    name: "ssd",
    about: "SSD and others of TensorFlow (detection_boxes, detection_classes, detection_scores) and torchvision (boxes, labels, scores): \
            RGB /255, bytes where the input is of bytes, stretched; classes from 1 on; score 0.5, no NMS",
    output: HeadOutput::Boxes,
    classes: &[],
    keys: &[DETECTION_KEYS, LABEL_KEYS, INPUT_KEYS],
    input_defaults: super::input::InputDefaults {
        size: (320, 320),
        ..super::input::UNIT_CROP
    },
    build,
};

struct Ssd {
    filter: DetectionFilter,
    classes: Option<usize>,
    /// Positions of labels, boxes and scores.
    ports: [usize; 3],
    /// Boxes begin with their top, and are relative to the input.
    is_tensorflow: bool,
}

fn build(settings: &Settings, _: &Input, specs: &[OutputSpec]) -> Result<Box<dyn Head>, String> {
    let expected = "detection_boxes [n, 4], detection_classes [n] and detection_scores [n], or boxes [n, 4], labels [n] and scores [n]";
    let tensorflow = tensorflow(specs);
    let has_inputs = settings.texts(INPUTS).is_some();
    let Some(ports) = tensorflow.or_else(|| triple(specs).filter(|_| !has_inputs)) else {
        return Err(unfit(specs, expected));
    };
    let labels = match coco_by_number(settings) {
        Some(names) => Labels::of(&names),
        None => selected::named_classes(settings)?,
    };
    Ok(Box::new(Ssd {
        classes: selected::known_classes(settings, &labels),
        filter: selected::filter(settings, 0.5, labels)?,
        ports,
        is_tensorflow: tensorflow.is_some(),
    }))
}

/// Positions of the outputs of TensorFlow's object detection: classes, boxes, scores.
fn tensorflow(specs: &[OutputSpec]) -> Option<[usize; 3]> {
    let at = |name: &str| {
        let is_named = |output: &OutputSpec| output.name == name || output.name == format!("{name}:0");
        specs.iter().position(is_named)
    };
    let ports = [
        at("detection_classes")?,
        at("detection_boxes")?,
        at("detection_scores")?,
    ];
    let elements = ports.map(|port| specs[port].shape.iter().product::<usize>());
    (elements[0] == elements[2] && elements[1] == 4 * elements[0]).then_some(ports)
}

impl Ssd {
    fn rows<'a>(
        &self,
        outputs: &[Output<'a>],
        width: u32,
        height: u32,
    ) -> impl Iterator<Item = Row> + use<'a> {
        let is_tensorflow = self.is_tensorflow;
        let (width, height) = (width as f32, height as f32);
        rows(self.ports, outputs).map(move |row| Row {
            class: row.class - 1.0,
            rect: match is_tensorflow {
                true => Rect::new(
                    row.rect.y0 * width,
                    row.rect.x0 * height,
                    row.rect.y1 * width,
                    row.rect.x1 * height,
                ),
                false => row.rect,
            },
            ..row
        })
    }
}

impl Head for Ssd {
    fn labels(&self) -> Option<&Labels> {
        Some(&self.filter.labels)
    }

    fn runs_one_by_one(&self) -> bool {
        true
    }

    fn inspect(&self, outputs: &[Output<'_>], input: &Input) -> Result<Option<String>, String> {
        let rows = self.rows(outputs, input.spec.width, input.spec.height);
        selected::inspect(rows, self.classes, input)
    }

    fn decode(&self, outputs: &[Output<'_>], transform: &ItemTransform) -> Inference {
        let rows = self.rows(outputs, transform.width, transform.height);
        selected::objects(&self.filter, rows, transform)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_flow::Value;

    fn labelled(labels: &[&str]) -> Settings {
        let labels = labels.iter().map(|label| (*label).to_owned()).collect();
        Settings([("labels".to_owned(), Value::Texts(labels))].into())
    }

    fn specs(outputs: &[(&str, &[usize], bool)]) -> Vec<OutputSpec> {
        let spec = |(name, shape, readable): &(&str, &[usize], bool)| OutputSpec {
            name: (*name).to_owned(),
            shape: shape.to_vec(),
            readable: *readable,
        };
        outputs.iter().map(spec).collect()
    }

    fn found(head: &dyn Head, outputs: &[&[f32]]) -> Vec<(String, f32, Rect)> {
        let outputs: Vec<Output<'_>> = outputs.iter().map(|data| Output { data }).collect();
        let objects = head.decode(&outputs, &ItemTransform::identity(200, 100)).objects;
        objects
            .iter()
            .map(|found| (found.class.to_string(), found.score, found.rect))
            .collect()
    }

    fn input() -> Input {
        let port = [Some(1), Some(100), Some(200), Some(3)];
        KIND.input(&Settings::default(), &port).expect("read")
    }

    #[test]
    fn outputs_of_tensorflow_are_read() {
        let specs = specs(&[
            ("num_detections", &[], true),
            ("detection_boxes", &[2, 4], true),
            ("detection_classes", &[2], true),
            ("detection_scores", &[2], true),
        ]);
        let head = KIND.build(&labelled(&["coco"]), &input(), &specs).expect("fits");
        let outputs: [&[f32]; 4] = [
            &[1.0],
            &[0.125, 0.25, 0.5, 0.625, 0.0, 0.0, 0.0, 0.0],
            &[18.0, 1.0],
            &[0.75, 0.0],
        ];
        assert_eq!(
            found(&*head, &outputs),
            [("dog".to_owned(), 0.75, Rect::new(50.0, 12.5, 125.0, 50.0))]
        );
        let own = KIND
            .build(&labelled(&["a", "b"]), &input(), &specs)
            .expect("fits");
        let views: Vec<Output<'_>> = outputs.iter().map(|data| Output { data }).collect();
        let error = own.inspect(&views, &input()).expect_err("refused");
        assert!(error.contains("a class is 17"), "{error}");
    }

    #[test]
    fn outputs_of_torchvision_are_read() {
        let specs = specs(&[
            ("boxes", &[1, 4], true),
            ("labels", &[1], false),
            ("scores", &[1], true),
        ]);
        let head = KIND
            .build(&labelled(&["a", "b"]), &input(), &specs)
            .expect("fits");
        let outputs: [&[f32]; 3] = [
            &[10.0, 20.0, 30.0, 60.0, 1.0, 2.0, 3.0, 4.0],
            &[2.0, 1.0],
            &[0.9, 0.3],
        ];
        assert_eq!(
            found(&*head, &outputs),
            [("b".to_owned(), 0.9, Rect::new(10.0, 20.0, 30.0, 60.0))]
        );
        assert!(found(&*head, &[&[], &[], &[]]).is_empty());
        let mut sized = labelled(&["a"]);
        sized.0.insert(
            INPUTS.to_owned(),
            Value::Texts(vec!["orig_target_sizes".to_owned()]),
        );
        assert!(
            KIND.build(&sized, &input(), &specs).is_err(),
            "of RT-DETR, whose classes are from 0 on"
        );
    }
}
