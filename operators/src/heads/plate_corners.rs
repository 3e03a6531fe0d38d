//! Licence plates with their four corners (HyperLPR's y5fu), boxes decoded in the graph.
//!
//! Wants red, green, blue over 255, letterboxed over 114. Gives `[boxes, 13 + classes]`: centre, size, objectness, four
//! corners (top left, top right, bottom right, bottom left), classes; score = objectness * the best class.

use std::sync::Arc;

use weir_flow::{HeadOutput, Inference, Point, Points, Settings};

use super::detection::Keep;
use super::input::{BYTES, Input, Placed, Wish};
use super::labels::Labels;
use super::settings::{FOUND, INPUT, LABELS};
use super::{Given, Head, Kind, Output, single, unfit};
use crate::pixels::Channels;

pub(super) const KIND: Kind = Kind {
    name: "plate-corners",
    about: "plates with corners: RGB /255, letterbox over 114; [boxes, 13 + classes]; score 0.4, NMS 0.5",
    output: HeadOutput::Quads,
    classes: &["plate"],
    keys: &[FOUND, LABELS, INPUT],
    wish: Wish {
        channels: Channels::Rgb,
        std: [255.0; 3],
        size: (320, 320),
        multiple: 32,
        ..BYTES
    },
    build,
};

/// Kinds of plates that need no names: more of them are some other model's classes.
const KINDS_MOST: usize = 8;

struct PlateCorners {
    keep: Keep,
    channels: usize,
}

fn build(settings: &Settings, _: &Input, given: &[Given]) -> Result<Box<dyn Head>, String> {
    let wants = "one of [boxes, 13 + classes]";
    let shape = single(given, wants, 2)?;
    if shape[1] < 14 || shape[0] < shape[1] {
        return Err(unfit(given, wants));
    }
    if shape[1] - 13 > KINDS_MOST && !Labels::given(settings) {
        return Err(format!(
            "it would tell {} kinds of plates apart: it is no model of plates, or name them by `labels`",
            shape[1] - 13
        ));
    }
    // One and two rows of characters are plates alike, unless labels tell them apart.
    let labels = Labels::read(settings, &vec!["plate"; shape[1] - 13], shape[1] - 13)?;
    Ok(Box::new(PlateCorners {
        keep: Keep::read(settings, 0.4, 0.5, labels)?,
        channels: shape[1],
    }))
}

impl Head for PlateCorners {
    fn classes(&self) -> &[Arc<str>] {
        self.keep.labels.names()
    }

    fn decode(&self, outputs: &[Output<'_>], placed: &Placed) -> Inference {
        let Some(output) = outputs.first() else {
            return Inference::default();
        };
        let corners = |row: &[f32]| {
            Points::Corners(std::array::from_fn(|corner| {
                Point::new(row[5 + 2 * corner], row[6 + 2 * corner])
            }))
        };
        let candidates = self.keep.rows(output.data, self.channels, 13, corners);
        self.keep.objects(candidates, placed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn corners_come_with_the_box() {
        let port = [Some(1), Some(3), Some(64), Some(64)];
        let input = Input::read(&KIND.wish, &Settings::default(), &port).expect("read");
        let given = [Given {
            name: "output".to_owned(),
            shape: vec![252, 15],
            readable: true,
        }];
        let head = KIND.build(&Settings::default(), &input, &given).expect("fits");
        let mut data = vec![0.0; 252 * 15];
        let row = [
            20.0, 30.0, 20.0, 10.0, 0.9, 10.0, 25.0, 30.0, 26.0, 30.0, 35.0, 10.0, 34.0, 0.1, 0.9,
        ];
        data[15 * 3..15 * 4].copy_from_slice(&row);
        let found = head
            .decode(&[Output { data: &data }], &Placed::itself(64, 64))
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
