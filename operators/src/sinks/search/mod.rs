//! Tracks for search: the best picture of each tracked object with its embedding and its texts, in files that are scanned as a whole.
//!
//! The sink writes, [`SearchReader`] reads, and neither knows of queries in words: [`TextEncoder`](crate::TextEncoder) makes vectors of
//! those.

mod best;
mod blocks;
mod cosine;
mod row;
mod scan;
mod segment;
mod sink;
mod store;
#[cfg(test)]
mod tests;

use std::path::Path;

use weir_flow::{KeyFault, KeyKind, KeySpec, Settings, SinkError, SinkFactory};

use super::target::failed;
use super::{SinkKind, required_path};
pub use row::TrackRecord;
pub use scan::{
    Findings, FoundTrack, QueryVector, SearchBy, SearchFilter, SearchReader, SearchWords, TrackVector,
};
use sink::SearchFactory;

pub(super) const KIND: SinkKind = SinkKind {
    name: "search",
    about: "best pictures of tracks with their embeddings and texts, for `weir search` and the page (docs/how-to/search.md)",
    keys: KEYS,
    file_per_stream: false,
    create,
};

/// Key that names the module whose embeddings are stored.
pub const EMBED: &str = "embed";

/// Keys that the program adds to the settings of the sink: the attribute of the module, and name and digest of its model.
pub const EMBED_ATTRIBUTE: &str = "embed_attribute";
/// See [`EMBED_ATTRIBUTE`].
pub const EMBED_MODEL: &str = "embed_model";
/// See [`EMBED_ATTRIBUTE`].
pub const EMBED_DIGEST: &str = "embed_digest";

const KEEP: &str = "keep";
const MAX_BYTES: &str = "max_bytes";
const TEXT_MODEL: &str = "text_model";
const TOKENIZER: &str = "tokenizer";
const TEXT_LENGTH: &str = "text_length";

/// Longest text of an encoder in tokens; CLIP takes 77, SigLIP 64.
const MAX_TEXT_LENGTH: i64 = 4_096;

const KEYS: &[KeySpec] = &[
    KeySpec {
        name: "path",
        kind: KeyKind::Text,
        about: "folder to write to; one process at a time writes into it (required)",
    },
    KeySpec {
        name: EMBED,
        kind: KeyKind::Text,
        about: "module whose embeddings are stored: one with `operator = \"embed\"` and `vector = true`; without it tracks are found by \
                words only",
    },
    KeySpec {
        name: TEXT_MODEL,
        kind: KeyKind::File,
        about: "ONNX file of the text encoder that belongs to the model of `embed`, for queries such as \"red van\"; needs `tokenizer`",
    },
    KeySpec {
        name: TOKENIZER,
        kind: KeyKind::File,
        about: "`tokenizer.json` of the text encoder",
    },
    KeySpec {
        name: TEXT_LENGTH,
        kind: KeyKind::Integer {
            min: 1,
            max: MAX_TEXT_LENGTH,
        },
        about: "tokens that each query is padded and cut to, such as 64 for SigLIP; default: as `tokenizer` and the model say",
    },
    KeySpec {
        name: KEEP,
        kind: KeyKind::Duration,
        about: "tracks older than this are removed (default `\"30d\"`)",
    },
    KeySpec {
        name: MAX_BYTES,
        kind: KeyKind::Bytes,
        about: "maximum size of the folder; beyond it the oldest tracks are removed (default `\"10GiB\"`)",
    },
];

fn create(settings: &Settings, _streams: &[String]) -> Result<Box<dyn SinkFactory>, SinkError> {
    let path = required_path(&KIND, settings)?;
    let fault = if path == "-" {
        "tracks cannot go to standard output: name a folder"
    } else if path.contains(super::target::STREAM) {
        "the tracks of all streams are in one folder: leave {stream} out"
    } else {
        return Ok(Box::new(SearchFactory::new(path, settings)));
    };
    Err(failed(Path::new(path), fault))
}

/// Checks the keys of the text encoder together.
pub(super) fn faults(settings: &Settings) -> Vec<KeyFault> {
    let has = |key: &str| settings.0.contains_key(key);
    let fault = |key: &'static str, missing: &str| KeyFault {
        key,
        message: format!("`{key}` needs `{missing}`"),
        hint: Some("docs/how-to/search.md shows how a text encoder is exported".to_owned()),
    };
    let pairs = [
        (TEXT_MODEL, TOKENIZER),
        (TOKENIZER, TEXT_MODEL),
        (TEXT_MODEL, EMBED),
        (TEXT_LENGTH, TEXT_MODEL),
    ];
    let missing = pairs.into_iter().filter(|(key, other)| has(key) && !has(other));
    missing.map(|(key, other)| fault(key, other)).collect()
}

/// Files of the text encoder that a sink names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextEncoderFiles {
    /// The ONNX file.
    pub model: std::path::PathBuf,
    /// The file `tokenizer.json`.
    pub tokenizer: std::path::PathBuf,
    /// Tokens that each text is padded and cut to.
    pub length: Option<usize>,
}

impl TextEncoderFiles {
    /// Returns those of a sink of this type; `None` if it names none.
    #[must_use]
    pub fn of_sink(settings: &Settings) -> Option<Self> {
        let length = settings.number(TEXT_LENGTH, 0.0) as usize;
        Some(Self {
            model: settings.text(TEXT_MODEL)?.into(),
            tokenizer: settings.text(TOKENIZER)?.into(),
            length: (length > 0).then_some(length),
        })
    }
}
