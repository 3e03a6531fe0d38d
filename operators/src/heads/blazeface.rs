//! Faces and palms of MediaPipe: BlazeFace (short and full range) and the detector of palms.
//!
//! Input: red, green, blue, letterboxed; from -1 to 1 for faces and from 0 to 1 for palms. Output: regressors `[anchors, 16]` for faces and
//! `[anchors, 18]` for palms (centre, size and key points in input pixels, centre and points from the anchor) and classificators
//! `[anchors, 1]` (logits); some exports have one of each for every grid. Anchors are the centres of cells: 896 for 128 or 256 pixels,
//! 2304 for 192 pixels of the full range, 2016 and 2944 for palms in 192 and 256 pixels (Bazarevsky et al., BlazeFace, 2019,
//! arXiv:1907.05047; `ssd_anchors_calculator.cc` and `tensors_to_detections_calculator.cc` of MediaPipe).

use std::sync::Arc;

use weir_flow::{HeadOutput, Inference, KeyPoint, Point, Points, Settings};

use super::detection::{
    Candidate, DetectionFilter, cell_centre, centred_rect, expect_logits, finite_range, grid, sigmoid,
};
use super::input::{Input, InputDefaults, ItemTransform, UNIT_CROP};
use super::labels::Labels;
use super::settings::{DETECTION_KEYS, INPUT_KEYS, LABEL_KEYS};
use super::{Head, HeadKind, Output, OutputSpec, unfit};

const INPUT_DEFAULTS: InputDefaults = InputDefaults {
    fit: super::input::Fit::Letterbox,
    ..UNIT_CROP
};

pub(super) const FACES: HeadKind = HeadKind {
    name: "blazeface",
    about: "BlazeFace of MediaPipe: RGB (x - 127.5) / 127.5, letterbox over 127.5; regressors [anchors, 16], classificators [anchors, 1]; faces \
            with six key points; score 0.5, NMS 0.3",
    output: HeadOutput::Boxes,
    classes: &["face"],
    keys: &[DETECTION_KEYS, LABEL_KEYS, INPUT_KEYS],
    input_defaults: InputDefaults {
        mean: [127.5; 3],
        std: [127.5; 3],
        fill: 127.5,
        size: (128, 128),
        ..INPUT_DEFAULTS
    },
    build: |settings, input, specs| build(&FACE, settings, input, specs),
};

pub(super) const PALMS: HeadKind = HeadKind {
    name: "palm",
    about: "palms of hands by MediaPipe: RGB /255, letterbox over 0; regressors [anchors, 18], classificators [anchors, 1]; palms with \
            seven key points; score 0.5, NMS 0.3",
    output: HeadOutput::Boxes,
    classes: &["palm"],
    keys: &[DETECTION_KEYS, LABEL_KEYS, INPUT_KEYS],
    input_defaults: InputDefaults {
        size: (192, 192),
        ..INPUT_DEFAULTS
    },
    build: |settings, input, specs| build(&PALM, settings, input, specs),
};

/// A kind of body part.
struct Part {
    classes: &'static [&'static str],
    points: &'static [&'static str],
    /// Arrangements of anchors: side of the input, then stride and anchors a cell of each grid.
    arrangements: &'static [(u32, &'static [(u32, usize)])],
}

/// Left and right are those of the person.
const FACE: Part = Part {
    classes: FACES.classes,
    points: &[
        "right_eye",
        "left_eye",
        "nose_tip",
        "mouth_center",
        "right_ear",
        "left_ear",
    ],
    arrangements: &[
        (128, &[(8, 2), (16, 6)]),
        (256, &[(16, 2), (32, 6)]),
        (192, &[(4, 1)]),
    ],
};

const PALM: Part = Part {
    classes: PALMS.classes,
    points: &[
        "wrist",
        "index_mcp",
        "middle_mcp",
        "ring_mcp",
        "pinky_mcp",
        "thumb_cmc",
        "thumb_mcp",
    ],
    arrangements: &[(192, &[(8, 2), (16, 6)]), (256, &[(8, 2), (16, 2), (32, 6)])],
};

impl Part {
    /// Values of an anchor: centre, size, key points.
    fn values(&self) -> usize {
        4 + 2 * self.points.len()
    }
}

