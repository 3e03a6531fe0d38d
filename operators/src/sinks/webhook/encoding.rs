//! Texts as they may stand in headers, and bodies of several parts.

use base64::prelude::{BASE64_STANDARD, Engine};
use sha2::{Digest, Sha256};

use crate::hexadecimal::hexadecimal;

/// Bytes of a text in one encoded word: a word has at most 75 characters (RFC 2047, 2).
const WORD_BYTES: usize = 45;

/// A text as an identifier in a header: what is no visible ASCII is percent-encoded.
pub(super) fn identifier(text: &str) -> String {
    let encoded = |byte: u8| match byte {
        b'%' | 0..=32 | 127.. => format!("%{byte:02X}"),
        visible => char::from(visible).to_string(),
    };
    text.bytes().map(encoded).collect()
}

/// A text for people as the value of a header: what is more than visible ASCII and blanks becomes encoded words (RFC 2047).
pub(super) fn header_value(text: &str) -> String {
    let text = text.trim();
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        return text.to_owned();
    }
    let mut words = vec![String::new()];
    for c in text.chars() {
        let is_full = |word: &String| word.len() + c.len_utf8() > WORD_BYTES;
        if words.last().is_some_and(is_full) {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut() {
            word.push(c);
        }
    }
    let encoded = words
        .iter()
        .map(|word| format!("=?UTF-8?B?{}?=", BASE64_STANDARD.encode(word)));
    encoded.collect::<Vec<_>>().join(" ")
}

/// The first characters of a text; a text that is longer ends with an ellipsis.
pub(in crate::sinks) fn shortened(text: &str, max_characters: usize) -> String {
    if text.chars().count() <= max_characters {
        return text.to_owned();
    }
    let kept = text.chars().take(max_characters.saturating_sub(1));
    kept.chain(['\u{2026}']).collect()
}

/// A part of a body: name, content type, and bytes. A part with a file name is a file.
pub(super) struct Part<'a> {
    pub(super) name: &'static str,
    pub(super) content_type: &'a str,
    pub(super) file_name: Option<&'static str>,
    pub(super) bytes: &'a [u8],
}

/// Content type and bytes of a body with several parts (`multipart/form-data`, RFC 7578).
pub(super) fn multipart(parts: &[Part<'_>]) -> (String, Vec<u8>) {
    let mut digest = Sha256::new();
    parts.iter().for_each(|part| digest.update(part.bytes));
    // No part contains its own digest.
    let boundary = hexadecimal(&digest.finalize());
    let mut body = Vec::new();
    for part in parts {
        let file = part.file_name.map(|name| format!("; filename=\"{name}\""));
        let head = format!(
            "--{boundary}\r\nContent-Disposition: form-data; name=\"{}\"{}\r\nContent-Type: {}\r\n\r\n",
            part.name,
            file.unwrap_or_default(),
            part.content_type
        );
        body.extend_from_slice(head.as_bytes());
        body.extend_from_slice(part.bytes);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
    (format!("multipart/form-data; boundary={boundary}"), body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_any_script_fit_into_a_header() {
        assert_eq!(identifier("north/gate/7"), "north/gate/7");
        assert_eq!(identifier("t\u{fc}r 5%\n"), "t%C3%BCr%205%25%0A");
        assert_eq!(header_value(" north: gate "), "north: gate");
        assert_eq!(header_value("T\u{fc}r"), "=?UTF-8?B?VMO8cg==?=");
        assert_eq!(header_value("a\r\nX: b"), "=?UTF-8?B?YQ0KWDogYg==?=");
        let long = header_value(&"\u{fc}".repeat(200));
        assert!(long.split(' ').all(|word| word.len() <= 75), "{long}");
    }

    #[test]
    fn long_texts_end_with_an_ellipsis() {
        assert_eq!(shortened("f\u{fc}nf", 4), "f\u{fc}nf");
        assert_eq!(shortened("f\u{fc}nfzig", 4), "f\u{fc}n\u{2026}");
    }
}
