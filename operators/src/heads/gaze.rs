//! Gaze direction: yaw and pitch in degrees, seen from the camera.
//!
//! Input: red, green, blue over 255 of a face, stretched. Output: `[2]`: yaw, positive to the right of the picture, and
//! pitch, positive up.

use weir_flow::{Attribute, HeadOutput, Inference, Settings};

use super::input::{Input, InputDefaults, ItemTransform, UNIT_CROP};
use super::settings::INPUT_KEYS;
use super::{Head, HeadKind, Output, OutputSpec, unfit};

pub(super) const KIND: HeadKind = HeadKind {
    name: "gaze",
    about: "gaze: RGB /255 of a face, stretched; [2]: yaw to the picture's right and pitch up, in degrees",
    output: HeadOutput::Attribute,
    classes: &[],
    keys: &[INPUT_KEYS],
    input_defaults: InputDefaults {
        size: (64, 64),
        ..UNIT_CROP
    },
    build,
};

struct Gaze;

fn build(_: &Settings, _: &Input, specs: &[OutputSpec]) -> Result<Box<dyn Head>, String> {
    match specs {
        [only] if only.readable && only.shape.iter().product::<usize>() == 2 => Ok(Box::new(Gaze)),
        _ => Err(unfit(specs, "one of [2]")),
    }
}

impl Head for Gaze {
    fn decode(&self, outputs: &[Output<'_>], _: &ItemTransform) -> Inference {
        let attribute = match outputs.first().map(|output| output.data) {
            Some(&[yaw, pitch]) if yaw.is_finite() && pitch.is_finite() => {
                Some(Attribute::Direction { yaw, pitch })
            }
            _ => None,
        };
        attribute.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn specs(shape: &[usize]) -> [OutputSpec; 1] {
        [OutputSpec {
            name: "output".to_owned(),
            shape: shape.to_vec(),
            readable: true,
        }]
    }

    #[test]
    fn two_angles_are_a_direction() {
        let port = [None, Some(3), Some(64), Some(64)];
        let input = Input::read(&KIND.input_defaults, &Settings::default(), &port).expect("read");
        assert_eq!(input.range(), (0.0, 1.0));
        let head = KIND
            .build(&Settings::default(), &input, &specs(&[2]))
            .expect("fits");
        let decode = |data: &[f32]| {
            head.decode(&[Output { data }], &ItemTransform::identity(64, 64))
                .attribute
        };
        let (yaw, pitch) = (12.5, -3.0);
        assert_eq!(decode(&[yaw, pitch]), Some(Attribute::Direction { yaw, pitch }));
        assert_eq!(decode(&[f32::NAN, 0.0]), None);
        assert!(KIND.build(&Settings::default(), &input, &specs(&[3])).is_err());
    }
}
