//! SCRFD of InsightFace: faces with or without five landmarks, from the strides 8, 16 and 32.
//!
//! Input: red, green, blue (x - 127.5) / 128, letterboxed over 0. Output for each stride: probabilities, boxes and landmarks of two
//! anchors a cell, `[cells * 2, size]` in the order of cells, or `[2 * size, rows, columns]`, with sizes of 1, 4 and 10. A box is its
//! distances to the left, top, right and bottom from the corner of its cell, in strides, and so are the landmarks (Guo et al., Sample and
//! Computation Redistribution for Efficient Face Detection, 2021, arXiv:2105.04714; `scrfd.py` of InsightFace). Larger models have
//! one anchor a cell and the strides 64 and 128, too.

use weir_flow::{HeadOutput, Inference, Point, Points, Rect, Settings};

use super::detection::{Candidate, DetectionFilter, cell, grid, is_no_probability};
use super::input::{BYTES, Input, InputDefaults, ItemTransform};
use super::labels::Labels;
use super::settings::{DETECTION_KEYS, INPUT_KEYS, LABEL_KEYS};
use super::{Head, HeadKind, Output, OutputSpec, unfit};
use crate::pixels::Channels;

pub(super) const KIND: HeadKind = HeadKind {
    name: "scrfd",
    about: "SCRFD of InsightFace: RGB (x - 127.5) / 128, letterbox over 0; scores, boxes and, if the model has them, landmarks of the \
            strides 8, 16, 32; faces with five points; score 0.5, NMS 0.4",
    output: HeadOutput::Faces,
    classes: &["face"],
    keys: &[DETECTION_KEYS, LABEL_KEYS, INPUT_KEYS],
    input_defaults: InputDefaults {
        channels: Channels::Rgb,
        mean: [127.5; 3],
        std: [128.0; 3],
        fill: 0.0,
        size: (640, 640),
        multiple: 32,
        ..BYTES
    },
    build,
};

/// Strides with the anchors of each cell.
const FAMILIES: [(&[u32], usize); 2] = [(&[8, 16, 32], 2), (&[8, 16, 32, 64, 128], 1)];
/// Values of an anchor: score, box, landmarks.
const SIZES: [usize; 3] = [1, 4, 10];

/// Place of the values of one stride among the outputs, with the elements from one cell, anchor and value to the next.
#[derive(Debug, Clone, Copy)]
struct Values {
    output: usize,
    cell_step: usize,
    anchor_step: usize,
    value_step: usize,
}

