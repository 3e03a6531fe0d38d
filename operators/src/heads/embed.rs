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

/// Outputs that hold the vector where a model has several, as encoders of CLIP, SigLIP and DINO have: the first that there is.
const OUTPUTS: [&str; 2] = ["image_embeds", "pooler_output"];

struct Embed {
    /// Position of the output with the vector.
    output: usize,
}

fn build(_: &Settings, _: &Input, specs: &[OutputSpec]) -> Result<Box<dyn Head>, String> {
    let named = |name: &&str| specs.iter().position(|spec| spec.name == **name);
    let output = match specs {
        [_] => Some(0),
        several => OUTPUTS
            .iter()
            .find_map(named)
            .filter(|index| several[*index].shape.len() == 1),
    };
    let is_vector = |spec: &OutputSpec| spec.readable && spec.shape.iter().product::<usize>() >= 2;
    match output.filter(|index| is_vector(&specs[*index])) {
        Some(output) => Ok(Box::new(Embed { output })),
        None => Err(unfit(
            specs,
            "one of [dimensions], or image_embeds or pooler_output",
        )),
    }
}

impl Head for Embed {
    fn decode(&self, outputs: &[Output<'_>], _: &ItemTransform) -> Inference {
        let length = |data: &[f32]| data.iter().map(|value| value * value).sum::<f32>().sqrt();
        let attribute = outputs
            .get(self.output)
            .map(|output| (output.data, length(output.data)));
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
    fn vector_of_an_encoder_is_its_pooled_output() {
        let port = [None, Some(3), Some(32), Some(32)];
        let input = Input::read(&KIND.input_defaults, &Settings::default(), &port).expect("read");
        let spec = |name: &str, shape: &[usize]| OutputSpec {
            name: name.to_owned(),
            shape: shape.to_vec(),
            readable: true,
        };
        let states = || spec("last_hidden_state", &[50, 2]);
        let read = |specs: &[OutputSpec]| {
            let head = KIND.build(&Settings::default(), &input, specs).ok()?;
            let data: Vec<[f32; 2]> = (0..specs.len()).map(|place| [1.0, place as f32]).collect();
            let outputs: Vec<Output<'_>> = data.iter().map(|data| Output { data }).collect();
            match head.decode(&outputs, &ItemTransform::identity(1, 1)).attribute {
                Some(Attribute::Match { vector, .. }) => {
                    vector.map(|vector| (vector[1] / vector[0]) as usize)
                }
                _ => None,
            }
        };
        assert_eq!(read(&[states(), spec("pooler_output", &[2])]), Some(1));
        assert_eq!(
            read(&[states(), spec("pooler_output", &[2]), spec("image_embeds", &[2])]),
            Some(2)
        );
        assert_eq!(read(&[states(), spec("logits", &[2])]), None);
        assert_eq!(read(&[spec("any", &[2])]), Some(0));
    }

    #[test]
    fn vectors_are_normalised_and_zeros_give_none() {
        let decode = |data: &[f32]| {
            Embed { output: 0 }
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
