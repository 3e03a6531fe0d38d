//! YOLOv8 in its usual export, and models with the same output: `[4 + classes, boxes]` or transposed, without
//! objectness.
//!
//! Input: red, green, blue over 255, letterboxed over 114. Output: centre and size in input pixels, and classes.

use weir_flow::{HeadOutput, Inference, Settings};

use super::detection::{Candidate, DetectionFilter, centred_rect};
use super::input::{Input, ItemTransform};
use super::labels::Labels;
use super::layouts::BoxValues;
use super::settings::{DETECTION_KEYS, INPUT_KEYS, LABEL_KEYS};
use super::{Head, HeadKind, Output, OutputSpec};

pub(super) const KIND: HeadKind = HeadKind {
    name: "yolov8",
    about: "YOLOv8 export: RGB /255, letterbox over 114; [4 + classes, boxes] in input pixels; score 0.25, NMS 0.45",
    output: HeadOutput::Boxes,
    classes: &[],
    keys: &[DETECTION_KEYS, LABEL_KEYS, INPUT_KEYS],
    input_defaults: super::yolov5::INPUT_DEFAULTS,
    build,
};

struct Yolov8 {
    filter: DetectionFilter,
    values: BoxValues,
    /// Elements from one class to the next, and from one box to the next.
    steps: (usize, usize),
}

fn build(settings: &Settings, input: &Input, specs: &[OutputSpec]) -> Result<Box<dyn Head>, String> {
    let expected = "one of [4 + classes, boxes] or [boxes, 4 + classes]";
    let (values, declared) = BoxValues::read(settings, input, specs, (4, expected))?;
    let labels = Labels::choose(declared, &[], values.channels - 4)?;
    let filter = DetectionFilter::read(settings, 0.25, 0.45, labels)?;
    let steps = match values.boxes_first {
        true => (1, values.channels),
        false => (values.boxes, 1),
    };
    Ok(Box::new(Yolov8 {
        filter,
        values,
        steps,
    }))
}

impl Yolov8 {
    /// The best class of each box, class by class: memory is read sequentially.
    fn best(&self, data: &[f32]) -> Vec<(f32, usize)> {
        let mut best = vec![(f32::NEG_INFINITY, 0); self.values.boxes];
        for class in 0..self.values.channels - 4 {
            let scores = &data[(4 + class) * self.steps.0..];
            for (score, best) in scores.iter().step_by(self.steps.1).zip(&mut best) {
                if *score > best.0 {
                    *best = (*score, class);
                }
            }
        }
        best
    }
}

impl Head for Yolov8 {
    fn labels(&self) -> Option<&Labels> {
        Some(&self.filter.labels)
    }

    fn inspect(&self, outputs: &[Output<'_>], input: &Input) -> Result<Option<String>, String> {
        outputs
            .first()
            .map_or(Ok(None), |output| self.values.inspect(output.data, input))
    }

    fn decode(&self, outputs: &[Output<'_>], transform: &ItemTransform) -> Inference {
        let Some(data) = outputs.first().map(|output| output.data) else {
            return Inference::default();
        };
        let found = self
            .best(data)
            .into_iter()
            .enumerate()
            .filter(|(_, (score, _))| *score >= self.filter.threshold);
        let candidates = found.map(|(index, (score, class))| {
            let [x, y, width, height] =
                std::array::from_fn(|channel| data[channel * self.steps.0 + index * self.steps.1]);
            Candidate::new(class, score, centred_rect(x, y, width, height))
        });
        self.filter.objects(candidates.collect(), transform)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_flow::{Rect, Value};

    fn coco() -> Settings {
        Settings([("labels".to_owned(), Value::Texts(vec!["coco".to_owned()]))].into())
    }

    fn input(side: usize) -> Input {
        let port = [Some(1), Some(3), Some(side), Some(side)];
        Input::read(&KIND.input_defaults, &Settings::default(), &port).expect("read")
    }

    fn specs(shape: &[usize]) -> [OutputSpec; 1] {
        [OutputSpec {
            name: "output0".to_owned(),
            shape: shape.to_vec(),
            readable: true,
        }]
    }

    #[test]
    fn both_memory_orders_are_read() {
        let boxes = 256 + 64 + 16;
        for transposed in [false, true] {
            let shape = if transposed { [boxes, 84] } else { [84, boxes] };
            let head = KIND.build(&coco(), &input(128), &specs(&shape)).expect("fits");
            let mut data = vec![0.0; 84 * boxes];
            for (channel, value) in [(0, 20.0), (1, 30.0), (2, 10.0), (3, 20.0), (4 + 16, 0.7)] {
                data[if transposed {
                    60 * 84 + channel
                } else {
                    channel * boxes + 60
                }] = value;
            }
            let found = head
                .decode(&[Output { data: &data }], &ItemTransform::identity(128, 128))
                .objects;
            assert_eq!(found.len(), 1);
            assert_eq!(
                (&*found[0].class, found[0].rect),
                ("dog", Rect::new(15.0, 20.0, 25.0, 40.0))
            );
        }
    }
}
