//! The files of the clip of an incident: the video, its description, and the mark that keeps it.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags, openat, unlinkat};
use rustix::io::Errno;
use serde_json::Value;
use weir_flow::Settings;

use super::names;
use super::places::{self, Places};

/// Bytes of a description that are read; a picture in it is at most 256 KiB.
const MAX_DESCRIPTION_BYTES: u64 = 4 << 20;

/// Extension after the name of a clip that no retention removes.
const PINNED: &str = ".pinned";

/// An incident, by the parts that name its clip.
#[derive(Debug, Clone, Copy)]
pub struct ClipOf<'a> {
    /// Name of the stream.
    pub stream: &'a str,
    /// Name of the transform.
    pub transform: &'a str,
    /// Id of the incident.
    pub id: &'a str,
    /// Time at which the incident began, in milliseconds since 1970 (UTC).
    pub began_ms: u64,
}

impl ClipOf<'_> {
    /// Folder of a sink of type `clips` with these settings, and the path of the clip in it.
    fn place(&self, settings: &Settings) -> Option<(PathBuf, PathBuf)> {
        let path = places::path(settings, "clips").ok()?;
        let number = self.id.rsplit('/').next().unwrap_or_default();
        let stem = names::stem(self.began_ms, &[self.transform, number]);
        let mut places = Places::new(path, &[]);
        let clip = places.folder_of(self.stream).join(format!("{stem}.mp4"));
        Some((places.base().to_owned(), clip))
    }
}

/// Opens the clip of an incident that a sink of type `clips` with these settings has written; `None` before it is whole, and once
/// it is removed. No link below the folder of the sink is followed, and only a regular file is a clip.
///
/// # Errors
/// The file is there, and cannot be opened.
pub fn open_clip(settings: &Settings, clip: &ClipOf<'_>) -> io::Result<Option<File>> {
    match clip.place(settings) {
        Some((base, path)) => open_below(&base, &path),
        None => Ok(None),
    }
}

/// True if there is a clip that can be opened.
#[must_use]
pub fn has_clip(settings: &Settings, clip: &ClipOf<'_>) -> bool {
    matches!(open_clip(settings, clip), Ok(Some(_)))
}

/// Returns the time of the first picture of a clip, in milliseconds since 1970 (UTC), by its description; `None` if that is absent
/// or cannot be read.
#[must_use]
pub fn clip_start_ms(settings: &Settings, clip: &ClipOf<'_>) -> Option<u64> {
    let (base, path) = clip.place(settings)?;
    let file = open_below(&base, &path.with_extension("json")).ok()??;
    let mut text = Vec::new();
    file.take(MAX_DESCRIPTION_BYTES).read_to_end(&mut text).ok()?;
    let described: Value = serde_json::from_slice(&text).ok()?;
    described["clip"]["time_ms"].as_u64()
}

/// Marks a clip as pinned by an empty file beside it, or removes the mark. False if there is no such clip to pin.
///
/// # Errors
/// The mark cannot be written or removed.
pub fn pin_clip(settings: &Settings, clip: &ClipOf<'_>, is_pinned: bool) -> io::Result<bool> {
    let Some((base, path)) = clip.place(settings) else {
        return Ok(false);
    };
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Ok(false);
    };
    let Some(folder) = open_folder(&base, parent)? else {
        return Ok(false);
    };
    let mut mark = name.to_owned();
    mark.push(PINNED);
    let (done, is_already) = if is_pinned {
        if open_below(&base, &path)?.is_none() {
            return Ok(false);
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(0o644);
        (openat(&folder, &mark, flags, mode).map(drop), Errno::EXIST)
    } else {
        (unlinkat(&folder, &mark, AtFlags::empty()), Errno::NOENT)
    };
    match done {
        Err(error) if error != is_already => Err(error.into()),
        _ => Ok(true),
    }
}

/// A regular file below a folder; `None` where there is none, or a link leads to it.
pub(super) fn open_below(folder: &Path, path: &Path) -> io::Result<Option<File>> {
    match open_entry(folder, path)? {
        Some(file) => Ok(file.metadata()?.is_file().then_some(file)),
        None => Ok(None),
    }
}

/// A folder that is another one or below it; `None` where there is none, or a link leads to it.
pub(super) fn open_folder(folder: &Path, path: &Path) -> io::Result<Option<File>> {
    match open_entry(folder, path)? {
        Some(file) => Ok(file.metadata()?.is_dir().then_some(file)),
        None => Ok(None),
    }
}

