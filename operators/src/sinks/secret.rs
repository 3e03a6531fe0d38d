//! Secrets of sinks: from a key, which a graph file fills from a variable, or from a file.

use std::path::Path;

use weir_flow::{Settings, SinkError};

use super::target::io_failed;

/// Bytes of a file that holds a secret.
const MAX_BYTES: u64 = 4 << 10;

/// The secret of `key`, or in the file that `file_key` names, without the line break at its end; `None` if there is neither.
///
/// # Errors
/// The file cannot be read.
pub(super) fn secret(settings: &Settings, key: &str, file_key: &str) -> Result<Option<String>, SinkError> {
    if let Some(secret) = settings.text(key).filter(|secret| !secret.is_empty()) {
        return Ok(Some(secret.to_owned()));
    }
    let Some(path) = settings
        .text(file_key)
        .filter(|path| !path.is_empty())
        .map(Path::new)
    else {
        return Ok(None);
    };
    let failed = |reason: String| SinkError {
        target: format!("what needs {}", path.display()),
        reason,
    };
    let found = std::fs::metadata(path).map_err(|error| io_failed(path, &error))?;
    if found.len() > MAX_BYTES {
        return Err(failed("it is too long for a secret".to_owned()));
    }
    let text = std::fs::read_to_string(path).map_err(|error| io_failed(path, &error))?;
    Ok(Some(text.trim_end_matches(['\r', '\n']).to_owned()))
}