/// Outputs of consecutive grids of anchors.
struct Level {
    scores: usize,
    regressors: usize,
    anchors: Vec<Point>,
}

struct Blaze {
    filter: DetectionFilter,
    levels: Vec<Level>,
    values: usize,
    names: Vec<Arc<str>>,
}

fn build(
    part: &Part,
    settings: &Settings,
    input: &Input,
    specs: &[OutputSpec],
) -> Result<Box<dyn Head>, String> {
    let side = input.spec.width;
    let values = part.values();
    let refused = || {
        let anchors: Vec<String> = part
            .arrangements
            .iter()
            .map(|(side, grids)| {
                let count: usize = grids.iter().map(|grid| anchors(*side, *grid).len()).sum();
                format!("{count} anchors in {side} by {side} pixels")
            })
            .collect();
        let expected = format!("[anchors, {values}] and [anchors, 1]: {}", anchors.join(", "));
        unfit(specs, &expected)
    };
    let arrangement = part
        .arrangements
        .iter()
        .find(|(of, _)| *of == side && side == input.spec.height);
    let (_, grids) = arrangement.ok_or_else(refused)?;
    let of_grids: Vec<Vec<Point>> = grids.iter().map(|grid| anchors(side, *grid)).collect();
    let whole = vec![of_grids.concat()];
    let levels = levels(specs, whole, values).or_else(|| levels(specs, of_grids, values));
    let labels = Labels::read_fixed(settings, part.classes, 1)?;
    Ok(Box::new(Blaze {
        filter: DetectionFilter::read(settings, 0.5, 0.3, labels)?,
        levels: levels.ok_or_else(refused)?,
        values,
        names: part.points.iter().map(|name| Arc::from(*name)).collect(),
    }))
}

/// Centres of the anchors of a grid.
fn anchors(side: u32, (stride, each): (u32, usize)) -> Vec<Point> {
    let (columns, rows) = grid(side, side, stride);
    (0..columns * rows * each)
        .map(|index| cell_centre(index / each, columns, stride))
        .collect()
}

/// The outputs of each group of anchors, if these are all outputs.
fn levels(specs: &[OutputSpec], groups: Vec<Vec<Point>>, values: usize) -> Option<Vec<Level>> {
    if specs.len() != 2 * groups.len() {
        return None;
    }
    let level = |anchors: Vec<Point>| {
        let place = |size: usize| {
            let shape = [anchors.len(), size];
            specs
                .iter()
                .position(|output| output.readable && output.shape == shape)
        };
        Some(Level {
            scores: place(1)?,
            regressors: place(values)?,
            anchors,
        })
    };
    groups.into_iter().map(level).collect()
}

impl Head for Blaze {
    fn labels(&self) -> Option<&Labels> {
        Some(&self.filter.labels)
    }

