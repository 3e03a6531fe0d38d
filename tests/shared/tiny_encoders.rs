//! Encoders of pictures and texts that know three colours: ONNX files and a tokenizer of some hundred bytes, as tests need them. The vector
//! of a picture is its mean colour, that of a text the mean of its words, so that "red" is near red pictures.

#![allow(dead_code, reason = "each test program needs some of it")]

use std::path::{Path, PathBuf};

use crate::tiny_onnx::{FLOAT, INT64, message, model, node, tensor, value};

/// An encoder of pictures of 16 by 16 pixels: `pixel_values` to `image_embeds`, three numbers.
pub(crate) fn picture_encoder() -> Vec<u8> {
    let batch = Err("batch");
    let shape = [batch, Ok(3), Ok(16), Ok(16)];
    let mean = node(
        "ReduceMean",
        &["pixel_values"],
        "image_embeds",
        &[("axes", &[2, 3]), ("keepdims", &[0])],
    );
    model(
        message()
            .message(1, &mean)
            .message(11, &value("pixel_values", FLOAT, &shape))
            .message(12, &value("image_embeds", FLOAT, &[batch, Ok(3)])),
    )
}

/// Words of the tokenizer, with the colour that each stands for.
const WORDS: [(&str, [f32; 3]); 6] = [
    ("[PAD]", [9.0, 9.0, 9.0]),
    ("[UNK]", [0.0, 0.0, 0.0]),
    ("red", [1.0, -1.0, -1.0]),
    ("green", [-1.0, 1.0, -1.0]),
    ("blue", [-1.0, -1.0, 1.0]),
    ("van", [0.0, 0.0, 0.0]),
];

/// An encoder of texts: `input_ids` and `attention_mask` to `text_embeds`, three numbers.
pub(crate) fn text_encoder() -> Vec<u8> {
    let (batch, tokens) = (Err("batch"), Err("tokens"));
    let table: Vec<u8> = WORDS
        .iter()
        .flat_map(|(_, colour)| colour.iter().flat_map(|number| number.to_le_bytes()))
        .collect();
    let nodes = [
        node("Gather", &["words", "input_ids"], "colours", &[]),
        node("Cast", &["attention_mask"], "mask", &[("to", &[FLOAT])]),
        node("Unsqueeze", &["mask", "last"], "masks", &[]),
        node("Mul", &["colours", "masks"], "shown", &[]),
        node(
            "ReduceMean",
            &["shown"],
            "text_embeds",
            &[("axes", &[1]), ("keepdims", &[0])],
        ),
    ];
    let initializers = [
        tensor("words", FLOAT, &[WORDS.len() as u64, 3], &table),
        tensor("last", INT64, &[1], &2_i64.to_le_bytes()),
    ];
    model(
        message()
            .messages(1, nodes)
            .messages(5, initializers)
            .message(11, &value("input_ids", INT64, &[batch, tokens]))
            .message(11, &value("attention_mask", INT64, &[batch, tokens]))
            .message(12, &value("text_embeds", FLOAT, &[batch, Ok(3)])),
    )
}

/// The `tokenizer.json` of the text encoder.
pub(crate) fn tokenizer() -> String {
    tokenizer_of(WORDS.map(|(word, _)| word), "")
}

/// A `tokenizer.json` of words in the order of their numbers. `added`: entries of tokens with a meaning of their own.
pub(crate) fn tokenizer_of<'a>(words: impl IntoIterator<Item = &'a str>, added: &str) -> String {
    let words = words.into_iter().enumerate();
    let words: Vec<String> = words
        .map(|(number, word)| format!("\"{word}\": {number}"))
        .collect();
    format!(
        "{{\"version\": \"1.0\", \"truncation\": null, \"padding\": null, \"added_tokens\": [{added}], \
         \"normalizer\": {{\"type\": \"Lowercase\"}}, \"pre_tokenizer\": {{\"type\": \"Whitespace\"}}, \
         \"post_processor\": null, \"decoder\": null, \
         \"model\": {{\"type\": \"WordLevel\", \"vocab\": {{{}}}, \"unk_token\": \"[UNK]\"}}}}",
        words.join(", ")
    )
}

/// Files of the encoders and the tokenizer.
pub(crate) struct TinyEncoders {
    pub(crate) picture: PathBuf,
    pub(crate) text: PathBuf,
    pub(crate) tokenizer: PathBuf,
}

impl TinyEncoders {
    /// Writes the files into a folder.
    pub(crate) fn write(folder: &Path) -> Self {
        let write = |name: &str, bytes: &[u8]| {
            let path = folder.join(name);
            std::fs::write(&path, bytes).expect("written");
            path
        };
        Self {
            picture: write("picture.onnx", &picture_encoder()),
            text: write("text.onnx", &text_encoder()),
            tokenizer: write("tokenizer.json", tokenizer().as_bytes()),
        }
    }
}
