//! A track in the files of a segment: a row of fixed size that names the place of its text, its vector and its picture.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Bytes of a row.
pub(super) const ROW_BYTES: usize = 88;

/// Position of the state within a row. The checksum does not cover it, since it changes in place.
const STATE: usize = 0;
const CHECKSUM: usize = 80;

/// State of a row that a later row of the same track replaced. Zero is the state of a row that was never written.
pub(super) const REPLACED: u8 = 2;
const CURRENT: u8 = 1;

/// Longest text of a track in bytes, as JSON.
pub(super) const MAX_TEXT_BYTES: u32 = 64 << 10;

/// Largest picture in bytes; the engine encodes 256 KiB at most.
pub(super) const MAX_PICTURE_BYTES: u32 = 1 << 20;

/// Numbers of a vector at most; embeddings of public models have 128 to 2048.
pub(super) const MAX_DIMENSIONS: usize = 8_192;

/// Characters of a name or a value that are kept.
const MAX_WORD: usize = 256;

/// Attributes of a track that are kept.
const MAX_ATTRIBUTES: usize = 32;

/// Facts about a track, as they are stored and returned.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TrackRecord {
    /// Name of the stream.
    pub stream: String,
    /// Number of the track, unique within the stream.
    pub track: u64,
    /// Class that most of its objects had.
    pub class: String,
    /// Highest confidence of its objects, 0 to 1.
    pub score: f32,
    /// Time of the first detection, in milliseconds since 1970 (UTC).
    pub began_ms: u64,
    /// Time of the last detection, in milliseconds since 1970 (UTC).
    pub time_ms: u64,
    /// Time of the picture, in milliseconds since 1970 (UTC).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub picture_ms: Option<u64>,
    /// Texts of its attributes by name, such as a plate.
    #[serde(default)]
    pub attributes: BTreeMap<String, String>,
    /// Zones that it was in when its picture was reported last.
    #[serde(default)]
    pub zones: Vec<String>,
}

impl TrackRecord {
    /// Shortens names and values to their bounds.
    pub(super) fn bounded(mut self) -> Self {
        let words = self.attributes.into_iter().take(MAX_ATTRIBUTES);
        self.attributes = words
            .map(|(name, value)| (bounded(name), bounded(value)))
            .collect();
        self.zones = self.zones.into_iter().take(MAX_ATTRIBUTES).map(bounded).collect();
        (self.class, self.stream) = (bounded(self.class), bounded(self.stream));
        self
    }

    /// True if each word, in lower case, is part of the class, the stream, a zone or a value of an attribute.
    pub(super) fn has_words(&self, words: &[String]) -> bool {
        let texts = [&self.class, &self.stream];
        let texts = texts
            .into_iter()
            .chain(&self.zones)
            .chain(self.attributes.values());
        let texts: Vec<String> = texts.map(|text| text.to_lowercase()).collect();
        words
            .iter()
            .all(|word| texts.iter().any(|text| text.contains(word.as_str())))
    }
}

fn bounded(mut text: String) -> String {
    if let Some((end, _)) = text.char_indices().nth(MAX_WORD) {
        text.truncate(end);
    }
    text
}

/// Place of bytes in a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) at: u64,
    /// Zero: there are none.
    pub(super) length: u32,
}

/// See the module. Names are hashes, so that filters compare numbers; the text has the names themselves.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) began_ms: u64,
    pub(super) time_ms: u64,
    pub(super) stream: u64,
    pub(super) class: u64,
    pub(super) track: u64,
    pub(super) text: Span,
    pub(super) picture: Span,
    /// Position of the vector in its file.
    pub(super) vector_at: u64,
    /// Numbers of the vector; zero: the track has none.
    pub(super) dimensions: u32,
}