    fn inspect(&self, outputs: &[Output<'_>], _: &Input) -> Result<Option<String>, String> {
        let levels = self.levels.iter();
        let scores = levels.flat_map(|level| Output::elements(outputs, level.scores));
        expect_logits("scores", finite_range(scores.copied()))?;
        Ok(None)
    }

    fn decode(&self, outputs: &[Output<'_>], transform: &ItemTransform) -> Inference {
        let data = |at: usize| Output::elements(outputs, at);
        let mut candidates = Vec::new();
        for level in &self.levels {
            let rows = data(level.regressors).chunks_exact(self.values);
            for ((logit, row), anchor) in data(level.scores).iter().zip(rows).zip(&level.anchors) {
                let score = sigmoid(*logit);
                if score.is_nan() || score < self.filter.threshold {
                    continue;
                }
                let at = |x: f32, y: f32| Point::new(anchor.x + x, anchor.y + y);
                let (points, _) = row[4..].as_chunks::<2>();
                let point = |(name, [x, y]): (&Arc<str>, &[f32; 2])| KeyPoint {
                    name: Some(Arc::clone(name)),
                    at: at(*x, *y),
                    // The model gives one score for all.
                    score,
                };
                let centre = at(row[0], row[1]);
                candidates.push(Candidate {
                    points: Points::Pose(self.names.iter().zip(points).map(point).collect()),
                    ..Candidate::new(0, score, centred_rect(centre.x, centre.y, row[2], row[3]))
                });
            }
        }
        self.filter.objects(candidates, transform)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_flow::Rect;

    fn input(kind: &HeadKind, side: usize) -> Input {
        let port = [Some(1), Some(side), Some(side), Some(3)];
        kind.input(&Settings::default(), &port).expect("read")
    }

    fn specs(shapes: &[[usize; 2]]) -> Vec<OutputSpec> {
        let spec = |shape: &[usize; 2]| OutputSpec {
            name: "output".to_owned(),
            shape: shape.to_vec(),
            readable: true,
        };
        shapes.iter().map(spec).collect()
    }

    fn built(kind: &HeadKind, side: usize, shapes: &[[usize; 2]]) -> Result<Box<dyn Head>, String> {
        kind.build(&Settings::default(), &input(kind, side), &specs(shapes))
    }

    #[test]
    fn anchors_are_the_centres_of_cells() {
        for (kind, side, count, values) in [
            (&FACES, 128, 896, 16),
            (&FACES, 256, 896, 16),
            (&FACES, 192, 2304, 16),
            (&PALMS, 192, 2016, 18),
            (&PALMS, 256, 2944, 18),
        ] {
            built(kind, side, &[[count, values], [count, 1]]).unwrap_or_else(|error| panic!("{error}"));
            let fewer = built(kind, side, &[[count - 1, values], [count - 1, 1]]).err();
            assert!(fewer.expect("refused").contains("anchors in 192 by 192"));
        }
        assert!(built(&FACES, 128, &[[896, 18], [896, 1]]).is_err());
        assert!(built(&FACES, 320, &[[896, 16], [896, 1]]).is_err());
    }

    #[test]
    fn a_face_and_its_key_points_are_decoded() {
        // Anchor 512 + 6 * (8 * 2 + 3) of stride 16 is at 56, 40.
        let place = 6 * (8 * 2 + 3);
        let check = |shapes: &[[usize; 2]], output: usize, first: usize| {
            let head = built(&FACES, 128, shapes).expect("fits");
            let mut data: Vec<Vec<f32>> = shapes
                .iter()
                .map(|shape| vec![if shape[1] == 1 { -20.0 } else { 0.0 }; shape[0] * shape[1]])
                .collect();
            let (row, at) = ((first + place) * 16, first + place);
            data[output + 1][at] = 2.0;
            data[output][row..][..6].copy_from_slice(&[4.0, -8.0, 30.0, 20.0, -3.0, 5.0]);
            let views: Vec<Output<'_>> = data.iter().map(|data| Output { data }).collect();
            assert_eq!(head.inspect(&views, &input(&FACES, 128)), Ok(None));
            let found = head.decode(&views, &ItemTransform::identity(128, 128)).objects;
            assert_eq!(found.len(), 1);
            assert!((found[0].score - 0.880_797).abs() < 1e-6);
            assert_eq!(found[0].rect, Rect::new(45.0, 22.0, 75.0, 42.0));
            let Points::Pose(points) = &found[0].points else {
                panic!("no points")
            };
            assert_eq!((points.len(), points[0].name.as_deref()), (6, Some("right_eye")));
            assert_eq!(
                (points[0].at, points[1].at),
                (Point::new(53.0, 45.0), Point::new(56.0, 40.0))
            );
            assert!(
                head.decode(&[], &ItemTransform::identity(128, 128))
                    .objects
                    .is_empty()
            );
        };
        check(&[[896, 16], [896, 1]], 0, 512);
        check(&[[512, 16], [512, 1], [384, 16], [384, 1]], 2, 0);
    }

    #[test]
    fn probabilities_are_refused() {
        let head = built(&PALMS, 192, &[[2016, 18], [2016, 1]]).expect("fits");
        let (regressors, scores) = (vec![0.0; 2016 * 18], vec![0.25; 2016]);
        let outputs = [&regressors, &scores].map(|data| Output { data });
        let error = head.inspect(&outputs, &input(&PALMS, 192)).expect_err("refused");
        assert!(error.contains("probabilities already"), "{error}");
    }
}
