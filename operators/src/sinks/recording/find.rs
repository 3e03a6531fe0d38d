//! The file of the clip of an incident.

use std::fs::File;
use std::io;
use std::path::{Component, Path};

use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;
use weir_flow::{Incident, Settings};

use super::names;
use super::places::{self, Places};

/// The clip of an incident of that stream that a sink of type `clips` with these settings has written, open for reading; `None` before
/// it is whole, and once it is removed. No link below the folder of the sink is followed, and only a regular file is a clip.
///
/// # Errors
/// The file is there, and cannot be opened.
pub fn open_clip(settings: &Settings, stream: &str, incident: &Incident) -> io::Result<Option<File>> {
    let Ok(path) = places::path(settings, "clips") else {
        return Ok(None);
    };
    let number = incident.id.rsplit('/').next().unwrap_or_default();
    let stem = names::stem(incident.began_ms, &[&incident.transform, number]);
    let mut places = Places::new(path, &[]);
    let clip = places.folder_of(stream).join(format!("{stem}.mp4"));
    open_below(places.base(), &clip)
}

/// Whether there is one that can be opened.
#[must_use]
pub fn has_clip(settings: &Settings, stream: &str, incident: &Incident) -> bool {
    matches!(open_clip(settings, stream, incident), Ok(Some(_)))
}

/// A regular file below a folder; `None` where there is none, or a link leads to it.
fn open_below(folder: &Path, path: &Path) -> io::Result<Option<File>> {
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
        Ok(file) => Ok(file.metadata()?.is_file().then_some(file)),
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
    use std::io::Read;
    use std::os::unix::fs::symlink;

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
}
