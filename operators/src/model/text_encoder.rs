//! Text encoders of CLIP and SigLIP, as Hugging Face's tools export them: token ids in, one vector out, which is near the vectors of
//! pictures that show what the text says.
//!
//! The tokens come from the encoder's own `tokenizer.json`.

use std::path::Path;
use std::sync::Arc;

use weir_flow::{DeviceKind, Element, Tensor};

use super::generate::listed;
use super::read_model;
use super::runtime::{OrtSession, TensorPort, floats};
use tokens::Tokens;

/// Inputs that are filled.
const IDS: &str = "input_ids";
const MASK: &str = "attention_mask";

/// Outputs that hold the vector, the first that there is.
const OUTPUTS: [&str; 3] = ["text_embeds", "pooler_output", "sentence_embedding"];

/// An open text encoder.
pub struct TextEncoder {
    session: OrtSession,
    tokens: Tokens,
    /// Inputs in their order, with their types.
    inputs: Vec<(Arc<str>, Element)>,
    output: usize,
}

impl TextEncoder {
    /// Opens an encoder on the CPU with its tokenizer. Texts are padded and cut to `length` tokens; `None`: as the tokenizer and the model
    /// say.
    ///
    /// # Errors
    /// The file that cannot be used, and why.
    pub fn open(model: &Path, tokenizer: &Path, length: Option<usize>) -> Result<Self, String> {
        let of_model = |reason: String| format!("text encoder {}: {reason}", model.display());
        let bytes = read_model(model).map_err(|error| of_model(error.to_string()))?;
        let session = OrtSession::open(&bytes, DeviceKind::Cpu);
        let session = session.map_err(|error| of_model(error.to_string()))?;
        let ports = session.input_ports();
        let inputs = inputs(&ports).map_err(of_model)?;
        let output = output(&session.output_ports()).map_err(of_model)?;
        let ids = ports.iter().find(|port| port.name == IDS);
        let fixed = ids.and_then(|port| port.dims.get(1)?.0);
        let tokens = Tokens::read(tokenizer, length.or(fixed));
        Ok(Self {
            tokens: tokens.map_err(|reason| format!("tokenizer {}: {reason}", tokenizer.display()))?,
            session,
            inputs,
            output,
        })
    }

    /// Returns the vector of a text, L2-normalised.
    ///
    /// # Errors
    /// The tokenizer's or the runtime's error.
    pub fn encode(&mut self, text: &str) -> Result<Vec<f32>, String> {
        let (ids, mask) = self.tokens.of(text)?;
        let tensors: Vec<(Tensor, Element)> = self
            .inputs
            .iter()
            .map(|(name, element)| {
                let numbers = if **name == *MASK { &mask } else { &ids };
                (tensor(name, *element, numbers), *element)
            })
            .collect();
        let fed: Vec<(&Tensor, Element)> = tensors
            .iter()
            .map(|(tensor, element)| (tensor, *element))
            .collect();
        let outputs = self.session.run_tensors(&fed, false)?;
        let output = outputs.get(self.output).ok_or("it gives no output")?;
        let vector = floats(output);
        let length = vector.iter().map(|number| number * number).sum::<f32>().sqrt();
        if !length.is_finite() || length < 1e-12 {
            return Err("its vector has no length".to_owned());
        }
        Ok(vector.into_iter().map(|number| number / length).collect())
    }
}

/// The inputs of an encoder, all of which are filled.
fn inputs(ports: &[TensorPort]) -> Result<Vec<(Arc<str>, Element)>, String> {
    if !ports.iter().any(|port| port.name == IDS) {
        return Err(format!("none of its inputs {} is {IDS}", listed(ports)));
    }
    let filled = ports.iter().map(|port| match port.element {
        Some(element @ (Element::I64 | Element::I32)) if [IDS, MASK].contains(&&*port.name) => {
            Ok((Arc::from(&*port.name), element))
        }
        _ => Err(format!(
            "it takes {}; only {IDS} and {MASK} of whole numbers are filled: export the text encoder without the rest of the model",
            listed(ports)
        )),
    });
    filled.collect()
}