impl Row {
    /// The row with its checksum.
    pub(super) fn encode(&self) -> [u8; ROW_BYTES] {
        let mut bytes = [0; ROW_BYTES];
        bytes[STATE] = CURRENT;
        bytes[4..8].copy_from_slice(&self.dimensions.to_le_bytes());
        let wide = [
            self.began_ms,
            self.time_ms,
            self.stream,
            self.class,
            self.track,
            self.text.at,
            self.picture.at,
            self.vector_at,
        ];
        for (place, number) in bytes[8..72].as_chunks_mut::<8>().0.iter_mut().zip(wide) {
            *place = number.to_le_bytes();
        }
        bytes[72..76].copy_from_slice(&self.text.length.to_le_bytes());
        bytes[76..80].copy_from_slice(&self.picture.length.to_le_bytes());
        let sum = checksum(&bytes);
        bytes[CHECKSUM..].copy_from_slice(&sum);
        bytes
    }

    /// Reads a row that is current; `None` for one that was replaced or never written. The checksum is not compared.
    pub(super) fn decode(bytes: &[u8; ROW_BYTES]) -> Option<Self> {
        if bytes[STATE] != CURRENT {
            return None;
        }
        let wide = |at: usize| u64::from_le_bytes(array(bytes, at));
        let narrow = |at: usize| u32::from_le_bytes(array(bytes, at));
        Some(Self {
            dimensions: narrow(4),
            began_ms: wide(8),
            time_ms: wide(16),
            stream: wide(24),
            class: wide(32),
            track: wide(40),
            text: Span {
                at: wide(48),
                length: narrow(72),
            },
            picture: Span {
                at: wide(56),
                length: narrow(76),
            },
            vector_at: wide(64),
        })
    }

    /// Bytes of the vector.
    pub(super) fn vector_bytes(&self) -> usize {
        self.dimensions as usize * 2
    }
}

/// True if the row was written as a whole, current or not.
pub(super) fn is_whole(bytes: &[u8; ROW_BYTES]) -> bool {
    [CURRENT, REPLACED].contains(&bytes[STATE]) && checksum(bytes) == bytes[CHECKSUM..]
}

/// Name of a stream or a class as rows have it.
pub(super) fn hash(name: &str) -> u64 {
    u64::from_le_bytes(first_bytes(name.as_bytes()))
}

fn checksum(bytes: &[u8; ROW_BYTES]) -> [u8; 8] {
    first_bytes(&bytes[STATE + 1..CHECKSUM])
}

fn first_bytes(bytes: &[u8]) -> [u8; 8] {
    let digest = Sha256::digest(bytes);
    array(&digest[..], 0)
}

/// Eight or four bytes from a position on; zeros beyond the end.
fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut array = [0; N];
    if let Some(bytes) = bytes.get(at..at + N) {
        array.copy_from_slice(bytes);
    }
    array
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn span() -> impl Strategy<Value = Span> {
        any::<(u64, u32)>().prop_map(|(at, length)| Span { at, length })
    }

    proptest! {
        #[test]
        fn rows_are_read_as_they_were_written(
            (began_ms, time_ms, stream, class) in any::<(u64, u64, u64, u64)>(),
            (track, vector_at, dimensions) in any::<(u64, u64, u32)>(),
            (text, picture) in (span(), span()),
            (place, bit) in (4..ROW_BYTES, 0..8_u32),
        ) {
            let row = Row { began_ms, time_ms, stream, class, track, text, picture, vector_at, dimensions };
            let mut bytes = row.encode();
            prop_assert_eq!(Row::decode(&bytes), Some(row));
            prop_assert!(is_whole(&bytes));
            bytes[STATE] = REPLACED;
            prop_assert!(Row::decode(&bytes).is_none() && is_whole(&bytes));
            bytes[place] ^= 1_u8 << bit;
            prop_assert!(!is_whole(&bytes));
        }
    }

    #[test]
    fn words_are_parts_of_names_and_values_in_any_case() {
        let record = TrackRecord {
            stream: "North gate".to_owned(),
            class: "van".to_owned(),
            attributes: [("colour", "Red"), ("plate", "WR 123")]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
            ..TrackRecord::default()
        };
        let has = |text: &str| {
            let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
            record.has_words(&words)
        };
        assert!(has("red van") && has("wr 12 gate") && has(""));
        assert!(!has("red car") && !has("colour"));
        assert!(!is_whole(&[0; ROW_BYTES]), "zeros are no row");
    }
}
