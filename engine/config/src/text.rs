//! Text files of bounded size.

use std::path::Path;

use weir_files::FileError;

/// Such files are written by hand; a larger one was named by mistake.
const MAX_FILE_BYTES: u64 = 4 << 20;

/// Returns the reason for which a text is not the wanted TOML, with its line.
#[must_use]
pub fn toml_error(text: &str, error: &toml::de::Error) -> String {
    let before = error
        .span()
        .map_or("", |span| text.get(..span.start).unwrap_or_default());
    format!("line {}: {}", 1 + before.matches('\n').count(), error.message())
}

/// The text of the file at `path`, 4 MiB at most.
///
/// # Errors
/// The reason why it cannot be read.
pub fn read_text(path: &Path) -> Result<String, String> {
    weir_files::read_text(path, MAX_FILE_BYTES).map_err(|error| match error {
        FileError::TooLarge { .. } => format!("{error}: graphs, labels and profiles are smaller"),
        error => error.to_string(),
    })
}
