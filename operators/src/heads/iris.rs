//! Iris of one eye (MediaPipe Iris).
//!
//! Input: red, green, blue over 255 of a square around the eye, 0.35 of the distance between the eyes to each side,
//! stretched. Output: `[15]`: five points of x, y, z in input pixels, the centre first; the contours are not read.

use weir_flow::{Attribute, HeadOutput, Inference, KeyPoint, Point, Settings};

use super::input::{Input, InputDefaults, ItemTransform, UNIT_CROP};
use super::settings::INPUT_KEYS;
use super::{Head, HeadKind, Output, OutputSpec, unfit};

pub(super) const KIND: HeadKind = HeadKind {
    name: "iris",
    about: "iris: RGB /255 of a square about one eye, stretched; [15]: five points, the centre first",
    output: HeadOutput::Attribute,
    classes: &[],
    keys: &[INPUT_KEYS],
    input_defaults: InputDefaults {
        size: (64, 64),
        ..UNIT_CROP
    },
    build,
};

struct Iris {
    place: usize,
}

fn build(_: &Settings, _: &Input, specs: &[OutputSpec]) -> Result<Box<dyn Head>, String> {
    let fits = |output: &OutputSpec| output.readable && output.shape.iter().product::<usize>() == 15;
    let place = specs
        .iter()
        .position(fits)
        .ok_or_else(|| unfit(specs, "one of [15]"))?;
    Ok(Box::new(Iris { place }))
}

impl Head for Iris {
    fn decode(&self, outputs: &[Output<'_>], transform: &ItemTransform) -> Inference {
        let (points, _) = outputs[self.place].data.as_chunks::<3>();
        let [centre, rim @ ..] = points else {
            return Inference::default();
        };
        let at = |point: &[f32; 3]| transform.point(Point::new(point[0], point[1]));
        let centre = at(centre);
        let distance = |point: Point| (point.x - centre.x).hypot(point.y - centre.y);
        let radius = rim.iter().map(|point| distance(at(point))).sum::<f32>() / rim.len().max(1) as f32;
        // The model gives no confidence.
        let attribute = Attribute::Iris {
            eyes: vec![KeyPoint {
                name: None,
                at: centre,
                score: 1.0,
            }],
            radius: vec![radius],
        };
        Some(attribute).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_radius_is_the_mean_distance_of_the_rim() {
        let data = [
            32.0, 30.0, 0.0, 36.0, 30.0, 0.0, 32.0, 34.0, 0.0, 28.0, 30.0, 0.0, 32.0, 26.0, 0.0,
        ];
        let attribute = Iris { place: 0 }
            .decode(&[Output { data: &data }], &ItemTransform::identity(64, 64))
            .attribute;
        let eye = KeyPoint {
            name: None,
            at: Point::new(32.0, 30.0),
            score: 1.0,
        };
        assert_eq!(
            attribute,
            Some(Attribute::Iris {
                eyes: vec![eye],
                radius: vec![4.0]
            })
        );
    }
}
