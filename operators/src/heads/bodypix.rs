//! Keypoints of one person (BodyPix and PoseNet): `keypoints`.
//!
//! Input: red, green, blue (x - 127.5) / 127.5, letterboxed, sides 16 k + 1. Output: `heatmaps` `[rows, columns, 17]`
//! (logits) and `short_offsets` `[rows, columns, 34]` (17 y, then 17 x): a keypoint lies at a cell of its heatmap,
//! moved by that cell's offset. With `displacement_fwd` and `displacement_bwd` `[rows, columns, 32]` (16 y, then 16 x),
//! keypoints of one person are found from each other along the skeleton (Papandreou et al., PersonLab, 2018), so that a
//! crop that shows parts of neighbours still gives the pose of one. Without them, each keypoint is where its heatmap is
//! highest.

use weir_flow::{Attribute, HeadOutput, Inference, KeyPoint, Point, Settings};

use super::detection::sigmoid;
use super::input::{BYTES, Input, InputDefaults, ItemTransform};
use super::settings::INPUT_KEYS;
use super::{Head, HeadKind, Output, OutputSpec, unfit};
use crate::pixels::Channels;

pub(super) const KIND: HeadKind = HeadKind {
    name: "keypoints",
    about: "key points of one person: RGB (x - 127.5) / 127.5, letterbox, sides 16 k + 1; heatmaps [rows, columns, n] \
            and short_offsets [rows, columns, 2 n]; with displacement_fwd and displacement_bwd points of one person",
    output: HeadOutput::Attribute,
    classes: &[],
    keys: &[INPUT_KEYS],
    input_defaults: InputDefaults {
        channels: Channels::Rgb,
        mean: [127.5; 3],
        std: [127.5; 3],
        fill: 127.5,
        size: (321, 321),
        multiple: 16,
        multiple_offset: 1,
        ..BYTES
    },
    build,
};

/// The edges of the skeleton: each keypoint with its parent, in the order of the displacements.
#[rustfmt::skip]
const EDGES: [(usize, usize); 16] = [
    (0, 1), (1, 3), (0, 2), (2, 4), (0, 5), (5, 7), (7, 9), (5, 11), (11, 13), (13, 15), (0, 6), (6, 8), (8, 10), (6, 12),
    (12, 14), (14, 16),
];
/// Number of refinements, by the offset of its cell, of a keypoint that was reached over an edge.
const REFINEMENTS: usize = 2;

struct Bodypix {
    heatmaps: usize,
    offsets: usize,
    /// Displacements forwards and backwards along the skeleton, if the model has them.
    displacements: Option<[usize; 2]>,
    rows: usize,
    columns: usize,
    points: usize,
    /// Input pixels from one cell to the next.
    stride: (f32, f32),
}

fn build(_: &Settings, input: &Input, specs: &[OutputSpec]) -> Result<Box<dyn Head>, String> {
    let expected = "heatmaps [rows, columns, n] and short_offsets [rows, columns, 2 n]";
    let place = |name: &str| {
        specs
            .iter()
            .position(|output| output.name.contains(name) && output.readable && output.shape.len() == 3)
    };
    // Some exports also have heatmaps of body segments.
    let heatmaps = specs
        .iter()
        .position(|output| output.name == "heatmaps")
        .or_else(|| place("heatmap"));
    let (Some(heatmaps), Some(offsets)) = (heatmaps, place("short_offset")) else {
        return Err(unfit(specs, expected));
    };
    let [rows, columns, points] = specs[heatmaps].shape[..] else {
        return Err(unfit(specs, expected));
    };
    if specs[offsets].shape != [rows, columns, 2 * points] || points == 0 || rows < 2 || columns < 2 {
        return Err(unfit(specs, expected));
    }
    let displacement = |name: &str| {
        let fits =
            |output: &OutputSpec| output.name == name && output.shape == [rows, columns, 2 * EDGES.len()];
        specs.iter().position(fits).filter(|place| specs[*place].readable)
    };
    let displacements = displacement("displacement_fwd").zip(displacement("displacement_bwd"));
    let step = |side: u32, cells: usize| (side - 1) as f32 / (cells - 1) as f32;
    let stride = (step(input.spec.width, columns), step(input.spec.height, rows));
    Ok(Box::new(Bodypix {
        heatmaps,
        offsets,
        displacements: displacements
            .filter(|_| points == EDGES.len() + 1)
            .map(|(forwards, backwards)| [forwards, backwards]),
        rows,
        columns,
        points,
        stride,
    }))
}

