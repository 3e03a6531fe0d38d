//! Text to tokens and back, by a vocabulary file.
//!
//! Two forms are read: that of llama2.c (`.bin`: the longest piece, then `f32 score, i32 length, bytes` of each, all
//! little-endian), whose pieces are merged pair by pair, the best score first; and a text file with a piece on each line, of
//! which the longest that fits is taken each time.

use std::collections::BTreeMap;
use std::path::Path;

use super::portable::Vocabulary;

/// A vocabulary larger than any in use.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// In llama2.c, bytes that are no piece are those tokens: after unknown, begin and end.
const FIRST_BYTE: u32 = 3;

pub(super) struct Tokenizer {
    pieces: Vec<Vec<u8>>,
    numbers: BTreeMap<Vec<u8>, u32>,
    /// Of pieces that are merged; empty where the longest is taken.
    scores: Vec<f32>,
    longest: usize,
}

impl Tokenizer {
    /// Reads a vocabulary.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub(super) fn read(path: &Path) -> Result<(Self, Vocabulary), String> {
        let bytes = weir_files::read(path, MAX_FILE_BYTES).map_err(|error| error.to_string())?;
        let vocabulary = Vocabulary {
            bytes,
            lines: path.extension().is_some_and(|extension| extension == "txt"),
        };
        let read = Self::from_vocabulary(&vocabulary);
        let tokenizer = read.map_err(|reason| format!("vocabulary {}: {reason}", path.display()))?;
        Ok((tokenizer, vocabulary))
    }

    /// Of a vocabulary that was read.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn from_vocabulary(vocabulary: &Vocabulary) -> Result<Self, String> {
        if vocabulary.lines {
            let mark = weir_files::BYTE_ORDER_MARK.as_bytes();
            lines(vocabulary.bytes.strip_prefix(mark).unwrap_or(&vocabulary.bytes))
        } else {
            llama2c(&vocabulary.bytes)
        }
    }

    fn new(pieces: Vec<Vec<u8>>, scores: Vec<f32>) -> Self {
        let mut numbers = BTreeMap::new();
        for (number, piece) in (0..).zip(&pieces) {
            // Of equal pieces the first counts.
            numbers.entry(piece.clone()).or_insert(number);
        }
        let longest = pieces.iter().map(Vec::len).max().unwrap_or(0);
        Self {
            pieces,
            numbers,
            scores,
            longest,
        }
    }

    /// Size of the vocabulary, in tokens.
    pub(super) fn len(&self) -> usize {
        self.pieces.len()
    }

    /// The tokens of a text. What no piece says is left out.
    pub(super) fn encode(&self, text: &str) -> Vec<u32> {
        if text.is_empty() {
            return Vec::new();
        }
        if self.scores.is_empty() {
            return self.longest_first(text.as_bytes());
        }
        let mut tokens = Vec::new();
        tokens.extend(self.numbers.get(b" ".as_slice()));
        let mut buffer = [0; 4];
        for character in text.chars() {
            let bytes = character.encode_utf8(&mut buffer).as_bytes();
            match self.numbers.get(bytes) {
                Some(number) => tokens.push(*number),
                None => tokens.extend(bytes.iter().map(|byte| u32::from(*byte) + FIRST_BYTE)),
            }
        }
        tokens.retain(|token| (*token as usize) < self.pieces.len());
        self.merge(&mut tokens);
        tokens
    }

    /// Merges the pair with the best score until no two neighbours are a piece.
    fn merge(&self, tokens: &mut Vec<u32>) {
        loop {
            let mut best: Option<(f32, usize, u32)> = None;
            for (place, pair) in tokens.windows(2).enumerate() {
                let joined = [&*self.pieces[pair[0] as usize], &self.pieces[pair[1] as usize]].concat();
                if let Some(number) = self.numbers.get(&joined)
                    && best.is_none_or(|(score, ..)| self.scores[*number as usize] > score)
                {
                    best = Some((self.scores[*number as usize], place, *number));
                }
            }
            let Some((_, place, number)) = best else { return };
            tokens[place] = number;
            tokens.remove(place + 1);
        }
    }

    fn longest_first(&self, text: &[u8]) -> Vec<u32> {
        let (mut tokens, mut at) = (Vec::new(), 0);
        while at < text.len() {
            let longest = self.longest.min(text.len() - at);
            let found = (1..=longest)
                .rev()
                .find_map(|length| Some((length, *self.numbers.get(&text[at..at + length])?)));
            match found {
                Some((length, number)) => {
                    tokens.push(number);
                    at += length;
                }
                None => at += 1,
            }
        }
        tokens
    }

    /// The text of tokens after a prompt.
    pub(super) fn decode(&self, tokens: &[u32]) -> String {
        let mut bytes = Vec::new();
        for token in tokens {
            let Some(piece) = self.pieces.get(*token as usize) else {
                continue;
            };
            match byte_piece(piece).filter(|_| !self.scores.is_empty()) {
                Some(byte) => bytes.push(byte),
                None => bytes.extend_from_slice(piece),
            }
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// The byte that a piece such as `<0x0A>` stands for.
fn byte_piece(piece: &[u8]) -> Option<u8> {
    let digits = piece.strip_prefix(b"<0x")?.strip_suffix(b">")?;
    u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

fn llama2c(bytes: &[u8]) -> Result<Tokenizer, String> {
    let mut rest = bytes.get(4..).ok_or("it is empty")?;
    let (mut pieces, mut scores) = (Vec::new(), Vec::new());
    while !rest.is_empty() {
        let short = || format!("it ends within piece {}", pieces.len());
        let (score, after) = rest.split_first_chunk::<4>().ok_or_else(short)?;
        let (length, after) = after.split_first_chunk::<4>().ok_or_else(short)?;
        let length = usize::try_from(i32::from_le_bytes(*length))
            .ok()
            .filter(|length| *length <= after.len())
            .ok_or_else(short)?;
        let score = f32::from_le_bytes(*score);
        if score.is_nan() {
            return Err(format!("the score of piece {} is no number", pieces.len()));
        }
        let (piece, after) = after.split_at(length);
        pieces.push(piece.to_vec());
        scores.push(score);
        rest = after;
    }
    if pieces.is_empty() {
        return Err("it has no pieces".to_owned());
    }
    Ok(Tokenizer::new(pieces, scores))
}

/// A piece on each line; `\n`, `\s` and `\\` stand for a line feed, a space and a backslash.
fn lines(bytes: &[u8]) -> Result<Tokenizer, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "it is no UTF-8".to_owned())?;
    let mut pieces = Vec::new();
    for line in text.lines() {
        let mut piece = String::new();
        let mut characters = line.chars();
        while let Some(character) = characters.next() {
            match (character, character == '\\') {
                (_, true) => match characters.next() {
                    Some('n') => piece.push('\n'),
                    Some('s') => piece.push(' '),
                    Some('\\') => piece.push('\\'),
                    _ => return Err(format!("line {}: after \\ comes n, s or \\", pieces.len() + 1)),
                },
                (character, false) => piece.push(character),
            }
        }
        pieces.push(piece.into_bytes());
    }
    if pieces.is_empty() {
        return Err("it has no pieces".to_owned());
    }
    Ok(Tokenizer::new(pieces, Vec::new()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(score: f32, piece: &[u8]) -> Vec<u8> {
        let length = i32::try_from(piece.len()).unwrap();
        [&score.to_le_bytes()[..], &length.to_le_bytes(), piece].concat()
    }

    #[test]
    fn pairs_are_merged_by_their_scores() {
        let pieces: [(f32, &[u8]); 9] = [
            (0.0, b"<unk>"),
            (0.0, b"<s>"),
            (0.0, b"</s>"),
            (0.0, b"<0x00>"),
            (-9.0, b" "),
            (-9.0, b"a"),
            (-9.0, b"b"),
            (-2.0, b"ab"),
            (-1.0, b" a"),
        ];
        let entries = pieces.iter().flat_map(|(score, piece)| entry(*score, piece));
        let bytes: Vec<u8> = [2, 0, 0, 0].into_iter().chain(entries).collect();
        let tokenizer = llama2c(&bytes).unwrap();
        assert_eq!(tokenizer.encode("ab"), [8, 6], "the better pair first");
        assert_eq!(tokenizer.decode(&[8, 6, 3]), " ab\0");
        assert!(llama2c(&bytes[..bytes.len() - 1]).is_err_and(|reason| reason.contains("piece 8")));
    }

    #[test]
    fn the_longest_piece_that_fits_is_taken() {
        let tokenizer = lines("<end>\ncar\ncars\n\\s\n\\n\n".as_bytes()).unwrap();
        assert_eq!(tokenizer.encode("cars car\n"), [2, 3, 1, 4]);
        assert_eq!(tokenizer.encode("a?"), [0; 0], "what no piece says is left out");
        assert_eq!(tokenizer.decode(&[2, 3, 1]), "cars car");
        assert!(lines(b"a\\x").is_err());
    }
}
