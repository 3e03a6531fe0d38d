//! Key points of one person (BodyPix and PoseNet): `keypoints`.
//!
//! Wants red, green, blue (x - 127.5) / 127.5, letterboxed, sides 16 k + 1. Gives `heatmaps` `[rows, columns, 17]`
//! (logits) and `short_offsets` `[rows, columns, 34]` (17 y, then 17 x): each point is at the best cell of its
//! heatmap, moved by that cell's offset. Give it crops of single persons: of several in one picture points would mix.

use weir_flow::{Attribute, Bearing, Inference, KeyPoint, Point, Settings};

use super::detection::sigmoid;
use super::input::{BYTES, Input, Placed, Wish};
use super::settings::INPUT;
use super::{Given, Head, Kind, Output, unfit};
use crate::pixels::Channels;

pub(super) const KIND: Kind = Kind {
    name: "keypoints",
    about: "key points of one person: RGB (x - 127.5) / 127.5, letterbox, sides 16 k + 1; heatmaps [rows, columns, n] \
            and short_offsets [rows, columns, 2 n]",
    gives: Bearing::Attribute,
    classes: &[],
    keys: &[INPUT],
    wish: Wish {
        channels: Channels::Rgb,
        mean: [127.5; 3],
        std: [127.5; 3],
        fill: 127.5,
        size: (321, 321),
        multiple: 16,
        beyond: 1,
        ..BYTES
    },
    build,
};

struct Bodypix {
    heatmaps: usize,
    offsets: usize,
    columns: usize,
    points: usize,
    /// Input pixels from one cell to the next.
    stride: (f32, f32),
}

fn build(_: &Settings, input: &Input, given: &[Given]) -> Result<Box<dyn Head>, String> {
    let wants = "heatmaps [rows, columns, n] and short_offsets [rows, columns, 2 n]";
    let place = |name: &str| {
        given
            .iter()
            .position(|output| output.name.contains(name) && output.readable && output.shape.len() == 3)
    };
    // Some exports also have heatmaps of body parts.
    let heatmaps = given
        .iter()
        .position(|output| output.name == "heatmaps")
        .or_else(|| place("heatmap"));
    let (Some(heatmaps), Some(offsets)) = (heatmaps, place("short_offset")) else {
        return Err(unfit(given, wants));
    };
    let [rows, columns, points] = given[heatmaps].shape[..] else {
        return Err(unfit(given, wants));
    };
    if given[offsets].shape != [rows, columns, 2 * points] || points == 0 || rows < 2 || columns < 2 {
        return Err(unfit(given, wants));
    }
    let step = |side: u32, cells: usize| (side - 1) as f32 / (cells - 1) as f32;
    let stride = (step(input.spec.width, columns), step(input.spec.height, rows));
    Ok(Box::new(Bodypix {
        heatmaps,
        offsets,
        columns,
        points,
        stride,
    }))
}

impl Head for Bodypix {
    fn decode(&self, outputs: &[Output<'_>], placed: &Placed) -> Inference {
        let (heatmaps, offsets) = (outputs[self.heatmaps].data, outputs[self.offsets].data);
        let mut best = vec![(f32::NEG_INFINITY, 0); self.points];
        for (cell, logits) in heatmaps.chunks_exact(self.points).enumerate() {
            for (logit, best) in logits.iter().zip(&mut best) {
                if *logit > best.0 {
                    *best = (*logit, cell);
                }
            }
        }
        let points = best.iter().enumerate().map(|(point, (logit, cell))| {
            let offset = &offsets[cell * 2 * self.points..][..2 * self.points];
            let x = (cell % self.columns) as f32 * self.stride.0 + offset[self.points + point];
            let y = (cell / self.columns) as f32 * self.stride.1 + offset[point];
            KeyPoint {
                at: placed.point(Point::new(x, y)),
                score: sigmoid(*logit),
            }
        });
        Inference {
            objects: Vec::new(),
            attribute: Some(Attribute::Points(points.collect())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_is_its_best_cell_and_the_offset_there() {
        let port = [Some(1), Some(33), Some(49), Some(3)];
        let input = Input::read(&KIND.wish, &Settings::default(), &port).expect("read");
        let output = |name: &str, size| Given {
            name: name.to_owned(),
            shape: vec![3, 4, size],
            readable: true,
        };
        let given = [output("heatmaps", 2), output("short_offsets", 4)];
        let head = KIND.build(&Settings::default(), &input, &given).expect("fits");
        let (mut heatmaps, mut offsets) = (vec![-5.0; 24], vec![0.0; 48]);
        heatmaps[6 * 2 + 1] = 5.0; // point 1 at column 2, row 1
        offsets[6 * 4 + 1] = -2.0;
        offsets[6 * 4 + 3] = 3.0;
        let outputs = [Output { data: &heatmaps }, Output { data: &offsets }];
        let Some(Attribute::Points(points)) = head.decode(&outputs, &Placed::itself(49, 33)).attribute else {
            panic!("no points")
        };
        assert_eq!(points[1].at, Point::new(35.0, 14.0));
        assert!(points[1].score > 0.99 && points[0].score < 0.01);
    }
}
