//! The reading of a gauge, such as a bar of a panel.
//!
//! Input: red, green, blue over 255, stretched. Output: `[1]`: the full fraction, 0 to 1; times the key `full` it is
//! the value.

use weir_flow::{Attribute, HeadOutput, Inference, KeyKind, KeySpec, Settings};

use super::input::{Input, InputDefaults, ItemTransform, UNIT_CROP};
use super::settings::INPUT_KEYS;
use super::{Head, HeadKind, Output, OutputSpec, unfit};

pub(super) const KIND: HeadKind = HeadKind {
    name: "gauge",
    about: "value of a gauge: RGB /255, stretched; [1]: the full fraction, 0 to 1",
    output: HeadOutput::Attribute,
    classes: &[],
    keys: &[
        &[KeySpec {
            name: "full",
            kind: KeyKind::Number { min: 1e-6, max: 1e9 },
            about: "value of a gauge that is full; default 100",
        }],
        INPUT_KEYS,
    ],
    input_defaults: InputDefaults {
        size: (96, 24),
        ..UNIT_CROP
    },
    build,
};

struct Gauge {
    full: f32,
}

fn build(settings: &Settings, _: &Input, specs: &[OutputSpec]) -> Result<Box<dyn Head>, String> {
    match specs {
        [only] if only.readable && only.shape.iter().product::<usize>() == 1 => Ok(Box::new(Gauge {
            full: settings.number("full", 100.0) as f32,
        })),
        _ => Err(unfit(specs, "one of [1]")),
    }
}

impl Head for Gauge {
    fn decode(&self, outputs: &[Output<'_>], _: &ItemTransform) -> Inference {
        let fraction = outputs.first().and_then(|output| output.data.first());
        let fraction = fraction.filter(|fraction| fraction.is_finite());
        let attribute = fraction.map(|fraction| Attribute::Number {
            value: fraction.clamp(0.0, 1.0) * self.full,
        });
        attribute.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_flow::Value;

    fn decode(settings: &Settings, fraction: f32) -> Option<Attribute> {
        let port = [None, Some(3), Some(24), Some(96)];
        let input = Input::read(&KIND.input_defaults, settings, &port).expect("read");
        let specs = [OutputSpec {
            name: "output".to_owned(),
            shape: vec![1],
            readable: true,
        }];
        let head = KIND.build(settings, &input, &specs).expect("fits");
        head.decode(&[Output { data: &[fraction] }], &ItemTransform::identity(96, 24))
            .attribute
    }

    #[test]
    fn the_fraction_is_scaled_by_the_full_value() {
        let value = |value| Some(Attribute::Number { value });
        let mut settings = Settings::default();
        assert_eq!(decode(&settings, 0.25), value(25.0));
        assert_eq!(decode(&settings, 1.01), value(100.0));
        assert_eq!(decode(&settings, f32::NAN), None);
        settings.0.insert("full".to_owned(), Value::Number(40.0));
        assert_eq!(decode(&settings, 0.25), value(10.0));
    }
}
