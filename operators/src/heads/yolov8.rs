//! YOLOv8 in its usual export, and models with the same output: `[4 + classes, boxes]` or transposed, without
//! objectness.
//!
//! Input: red, green, blue over 255, letterboxed over 114. Output: centre and size in input pixels, and classes.

use std::sync::Arc;

use weir_flow::{HeadOutput, Inference, Settings};

use super::detection::{Candidate, DetectionFilter, centred_rect};
use super::input::{Input, ItemTransform};
use super::labels::{COCO, Labels};
use super::settings::{DETECTION_KEYS, INPUT_KEYS, LABEL_KEYS};
use super::{Head, HeadKind, Output, OutputSpec, single};

pub(super) const KIND: HeadKind = HeadKind {
    name: "yolov8",
    about: "YOLOv8 export: RGB /255, letterbox over 114; [4 + classes, boxes] in input pixels; score 0.25, NMS 0.45",
    output: HeadOutput::Boxes,
    classes: COCO,
    keys: &[DETECTION_KEYS, LABEL_KEYS, INPUT_KEYS],
    input_defaults: super::yolov5::INPUT_DEFAULTS,
    build,
};

struct Yolov8 {
    filter: DetectionFilter,
    classes: usize,
    boxes: usize,
    /// Elements from one class to the next, and from one box to the next.
    steps: (usize, usize),
}

fn build(settings: &Settings, _: &Input, specs: &[OutputSpec]) -> Result<Box<dyn Head>, String> {
    let expected = "one of [4 + classes, boxes] or [boxes, 4 + classes]";
    let shape = single(specs, expected, 2)?;
    // There are always more boxes than classes.
    let (channels, boxes) = (shape[0].min(shape[1]), shape[0].max(shape[1]));
    if channels < 5 {
        return Err(super::unfit(specs, expected));
    }
    let steps = if shape[0] == channels {
        (boxes, 1)
    } else {
        (1, channels)
    };
    if channels - 4 == COCO.len() + 1 && !Labels::are_set(settings) {
        return Err(format!(
            "its {channels} values a box are those of the {} classes of COCO with objectness: use the head yolox or \
             yolov5, or name the classes by `labels`",
            COCO.len()
        ));
    }
    let labels = Labels::read(settings, COCO, channels - 4)?;
    let filter = DetectionFilter::read(settings, 0.25, 0.45, labels)?;
    Ok(Box::new(Yolov8 {
        filter,
        classes: channels - 4,
        boxes,
        steps,
    }))
}

impl Yolov8 {
    /// The best class of each box, class by class: memory is read sequentially.
    fn best(&self, data: &[f32]) -> Vec<(f32, usize)> {
        let mut best = vec![(f32::NEG_INFINITY, 0); self.boxes];
        for class in 0..self.classes {
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
    fn classes(&self) -> &[Arc<str>] {
        self.filter.labels.names()
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
    use weir_flow::Rect;

    #[test]
    fn both_memory_orders_are_read() {
        let port = [Some(1), Some(3), Some(64), Some(64)];
        let input = Input::read(&KIND.input_defaults, &Settings::default(), &port).expect("read");
        for transposed in [false, true] {
            let shape = if transposed { vec![100, 84] } else { vec![84, 100] };
            let specs = [OutputSpec {
                name: "output0".to_owned(),
                shape,
                readable: true,
            }];
            let head = KIND.build(&Settings::default(), &input, &specs).expect("fits");
            let mut data = vec![0.0; 8400];
            for (channel, value) in [(0, 20.0), (1, 30.0), (2, 10.0), (3, 20.0), (4 + 16, 0.7)] {
                data[if transposed {
                    60 * 84 + channel
                } else {
                    channel * 100 + 60
                }] = value;
            }
            let found = head
                .decode(&[Output { data: &data }], &ItemTransform::identity(64, 64))
                .objects;
            assert_eq!(found.len(), 1);
            assert_eq!(
                (&*found[0].class, found[0].rect),
                ("dog", Rect::new(15.0, 20.0, 25.0, 40.0))
            );
        }
    }
}