/// The outputs of the model for one item.
struct Maps<'a> {
    layout: &'a Bodypix,
    heatmaps: &'a [f32],
    offsets: &'a [f32],
}

impl Maps<'_> {
    /// The cell that contains a point, given in input pixels.
    fn cell(&self, at: Point) -> usize {
        let nearest =
            |value: f32, step: f32, count: usize| ((value / step).round().max(0.0) as usize).min(count - 1);
        let Bodypix {
            rows,
            columns,
            stride,
            ..
        } = self.layout;
        nearest(at.y, stride.1, *rows) * columns + nearest(at.x, stride.0, *columns)
    }

    /// The position of keypoint `point` by the offset at `cell`, in input pixels.
    fn refined(&self, point: usize, cell: usize) -> Point {
        let Bodypix {
            columns,
            points,
            stride,
            ..
        } = self.layout;
        let offset = &self.offsets[cell * 2 * points..][..2 * points];
        Point::new(
            (cell % columns) as f32 * stride.0 + offset[points + point],
            (cell / columns) as f32 * stride.1 + offset[point],
        )
    }

    /// The highest cell of each keypoint's heatmap, with the keypoint's position.
    fn best(&self) -> Vec<(Point, usize)> {
        let points = self.layout.points;
        let mut best = vec![(f32::NEG_INFINITY, 0); points];
        for (cell, logits) in self.heatmaps.chunks_exact(points).enumerate() {
            for (logit, best) in logits.iter().zip(&mut best) {
                if *logit > best.0 {
                    *best = (*logit, cell);
                }
            }
        }
        let transform = best.iter().enumerate();
        transform
            .map(|(point, (_, cell))| (self.refined(point, *cell), *cell))
            .collect()
    }

    fn score(&self, point: usize, cell: usize) -> f32 {
        sigmoid(self.heatmaps[cell * self.layout.points + point])
    }

    /// All keypoints found from `root`, which lies at `at` in `cell`: backwards to the nose, then forwards.
    fn walked(&self, root: usize, at: Point, cell: usize, displacements: [&[f32]; 2]) -> Vec<(Point, usize)> {
        let [forwards, backwards] = displacements;
        let mut found = vec![None; self.layout.points];
        found[root] = Some((at, cell));
        for (edge, (from, to)) in EDGES.iter().enumerate().rev() {
            if let (Some((at, cell)), None) = (found[*to], found[*from]) {
                found[*from] = Some(self.step(at, cell, edge, *from, backwards));
            }
        }
        for (edge, (from, to)) in EDGES.iter().enumerate() {
            if let (Some((at, cell)), None) = (found[*from], found[*to]) {
                found[*to] = Some(self.step(at, cell, edge, *to, forwards));
            }
        }
        found
            .into_iter()
            .map(|point| point.unwrap_or((at, cell)))
            .collect()
    }

    /// Follows one edge, from a keypoint to `point`.
    fn step(
        &self,
        at: Point,
        cell: usize,
        edge: usize,
        point: usize,
        displacement: &[f32],
    ) -> (Point, usize) {
        let moved = &displacement[cell * 2 * EDGES.len()..][..2 * EDGES.len()];
        let mut at = Point::new(at.x + moved[EDGES.len() + edge], at.y + moved[edge]);
        for _ in 0..REFINEMENTS {
            at = self.refined(point, self.cell(at));
        }
        (at, self.cell(at))
    }

    /// The pose with the highest score among those started from each keypoint's highest cell.
    fn pose(&self, displacements: [&[f32]; 2]) -> Vec<(Point, usize)> {
        let sureness = |pose: &[(Point, usize)]| -> f32 {
            pose.iter()
                .enumerate()
                .map(|(point, (_, cell))| self.score(point, *cell))
                .sum()
        };
        let roots = self.best();
        let poses = roots
            .iter()
            .enumerate()
            .map(|(root, (at, cell))| self.walked(root, *at, *cell, displacements));
        poses
            .max_by(|a, b| sureness(a).total_cmp(&sureness(b)))
            .unwrap_or(roots)
    }
}

