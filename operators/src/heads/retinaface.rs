//! RetinaFace: faces with five landmarks, as offsets from prior boxes.
//!
//! Input: blue, green, red less 104, 117, 123, letterboxed. Output: boxes `[priors, 4]`, scores `[priors, 2]` (background, face) and
//! landmarks `[priors, 10]`. Each cell of the strides 8, 16 and 32 has two priors of 2 and 4, of 4 and 8, of 8 and 16 strides;
//! centre = prior + 0.1 * offset * side, size = side * exp(0.2 * offset) (Deng et al., RetinaFace, 2019, arXiv:1905.00641;
//! `prior_box.py` and `box_utils.py` of the PyTorch implementation). Scores are probabilities or, where they do not add up to 1, logits.

use weir_flow::{HeadOutput, Inference, Point, Points, Settings};

use super::detection::{Candidate, DetectionFilter, cell_centre, centred_rect, grid, sigmoid};
use super::input::{BYTES, Input, InputDefaults, ItemTransform};
use super::labels::Labels;
use super::settings::{DETECTION_KEYS, INPUT_KEYS, LABEL_KEYS};
use super::{Head, HeadKind, Output, OutputSpec, unfit};

pub(super) const KIND: HeadKind = HeadKind {
    name: "retinaface",
    about: "RetinaFace (PyTorch): BGR less 104, 117, 123, letterbox; boxes [priors, 4], scores [priors, 2], landmarks [priors, 10]; faces \
            with five points; score 0.5, NMS 0.4",
    output: HeadOutput::Faces,
    classes: &["face"],
    keys: &[DETECTION_KEYS, LABEL_KEYS, INPUT_KEYS],
    input_defaults: InputDefaults {
        mean: [104.0, 117.0, 123.0],
        size: (640, 640),
        ..BYTES
    },
    build,
};

/// Strides with the sides of their priors, in pixels.
const PRIORS: [(u32, [f32; 2]); 3] = [(8, [16.0, 32.0]), (16, [64.0, 128.0]), (32, [256.0, 512.0])];
/// Variances of centres and landmarks, and of sizes.
const VARIANCES: (f32, f32) = (0.1, 0.2);
/// Distance of the sum of two probabilities from 1 that rounding explains, also in half precision.
const SLIP: f32 = 0.01;

struct RetinaFace {
    filter: DetectionFilter,
    /// Positions of boxes, scores and landmarks.
    ports: [usize; 3],
}

/// Number of priors of an input.
fn priors(width: u32, height: u32) -> usize {
    let of = |(stride, sides): &(u32, [f32; 2])| {
        let (columns, rows) = grid(width, height, *stride);
        columns * rows * sides.len()
    };
    PRIORS.iter().map(of).sum()
}

fn build(settings: &Settings, input: &Input, specs: &[OutputSpec]) -> Result<Box<dyn Head>, String> {
    let count = priors(input.spec.width, input.spec.height);
    let place = |size: usize| {
        specs
            .iter()
            .position(|output| output.readable && output.shape == [count, size])
    };
    let (Some(boxes), Some(scores), Some(landmarks), 3) = (place(4), place(2), place(10), specs.len()) else {
        let expected = format!(
            "[{count}, 4], [{count}, 2] and [{count}, 10], as an input of {} by {} has {count} priors",
            input.spec.width, input.spec.height
        );
        return Err(unfit(specs, &expected));
    };
    let labels = Labels::read_fixed(settings, KIND.classes, 1)?;
    Ok(Box::new(RetinaFace {
        filter: DetectionFilter::read(settings, 0.5, 0.4, labels)?,
        ports: [boxes, scores, landmarks],
    }))
}

/// The prior boxes of an input, in the order of its outputs: centre and side.
fn prior_boxes(width: u32, height: u32) -> impl Iterator<Item = (Point, f32)> {
    PRIORS.iter().flat_map(move |(stride, sides)| {
        let (columns, rows) = grid(width, height, *stride);
        (0..columns * rows).flat_map(move |index| {
            let centre = cell_centre(index, columns, *stride);
            sides.iter().map(move |side| (centre, *side))
        })
    })
}

impl Head for RetinaFace {
    fn labels(&self) -> Option<&Labels> {
        Some(&self.filter.labels)
    }

