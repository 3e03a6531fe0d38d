//! Checks before anything is written that no output is an input or another output.
//!
//! Paths are compared by the files behind them: by device and inode, and so through links of either kind. A
//! file that does not exist yet is compared by its future folder. Devices, pipes and standard output are left
//! out, and no network is used. Two runs that write one file at the same time are not found here: each output
//! is locked when it is opened.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use weir_flow::is_image;

use crate::error::UserError;

/// Links that are followed one after the other, the same limit as the kernel's.
const MAX_LINKS: usize = 40;
/// Levels of nested folders that are searched for input files; galleries have one folder per name.
const MAX_DEPTH: usize = 3;

/// The files that a command reads and those that it writes, to find an output that is also an input.
#[derive(Debug, Default)]
pub struct Files {
    reads: Vec<(NamedFile, FolderScope)>,
    writes: Vec<NamedFile>,
}

/// The files of a folder that count as read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FolderScope {
    /// Images directly in the folder.
    Images,
    /// All files in the folder, and in nested folders up to this depth.
    All(usize),
}

/// A file with its role in messages, such as an option or "the graph".
#[derive(Debug, Clone, PartialEq, Eq)]
struct NamedFile {
    what: String,
    path: PathBuf,
}

/// Identity of the file behind a path, equal for two paths that lead to one file.
#[derive(Debug, Clone, PartialEq, Eq)]
enum FileId {
    /// An existing file.
    Present { device: u64, inode: u64 },
    /// A file that would be created: its nearest existing folder, and the rest of the path.
    Missing { device: u64, inode: u64, rest: PathBuf },
}

impl Files {
    /// Adds an input file, or a folder whose files are all inputs.
    pub fn read(&mut self, what: impl Into<String>, path: impl Into<PathBuf>) {
        self.reads
            .push((NamedFile::new(what, path), FolderScope::All(MAX_DEPTH)));
    }

    /// Adds an input video, or a folder whose images are inputs.
    pub fn read_source(&mut self, what: impl Into<String>, path: impl Into<PathBuf>) {
        self.reads.push((NamedFile::new(what, path), FolderScope::Images));
    }

    /// Adds an output file.
    pub fn write(&mut self, what: impl Into<String>, path: impl Into<PathBuf>) {
        self.writes.push(NamedFile::new(what, path));
    }

    /// Checks that every output is a file of its own.
    ///
    /// # Errors
    /// [`UserError`] that names the first output that is an input or another output, and the role of the
    /// other file.
    pub fn check(&self) -> anyhow::Result<()> {
        let known = |named: &NamedFile| Some((named.clone(), identify(&named.path)?));
        let writes: Vec<(NamedFile, FileId)> = self.writes.iter().filter_map(known).collect();
        let is_there = |(_, id): &(NamedFile, FileId)| matches!(id, FileId::Present { .. });
        // Files of folders are many, and a file that is not there yet is none of them.
        let any_there = writes.iter().any(is_there);
        let mut reads = Vec::new();
        for (named, kind) in &self.reads {
            match identify(&named.path) {
                Some(id) => reads.push((named.clone(), id)),
                None if any_there => add_folder_files(named, &named.path, *kind, &mut reads),
                None => {}
            }
        }
        match conflict(&writes, &reads) {
            Some(message) => Err(UserError::new(message).into()),
            None => Ok(()),
        }
    }
}

impl NamedFile {
    fn new(what: impl Into<String>, path: impl Into<PathBuf>) -> Self {
        Self {
            what: what.into(),
            path: path.into(),
        }
    }
}

/// The message about the first output that is an input or an earlier output; `None` if there is none.
fn conflict(writes: &[(NamedFile, FileId)], reads: &[(NamedFile, FileId)]) -> Option<String> {
    for (index, (output, id)) in writes.iter().enumerate() {
        let path = output.path.display();
        if let Some((input, _)) = reads.iter().find(|(_, read)| read == id) {
            return Some(format!(
                "{} would write {path}, which {} is read from{}: choose another path",
                output.what,
                input.what,
                other_path_note(output, input)
            ));
        }
        if let Some((other, _)) = writes[..index].iter().find(|(_, earlier)| earlier == id) {
            return Some(if other.what == output.what {
                format!(
                    "{} would write {} and {path}, which are one file: choose another path",
                    output.what,
                    other.path.display()
                )
            } else {
                format!(
                    "{} and {} would both write {path}{}: give each a file of its own",
                    other.what,
                    output.what,
                    other_path_note(output, other)
                )
            });
        }
    }
    None
}

/// The path of the other file, if it differs.
fn other_path_note(one: &NamedFile, other: &NamedFile) -> String {
    if one.path == other.path {
        String::new()
    } else {
        format!(" as {}", other.path.display())
    }
}

/// Finds the file behind `path`; `None` for a folder, a device, a pipe, or a path that cannot be examined.
fn identify(path: &Path) -> Option<FileId> {
    let mut path = std::path::absolute(path).ok()?;
    for _ in 0..MAX_LINKS {
        match std::fs::metadata(&path) {
            Ok(there) => return file_id(&there),
            Err(_) => match std::fs::read_link(&path) {
                // A link to what is not there yet: that is what would be made.
                Ok(target) => path = path.parent().unwrap_or(Path::new("/")).join(target),
                Err(_) => {
                    let (folder, there, rest) = existing_folder(&path)?;
                    let straight = folder.join(&rest);
                    if straight == path {
                        return Some(FileId::Missing {
                            device: there.dev(),
                            inode: there.ino(),
                            rest,
                        });
                    }
                    // Roundabout by way of folders that would be made: `new/../clip.mp4`.
                    path = straight;
                }
            },
        }
    }
    None
}

