//! Descriptions of clips, which stand beside them: whole, on the disk for sure, and there for clips of an interrupted run, too.
//!
//! While a clip is written, what is known of it lies in `NAME.clip`. A killed run leaves that, and the next one makes it the
//! description of the video that it completes.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::media::part_path;

/// Folders below the base that are looked into, as for recordings.
const MAX_DEPTH: usize = 4;

/// Bytes of a description that are read; a picture in it is at most 256 KiB.
const MAX_BYTES: u64 = 4 << 20;

/// Results for the descriptions of an interrupted run.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Adopted {
    /// Descriptions that stand beside their clips now.
    pub(super) described: Vec<PathBuf>,
    /// Clips that have none, for theirs cannot be read.
    pub(super) undescribed: u64,
}

/// The place of the description of a clip that is being written.
pub(super) fn early(video: &Path) -> PathBuf {
    video.with_extension("clip")
}

/// Writes a small file beside its place, puts it onto the disk, and gives it its name.
pub(super) fn put(path: &Path, content: &[u8]) -> io::Result<()> {
    let part = part_path(path);
    let write = || {
        let mut file = File::create(&part)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&part, path)?;
        sync_folder(path)
    };
    write().inspect_err(|_| {
        let _ = fs::remove_file(&part);
    })
}

/// A name is on the disk once its folder is; some file systems sync none, and keep names by themselves.
fn sync_folder(path: &Path) -> io::Result<()> {
    let Some(folder) = path.parent() else {
        return Ok(());
    };
    match File::open(folder)?.sync_all() {
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
        synced => synced,
    }
}

/// Gives clips of an interrupted run, which have been completed, the descriptions that it left.
pub(super) fn adopt(base: &Path) -> Adopted {
    let mut adopted = Adopted::default();
    adopt_in(base, 0, &mut adopted);
    adopted
}

fn adopt_in(folder: &Path, depth: usize, adopted: &mut Adopted) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let (path, Ok(kind)) = (entry.path(), entry.file_type()) else {
            continue;
        };
        if kind.is_dir() && depth < MAX_DEPTH {
            adopt_in(&path, depth + 1, adopted);
        } else if kind.is_file() && is_early(&path) {
            adopt_one(&path, adopted);
        }
    }
}

/// Whether this is a description as [`early`] names it.
fn is_early(path: &Path) -> bool {
    let is_clip = path.extension().is_some_and(|extension| extension == "clip");
    is_clip && super::names::recorded(&path.with_extension("json")).is_some()
}

fn adopt_one(early: &Path, adopted: &mut Adopted) {
    let video = early.with_extension("mp4");
    if part_path(&video).exists() {
        // Another run writes it, or it could not be completed.
        return;
    }
    let path = early.with_extension("json");
    if video.exists() && !path.exists() {
        match read(early).and_then(|text| put(&path, &text)) {
            Ok(()) => adopted.described.push(path),
            Err(error) => {
                adopted.undescribed += 1;
                tracing::warn!(
                    "{} was left by an interrupted run and has no description: {error}",
                    video.display()
                );
            }
        }
    }
    if let Err(error) = fs::remove_file(early) {
        tracing::warn!(
            "{} cannot be removed: {}",
            early.display(),
            weir_files::io_reason(&error)
        );
    }
}

/// Class of the incident of a description; `None` if it cannot be read or names none.
pub(super) fn class(path: &Path) -> Option<Box<str>> {
    let described: Value = serde_json::from_slice(&read(path).ok()?).ok()?;
    described["class"].as_str().map(Into::into)
}

/// A description that is whole.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    if fs::metadata(path)?.len() > MAX_BYTES {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let text = fs::read(path)?;
    let is_whole = serde_json::from_slice::<Value>(&text).is_ok_and(|described| described.is_object());
    let torn = || io::Error::new(io::ErrorKind::InvalidData, "it was written in part");
    is_whole.then_some(text).ok_or_else(torn)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clips_of_a_killed_run_get_the_descriptions_that_it_left() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let stem = |number: u32| format!("20261123T213005.12{number}Z-gate-{number}");
        let write = |name: String, content: &str| fs::write(at(&name), content).unwrap();
        // Complete; torn; described already; still being written; without a video; none of ours.
        for (number, early) in [(0, "{}"), (1, ""), (2, "{}"), (3, "{}"), (4, "{}")] {
            write(format!("{}.clip", stem(number)), early);
        }
        for number in 0..3 {
            write(format!("{}.mp4", stem(number)), "video");
        }
        write(format!("{}.json", stem(2)), "{\"its\": \"own\"}");
        write(format!("{}.mp4.part", stem(3)), "video");
        write("holiday.clip".to_owned(), "{}");
        let adopted = adopt(folder.path());
        assert_eq!(adopted.described, [at(&format!("{}.json", stem(0)))]);
        assert_eq!(adopted.undescribed, 1);
        let mut left: Vec<String> = fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| !name.ends_with(".mp4"))
            .collect();
        left.sort();
        let expected = [
            format!("{}.json", stem(0)),
            format!("{}.json", stem(2)),
            format!("{}.clip", stem(3)),
            format!("{}.mp4.part", stem(3)),
            "holiday.clip".to_owned(),
        ];
        assert_eq!(left, expected);
        assert_eq!(fs::read(at(&expected[1])).unwrap(), b"{\"its\": \"own\"}");
    }
}
