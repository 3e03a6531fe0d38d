//! Paths that a file names: relative to its folder, and perhaps misspelled.

use std::path::{Path, PathBuf};

use weir_files::io_reason;

use crate::diagnostics::Diagnostics;
use crate::spelling;

/// Files beside a missing one that are searched for a similar name.
const MAX_SIBLINGS: usize = 1_000;

/// The absolute path; a relative one is relative to `folder`.
#[must_use]
pub fn absolute(folder: &Path, path: &str) -> PathBuf {
    folder.join(path).components().collect()
}

/// Reports a path that does not exist, with a file beside it that may be meant.
pub fn report_missing(message: &str, path: &Path, at: usize, diagnostics: &mut Diagnostics) {
    if diagnostics.is_full() {
        return diagnostics.add(at, message, None);
    }
    let (parent, meant) = (path.parent(), nearest_sibling(path));
    if let Err(error) = path.try_exists() {
        return diagnostics.add(
            at,
            message,
            Some(format!("{}: {}", path.display(), io_reason(&error))),
        );
    }
    let hint = match (meant, parent) {
        (Some(meant), _) => format!("did you mean \"{meant}\" beside it?"),
        (None, Some(parent)) if !parent.is_dir() => format!("there is no folder {} either", parent.display()),
        _ => format!(
            "looked for {}; relative paths are relative to the file that names them",
            path.display()
        ),
    };
    diagnostics.add(at, message, Some(hint));
}

/// The file beside a missing one whose name is most similar.
#[must_use]
pub fn nearest_sibling(path: &Path) -> Option<String> {
    if path.exists() {
        return None;
    }
    let name = path.file_name()?.to_str()?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let beside: Vec<String> = std::fs::read_dir(folder.unwrap_or(Path::new(".")))
        .ok()?
        .take(MAX_SIBLINGS)
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect();
    spelling::nearest(name, beside.iter().map(String::as_str)).map(str::to_owned)
}
