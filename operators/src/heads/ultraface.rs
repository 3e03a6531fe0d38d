//! UltraFace: faces without landmarks, boxes decoded in the graph.
//!
//! Input: red, green, blue (x - 127) / 128, stretched. Output: `[boxes, 2]` probabilities (background, face) and
//! `[boxes, 4]` corners relative to the input.

use weir_flow::{HeadOutput, Inference, Rect, Settings};

use super::detection::{Candidate, DetectionFilter};
use super::input::{BYTES, Fit, Input, InputDefaults, ItemTransform};
use super::labels::Labels;
use super::settings::{DETECTION_KEYS, INPUT_KEYS, LABEL_KEYS};
use super::{Head, HeadKind, Output, OutputSpec, unfit};
use crate::pixels::Channels;

pub(super) const KIND: HeadKind = HeadKind {
    name: "ultraface",
    about: "UltraFace: RGB (x - 127) / 128, stretched; scores [boxes, 2], boxes [boxes, 4]; faces without points; \
            score 0.7, NMS 0.5",
    output: HeadOutput::Boxes,
    classes: &["face"],
    keys: &[DETECTION_KEYS, LABEL_KEYS, INPUT_KEYS],
    input_defaults: InputDefaults {
        channels: Channels::Rgb,
        mean: [127.0; 3],
        std: [128.0; 3],
        fit: Fit::Stretch,
        size: (320, 240),
        ..BYTES
    },
    build,
};

struct Ultraface {
    filter: DetectionFilter,
    scores: usize,
    boxes: usize,
}

fn build(settings: &Settings, _: &Input, specs: &[OutputSpec]) -> Result<Box<dyn Head>, String> {
    let place = |size: usize| {
        specs
            .iter()
            .position(|output| output.readable && matches!(*output.shape, [_, s] if s == size))
    };
    match (place(2), place(4)) {
        // A third output is that of the landmarks of another model.
        (Some(scores), Some(boxes))
            if specs.len() == 2 && specs[scores].shape[0] == specs[boxes].shape[0] =>
        {
            let labels = Labels::read_fixed(settings, KIND.classes, 1)?;
            Ok(Box::new(Ultraface {
                filter: DetectionFilter::read(settings, 0.7, 0.5, labels)?,
                scores,
                boxes,
            }))
        }
        _ => Err(unfit(specs, "[boxes, 2] and [boxes, 4]")),
    }
}

impl Head for Ultraface {
    fn labels(&self) -> Option<&Labels> {
        Some(&self.filter.labels)
    }

    fn decode(&self, outputs: &[Output<'_>], transform: &ItemTransform) -> Inference {
        let (width, height) = (transform.width as f32, transform.height as f32);
        let (scores, _) = outputs[self.scores].data.as_chunks::<2>();
        let (boxes, _) = outputs[self.boxes].data.as_chunks::<4>();
        let candidates = scores
            .iter()
            .zip(boxes)
            .filter(|(score, _)| score[1] >= self.filter.threshold);
        let candidates = candidates.map(|(score, [x0, y0, x1, y1])| {
            Candidate::new(
                0,
                score[1],
                Rect::new(x0 * width, y0 * height, x1 * width, y1 * height),
            )
        });
        self.filter.objects(candidates.collect(), transform)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_boxes_are_scaled_to_the_input() {
        let port = [Some(1), Some(3), Some(240), Some(320)];
        let input = Input::read(&KIND.input_defaults, &Settings::default(), &port).expect("read");
        let output = |name: &str, size| OutputSpec {
            name: name.to_owned(),
            shape: vec![3, size],
            readable: true,
        };
        let specs = [output("scores", 2), output("boxes", 4)];
        let head = KIND.build(&Settings::default(), &input, &specs).expect("fits");
        let scores = [0.9, 0.1, 0.1, 0.9, 0.5, 0.5];
        let boxes = [0.0, 0.0, 1.0, 1.0, 0.25, 0.25, 0.5, 0.5, 0.0, 0.0, 0.1, 0.1];
        let outputs = [Output { data: &scores }, Output { data: &boxes }];
        let found = head.decode(&outputs, &ItemTransform::identity(320, 240)).objects;
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].rect, Rect::new(80.0, 60.0, 160.0, 120.0));
    }
}
