//! Head pose (FSA-Net): yaw, pitch and roll in degrees; the mean of two models if `second` names another.
//!
//! Input: blue, green, red (x - 127.5) / 128 of a face a quarter wider than its box, stretched. Output: `[3]`.

use weir_flow::{Attribute, HeadOutput, Inference, KeyKind, KeySpec, Settings};

use super::input::{BYTES, Fit, Input, InputDefaults, ItemTransform};
use super::settings::INPUT_KEYS;
use super::{Head, HeadKind, Output, OutputSpec, unfit};

pub(super) const KIND: HeadKind = HeadKind {
    name: "head-pose",
    about: "head pose: BGR (x - 127.5) / 128, stretched; [3]: yaw, pitch, roll in degrees, the mean of `second` too",
    output: HeadOutput::Attribute,
    classes: &[],
    keys: &[
        &[KeySpec {
            name: "second",
            kind: KeyKind::Text,
            about: "another model of the same input, whose angles are averaged in: a path or zoo:NAME; default none",
        }],
        INPUT_KEYS,
    ],
    input_defaults: InputDefaults {
        mean: [127.5; 3],
        std: [128.0; 3],
        fit: Fit::Stretch,
        size: (64, 64),
        ..BYTES
    },
    build,
};

struct HeadPose;

fn build(_: &Settings, _: &Input, specs: &[OutputSpec]) -> Result<Box<dyn Head>, String> {
    let fits = |output: &OutputSpec| output.readable && output.shape.iter().product::<usize>() == 3;
    if specs.is_empty() || !specs.iter().all(fits) {
        return Err(unfit(specs, "one of [3] from each model"));
    }
    Ok(Box::new(HeadPose))
}

impl Head for HeadPose {
    fn decode(&self, outputs: &[Output<'_>], _: &ItemTransform) -> Inference {
        let mean = |angle: usize| {
            outputs.iter().map(|output| output.data[angle]).sum::<f32>() / outputs.len().max(1) as f32
        };
        let attribute = Attribute::Angles {
            yaw: mean(0),
            pitch: mean(1),
            roll: mean(2),
        };
        Some(attribute).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_models_are_averaged() {
        let outputs = [
            Output {
                data: &[10.0, 0.0, -4.0],
            },
            Output {
                data: &[20.0, 2.0, 4.0],
            },
        ];
        let attribute = HeadPose
            .decode(&outputs, &ItemTransform::identity(64, 64))
            .attribute;
        assert_eq!(
            attribute,
            Some(Attribute::Angles {
                yaw: 15.0,
                pitch: 1.0,
                roll: 0.0
            })
        );
    }
}