    fn decode(&self, outputs: &[Output<'_>], transform: &ItemTransform) -> Inference {
        let [boxes, scores, landmarks] = self.ports.map(|port| Output::elements(outputs, port));
        let (boxes, _) = boxes.as_chunks::<4>();
        let (scores, _) = scores.as_chunks::<2>();
        let (landmarks, _) = landmarks.as_chunks::<10>();
        let is_share = |[background, face]: &[f32; 2]| {
            (background + face - 1.0).abs() < SLIP && *background > -SLIP && *face > -SLIP
        };
        let are_probabilities = scores.iter().all(is_share);
        let mut candidates = Vec::new();
        let values = scores.iter().zip(boxes).zip(landmarks);
        for ((([background, face], offsets), landmarks), (centre, side)) in
            values.zip(prior_boxes(transform.width, transform.height))
        {
            let score = match are_probabilities {
                true => *face,
                false => sigmoid(face - background),
            };
            if score.is_nan() || score < self.filter.threshold {
                continue;
            }
            let moved = |x: f32, y: f32| {
                Point::new(
                    centre.x + VARIANCES.0 * x * side,
                    centre.y + VARIANCES.0 * y * side,
                )
            };
            let size = |offset: f32| side * (VARIANCES.1 * offset).exp();
            let at = moved(offsets[0], offsets[1]);
            candidates.push(Candidate {
                points: Points::Face(std::array::from_fn(|point| {
                    moved(landmarks[2 * point], landmarks[2 * point + 1])
                })),
                ..Candidate::new(
                    0,
                    score,
                    centred_rect(at.x, at.y, size(offsets[2]), size(offsets[3])),
                )
            });
        }
        self.filter.objects(candidates, transform)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input() -> Input {
        let port = [Some(1), Some(3), Some(320), Some(640)];
        KIND.input(&Settings::default(), &port).expect("read")
    }

    fn specs(shapes: &[&[usize]]) -> Vec<OutputSpec> {
        let spec = |shape: &&[usize]| OutputSpec {
            name: "output".to_owned(),
            shape: shape.to_vec(),
            readable: true,
        };
        shapes.iter().map(spec).collect()
    }

    /// 80 by 40, 40 by 20 and 20 by 10 cells of two priors.
    const COUNT: usize = 2 * (3200 + 800 + 200);

    #[test]
    fn offsets_are_from_the_prior_boxes() {
        let head = KIND
            .build(
                &Settings::default(),
                &input(),
                &specs(&[&[COUNT, 4], &[COUNT, 2], &[COUNT, 10]]),
            )
            .expect("fits");
        let decoded = |empty: [f32; 2], found: [f32; 2]| {
            let (mut boxes, mut points) = (vec![0.0; COUNT * 4], vec![0.0; COUNT * 10]);
            let mut scores: Vec<f32> = (0..COUNT).flat_map(|_| empty).collect();
            // Stride 16, column 3, row 2, the prior of 128 pixels, at 56, 40.
            let at = 2 * 3200 + 2 * (2 * 40 + 3) + 1;
            scores[2 * at..][..2].copy_from_slice(&found);
            // A twentieth of the side to the right; twice as high.
            boxes[4 * at] = 0.5;
            boxes[4 * at + 3] = 5.0 * std::f32::consts::LN_2;
            points[10 * at + 5] = -2.5;
            let outputs = [&boxes, &scores, &points].map(|data| Output { data });
            head.decode(&outputs, &ItemTransform::identity(640, 320)).objects
        };
        for (empty, found, score) in [
            ([0.9, 0.1], [0.25, 0.75], 0.75),
            ([3.0, -3.0], [-1.0, 1.0], 0.880_797),
        ] {
            let found = decoded(empty, found);
            assert_eq!(found.len(), 1);
            assert!((found[0].score - score).abs() < 1e-6, "{}", found[0].score);
            // The centre is at 62.4, 40; the sides are 128 and 256 pixels, cut off at the picture.
            let rect = found[0].rect;
            assert!(rect.x0 == 0.0 && (rect.x1 - 126.4).abs() < 1e-4, "{rect:?}");
            assert!(rect.y0 == 0.0 && (rect.y1 - 168.0).abs() < 1e-3, "{rect:?}");
            let Points::Face(points) = &found[0].points else {
                panic!("no points")
            };
            assert_eq!(
                (points[0], points[2]),
                (Point::new(56.0, 40.0), Point::new(56.0, 8.0))
            );
        }
        assert!(
            head.decode(&[], &ItemTransform::identity(640, 320))
                .objects
                .is_empty()
        );
    }

    #[test]
    fn outputs_of_another_number_of_priors_are_refused() {
        for shapes in [
            &[&[4420, 4][..], &[4420, 2], &[4420, 10]][..],
            &[&[COUNT, 4], &[COUNT, 2]],
            &[&[COUNT, 4], &[COUNT, 3], &[COUNT, 10]],
        ] {
            let error = KIND.build(&Settings::default(), &input(), &specs(shapes)).err();
            assert!(error.expect("refused").contains("8400 priors"), "{shapes:?}");
        }
    }
}
