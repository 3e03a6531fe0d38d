//! YOLOv5 in its usual export, and others of its kind: `[boxes, 5 + classes]` with boxes decoded in the graph.
//!
//! Wants red, green, blue over 255, letterboxed over 114. Gives centre and size in input pixels, objectness, classes.

use std::sync::Arc;

use weir_flow::{HeadOutput, Inference, Points, Settings};

use super::detection::Keep;
use super::input::{BYTES, Input, Placed, Wish};
use super::labels::{COCO, Labels};
use super::settings::{FOUND, INPUT, LABELS};
use super::{Given, Head, Kind, Output, single};
use crate::pixels::Channels;

/// Also what YOLOv8 wants.
pub(super) const WISH: Wish = Wish {
    channels: Channels::Rgb,
    std: [255.0; 3],
    size: (640, 640),
    multiple: 32,
    ..BYTES
};

pub(super) const KIND: Kind = Kind {
    name: "yolov5",
    about: "YOLOv5 export: RGB /255, letterbox over 114; [boxes, 5 + classes] in input pixels; score 0.25, NMS 0.45",
    output: HeadOutput::Boxes,
    classes: COCO,
    keys: &[FOUND, LABELS, INPUT],
    wish: WISH,
    build,
};

struct Yolov5 {
    keep: Keep,
    channels: usize,
}

fn build(settings: &Settings, _: &Input, given: &[Given]) -> Result<Box<dyn Head>, String> {
    let wants = "one of [boxes, 5 + classes]";
    let shape = single(given, wants, 2)?;
    if shape[1] < 6 || shape[0] < shape[1] {
        return Err(super::unfit(given, wants));
    }
    let labels = Labels::read(settings, COCO, shape[1] - 5)?;
    Ok(Box::new(Yolov5 {
        keep: Keep::read(settings, 0.25, 0.45, labels)?,
        channels: shape[1],
    }))
}

impl Head for Yolov5 {
    fn classes(&self) -> &[Arc<str>] {
        self.keep.labels.names()
    }

    fn decode(&self, outputs: &[Output<'_>], placed: &Placed) -> Inference {
        let Some(output) = outputs.first() else {
            return Inference::default();
        };
        let candidates = self.keep.rows(output.data, self.channels, 5, |_| Points::None);
        self.keep.objects(candidates, placed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_flow::Rect;

    #[test]
    fn boxes_are_taken_as_they_are() {
        let input = Input::read(
            &WISH,
            &Settings::default(),
            &[Some(1), Some(3), Some(64), Some(64)],
        )
        .expect("read");
        let given = [Given {
            name: "output0".to_owned(),
            shape: vec![252, 85],
            readable: true,
        }];
        let head = KIND.build(&Settings::default(), &input, &given).expect("fits");
        let mut data = vec![0.0; 252 * 85];
        data[85 * 7..85 * 7 + 5].copy_from_slice(&[20.0, 30.0, 10.0, 20.0, 0.9]);
        data[85 * 7 + 5 + 7] = 0.5;
        let outputs = [Output { data: &data }];
        let found = head.decode(&outputs, &Placed::itself(64, 64)).objects;
        assert_eq!(
            (&*found[0].class, found[0].rect),
            ("truck", Rect::new(15.0, 20.0, 25.0, 40.0))
        );
    }
}