fn file_id(there: &Metadata) -> Option<FileId> {
    there.is_file().then(|| FileId::Present {
        device: there.dev(),
        inode: there.ino(),
    })
}

/// The nearest existing folder, and the rest of the path below it without `.` and `..`.
fn existing_folder(path: &Path) -> Option<(PathBuf, Metadata, PathBuf)> {
    let folder = path.ancestors().skip(1).find_map(|folder| {
        let there = std::fs::metadata(folder).ok()?;
        there.is_dir().then(|| (folder.to_owned(), there))
    });
    let (folder, there) = folder?;
    let mut rest = PathBuf::new();
    for component in path.strip_prefix(&folder).ok()?.components() {
        match component {
            Component::ParentDir => {
                rest.pop();
            }
            other => rest.push(other),
        }
    }
    Some((folder, there, rest))
}

/// Adds the files of an input folder to `reads`.
fn add_folder_files(
    named: &NamedFile,
    folder: &Path,
    kind: FolderScope,
    found: &mut Vec<(NamedFile, FileId)>,
) {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        let path = entry.path();
        match std::fs::metadata(&path) {
            Ok(there) if there.is_dir() => {
                if let FolderScope::All(depth @ 1..) = kind {
                    add_folder_files(named, &path, FolderScope::All(depth - 1), found);
                }
            }
            Ok(_) if kind == FolderScope::Images && !is_image(&path) => {}
            Ok(there) => {
                let named = NamedFile::new(named.what.clone(), path);
                found.extend(file_id(&there).map(|id| (named, id)));
            }
            Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn named(what: &str, path: &str) -> NamedFile {
        NamedFile::new(what, path)
    }

    #[test]
    fn an_output_that_is_an_input_or_another_output_is_named_with_it() {
        let id = |inode| FileId::Present { device: 1, inode };
        let input = (named("source north", "a.mp4"), id(1));
        let check = |writes: &[(NamedFile, FileId)], words: Option<&str>| {
            assert_eq!(conflict(writes, std::slice::from_ref(&input)).as_deref(), words);
        };
        let sink = (named("sink video", "a.mp4"), id(1));
        let linked = (named("--report", "b.json"), id(1));
        let other = (named("--record", "b.json"), id(2));
        let third = (named("sink events", "c.json"), id(2));
        check(std::slice::from_ref(&other), None);
        check(
            &[sink],
            Some("sink video would write a.mp4, which source north is read from: choose another path"),
        );
        check(
            &[linked],
            Some(
                "--report would write b.json, which source north is read from as a.mp4: choose another path",
            ),
        );
        check(
            &[other, third],
            Some("--record and sink events would both write c.json as b.json: give each a file of its own"),
        );
    }

    #[test]
    fn a_file_is_the_same_through_links_and_roundabout_paths() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("clip.mp4"), "x").unwrap();
        std::fs::hard_link(at("clip.mp4"), at("hard.mp4")).unwrap();
        symlink("clip.mp4", at("soft.mp4")).unwrap();
        symlink("new/out.jsonl", at("dangling.jsonl")).unwrap();
        symlink("loop-b", at("loop-a")).unwrap();
        symlink("loop-a", at("loop-b")).unwrap();
        symlink(".", at("here")).unwrap();
        let same = |one: &str, other: &str| {
            let (one, other) = (identify(&at(one)), identify(&at(other)));
            assert!(one.is_some());
            assert_eq!(one, other);
        };
        same("clip.mp4", "hard.mp4");
        same("clip.mp4", "soft.mp4");
        same("clip.mp4", "here/here/clip.mp4");
        same("dangling.jsonl", "new/out.jsonl");
        same("new/out.jsonl", "here/new/deep/../out.jsonl");
        same("clip.mp4", "new/deep/../../clip.mp4");
        assert_ne!(identify(&at("new/a")), identify(&at("new/b")));
        for none in [at("loop-a"), at("here"), PathBuf::from("/dev/null")] {
            assert_eq!(identify(&none), None, "{}", none.display());
        }
    }

    #[test]
    fn files_of_a_folder_that_is_read_are_not_written() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(at("gallery/ada")).unwrap();
        std::fs::write(at("gallery/ada/1.png"), "x").unwrap();
        symlink(at("gallery/ada/1.png"), at("report.json")).unwrap();
        let mut files = Files::default();
        files.read("the graph", at("gallery"));
        files.write("--report", at("gallery/new.json"));
        std::fs::write(at("events.jsonl"), "x").unwrap();
        files.read_source("source north", folder.path());
        files.write("sink events", at("events.jsonl"));
        assert!(files.check().is_ok(), "no image, though it lies among them");
        files.write("--record", at("report.json"));
        let refused = files.check().unwrap_err().to_string();
        assert!(
            refused.contains("--record would write") && refused.contains("ada/1.png"),
            "{refused}"
        );
    }
}