/// Position of the output with the vector.
fn output(ports: &[TensorPort]) -> Result<usize, String> {
    let named = |name: &&str| ports.iter().position(|port| port.name == **name);
    let is_float = |port: &TensorPort| matches!(port.element, Some(Element::F32 | Element::F16));
    let found = OUTPUTS.iter().find_map(named);
    let only = || (ports.len() == 1).then_some(0);
    let found = found.or_else(only).filter(|index| is_float(&ports[*index]));
    found.ok_or_else(|| {
        format!(
            "none of its outputs {} is one of {} in floating point",
            listed(ports),
            OUTPUTS.join(", ")
        )
    })
}

/// One row of whole numbers.
fn tensor(name: &Arc<str>, element: Element, numbers: &[u32]) -> Tensor {
    let data = match element {
        Element::I32 => numbers
            .iter()
            .flat_map(|number| number.cast_signed().to_le_bytes())
            .collect(),
        _ => numbers
            .iter()
            .flat_map(|number| i64::from(*number).to_le_bytes())
            .collect(),
    };
    Tensor {
        name: Arc::clone(name),
        element,
        shape: vec![1, numbers.len()],
        data,
    }
}

mod tokens {
    use std::path::Path;

    use tokenizers::{PaddingParams, PaddingStrategy, PostProcessor, Tokenizer, TruncationParams};

    use crate::model::tokenizer_file;

    /// Tokens of a text at most.
    const MAX_TOKENS: usize = 4_096;

    /// Padding of models whose tokenizer does not say it, the first that is in the vocabulary.
    const PADDING: [&str; 4] = ["<pad>", "[PAD]", "<|endoftext|>", "</s>"];

    /// A tokenizer, and the length of its outputs.
    pub(super) struct Tokens(Box<Tokenizer>);

    impl Tokens {
        pub(super) fn read(path: &Path, length: Option<usize>) -> Result<Self, String> {
            let mut tokenizer = tokenizer_file::read(path)?;
            // Only the first part of a text is used, so parts need not overlap.
            let truncation = match length {
                Some(max_length) => Some(TruncationParams {
                    max_length,
                    ..TruncationParams::default()
                }),
                None => tokenizer.get_truncation().map(|own| TruncationParams {
                    stride: 0,
                    ..own.clone()
                }),
            };
            if let Some(truncation) = truncation {
                let added = tokenizer
                    .get_post_processor()
                    .map_or(0, |processor| processor.added_tokens(false));
                let length = truncation.max_length;
                if length <= added {
                    return Err(format!(
                        "texts of {length} tokens have no room: {added} are its marks of begin and end"
                    ));
                }
                tokenizer
                    .with_truncation(Some(truncation))
                    .map_err(|error| error.to_string())?;
            }
            if let Some(length) = length {
                let padding = padding(&tokenizer, length)?;
                tokenizer.with_padding(Some(padding));
            }
            let padded = tokenizer.get_padding().map_or(0, least);
            if padded > MAX_TOKENS {
                return Err(format!(
                    "texts are padded to {padded} tokens, more than {MAX_TOKENS}"
                ));
            }
            Ok(Self(Box::new(tokenizer)))
        }

        /// Ids of a text, and 1 for each that is no padding.
        pub(super) fn of(&self, text: &str) -> Result<(Vec<u32>, Vec<u32>), String> {
            let encoded = tokenizer_file::guarded(|| self.0.encode(text, true));
            let encoded = encoded.map_err(|reason| format!("tokenizer.json: {reason}"))?;
            let encoded = encoded.map_err(|error| error.to_string())?;
            match encoded.get_ids().len() {
                0 => Err("the text has no tokens".to_owned()),
                count if count > MAX_TOKENS => {
                    Err(format!("the text has {count} tokens, more than {MAX_TOKENS}"))
                }
                _ => Ok((encoded.get_ids().to_vec(), encoded.get_attention_mask().to_vec())),
            }
        }
    }

    /// Tokens that even the shortest text is padded to.
    fn least(padding: &PaddingParams) -> usize {
        let fixed = match padding.strategy {
            PaddingStrategy::Fixed(length) => length,
            PaddingStrategy::BatchLongest => 0,
        };
        fixed.max(padding.pad_to_multiple_of.unwrap_or(0))
    }

