//! Edited decoders on the readers of what another process sends, and of vocabularies.

use weir_flow::{Settings, Value};

use super::portable::{Vocabulary, pack, unpack};
use super::tokenizer::Tokenizer;
use crate::edited::{MemoryBound, fuzz};

/// Vocabularies of both forms.
fn vocabularies() -> [Vocabulary; 2] {
    let mut pieces = 5_u32.to_le_bytes().to_vec();
    for (score, piece) in (0_u8..).zip(["<unk>", "<s>", "</s>", " ", "a", "b", "ab", " a"]) {
        pieces.extend(f32::from(score).to_le_bytes());
        pieces.extend((piece.len() as u32).to_le_bytes());
        pieces.extend(piece.as_bytes());
    }
    let of = |bytes: &[u8], lines| Vocabulary {
        bytes: bytes.to_vec(),
        lines,
    };
    [of(&pieces, false), of(b"a\nb\nab\n\\n\n\\s\n\\\\\n", true)]
}

/// A text in pieces and back.
fn tokenize(vocabulary: &Vocabulary) {
    if let Ok(tokenizer) = Tokenizer::from_vocabulary(vocabulary) {
        let tokens = tokenizer.encode("ab \u{e9}ba\n\\");
        assert!(tokens.iter().all(|token| (*token as usize) < tokenizer.len()));
    }
}

#[test]
fn fuzz_sent_decoders() {
    let keys = [
        ("start_token", Value::Number(1.0)),
        ("logits", Value::Text("out".to_owned())),
    ];
    let settings = Settings(keys.map(|(key, value)| (key.to_owned(), value)).into());
    let seeds = vocabularies().map(|vocabulary| {
        let packed = pack("writer", &settings, &vocabulary, b"model");
        packed.expect("a decoder")
    });
    let words: [&[u8]; 4] = [b"\n", b"\\", b"{", b"true"];
    // A piece of the vocabulary is kept twice, in lists and trees.
    let bound = MemoryBound {
        base: 1 << 20,
        per_byte: 400,
    };
    fuzz("sent-decoders", 2_000, bound, seeds.into(), &words, |bytes| {
        if let Ok(decoder) = unpack(bytes) {
            let again = pack(
                &decoder.name,
                &decoder.settings,
                &decoder.vocabulary,
                &decoder.model,
            );
            let again = unpack(&again.expect("a decoder")).expect("what was read can be sent");
            assert_eq!(again.vocabulary, decoder.vocabulary);
            tokenize(&decoder.vocabulary);
        }
    });
}

#[test]
fn fuzz_vocabularies() {
    let seeds = vocabularies().map(|vocabulary| vocabulary.bytes);
    let bound = MemoryBound {
        base: 1 << 20,
        per_byte: 400,
    };
    fuzz(
        "vocabularies",
        2_000,
        bound,
        seeds.into(),
        &[b"\n", b"\\"],
        |bytes| {
            for lines in [true, false] {
                tokenize(&Vocabulary {
                    bytes: bytes.to_vec(),
                    lines,
                });
            }
        },
    );
}