impl Values {
    /// Value `number` of an anchor, which is given by its cell and its number there.
    fn at(&self, outputs: &[Output<'_>], (cell, anchor): (usize, usize), number: usize) -> f32 {
        let place = cell * self.cell_step + anchor * self.anchor_step + number * self.value_step;
        let value = Output::elements(outputs, self.output).get(place);
        value.copied().unwrap_or(f32::NAN)
    }
}

struct Level {
    stride: u32,
    scores: Values,
    boxes: Values,
    points: Option<Values>,
}

struct Scrfd {
    filter: DetectionFilter,
    levels: Vec<Level>,
    anchors: usize,
}

fn build(settings: &Settings, input: &Input, specs: &[OutputSpec]) -> Result<Box<dyn Head>, String> {
    let expected = "scores [cells * 2, 1], boxes [cells * 2, 4] and, if it has landmarks, [cells * 2, 10] for each of the strides 8, 16, 32; \
                    or the same as [2, rows, columns], [8, rows, columns], [20, rows, columns]";
    let found = FAMILIES
        .iter()
        .find_map(|(strides, anchors)| Some((levels(input, specs, strides, *anchors)?, *anchors)));
    let (levels, anchors) = found.ok_or_else(|| unfit(specs, expected))?;
    let labels = Labels::read_fixed(settings, KIND.classes, 1)?;
    Ok(Box::new(Scrfd {
        filter: DetectionFilter::read(settings, 0.5, 0.4, labels)?,
        levels,
        anchors,
    }))
}

/// The outputs of each stride, if these are all outputs.
fn levels(input: &Input, specs: &[OutputSpec], strides: &[u32], anchors: usize) -> Option<Vec<Level>> {
    let has_points = match specs.len() {
        count if count == 2 * strides.len() => false,
        count if count == 3 * strides.len() => true,
        _ => return None,
    };
    let level = |stride: &u32| {
        let (columns, rows) = grid(input.spec.width, input.spec.height, *stride);
        let values = |size: usize| {
            let cells = columns * rows;
            let flat = [cells * anchors, size];
            let planes = [anchors * size, rows, columns];
            let fits =
                |output: &OutputSpec| output.readable && [&flat[..], &planes].contains(&&output.shape[..]);
            let output = specs.iter().position(fits)?;
            let (cell_step, anchor_step, value_step) = match specs[output].shape.len() == planes.len() {
                true => (1, size * cells, cells),
                false => (anchors * size, size, 1),
            };
            Some(Values {
                output,
                cell_step,
                anchor_step,
                value_step,
            })
        };
        Some(Level {
            stride: *stride,
            scores: values(SIZES[0])?,
            boxes: values(SIZES[1])?,
            points: if has_points { Some(values(SIZES[2])?) } else { None },
        })
    };
    strides.iter().map(level).collect()
}

impl Head for Scrfd {
    fn labels(&self) -> Option<&Labels> {
        Some(&self.filter.labels)
    }

