//! A model that answers in words about pictures, of some kilobytes: it says "a red van" of a red picture, and as much of green and blue ones.
//! Its embeddings are the numbers of tokens with a place for a colour; its decoder follows from word to word, and takes the colour from
//! what its cache has of the picture.

#![allow(dead_code, reason = "each test program needs some of it")]

use std::path::{Path, PathBuf};

use crate::tiny_encoders::tokenizer_of;
use crate::tiny_onnx::{BOOL, FLOAT, INT64, Message, message, model, node, tensor, value};

/// Words by token.
const WORDS: [&str; 10] = [
    "[PAD]",
    "[UNK]",
    "<image>",
    "<end>",
    "assistant",
    "a",
    "red",
    "green",
    "blue",
    "van",
];

const IMAGE: i64 = 2;

/// Numbers of an embedding: one for each word, and three for a colour.
const WIDTH: u64 = WORDS.len() as u64 + 3;

/// The words that follow a word.
fn next(word: &str, never_ends: bool) -> &'static [&'static str] {
    match word {
        "assistant" => &["a"],
        "a" => &["red", "green", "blue"],
        "red" | "green" | "blue" => &["van"],
        "van" if never_ends => &["a"],
        "van" => &["<end>"],
        _ => &[],
    }
}

fn floats(name: &str, rows: u64, columns: u64, number: impl Fn(usize, usize) -> f32) -> Message {
    let places = (0..rows as usize).flat_map(|row| (0..columns as usize).map(move |column| (row, column)));
    let data: Vec<u8> = places
        .flat_map(|(row, column)| number(row, column).to_le_bytes())
        .collect();
    tensor(name, FLOAT, &[rows, columns], &data)
}

fn numbers(name: &str, numbers: &[i64]) -> Message {
    let data: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    tensor(name, INT64, &[numbers.len() as u64], &data)
}

fn table() -> Message {
    let words = WORDS.len() as u64;
    floats(
        "words",
        words,
        WIDTH,
        |row, column| if row == column { 1.0 } else { 0.0 },
    )
}

/// Embeddings of tokens, which also merge the features of pictures if `merges`.
fn embeddings(merges: bool) -> Vec<u8> {
    let tokens = [Err("batch"), Err("tokens")];
    let looked_up = if merges { "plain" } else { "inputs_embeds" };
    let mut graph = message()
        .message(1, &node("Gather", &["words", "input_ids"], looked_up, &[]))
        .message(5, &table());
    if merges {
        graph = graph
            .messages(
                1,
                [
                    node("Equal", &["input_ids", "image"], "is_image", &[]),
                    node("NonZero", &["is_image"], "axes", &[]),
                    node("Transpose", &["axes"], "places", &[("perm", &[1, 0])]),
                    node(
                        "ScatterND",
                        &["plain", "places", "image_features"],
                        "inputs_embeds",
                        &[],
                    ),
                ],
            )
            .message(5, &numbers("image", &[IMAGE]))
            .message(11, &value("image_features", FLOAT, &[Err("rows"), Ok(WIDTH)]));
    }
    model(graph.message(11, &value("input_ids", INT64, &tokens)).message(
        12,
        &value("inputs_embeds", FLOAT, &[tokens[0], tokens[1], Ok(WIDTH)]),
    ))
}

/// Two rows of features for each picture of 16 by 16 pixels: its mean colour.
fn picture_encoder(has_mask: bool) -> Vec<u8> {
    let mean = node(
        "ReduceMean",
        &["pixel_values"],
        "colour",
        &[("axes", &[3, 4]), ("keepdims", &[0])],
    );
    let first = WORDS.len();
    let row = WIDTH as usize;
    let spread = floats("spread", 3, 2 * WIDTH, |colour, column| {
        if column % row == first + colour { 1.0 } else { 0.0 }
    });
    let batch = [Err("batch"), Err("pictures")];
    let graph = message()
        .messages(
            1,
            [
                mean,
                node("MatMul", &["colour", "spread"], "both", &[]),
                node("Reshape", &["both", "rows"], "image_features", &[]),
            ],
        )
        .message(5, &spread)
        .message(5, &numbers("rows", &[-1, WIDTH.cast_signed()]))
        .message(
            11,
            &value(
                "pixel_values",
                FLOAT,
                &[batch[0], batch[1], Ok(3), Ok(16), Ok(16)],
            ),
        );
    let mask = value(
        "pixel_attention_mask",
        BOOL,
        &[batch[0], batch[1], Ok(16), Ok(16)],
    );
    let graph = if has_mask { graph.message(11, &mask) } else { graph };
    model(graph.message(12, &value("image_features", FLOAT, &[Err("rows"), Ok(WIDTH)])))
}

