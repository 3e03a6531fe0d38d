//! Encoders of pictures and texts that know three colours: ONNX files and a tokenizer of some hundred bytes, as tests need them. The vector
//! of a picture is its mean colour, that of a text the mean of its words, so that "red" is near red pictures.

#![allow(dead_code, reason = "each test program needs some of it")]

use std::path::{Path, PathBuf};

/// Element types of ONNX.
const FLOAT: u64 = 1;
const INT64: u64 = 7;

/// Fields of a message, as protobuf has them on the wire.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    fn number(mut self, field: u64, number: u64) -> Self {
        self.varint(field << 3);
        self.varint(number);
        self
    }

    fn bytes(mut self, field: u64, bytes: &[u8]) -> Self {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend(bytes);
        self
    }

    fn text(self, field: u64, text: &str) -> Self {
        self.bytes(field, text.as_bytes())
    }

    fn message(self, field: u64, message: &Self) -> Self {
        self.bytes(field, &message.0)
    }

    fn messages(self, field: u64, messages: impl IntoIterator<Item = Self>) -> Self {
        messages
            .into_iter()
            .fold(self, |message, part| message.message(field, &part))
    }
}

fn message() -> Message {
    Message::default()
}

/// A node with attributes that are whole numbers or lists of them.
fn node(op: &str, inputs: &[&str], output: &str, attributes: &[(&str, &[u64])]) -> Message {
    let node = inputs.iter().fold(message(), |node, input| node.text(1, input));
    let attributes = attributes.iter().map(|(name, numbers)| {
        let named = message().text(1, name);
        match numbers {
            [only] if *name != "axes" => named.number(3, *only).number(20, 2),
            several => several
                .iter()
                .fold(named, |named, number| named.number(8, *number))
                .number(20, 7),
        }
    });
    node.text(2, output).text(4, op).messages(5, attributes)
}

/// An input or output; a name stands for a free size.
fn value(name: &str, element: u64, shape: &[Result<u64, &str>]) -> Message {
    let sizes = shape.iter().map(|size| match size {
        Ok(size) => message().number(1, *size),
        Err(name) => message().text(2, name),
    });
    let tensor = message()
        .number(1, element)
        .message(2, &message().messages(1, sizes));
    message().text(1, name).message(2, &message().message(1, &tensor))
}

fn tensor(name: &str, element: u64, dims: &[u64], data: &[u8]) -> Message {
    let tensor = dims
        .iter()
        .fold(message(), |tensor, size| tensor.number(1, *size));
    tensor.number(2, element).text(8, name).bytes(9, data)
}

fn model(graph: Message) -> Vec<u8> {
    let opset = message().number(2, 13);
    message()
        .number(1, 8)
        .message(7, &graph.text(2, "g"))
        .message(8, &opset)
        .0
}

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
    let words = WORDS.iter().enumerate();
    let words: Vec<String> = words
        .map(|(number, (word, _))| format!("\"{word}\": {number}"))
        .collect();
    format!(
        "{{\"version\": \"1.0\", \"truncation\": null, \"padding\": null, \"added_tokens\": [], \
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