    fn inspect(&self, outputs: &[Output<'_>], _: &Input) -> Result<Option<String>, String> {
        let levels = self.levels.iter();
        let scores = levels.flat_map(|level| Output::elements(outputs, level.scores.output));
        match scores.copied().find(|score| is_no_probability(*score)) {
            Some(score) => Err(format!(
                "a score is {score}, and scores are from 0 to 1: export the model with the sigmoid after its scores"
            )),
            None => Ok(None),
        }
    }

    fn decode(&self, outputs: &[Output<'_>], transform: &ItemTransform) -> Inference {
        let mut candidates = Vec::new();
        for level in &self.levels {
            let (columns, rows) = grid(transform.width, transform.height, level.stride);
            let stride = level.stride as f32;
            for number in 0..columns * rows * self.anchors {
                let at = (number / self.anchors, number % self.anchors);
                let score = level.scores.at(outputs, at, 0);
                if score.is_nan() || score < self.filter.threshold {
                    continue;
                }
                let corner = cell(at.0, columns);
                let corner = Point::new(corner.x * stride, corner.y * stride);
                let [left, top, right, bottom] =
                    std::array::from_fn(|side| level.boxes.at(outputs, at, side) * stride);
                let rect = Rect::new(
                    corner.x - left,
                    corner.y - top,
                    corner.x + right,
                    corner.y + bottom,
                );
                let points = level.points.map_or(Points::None, |values| {
                    Points::Face(std::array::from_fn(|point| {
                        let [x, y] =
                            std::array::from_fn(|axis| values.at(outputs, at, 2 * point + axis) * stride);
                        Point::new(corner.x + x, corner.y + y)
                    }))
                });
                candidates.push(Candidate {
                    points,
                    ..Candidate::new(0, score, rect)
                });
            }
        }
        self.filter.objects(candidates, transform)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input() -> Input {
        let port = [Some(1), Some(3), Some(64), Some(96)];
        KIND.input(&Settings::default(), &port).expect("read")
    }

    fn spec(name: usize, shape: &[usize]) -> OutputSpec {
        OutputSpec {
            name: name.to_string(),
            shape: shape.to_vec(),
            readable: true,
        }
    }

    /// Shapes of the outputs: scores of all strides, then boxes, then points.
    fn shapes(sizes: &[usize], is_grid: bool) -> Vec<Vec<usize>> {
        let grids = [(12, 8), (6, 4), (3, 2)];
        let shape = |size: &usize, (columns, rows): (usize, usize)| match is_grid {
            true => vec![2 * size, rows, columns],
            false => vec![2 * columns * rows, *size],
        };
        sizes
            .iter()
            .flat_map(|size| grids.map(|grid| shape(size, grid)))
            .collect()
    }

    /// Outputs that are 0 but for the second anchor in column 2 and row 1 of stride 16.
    fn outputs(sizes: &[usize], is_grid: bool) -> Vec<Vec<f32>> {
        let mut data: Vec<Vec<f32>> = shapes(sizes, is_grid)
            .iter()
            .map(|shape| vec![0.0; shape.iter().product()])
            .collect();
        let values = [
            vec![0.75],
            vec![0.5, 1.0, 1.5, 2.0],
            (0..10).map(|value| value as f32 / 4.0).collect(),
        ];
        for (kind, (size, values)) in sizes.iter().zip(&values).enumerate() {
            for (number, value) in values.iter().enumerate() {
                let (cell, cells) = (6 + 2, 24);
                let place = match is_grid {
                    true => (size + number) * cells + cell,
                    false => (cell * 2 + 1) * size + number,
                };
                data[3 * kind + 1][place] = *value;
            }
        }
        data
    }

    fn built(shapes: &[Vec<usize>]) -> Result<Box<dyn Head>, String> {
        let specs: Vec<OutputSpec> = shapes
            .iter()
            .enumerate()
            .map(|(name, shape)| spec(name, shape))
            .collect();
        KIND.build(&Settings::default(), &input(), &specs)
    }

    #[test]
    fn distances_and_points_are_from_the_corner_of_the_cell() {
        for (sizes, is_grid) in [
            (&SIZES[..], false),
            (&SIZES, true),
            (&SIZES[..2], false),
            (&SIZES[..2], true),
        ] {
            let head = built(&shapes(sizes, is_grid)).expect("fits");
            let data = outputs(sizes, is_grid);
            let views: Vec<Output<'_>> = data.iter().map(|data| Output { data }).collect();
            assert_eq!(head.inspect(&views, &input()), Ok(None));
            let found = head.decode(&views, &ItemTransform::identity(96, 64)).objects;
            assert_eq!(found.len(), 1, "{sizes:?} {is_grid}");
            // The corner is at 32, 16; distances are 8, 16, 24 and 32 pixels.
            assert_eq!(
                (found[0].score, found[0].rect),
                (0.75, Rect::new(24.0, 0.0, 56.0, 48.0))
            );
            let expected = match sizes.len() {
                // Each value is a quarter of a stride, 4 pixels, more than the one before.
                3 => Points::Face(std::array::from_fn(|point| {
                    let first = point as f32 * 8.0;
                    Point::new(32.0 + first, 16.0 + first + 4.0)
                })),
                _ => Points::None,
            };
            assert_eq!(found[0].points, expected);
        }
    }

    #[test]
    fn logits_and_other_outputs_are_refused() {
        let head = built(&shapes(&SIZES, false)).expect("fits");
        let mut data = outputs(&SIZES, false);
        data[0][0] = -4.0;
        let views: Vec<Output<'_>> = data.iter().map(|data| Output { data }).collect();
        let error = head.inspect(&views, &input()).expect_err("refused");
        assert!(error.contains("a score is -4"), "{error}");
        // Without its outputs, and with fewer elements, nothing is found.
        assert!(
            head.decode(&[], &ItemTransform::identity(96, 64))
                .objects
                .is_empty()
        );
        let mut fewer = shapes(&SIZES, false);
        fewer.pop();
        assert!(built(&fewer).is_err());
        let mut other = shapes(&SIZES, false);
        other[4] = vec![12, 4];
        assert!(built(&other).is_err());
    }
}
