//! Edited texts of folders of models.

use super::ChatFolder;
use crate::edited::{MemoryBound, fuzz};
use crate::model::tokenizer_file::guarded;
use crate::tiny_chat::{TinyChat, TinyDecoder};

/// Reads a folder with edits of one of its files, and encodes a text with what was read.
fn read_edited(name: &str, is_genai: bool, words: &[&[u8]]) {
    let folder = tempfile::tempdir().unwrap();
    let tiny = TinyChat(folder.path());
    match is_genai {
        true => tiny.write_genai(TinyDecoder::default()),
        false => tiny.write_optimum(TinyDecoder::default()),
    }
    let path = folder.path().join(name);
    let seed = std::fs::read(&path).unwrap();
    let bound = MemoryBound {
        base: 4 << 20,
        per_byte: 400,
    };
    fuzz(&format!("chat {name}"), 100, bound, vec![seed], words, |bytes| {
        std::fs::write(&path, bytes).unwrap();
        if let Ok(read) = ChatFolder::read(folder.path(), None) {
            let plain = read.without_marks("<image> a <im<end>age> red van");
            let encoded = guarded(|| read.tokenizer.encode(plain, false));
            let ids = encoded
                .ok()
                .and_then(Result::ok)
                .map(|encoded| encoded.get_ids().to_vec());
            let ids = ids.unwrap_or_default();
            assert!(
                ids.iter()
                    .all(|id| *id < read.vocabulary || read.vocabulary == u32::MAX)
            );
        }
    });
}

#[test]
fn fuzz_chat_configurations() {
    let words: [&[u8]; 5] = [b"null", b"[", b"{", b"-1", b"\"../"];
    for name in ["config.json", "preprocessor_config.json", "tokenizer_config.json"] {
        read_edited(name, false, &words);
    }
    read_edited("genai_config.json", true, &words);
}

#[test]
fn fuzz_chat_tokenizers() {
    let words: [&[u8]; 5] = [
        b"null",
        b"{\"type\": \"NFC\"}",
        b"\"\"",
        b"4294967295",
        b"{\"type\": \"ByteLevel\", \"add_prefix_space\": true, \"trim_offsets\": true}",
    ];
    read_edited("tokenizer.json", false, &words);
}