/// Form of the decoder.
#[derive(Clone, Copy, Default)]
pub(crate) struct TinyDecoder {
    /// It takes tokens, and there are no pictures.
    pub(crate) takes_ids: bool,
    pub(crate) has_positions: bool,
    pub(crate) never_ends: bool,
}

impl TinyDecoder {
    fn onnx(self) -> Vec<u8> {
        let tokens = [Err("batch"), Err("tokens")];
        let words = WORDS.len() as u64;
        let embedded = if self.takes_ids {
            "embedded"
        } else {
            "inputs_embeds"
        };
        let cache = |past| [Err("batch"), Ok(1), Err(past), Ok(WIDTH)];
        let keep = |kind: &str| {
            let (past, present) = (format!("past_key_values.0.{kind}"), format!("present.0.{kind}"));
            node("Concat", &[&past, "own"], &present, &[("axis", &[2])])
        };
        let follows = floats("follows", WIDTH, words, |row, column| {
            let word = WORDS.get(row).copied().unwrap_or_default();
            let is_next = next(word, self.never_ends).contains(&WORDS[column]);
            if is_next { 1.0 } else { 0.0 }
        });
        // The colours of a picture raise the words of colours.
        let colours = floats("colours", WIDTH, words, |row, column| {
            if row >= WORDS.len() && column == row - WORDS.len() + 6 {
                0.1
            } else {
                0.0
            }
        });
        let looked_up = node("Gather", &["words", "input_ids"], "embedded", &[]);
        let looked_up = self.takes_ids.then_some(looked_up);
        let mut graph = message()
            .messages(1, looked_up)
            .messages(
                1,
                [
                    node("Unsqueeze", &[embedded, "one"], "own", &[]),
                    keep("key"),
                    keep("value"),
                    node("Cast", &["attention_mask"], "mask", &[("to", &[FLOAT])]),
                    node("Unsqueeze", &["mask", "one_two"], "line", &[]),
                    node("MatMul", &["line", "present.0.value"], "seen", &[]),
                    node("Squeeze", &["seen", "one"], "sum", &[]),
                    node("MatMul", &["sum", "colours"], "raised", &[]),
                    node("MatMul", &[embedded, "follows"], "words_next", &[]),
                    node("Add", &["words_next", "raised"], "logits", &[]),
                ],
            )
            .message(5, &numbers("one", &[1]))
            .message(5, &numbers("one_two", &[1, 2]))
            .message(5, &follows)
            .message(5, &colours);
        if self.takes_ids {
            graph = graph
                .message(5, &table())
                .message(11, &value("input_ids", INT64, &tokens));
        } else {
            let shape = [tokens[0], tokens[1], Ok(WIDTH)];
            graph = graph.message(11, &value("inputs_embeds", FLOAT, &shape));
        }
        if self.has_positions {
            graph = graph.message(11, &value("position_ids", INT64, &tokens));
        }
        model(
            graph
                .message(11, &value("attention_mask", INT64, &[tokens[0], Err("all")]))
                .message(11, &value("past_key_values.0.key", FLOAT, &cache("past")))
                .message(11, &value("past_key_values.0.value", FLOAT, &cache("past")))
                .message(12, &value("logits", FLOAT, &[tokens[0], tokens[1], Ok(words)]))
                .message(12, &value("present.0.key", FLOAT, &cache("all")))
                .message(12, &value("present.0.value", FLOAT, &cache("all"))),
        )
    }
}