impl Head for Bodypix {
    fn decode(&self, outputs: &[Output<'_>], transform: &ItemTransform) -> Inference {
        let maps = Maps {
            layout: self,
            heatmaps: outputs[self.heatmaps].data,
            offsets: outputs[self.offsets].data,
        };
        let found = match self.displacements {
            Some(places) => maps.pose(places.map(|place| outputs[place].data)),
            None => maps.best(),
        };
        let points = found.iter().enumerate().map(|(point, (at, cell))| KeyPoint {
            name: None,
            at: transform.point(*at),
            score: maps.score(point, *cell),
        });
        Some(Attribute::Points(points.collect())).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_keypoint_is_its_highest_cell_moved_by_the_offset() {
        let port = [Some(1), Some(33), Some(49), Some(3)];
        let input = Input::read(&KIND.input_defaults, &Settings::default(), &port).expect("read");
        let output = |name: &str, size| OutputSpec {
            name: name.to_owned(),
            shape: vec![3, 4, size],
            readable: true,
        };
        let specs = [output("heatmaps", 2), output("short_offsets", 4)];
        let head = KIND.build(&Settings::default(), &input, &specs).expect("fits");
        let (mut heatmaps, mut offsets) = (vec![-5.0; 24], vec![0.0; 48]);
        heatmaps[6 * 2 + 1] = 5.0; // point 1 at column 2, row 1
        offsets[6 * 4 + 1] = -2.0;
        offsets[6 * 4 + 3] = 3.0;
        let outputs = [Output { data: &heatmaps }, Output { data: &offsets }];
        let Some(Attribute::Points(points)) =
            head.decode(&outputs, &ItemTransform::identity(49, 33)).attribute
        else {
            panic!("no points")
        };
        assert_eq!(points[1].at, Point::new(35.0, 14.0));
        assert!(points[1].score > 0.99 && points[0].score < 0.01);
    }

    /// Two persons of whom only noses are sure, side by side; the right one's shoulders are surer than the left one's.
    #[test]
    fn keypoints_of_two_persons_do_not_mix() {
        let port = [Some(1), Some(33), Some(129), Some(3)];
        let input = Input::read(&KIND.input_defaults, &Settings::default(), &port).expect("read");
        let (rows, columns) = (3, 9);
        let output = |name: &str, size| OutputSpec {
            name: name.to_owned(),
            shape: vec![rows, columns, size],
            readable: true,
        };
        let specs = [
            output("heatmaps", 17),
            output("short_offsets", 34),
            output("displacement_fwd", 32),
            output("displacement_bwd", 32),
        ];
        let head = KIND.build(&Settings::default(), &input, &specs).expect("fits");
        let mut heatmaps = vec![-5.0; rows * columns * 17];
        let mut set = |point: usize, column: usize, row: usize, logit| {
            heatmaps[(row * columns + column) * 17 + point] = logit;
        };
        // The left person has a nose and two shoulders, the right one the surest left shoulder and nothing else.
        set(0, 2, 0, 4.0);
        set(5, 1, 1, 3.0);
        set(6, 3, 1, 3.0);
        set(5, 8, 1, 5.0);
        let (offsets, backwards) = (vec![0.0; rows * columns * 34], vec![0.0; rows * columns * 32]);
        let mut forwards = vec![0.0; rows * columns * 32];
        // Edges 4 and 10 lead from the nose to the shoulders: a cell down, a cell to either side.
        for (edge, x) in [(4, -16.0), (10, 16.0)] {
            forwards[2 * 32 + edge] = 16.0;
            forwards[2 * 32 + 16 + edge] = x;
        }
        let outputs = [&heatmaps, &offsets, &forwards, &backwards].map(|data| Output {
            data: data.as_slice(),
        });
        let Some(Attribute::Points(points)) =
            head.decode(&outputs, &ItemTransform::identity(129, 33)).attribute
        else {
            panic!("no points")
        };
        let at = |point: usize| (points[point].at.x, points[point].at.y);
        assert_eq!((at(0), at(5), at(6)), ((32.0, 0.0), (16.0, 16.0), (48.0, 16.0)));
    }
}