    /// Padding to a length, with the token of the file or a usual one.
    fn padding(tokenizer: &Tokenizer, length: usize) -> Result<PaddingParams, String> {
        let strategy = PaddingStrategy::Fixed(length);
        if let Some(padding) = tokenizer.get_padding() {
            return Ok(PaddingParams {
                strategy,
                ..padding.clone()
            });
        }
        let known = |token: &&str| Some(((**token).to_owned(), tokenizer.token_to_id(token)?));
        let (pad_token, pad_id) = PADDING
            .iter()
            .find_map(known)
            .ok_or_else(|| format!("it has no padding, and none of the tokens {}", PADDING.join(", ")))?;
        Ok(PaddingParams {
            strategy,
            pad_id,
            pad_token,
            ..PaddingParams::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tiny_encoders::{TinyEncoders, tokenizer};

    #[test]
    fn vector_of_a_text_is_normalised_and_without_its_padding() {
        let folder = tempfile::tempdir().unwrap();
        let files = TinyEncoders::write(folder.path());
        for length in [None, Some(5), Some(64)] {
            let mut encoder = TextEncoder::open(&files.text, &files.tokenizer, length).unwrap();
            let red = encoder.encode("a RED van").unwrap();
            let expected = [1.0, -1.0, -1.0].map(|number: f32| number / 3.0_f32.sqrt());
            let distance: f32 = red
                .iter()
                .zip(expected)
                .map(|(one, other)| (one - other).abs())
                .sum();
            assert!(distance < 1e-5, "{length:?}: {red:?}");
            let none = encoder.encode("unknown").unwrap_err();
            assert!(none.contains("no length"), "{none}");
        }
        let mut encoder = TextEncoder::open(&files.text, &files.tokenizer, None).unwrap();
        assert_eq!(encoder.encode("").unwrap_err(), "the text has no tokens");
        let long = encoder.encode(&"red ".repeat(5_000)).unwrap_err();
        assert!(long.contains("5000 tokens"), "{long}");
    }

    #[test]
    fn lengths_in_a_tokenizer_are_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let files = TinyEncoders::write(folder.path());
        let open = |key: &str, value: &str, length: Option<usize>| {
            let text = tokenizer().replace(&format!("\"{key}\": null"), &format!("\"{key}\": {value}"));
            std::fs::write(&files.tokenizer, text).unwrap();
            TextEncoder::open(&files.text, &files.tokenizer, length)
        };
        let padding = |strategy: &str, multiple: &str| {
            format!(
                "{{\"strategy\": {strategy}, \"direction\": \"Right\", \"pad_to_multiple_of\": {multiple}, \
                 \"pad_id\": 0, \"pad_type_id\": 0, \"pad_token\": \"[PAD]\"}}"
            )
        };
        let fixed = padding("{\"Fixed\": 1000000000000}", "null");
        let multiple = padding("\"BatchLongest\"", "1000000000000");
        for (padding, length) in [(&fixed, None), (&multiple, None), (&multiple, Some(8))] {
            let error = open("padding", padding, length).err().expect("refused");
            assert!(error.contains("1000000000000 tokens, more than 4096"), "{error}");
        }
        let truncation = |length: usize| {
            format!(
                "{{\"direction\": \"Right\", \"max_length\": {length}, \"strategy\": \"LongestFirst\", \"stride\": 7}}"
            )
        };
        let error = open("truncation", &truncation(0), None).err().expect("refused");
        assert!(error.contains("have no room"), "{error}");
        let mut encoder = open("truncation", &truncation(3), None).unwrap();
        let cut = encoder.encode("red van red green green green").unwrap();
        assert_eq!(cut, encoder.encode("red van red").unwrap());
    }

    #[test]
    fn files_that_are_no_text_encoder_are_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let files = TinyEncoders::write(folder.path());
        let refused = |model: &Path, tokenizer: &Path| {
            TextEncoder::open(model, tokenizer, Some(8))
                .err()
                .expect("refused")
        };
        let picture = refused(&files.picture, &files.tokenizer);
        assert!(
            picture.contains("picture.onnx") && picture.contains("input_ids"),
            "{picture}"
        );
        let swapped = refused(&files.tokenizer, &files.text);
        assert!(swapped.contains("no ONNX file"), "{swapped}");
        for wrong in ["", "{}", "{\"model\": 1}", "[[[["] {
            std::fs::write(&files.tokenizer, wrong).unwrap();
            let error = refused(&files.text, &files.tokenizer);
            assert!(
                error.starts_with("tokenizer ") && error.contains("tokenizer.json"),
                "{error}"
            );
        }
        let missing = refused(&folder.path().join("none.onnx"), &files.tokenizer);
        assert!(missing.contains("none.onnx"), "{missing}");
    }
}