fn open_entry(folder: &Path, path: &Path) -> io::Result<Option<File>> {
    let Ok(below) = path.strip_prefix(folder) else {
        return Ok(None);
    };
    // Nothing there, a file in place of a folder, a link, a socket or a device without a driver.
    let none = [Errno::NOENT, Errno::NOTDIR, Errno::LOOP, Errno::NXIO];
    let is_none = |error: &io::Error| {
        none.iter()
            .any(|none| error.raw_os_error() == Some(none.raw_os_error()))
    };
    match open_parts(folder, below) {
        Ok(file) => Ok(Some(file)),
        Err(error) if is_none(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

fn open_parts(folder: &Path, below: &Path) -> io::Result<File> {
    let common = OFlags::RDONLY | OFlags::CLOEXEC;
    // An empty path is the current folder.
    let folder = if folder.as_os_str().is_empty() {
        Path::new(".")
    } else {
        folder
    };
    let mut open = rustix::fs::open(folder, common | OFlags::DIRECTORY, Mode::empty())?;
    let mut parts = below.components().peekable();
    while let Some(part) = parts.next() {
        let Component::Normal(name) = part else {
            return Err(Errno::NOENT.into());
        };
        // Without waiting for the writer of a FIFO.
        let kind = if parts.peek().is_some() {
            OFlags::DIRECTORY
        } else {
            OFlags::NONBLOCK
        };
        open = openat(&open, name, common | OFlags::NOFOLLOW | kind, Mode::empty())?;
    }
    Ok(File::from(open))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use weir_flow::Value as Setting;

    use super::*;

    #[test]
    fn only_regular_files_below_the_folder_are_opened_and_no_link_is_followed() {
        let root = tempfile::tempdir().unwrap();
        let (folder, private) = (root.path().join("clips"), root.path().join("private"));
        std::fs::create_dir_all(folder.join("north")).unwrap();
        std::fs::create_dir(&private).unwrap();
        for file in [folder.join("north/clip.mp4"), private.join("clip.mp4")] {
            std::fs::write(file, "MP4").unwrap();
        }
        symlink(private.join("clip.mp4"), folder.join("north/link.mp4")).unwrap();
        symlink("clip.mp4", folder.join("north/near.mp4")).unwrap();
        symlink(&private, folder.join("south")).unwrap();
        symlink(&folder, root.path().join("linked")).unwrap();
        std::fs::create_dir(folder.join("north/folder.mp4")).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            folder.join("north/fifo.mp4"),
            rustix::fs::FileType::Fifo,
            Mode::RUSR,
            0,
        )
        .unwrap();
        let open = |folder: &Path, name: &str| open_below(folder, &folder.join(name)).unwrap();
        let mut text = String::new();
        let mut clip = open(&folder, "north/clip.mp4").unwrap();
        clip.read_to_string(&mut text).unwrap();
        assert_eq!(text, "MP4");
        // The folder itself is chosen by the graph.
        assert!(open(&root.path().join("linked"), "north/clip.mp4").is_some());
        for other in [
            "north/link.mp4",
            "north/near.mp4",
            "south/clip.mp4",
            "north/folder.mp4",
            "north/fifo.mp4",
            "north/none.mp4",
            "north/clip.mp4/x",
            "../private/clip.mp4",
            "",
        ] {
            assert!(open(&folder, other).is_none(), "{other}");
        }
        assert!(open_below(&folder, &private.join("clip.mp4")).unwrap().is_none());
    }

    #[test]
    fn a_clip_is_pinned_by_a_file_beside_it_and_nothing_else_is() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().display().to_string();
        let settings = Settings([("path".to_owned(), Setting::Text(path))].into());
        let clip = ClipOf {
            stream: "north",
            transform: "gate",
            id: "north/gate/7",
            began_ms: 1_795_469_405_123,
        };
        let pin = |clip: &ClipOf<'_>, is_pinned| pin_clip(&settings, clip, is_pinned).unwrap();
        assert!(!pin(&clip, true), "no folder");
        let folder = root.path().join("north");
        std::fs::create_dir(&folder).unwrap();
        assert!(!pin(&clip, true), "no clip");
        let stem = folder.join("20261123T213005.123Z-gate-7");
        std::fs::write(stem.with_extension("123Z-gate-7.mp4"), "MP4").unwrap();
        let described = "{\"clip\": {\"time_ms\": 1795469400000}}";
        std::fs::write(stem.with_extension("123Z-gate-7.json"), described).unwrap();
        let mark = stem.with_extension("123Z-gate-7.mp4.pinned");
        for _ in 0..2 {
            assert!(pin(&clip, true) && mark.exists());
        }
        assert_eq!(clip_start_ms(&settings, &clip), Some(1_795_469_400_000));
        for _ in 0..2 {
            assert!(pin(&clip, false) && !mark.exists());
        }
        let other = ClipOf {
            stream: "../north",
            ..clip
        };
        assert!(!pin(&other, true), "no name leaves its folder");
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 2);
    }
}
