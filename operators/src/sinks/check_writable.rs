//! Whether a sink could write, checked without writing: no file is created, emptied or changed.

use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use weir_flow::{Settings, SinkError};

use super::target::{failed, io_failed};

/// Checks whether a sink of `kind` with validated `settings` could write the files of `streams`.
///
/// # Errors
/// [`SinkError`] as the sink itself would return it.
pub fn check_writable(kind: &str, settings: &Settings, streams: &[String]) -> Result<(), SinkError> {
    let sink = super::sink_for(kind, settings, streams)?;
    if let Some(folder) = sink.folder() {
        return probe_folder(&folder);
    }
    let targets = sink.targets();
    let creates_files = super::has_file_per_stream(kind);
    targets
        .iter()
        .try_for_each(|path| probe_file(creates_files, path))
}

/// Whether files can be made in a folder, which need not be there yet.
fn probe_folder(path: &Path) -> Result<(), SinkError> {
    match std::fs::metadata(path) {
        Ok(found) if !found.is_dir() => Err(failed(path, "it is no folder: choose another name")),
        Ok(_) => beside(&path.join("file")),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => beside(path),
        Err(error) => Err(io_failed(path, &error)),
    }
}

/// `creates_files`: the file is completed beside its place before it is put there, so the folder must be writable, too.
fn probe_file(creates_files: bool, path: &Path) -> Result<(), SinkError> {
    match std::fs::metadata(path) {
        // Opening a file to append leaves it unchanged.
        Ok(found) if found.is_file() => {
            let opened = OpenOptions::new().append(true).open(path);
            opened.map_err(|error| io_failed(path, &error))?;
            if creates_files { beside(path) } else { Ok(()) }
        }
        Ok(found) if found.is_dir() => Err(failed(path, "it is a folder: choose another name")),
        Ok(_) if creates_files => Err(failed(
            path,
            "it is there already, and no file: choose another name",
        )),
        // A pipe or a device: opening one may wait for its other end.
        Ok(_) => Ok(()),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => beside(path),
        Err(error) => Err(io_failed(path, &error)),
    }
}

/// Whether a file can be created beside `path`, or in the nearest existing folder above it.
fn beside(path: &Path) -> Result<(), SinkError> {
    let above = path.ancestors().skip(1).map(|folder| {
        if folder.as_os_str().is_empty() {
            PathBuf::from(".")
        } else {
            folder.to_owned()
        }
    });
    let Some(folder) = above.into_iter().find(|folder| folder.exists()) else {
        return Err(failed(path, "there is no folder above it"));
    };
    if !folder.is_dir() {
        return Err(failed(path, format!("{} is no folder", folder.display())));
    }
    // An unnamed file, where the system supports those; it is removed when closed in any case.
    tempfile::tempfile_in(&folder)
        .map(drop)
        .map_err(|error| io_failed(path, &error))
}

#[cfg(test)]
mod tests {
    use weir_flow::Value;

    use super::*;

    fn look(kind: &str, path: &Path) -> Result<(), String> {
        let path = Value::Text(path.display().to_string());
        let settings = Settings([("path".to_owned(), path)].into());
        check_writable(kind, &settings, &["stream".to_owned()]).map_err(|error| error.to_string())
    }

    #[test]
    fn checking_targets_changes_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("there.jsonl"), "a line\n").expect("written");
        let before = std::fs::metadata(at("there.jsonl")).and_then(|found| found.modified());
        for kind in ["jsonl", "mp4"] {
            assert_eq!(look(kind, &at("new/deep/{stream}.jsonl")), Ok(()));
            assert_eq!(look(kind, &at("there.jsonl")), Ok(()));
            let folder = look(kind, folder.path()).expect_err("a folder");
            assert!(folder.contains("it is a folder"), "{folder}");
            let below = look(kind, &at("there.jsonl/a.jsonl")).expect_err("below a file");
            assert!(below.contains("there.jsonl"), "{below}");
        }
        assert_eq!(look("jsonl", Path::new("/dev/null")), Ok(()));
        assert_eq!(look("null", Path::new("/nowhere/at/all")), Ok(()));
        assert_eq!(look("jsonl", Path::new("-")), Ok(()));
        let after = std::fs::metadata(at("there.jsonl")).and_then(|found| found.modified());
        assert_eq!(before.ok(), after.ok());
        assert_eq!(std::fs::read(at("there.jsonl")).expect("read"), b"a line\n");
        let names = std::fs::read_dir(folder.path()).expect("listed").count();
        assert_eq!(names, 1, "nothing was left behind");
    }
}
