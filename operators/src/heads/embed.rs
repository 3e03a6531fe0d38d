//! Embeddings: L2-normalised vectors that are near each other where both show the same.
//!
//! Input: red, green, blue (x - 127.5) / 127.5. A face with five landmarks is aligned to the ArcFace template; other
//! items are stretched. Output: `[dimensions]`, normalised here. The operator matches embeddings with its gallery.

use weir_flow::{Attribute, HeadOutput, Inference, KeyKind, KeySpec, Settings};

use super::input::{Align, BYTES, Fit, Input, InputDefaults, ItemTransform};
use super::settings::INPUT_KEYS;
use super::{Head, HeadKind, Output, OutputSpec, unfit};
use crate::pixels::Channels;

pub(super) const KIND: HeadKind = HeadKind {
    name: "embed",
    about: "embedding: RGB (x - 127.5) / 127.5, faces aligned by five points to the ArcFace template, else stretched; \
            [dimensions], made length one",
    output: HeadOutput::Attribute,
    classes: &[],
    keys: &[
        &[KeySpec {
            name: "align",
            kind: KeyKind::OneOf(&["face", "none"]),
            about: "face, the default: items with the five points of a face are turned upright; none: never, \
                    and plain boxes are as good",
        }],
        &[KeySpec {
            name: "certainty",
            kind: KeyKind::OneOf(&["margin"]),
            about: "certainty of an answer in a cascade: margin, the cosine to the nearest name of the operator's \
                    gallery less that to the next",
        }],
        INPUT_KEYS,
    ],
    input_defaults: InputDefaults {
        channels: Channels::Rgb,
        mean: [127.5; 3],
        std: [127.5; 3],
        fill: 0.0,
        fit: Fit::Stretch,
        align: Align::Face,
        size: (112, 112),
        ..BYTES
    },
    build,
};

struct Embed;

fn build(_: &Settings, _: &Input, specs: &[OutputSpec]) -> Result<Box<dyn Head>, String> {
    match specs {
        [only] if only.readable && only.shape.iter().product::<usize>() >= 2 => Ok(Box::new(Embed)),
        _ => Err(unfit(specs, "one of [dimensions]")),
    }
}

impl Head for Embed {
    fn decode(&self, outputs: &[Output<'_>], _: &ItemTransform) -> Inference {
        let length = |data: &[f32]| data.iter().map(|value| value * value).sum::<f32>().sqrt();
        let attribute = outputs.first().map(|output| (output.data, length(output.data)));
        let attribute = attribute
            .filter(|(_, length)| *length > 1e-12 && length.is_finite())
            .map(|(data, length)| {
                let vector = data.iter().map(|value| value / length).collect();
                Attribute::Match {
                    r#match: None,
                    cosine: None,
                    vector: Some(vector),
                }
            });
        attribute.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_are_normalised_and_zeros_give_none() {
        let decode = |data: &[f32]| {
            Embed
                .decode(&[Output { data }], &ItemTransform::identity(1, 1))
                .attribute
        };
        let Some(Attribute::Match {
            vector: Some(vector), ..
        }) = decode(&[3.0, 4.0])
        else {
            panic!("no vector")
        };
        assert_eq!(vector, [0.6, 0.8]);
        assert_eq!(decode(&[0.0, 0.0]), None);
    }
}
