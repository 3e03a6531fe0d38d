//! `tokenizer.json` of Hugging Face, read within bounds: a file may ask for padding, replacements and pieces of any size.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use serde::Deserialize;
use serde_json::Value as Json;
use tokenizers::Tokenizer;

/// Largest `tokenizer.json`; that of a vocabulary of 256,000 has 35 MB.
const MAX_FILE_BYTES: u64 = 128 << 20;

/// Factor by which the replacements of a tokenizer may lengthen a text.
const MAX_GROWTH: usize = 64;

/// Bytes of the text of one token.
const MAX_PIECE_BYTES: usize = 4_096;

/// Parts of the file that replace texts.
#[derive(Deserialize)]
struct Replacing {
    #[serde(default)]
    normalizer: Json,
    #[serde(default)]
    decoder: Json,
}

/// Reads a tokenizer.
///
/// # Errors
/// The file cannot be read, or its texts could grow beyond the bounds.
pub(super) fn read(path: &Path) -> Result<Tokenizer, String> {
    let bytes = weir_files::read(path, MAX_FILE_BYTES).map_err(|error| error.to_string())?;
    let replacing: Replacing = serde_json::from_slice(&bytes).map_err(|error| error.to_string())?;
    for (part, value) in [
        ("normalizer", &replacing.normalizer),
        ("decoder", &replacing.decoder),
    ] {
        if growth(value) > MAX_GROWTH {
            return Err(format!(
                "its {part} may make texts more than {MAX_GROWTH} times as long: leave out replacements"
            ));
        }
    }
    let tokenizer = guarded(|| Tokenizer::from_bytes(&bytes))?.map_err(|error| error.to_string())?;
    let vocabulary = tokenizer.get_vocab(true);
    match vocabulary.keys().map(String::len).max().unwrap_or(0) {
        longest if longest > MAX_PIECE_BYTES => Err(format!(
            "one of its tokens has {longest} bytes, more than {MAX_PIECE_BYTES}"
        )),
        _ => Ok(tokenizer),
    }
}

/// Calls the library of tokenizers, which panics on some broken files.
///
/// # Errors
/// It panicked.
pub(super) fn guarded<T>(call: impl FnOnce() -> T) -> Result<T, String> {
    let called = catch_unwind(AssertUnwindSafe(call));
    called.map_err(|_| "it is broken: take the file of the model's own repository".to_owned())
}

/// Factor by which all replacements of a part may lengthen a text, one after the other.
fn growth(part: &Json) -> usize {
    let inner: usize = match part {
        Json::Array(parts) => parts.iter().map(growth).fold(1, usize::saturating_mul),
        Json::Object(parts) => parts.values().map(growth).fold(1, usize::saturating_mul),
        _ => 1,
    };
    let own = match (part["type"].as_str(), part["content"].as_str()) {
        (Some("Replace"), Some(content)) => match part["pattern"]["String"].as_str() {
            Some(pattern) if !pattern.is_empty() => content.len().div_ceil(pattern.len()),
            // An expression may match the empty text before each character.
            _ => content.len() + 1,
        },
        _ => 1,
    };
    inner.saturating_mul(own.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tiny_encoders::tokenizer;

    #[test]
    fn tokenizer_whose_texts_may_explode_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokenizer.json");
        let read = |text: String| {
            std::fs::write(&path, text).unwrap();
            read(&path).map(drop)
        };
        let with = |normalizer: &str| tokenizer().replace(r#"{"type": "Lowercase"}"#, normalizer);
        let replace = |pattern: &str, content: &str| {
            format!(r#"{{"type": "Replace", "pattern": {{"String": "{pattern}"}}, "content": "{content}"}}"#)
        };
        let sequence =
            |steps: Vec<String>| format!(r#"{{"type": "Sequence", "normalizers": [{}]}}"#, steps.join(","));
        assert_eq!(read(with(&replace(" ", "\u{2581}"))), Ok(()));
        assert_eq!(read(with(&sequence(vec![replace("ab", "xyz"); 6]))), Ok(()));
        for hostile in [vec![replace("a", "aa"); 40], vec![replace("", &"x".repeat(64))]] {
            let error = read(with(&sequence(hostile))).unwrap_err();
            assert!(
                error.contains("normalizer") && error.contains("64 times"),
                "{error}"
            );
        }
        let long = tokenizer().replace("\"red\"", &format!("\"{}\"", "r".repeat(5_000)));
        let error = read(long).unwrap_err();
        assert!(error.contains("5000 bytes"), "{error}");
        // The library panics on these.
        let damaged = read(tokenizer().replace("\"decoder\": null", "\"decoder\":\0null")).unwrap_err();
        assert!(damaged.contains("expected value"), "{damaged}");
        let charsmap = r#"{"type": "Precompiled", "precompiled_charsmap": "AAAA"}"#;
        let broken = read(with(charsmap)).unwrap_err();
        assert!(broken.contains("it is broken"), "{broken}");
    }
}
