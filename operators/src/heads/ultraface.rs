//! UltraFace: faces without points, boxes decoded in the graph.
//!
//! Wants red, green, blue less 127 over 128, stretched. Gives `[boxes, 2]` probabilities (background, face) and
//! `[boxes, 4]` corners as parts of the input.

use std::sync::Arc;

use weir_flow::{HeadOutput, Inference, Rect, Settings};

use super::detection::{Candidate, Keep};
use super::input::{BYTES, Fit, Input, Placed, Wish};
use super::labels::Labels;
use super::settings::{FOUND, INPUT, LABELS};
use super::{Given, Head, Kind, Output, unfit};
use crate::pixels::Channels;

pub(super) const KIND: Kind = Kind {
    name: "ultraface",
    about: "UltraFace: RGB (x - 127) / 128, stretched; scores [boxes, 2], boxes [boxes, 4]; faces without points; \
            score 0.7, NMS 0.5",
    output: HeadOutput::Boxes,
    classes: &["face"],
    keys: &[FOUND, LABELS, INPUT],
    wish: Wish {
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
    keep: Keep,
    scores: usize,
    boxes: usize,
}

fn build(settings: &Settings, _: &Input, given: &[Given]) -> Result<Box<dyn Head>, String> {
    let place = |size: usize| {
        given
            .iter()
            .position(|output| output.readable && matches!(*output.shape, [_, s] if s == size))
    };
    match (place(2), place(4)) {
        (Some(scores), Some(boxes)) if given[scores].shape[0] == given[boxes].shape[0] => {
            let labels = Labels::read(settings, KIND.classes, 1)?;
            Ok(Box::new(Ultraface {
                keep: Keep::read(settings, 0.7, 0.5, labels)?,
                scores,
                boxes,
            }))
        }
        _ => Err(unfit(given, "[boxes, 2] and [boxes, 4]")),
    }
}

impl Head for Ultraface {
    fn classes(&self) -> &[Arc<str>] {
        self.keep.labels.names()
    }

    fn decode(&self, outputs: &[Output<'_>], placed: &Placed) -> Inference {
        let (width, height) = (placed.width as f32, placed.height as f32);
        let (scores, _) = outputs[self.scores].data.as_chunks::<2>();
        let (boxes, _) = outputs[self.boxes].data.as_chunks::<4>();
        let candidates = scores
            .iter()
            .zip(boxes)
            .filter(|(score, _)| score[1] >= self.keep.threshold);
        let candidates = candidates.map(|(score, [x0, y0, x1, y1])| {
            Candidate::new(
                0,
                score[1],
                Rect::new(x0 * width, y0 * height, x1 * width, y1 * height),
            )
        });
        self.keep.objects(candidates.collect(), placed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boxes_are_parts_of_the_input() {
        let port = [Some(1), Some(3), Some(240), Some(320)];
        let input = Input::read(&KIND.wish, &Settings::default(), &port).expect("read");
        let output = |name: &str, size| Given {
            name: name.to_owned(),
            shape: vec![3, size],
            readable: true,
        };
        let given = [output("scores", 2), output("boxes", 4)];
        let head = KIND.build(&Settings::default(), &input, &given).expect("fits");
        let scores = [0.9, 0.1, 0.1, 0.9, 0.5, 0.5];
        let boxes = [0.0, 0.0, 1.0, 1.0, 0.25, 0.25, 0.5, 0.5, 0.0, 0.0, 0.1, 0.1];
        let outputs = [Output { data: &scores }, Output { data: &boxes }];
        let found = head.decode(&outputs, &Placed::itself(320, 240)).objects;
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].rect, Rect::new(80.0, 60.0, 160.0, 120.0));
    }
}
