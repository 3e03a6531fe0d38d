//! The location of `libonnxruntime.so`, and the environment of the process.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use ort::environment::Environment;

use super::error::RuntimeLibraryError;

/// The variable with the path of the library.
const VARIABLE: &str = "ORT_DYLIB_PATH";

/// Kept until the process exits: only one environment may ever be built.
static ENVIRONMENT: Mutex<Option<Environment>> = Mutex::new(None);

/// The environment, loaded on first use. A failure is not cached, so that a library installed later is found by the
/// next call.
pub(super) fn environment() -> Result<Environment, RuntimeLibraryError> {
    let mut slot = ENVIRONMENT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(environment) = slot.as_ref() {
        return Ok(environment.clone());
    }
    let path = find()?;
    let environment = ort::init_from(&path)
        .map_err(|error| RuntimeLibraryError::NotLoadable {
            path: path.clone(),
            reason: error.to_string(),
            remedy: if std::env::var_os(VARIABLE).is_some_and(|path| !path.is_empty()) {
                "unset ORT_DYLIB_PATH, or set it to the path of libonnxruntime.so"
            } else {
                "run `make setup`"
            },
        })?
        .with_name("weir")
        .with_telemetry(false)
        .build()
        .map_err(|error| RuntimeLibraryError::NotStarting {
            path: path.clone(),
            reason: error.to_string(),
        })?;
    // Errors are returned to the caller; the library need not print them too.
    environment.set_log_level(ort::logging::LogLevel::Fatal);
    tracing::debug!(library = %path.display(), "ONNX Runtime is loaded");
    *slot = Some(environment.clone());
    Ok(environment)
}

/// Path of `libonnxruntime.so`: `ORT_DYLIB_PATH`, else `.runtime/onnxruntime/` beside an ancestor of the executable or
/// of the current folder, or `lib/weir/` beside an ancestor of the executable, where packages have it.
///
/// # Errors
/// [`RuntimeLibraryError::NotAFile`] and [`RuntimeLibraryError::NotInstalled`].
pub fn find() -> Result<PathBuf, RuntimeLibraryError> {
    if let Some(path) = std::env::var_os(VARIABLE).filter(|path| !path.is_empty()) {
        let path = PathBuf::from(path);
        return if path.is_file() {
            Ok(path)
        } else {
            Err(RuntimeLibraryError::NotAFile(path))
        };
    }
    let (program, current) = (std::env::current_exe().ok(), std::env::current_dir().ok());
    let below = |start: &Option<PathBuf>, place: &str| {
        let mut folders = start.iter().flat_map(|start| start.ancestors());
        folders.find_map(|folder| library_in(&folder.join(place)))
    };
    below(&program, ".runtime/onnxruntime")
        .or_else(|| below(&current, ".runtime/onnxruntime"))
        .or_else(|| below(&program, "lib/weir"))
        .ok_or(RuntimeLibraryError::NotInstalled)
}

/// Loads the library and returns its path.
///
/// # Errors
/// [`RuntimeLibraryError`].
pub fn load() -> Result<PathBuf, RuntimeLibraryError> {
    environment().and_then(|_| find())
}

/// `libonnxruntime.so` itself if it exists, else the newest `libonnxruntime.so.*`.
fn library_in(folder: &Path) -> Option<PathBuf> {
    let mut found: Vec<PathBuf> = std::fs::read_dir(folder)
        .ok()?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            let name = path
                .file_name()
                .and_then(|name| name.to_str())
                .unwrap_or_default();
            (name == "libonnxruntime.so" || name.starts_with("libonnxruntime.so.")) && path.is_file()
        })
        .collect();
    found.sort();
    let plain = folder.join("libonnxruntime.so");
    if found.contains(&plain) {
        Some(plain)
    } else {
        found.pop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_in_a_folder_is_found() {
        let folder = tempfile::tempdir().expect("temporary folder");
        assert_eq!(library_in(folder.path()), None);
        for name in [
            "libonnxruntime.so.1.31.1",
            "libonnxruntime_providers_shared.so",
            "libonnxruntime.so.1.30.0",
        ] {
            std::fs::write(folder.path().join(name), b"").expect("written");
        }
        assert_eq!(
            library_in(folder.path()),
            Some(folder.path().join("libonnxruntime.so.1.31.1"))
        );
        std::fs::write(folder.path().join("libonnxruntime.so"), b"").expect("written");
        assert_eq!(
            library_in(folder.path()),
            Some(folder.path().join("libonnxruntime.so"))
        );
    }
}
