//! The folders that recordings of streams go to.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_flow::{KeyKind, KeySpec, Settings, SinkError};

use super::super::target::{StreamFiles, Target, failed, io_failed};

pub(super) const PATH: KeySpec = KeySpec {
    name: "path",
    kind: KeyKind::Text,
    about: "folder to write to; `{stream}` in it stands for the stream's name, without it each stream has a folder of its own in it (required)",
};

/// Key of recorders.
pub(super) const SOUND: KeySpec = KeySpec {
    name: "sound",
    kind: KeyKind::Flag,
    about: "true: the sound of cameras that have `sound = true` is recorded, too; default false",
};

/// See the module.
#[derive(Debug, Clone)]
pub(super) struct Places {
    folders: StreamFiles,
    base: PathBuf,
    pattern: PathBuf,
}

impl Places {
    /// As `path` says; streams that are known have their folders in this order.
    pub(super) fn new(path: &str, streams: &[String]) -> Self {
        let mut target = Target::new(path);
        if !target.is_template() {
            target = Target::new(&format!("{}/{{stream}}", path.trim_end_matches('/')));
        }
        Self {
            base: target.base(),
            pattern: target.path(),
            folders: StreamFiles::new(target, false, streams),
        }
    }

    /// The folder of a stream: no two streams share one.
    pub(super) fn folder_of(&mut self, stream: &str) -> PathBuf {
        self.folders.path_of(stream)
    }

    /// The folder that all of them are in.
    pub(super) fn base(&self) -> &Path {
        &self.base
    }

    /// The folders of all streams, with `{stream}` in the place of their names.
    pub(super) fn pattern(&self) -> &Path {
        &self.pattern
    }

    /// The folders of the streams that are known.
    pub(super) fn known(&self) -> impl Iterator<Item = &Path> {
        self.folders.assigned().map(|(_, folder)| folder)
    }

    /// Makes the folder of all, so that one that cannot be made is known before a run, and locks it against other processes.
    pub(super) fn open(&self) -> Result<Arc<File>, SinkError> {
        std::fs::create_dir_all(&self.base).map_err(|error| io_failed(&self.base, &error))?;
        let probe = tempfile::tempfile_in(&self.base);
        probe.map(drop).map_err(|error| io_failed(&self.base, &error))?;
        super::folder_lock::hold(&self.base)
    }
}

/// The folder that `settings` name.
pub(super) fn path<'a>(settings: &'a Settings, kind: &str) -> Result<&'a str, SinkError> {
    let path = settings.text("path").filter(|path| !path.is_empty());
    let path = path.ok_or_else(|| SinkError {
        target: format!("a sink of type {kind}"),
        reason: "it has no `path`: name the folder to write to".to_owned(),
    })?;
    if path == "-" {
        let reason = "recordings cannot go to standard output: name a folder";
        return Err(failed(Path::new(path), reason));
    }
    Ok(path)
}
