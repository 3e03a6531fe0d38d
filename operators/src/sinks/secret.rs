//! Secrets of sinks: from a key, which a graph file fills from a variable, or from a file.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use weir_files::BYTE_ORDER_MARK;
use weir_flow::{Settings, SinkError};

use super::target::{failed, io_failed};

/// Bytes of a file that holds a secret.
const MAX_BYTES: u64 = 4 << 10;

/// Characters of a text from which on it is hidden wherever it stands: a shorter one is a part of many words.
const MIN_HIDDEN: usize = 4;

/// Texts that no message shows.
#[derive(Debug)]
pub(super) struct Hidden(Vec<String>);

impl Hidden {
    pub(super) fn new(texts: impl IntoIterator<Item = String>) -> Self {
        let texts = texts.into_iter().filter(|text| text.len() >= MIN_HIDDEN);
        let mut texts: Vec<String> = texts.collect();
        // A text may be a part of another one.
        texts.sort_by_key(|text| std::cmp::Reverse(text.len()));
        Self(texts)
    }

    /// A text without them.
    pub(super) fn hide(&self, text: &str) -> String {
        let hide = |text: String, hidden: &String| text.replace(hidden.as_str(), "***");
        self.0.iter().fold(text.to_owned(), hide)
    }
}

/// The secret of `key`, or in the file that `file_key` names, without the line break at its end; `None` if there is neither.
///
/// # Errors
/// The file cannot be read.
pub(super) fn secret(settings: &Settings, key: &str, file_key: &str) -> Result<Option<String>, SinkError> {
    match settings.text(key).filter(|secret| !secret.is_empty()) {
        Some(secret) => Ok(Some(secret.to_owned())),
        None => secret_file(settings, file_key),
    }
}

/// The secret in the file that `file_key` names, without the line break at its end; `None` if it names none.
///
/// # Errors
/// The file cannot be read.
pub(super) fn secret_file(settings: &Settings, file_key: &str) -> Result<Option<String>, SinkError> {
    let path = settings.text(file_key).filter(|path| !path.is_empty());
    let Some(path) = path.map(Path::new) else {
        return Ok(None);
    };
    let text = String::from_utf8(bounded_file(path, MAX_BYTES)?);
    let text = text.map_err(|_| failed(path, "it holds no text"))?;
    Ok(Some(text.trim_end_matches(['\r', '\n']).to_owned()))
}

/// Reads a file that a key names, without a byte order mark; it may have at most `max_bytes`.
///
/// # Errors
/// It cannot be read, or is larger.
pub(super) fn bounded_file(path: &Path, max_bytes: u64) -> Result<Vec<u8>, SinkError> {
    let mut bytes = Vec::new();
    // The size that the system states may be wrong, and that of a device is none.
    let read = File::open(path).and_then(|file| file.take(max_bytes + 1).read_to_end(&mut bytes));
    read.map_err(|error| io_failed(path, &error))?;
    if bytes.len() as u64 > max_bytes {
        return Err(failed(
            path,
            format!("it is larger than {max_bytes} bytes: name another file"),
        ));
    }
    if bytes.starts_with(BYTE_ORDER_MARK.as_bytes()) {
        bytes.drain(..BYTE_ORDER_MARK.len());
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use weir_flow::Value;

    use super::*;

    #[test]
    fn secrets_of_files_have_neither_byte_order_mark_nor_line_break() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("secret");
        let keys = [(
            "password_file".to_owned(),
            Value::Text(path.display().to_string()),
        )];
        let settings = Settings(keys.into());
        for (text, expected) in [
            ("\u{feff}gehe\u{ef}m \r\n", "gehe\u{ef}m "),
            ("plain", "plain"),
            ("\u{feff}", ""),
        ] {
            std::fs::write(&path, text).expect("written");
            let read = secret(&settings, "password", "password_file").expect("a text");
            assert_eq!(read.as_deref(), Some(expected), "{text:?}");
        }
    }
}
