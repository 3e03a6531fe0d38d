//! A decoder as bytes, from which another process opens it: its keys, its vocabulary and its model, each with its length.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weir_flow::{Settings, Value};

/// Header in front of the vocabulary and the model: the name, and the settings by type.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Header {
    name: String,
    /// Whether the vocabulary has a piece on each line.
    lines: bool,
    texts: BTreeMap<String, String>,
    numbers: BTreeMap<String, f64>,
}

/// A vocabulary as it was read.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Vocabulary {
    pub(super) bytes: Vec<u8>,
    /// Whether it has a piece on each line.
    pub(super) lines: bool,
}

/// A model as it was unpacked on the receiving side.
#[derive(Debug, PartialEq)]
pub(super) struct Portable {
    pub(super) name: String,
    pub(super) settings: Settings,
    pub(super) vocabulary: Vocabulary,
    pub(super) model: Vec<u8>,
}

pub(super) fn pack(
    name: &str,
    settings: &Settings,
    vocabulary: &Vocabulary,
    model: &[u8],
) -> Option<Vec<u8>> {
    let texts = settings.0.iter().filter_map(|(key, value)| match value {
        Value::Text(text) if key != "vocabulary" => Some((key.clone(), text.clone())),
        _ => None,
    });
    let numbers = settings.0.iter().filter_map(|(key, value)| match value {
        Value::Number(number) => Some((key.clone(), *number)),
        _ => None,
    });
    let header = Header {
        name: name.to_owned(),
        lines: vocabulary.lines,
        texts: texts.collect(),
        numbers: numbers.collect(),
    };
    let header = serde_json::to_vec(&header).ok()?;
    let mut bytes = Vec::with_capacity(header.len() + vocabulary.bytes.len() + model.len() + 24);
    for part in [&header[..], &vocabulary.bytes, model] {
        bytes.extend_from_slice(&(part.len() as u64).to_le_bytes());
        bytes.extend_from_slice(part);
    }
    Some(bytes)
}

/// # Errors
/// That the bytes are not what [`pack`] gives.
pub(super) fn unpack(bytes: &[u8]) -> Result<Portable, String> {
    let mut rest = bytes;
    let mut part = || -> Option<Vec<u8>> {
        let (length, after) = rest.split_first_chunk::<8>()?;
        let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
        let (part, after) = after.split_at_checked(length)?;
        rest = after;
        Some(part.to_vec())
    };
    let parts = part().zip(part()).zip(part());
    let Some(((header, vocabulary), model)) = parts else {
        return Err("what was sent is cut short".to_owned());
    };
    let header: Header =
        serde_json::from_slice(&header).map_err(|error| format!("what was sent is no decoder: {error}"))?;
    let texts = header
        .texts
        .into_iter()
        .map(|(key, text)| (key, Value::Text(text)));
    let numbers = header.numbers.into_iter();
    let numbers = numbers.map(|(key, number)| (key, Value::Number(number)));
    Ok(Portable {
        name: header.name,
        settings: Settings(texts.chain(numbers).collect()),
        vocabulary: Vocabulary {
            bytes: vocabulary,
            lines: header.lines,
        },
        model,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_is_unpacked_and_nothing_else_is() {
        let keys = [
            ("start_token", Value::Number(1.0)),
            ("logits", Value::Text("out".to_owned())),
            ("vocabulary", Value::Text("/a/file".to_owned())),
        ];
        let settings = Settings(keys.map(|(key, value)| (key.to_owned(), value)).into());
        let vocabulary = Vocabulary {
            bytes: b"a\nb".to_vec(),
            lines: true,
        };
        let bytes = pack("writer", &settings, &vocabulary, b"model").unwrap();
        let portable = unpack(&bytes).unwrap();
        assert_eq!((&*portable.name, &portable.model[..]), ("writer", &b"model"[..]));
        assert_eq!(portable.vocabulary, vocabulary);
        assert_eq!(portable.settings.text("logits"), Some("out"));
        assert_eq!(
            portable.settings.text("vocabulary"),
            None,
            "a path of another machine"
        );
        for length in 0..bytes.len() {
            unpack(&bytes[..length]).expect_err("it is cut short");
        }
    }
}
