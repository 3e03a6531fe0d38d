//! Names of output files, and errors about them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};

use weir_flow::SinkError;

use crate::files::numbered;

const STANDARD_OUTPUT: &str = "-";

pub(super) const STREAM: &str = "{stream}";

/// A path that may contain `{stream}`.
#[derive(Debug, Clone)]
pub(super) struct Target(String);

impl Target {
    pub(super) fn new(path: &str) -> Self {
        Self(path.to_owned())
    }

    /// Whether it names a file for each stream.
    pub(super) fn is_template(&self) -> bool {
        self.0.contains(STREAM)
    }

    /// Whether it is standard output.
    pub(super) fn is_standard_output(&self) -> bool {
        self.0 == STANDARD_OUTPUT
    }

    /// The path itself, with what stands for the stream in a template.
    pub(super) fn path(&self) -> PathBuf {
        PathBuf::from(&self.0)
    }

    /// The folder that all its files are in.
    pub(super) fn base(&self) -> PathBuf {
        let path = Path::new(&self.0);
        let of_stream =
            |component: &std::path::Component<'_>| component.as_os_str().to_string_lossy().contains(STREAM);
        path.components()
            .take_while(|component| !of_stream(component))
            .collect()
    }

    /// The file of `stream`, by its name alone.
    fn path_of(&self, stream: &str) -> PathBuf {
        PathBuf::from(self.0.replace(STREAM, &plain(stream)))
    }

    /// The file of `stream` if the path itself is taken: `-stream` before the extension.
    fn beside(&self, stream: &str) -> PathBuf {
        let path = self.path();
        let stem = path
            .file_stem()
            .map(|stem| stem.to_string_lossy().into_owned())
            .unwrap_or_default();
        let extension = path
            .extension()
            .map(|end| format!(".{}", end.to_string_lossy()))
            .unwrap_or_default();
        path.with_file_name(format!("{stem}-{}{extension}", plain(stream)))
    }
}

/// Assigns a file to each stream. No two streams share one by accident, though their names may look alike in a file
/// name: the second gets a number.
#[derive(Debug, Clone)]
pub(super) struct StreamFiles {
    target: Target,
    /// Whether all streams share the path if it is no template.
    shared: bool,
    assigned: BTreeMap<String, PathBuf>,
    taken: BTreeSet<PathBuf>,
}

impl StreamFiles {
    /// Known streams get their files in this order, others on arrival. If `shared`, all streams of a path without
    /// template are written into one file.
    pub(super) fn new(target: Target, shared: bool, streams: &[String]) -> Self {
        let mut files = Self {
            target,
            shared,
            assigned: BTreeMap::new(),
            taken: BTreeSet::new(),
        };
        for stream in streams {
            files.path_of(stream);
        }
        files
    }

    /// The file of `stream`.
    pub(super) fn path_of(&mut self, stream: &str) -> PathBuf {
        if let Some(known) = self.assigned.get(stream) {
            return known.clone();
        }
        if self.shared && !self.target.is_template() {
            return self.target.path();
        }
        let wanted = if self.target.is_template() || self.assigned.is_empty() {
            self.target.path_of(stream)
        } else {
            self.target.beside(stream)
        };
        let free = numbered(&wanted).find(|path| !self.taken.contains(path));
        let path = free.unwrap_or(wanted);
        self.taken.insert(path.clone());
        self.assigned.insert(stream.to_owned(), path.clone());
        path
    }

    /// All assigned files by stream, sorted by name.
    pub(super) fn assigned(&self) -> impl Iterator<Item = (&str, &Path)> {
        self.assigned
            .iter()
            .map(|(stream, path)| (stream.as_str(), path.as_path()))
    }
}

/// A stream's name as used in file names: no separators, no leading dots.
fn plain(stream: &str) -> String {
    let plain: String = stream
        .chars()
        .map(|c| {
            if c.is_alphanumeric() || "-_.".contains(c) {
                c
            } else {
                '_'
            }
        })
        .collect();
    match plain.trim_start_matches('.') {
        "" => "stream".to_owned(),
        plain => plain.to_owned(),
    }
}

/// Creates the folder of `path`.
pub(crate) fn make_folder(path: &Path) -> Result<(), SinkError> {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => {
            std::fs::create_dir_all(folder).map_err(|error| io_failed(path, &error))
        }
        _ => Ok(()),
    }
}

/// The error of a file that cannot be written.
pub(crate) fn failed(path: &Path, reason: impl Display) -> SinkError {
    SinkError {
        target: if path.as_os_str() == STANDARD_OUTPUT {
            "to standard output".to_owned()
        } else {
            path.display().to_string()
        },
        reason: reason.to_string(),
    }
}

/// The same for an error of the system.
pub(crate) fn io_failed(path: &Path, error: &io::Error) -> SinkError {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            failed(path, "not permitted: choose a folder that can be written to")
        }
        io::ErrorKind::BrokenPipe => failed(path, "its reader closed it"),
        _ => failed(path, weir_files::io_reason(error)),
    }
}

/// The same for a disk without room, where FFmpeg wrote.
pub(crate) fn disk_full(path: &Path) -> SinkError {
    io_failed(path, &io::ErrorKind::StorageFull.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_stream_has_its_own_file() {
        let check = |target: &str, stream: &str, of: &str| {
            assert_eq!(Target::new(target).path_of(stream), Path::new(of))
        };
        check("out/{stream}.mp4", "north", "out/north.mp4");
        check("out/{stream}/{stream}.jsonl", "a/../b", "out/a_.._b/a_.._b.jsonl");
        check("out/x{stream}", "../etc", "out/x_etc");
        check("out/{stream}.mp4", "...", "out/stream.mp4");
        assert_eq!(Target::new("out/a.mp4").beside("two"), Path::new("out/a-two.mp4"));
        assert_eq!(Target::new("a").beside("two"), Path::new("a-two"));
    }

    #[test]
    fn streams_with_similar_names_do_not_share_a_file() {
        let files = |target: &str, shared: bool, streams: &[&str]| {
            let streams: Vec<String> = streams.iter().map(|stream| (*stream).to_owned()).collect();
            let mut files = StreamFiles::new(Target::new(target), shared, &streams);
            let files: Vec<PathBuf> = streams.iter().map(|stream| files.path_of(stream)).collect();
            files
                .iter()
                .map(|path| path.display().to_string())
                .collect::<Vec<_>>()
        };
        let alike = ["my clip", "my_clip", "my:clip"];
        assert_eq!(
            files("{stream}.mp4", false, &alike),
            ["my_clip.mp4", "my_clip-2.mp4", "my_clip-3.mp4"]
        );
        assert_eq!(
            files("{stream}/e.jsonl", true, &alike),
            ["my_clip/e.jsonl", "my_clip/e-2.jsonl", "my_clip/e-3.jsonl"]
        );
        assert_eq!(
            files("v.mp4", false, &alike),
            ["v.mp4", "v-my_clip.mp4", "v-my_clip-2.mp4"]
        );
        assert_eq!(files("e.jsonl", true, &alike), ["e.jsonl"; 3]);
    }
}
