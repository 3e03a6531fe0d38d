//! Keypoints of one person by regression, without the heatmaps of `keypoints`.
//!
//! Input: red, green, blue over 255 of a person's box, stretched. Output: `[points, 3]`: x and y relative to the input,
//! 0 to 1, and the probability that the keypoint is visible.

use weir_flow::{Attribute, HeadOutput, Inference, KeyPoint, Point, Settings};

use super::input::{Input, InputDefaults, ItemTransform, UNIT_CROP};
use super::settings::INPUT_KEYS;
use super::{Head, HeadKind, Output, OutputSpec, single, unfit};

pub(super) const KIND: HeadKind = HeadKind {
    name: "points",
    about: "key points of one person: RGB /255, stretched; [points, 3]: x and y relative to the input, and a score",
    output: HeadOutput::Attribute,
    classes: &[],
    keys: &[INPUT_KEYS],
    input_defaults: InputDefaults {
        size: (96, 128),
        ..UNIT_CROP
    },
    build,
};

struct PointsHead;

fn build(_: &Settings, _: &Input, specs: &[OutputSpec]) -> Result<Box<dyn Head>, String> {
    let expected = "one of [points, 3]";
    match single(specs, expected, 2)?[..] {
        [points, 3] if points > 0 => Ok(Box::new(PointsHead)),
        _ => Err(unfit(specs, expected)),
    }
}

impl Head for PointsHead {
    fn decode(&self, outputs: &[Output<'_>], transform: &ItemTransform) -> Inference {
        let (points, _) = Output::elements(outputs, 0).as_chunks::<3>();
        // One keypoint without a finite position makes the pose useless for drawing and counting.
        if points.is_empty() || !points.iter().flatten().all(|value| value.is_finite()) {
            return Inference::default();
        }
        let (width, height) = (transform.width as f32, transform.height as f32);
        let point = |[x, y, score]: &[f32; 3]| KeyPoint {
            name: None,
            at: transform.point(Point::new(x * width, y * height)),
            score: score.clamp(0.0, 1.0),
        };
        Some(Attribute::Points(points.iter().map(point).collect())).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heads::input::PixelMap;
    use crate::pixels::ImagePlacement;

    fn specs(shape: &[usize]) -> [OutputSpec; 1] {
        [OutputSpec {
            name: "output".to_owned(),
            shape: shape.to_vec(),
            readable: true,
        }]
    }

    #[test]
    fn relative_keypoints_map_to_source_pixels() {
        let port = [None, Some(3), Some(128), Some(96)];
        let input = Input::read(&KIND.input_defaults, &Settings::default(), &port).expect("read");
        let head = KIND
            .build(&Settings::default(), &input, &specs(&[2, 3]))
            .expect("fits");
        // A box of 48 by 128 at (10, 20), stretched to 96 by 128.
        let transform = ItemTransform {
            map: PixelMap::Scaled(ImagePlacement {
                origin: Point::new(10.0, 20.0),
                offset: Point::default(),
                scale: Point::new(2.0, 1.0),
            }),
            ..ItemTransform::identity(96, 128)
        };
        let decode = |data: &[f32]| head.decode(&[Output { data }], &transform).attribute;
        let Some(Attribute::Points(points)) = decode(&[0.0, 0.0, 0.9, 0.5, 0.25, 1.5]) else {
            panic!("no points")
        };
        let read: Vec<_> = points
            .iter()
            .map(|point| (point.at.x, point.at.y, point.score))
            .collect();
        assert_eq!(read, [(10.0, 20.0, 0.9), (34.0, 52.0, 1.0)]);
        assert_eq!(decode(&[0.0, f32::NAN, 0.9, 0.5, 0.25, 1.5]), None);
        for shape in [&[2, 2][..], &[6], &[0, 3]] {
            assert!(KIND.build(&Settings::default(), &input, &specs(shape)).is_err());
        }
    }
}
