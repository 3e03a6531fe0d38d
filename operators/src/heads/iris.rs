//! Iris of one eye (MediaPipe Iris).
//!
//! Wants red, green, blue over 255 of a square about the eye, 0.35 of the distance between the eyes to each side,
//! stretched. Gives `[15]`: five points of x, y, z in input pixels, the centre first; the contours are not read.

use weir_flow::{Attribute, HeadOutput, Inference, KeyPoint, Point, Settings};

use super::input::{Input, Placed, UNIT_CROP, Wish};
use super::settings::INPUT;
use super::{Given, Head, Kind, Output, unfit};

pub(super) const KIND: Kind = Kind {
    name: "iris",
    about: "iris: RGB /255 of a square about one eye, stretched; [15]: five points, the centre first",
    output: HeadOutput::Attribute,
    classes: &[],
    keys: &[INPUT],
    wish: Wish {
        size: (64, 64),
        ..UNIT_CROP
    },
    build,
};

struct Iris {
    place: usize,
}

fn build(_: &Settings, _: &Input, given: &[Given]) -> Result<Box<dyn Head>, String> {
    let fits = |output: &Given| output.readable && output.shape.iter().product::<usize>() == 15;
    let place = given
        .iter()
        .position(fits)
        .ok_or_else(|| unfit(given, "one of [15]"))?;
    Ok(Box::new(Iris { place }))
}

impl Head for Iris {
    fn decode(&self, outputs: &[Output<'_>], placed: &Placed) -> Inference {
        let (points, _) = outputs[self.place].data.as_chunks::<3>();
        let [centre, rim @ ..] = points else {
            return Inference::default();
        };
        let at = |point: &[f32; 3]| placed.point(Point::new(point[0], point[1]));
        let centre = at(centre);
        let distance = |point: Point| (point.x - centre.x).hypot(point.y - centre.y);
        let radius = rim.iter().map(|point| distance(at(point))).sum::<f32>() / rim.len().max(1) as f32;
        // The model tells no confidence.
        let attribute = Attribute::Iris {
            eyes: vec![KeyPoint {
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
            .decode(&[Output { data: &data }], &Placed::itself(64, 64))
            .attribute;
        let eye = KeyPoint {
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