fn tokenizer() -> String {
    let special = |id: usize| {
        format!(
            "{{\"id\": {id}, \"content\": \"{}\", \"single_word\": false, \"lstrip\": false, \"rstrip\": false, \"normalized\": false, \
             \"special\": true}}",
            WORDS[id]
        )
    };
    tokenizer_of(WORDS, &[special(2), special(3)].join(", "))
}

const TEMPLATE: &str = "{% for message in messages %}{{ message['role'] }} {% for part in message['content'] %}\
                        {% if part['type'] == 'image' %}<image>{% else %}{{ part['text'] }}{% endif %}{% endfor %} \
                        {% endfor %}{% if add_generation_prompt %}Assistant{% endif %}";

const TEMPLATE_OF_WORDS: &str = "{% for message in messages %}{{ message['content'] }} {% endfor %}Assistant";

/// A folder of a model.
pub(crate) struct TinyChat<'a>(pub(crate) &'a Path);

impl TinyChat<'_> {
    pub(crate) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        std::fs::write(&path, bytes).expect("written");
        path
    }

    fn write_texts(&self, template: &str) {
        let template = template.replace('"', "\\\"");
        self.write("tokenizer.json", tokenizer());
        self.write(
            "tokenizer_config.json",
            format!("{{\"eos_token\": \"<end>\", \"chat_template\": \"{template}\"}}"),
        );
    }

    fn write_preparation(&self) {
        self.write(
            "preprocessor_config.json",
            "{\"do_normalize\": true, \"image_mean\": [0.5, 0.5, 0.5], \"image_std\": [0.5, 0.5, 0.5], \
             \"rescale_factor\": 0.00392156862745098, \"size\": {\"longest_edge\": 2048}, \"max_image_size\": {\"longest_edge\": 16}}",
        );
    }

    /// The layout of optimum and transformers.js.
    pub(crate) fn write_optimum(&self, decoder: TinyDecoder) {
        self.write("onnx/vision_encoder.onnx", picture_encoder(true));
        self.write("onnx/embed_tokens.onnx", embeddings(false));
        self.write("onnx/decoder_model_merged.onnx", decoder.onnx());
        self.write(
            "config.json",
            "{\"model_type\": \"idefics3\", \"image_token_id\": 2}",
        );
        self.write("generation_config.json", "{\"eos_token_id\": [3]}");
        self.write_preparation();
        self.write_texts(TEMPLATE);
    }

    /// The layout of onnxruntime-genai, with a model of embeddings that merges the features of pictures.
    pub(crate) fn write_genai(&self, decoder: TinyDecoder) {
        self.write("sees.onnx", picture_encoder(false));
        self.write("embeds.onnx", embeddings(true));
        self.write("writes.onnx", decoder.onnx());
        self.write(
            "genai_config.json",
            r#"{"model": {"type": "tiny", "context_length": 4096, "eos_token_id": 3, "image_token_id": 2,
                "decoder": {"filename": "writes.onnx",
                    "inputs": {"inputs_embeds": "inputs_embeds", "attention_mask": "attention_mask", "position_ids": "position_ids",
                        "past_key_names": "past_key_values.%d.key", "past_value_names": "past_key_values.%d.value"},
                    "outputs": {"logits": "logits", "present_key_names": "present.%d.key", "present_value_names": "present.%d.value"}},
                "embedding": {"filename": "embeds.onnx", "inputs": {"input_ids": "input_ids", "image_features": "image_features"},
                    "outputs": {"inputs_embeds": "inputs_embeds"}},
                "vision": {"filename": "sees.onnx", "inputs": {"pixel_values": "pixel_values"},
                    "outputs": {"image_features": "image_features"}}}}"#,
        );
        self.write_preparation();
        self.write_texts(TEMPLATE);
    }

    /// A model of words alone, which sees no picture.
    pub(crate) fn write_words(&self, decoder: TinyDecoder) {
        let decoder = TinyDecoder {
            takes_ids: true,
            ..decoder
        };
        self.write("model.onnx", decoder.onnx());
        self.write("config.json", "{\"eos_token_id\": 3}");
        self.write_texts(TEMPLATE_OF_WORDS);
    }
}
