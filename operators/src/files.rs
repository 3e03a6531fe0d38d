//! Files claimed before they are written: a lock keeps other runs away, and existing files keep their names.
//!
//! Locks are the system's own on the open file (`flock`): no lock file can be left behind, and a killed run releases
//! its locks. Where the file system supports no locks, nothing is locked, which is logged once.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

/// Numbers tried for a free name. With more videos of one name, use `{stream}` or another folder.
const MAX_NUMBER: u32 = 10_000;

/// Reason why a file claimed by another run cannot be written.
pub(crate) const IN_USE: &str = "another run is writing it: wait for its end, or choose another name";

/// Locks the file for as long as it is open; false if it is locked already.
pub(crate) fn lock(file: &File) -> io::Result<bool> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) if weir_files::has_no_locks(&error) => {
            static WARNING: Once = Once::new();
            WARNING.call_once(|| {
                tracing::warn!(
                    "files cannot be locked on this disk ({error}): run one engine that writes to them, since a second one is not \
                     noticed"
                );
            });
            Ok(true)
        }
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Whether `path` still names the file: the previous lock holder may have renamed it.
pub(crate) fn is_still(path: &Path, file: &File) -> io::Result<bool> {
    let file = file.metadata()?;
    Ok(std::fs::metadata(path).is_ok_and(|there| (there.dev(), there.ino()) == (file.dev(), file.ino())))
}

/// Number of requests (SIGHUP) to open files again.
static REOPENINGS: AtomicU64 = AtomicU64::new(0);

/// Asks all sinks that append to files to open them again by their names, each before it writes next: another program has
/// moved them away.
pub fn reopen() {
    REOPENINGS.fetch_add(1, Ordering::Relaxed);
}

/// Whether a file is to be opened again.
pub(crate) struct Reopening(u64);

impl Reopening {
    /// Of a file that is opened now.
    pub(crate) fn new() -> Self {
        Self(REOPENINGS.load(Ordering::Relaxed))
    }

    /// Whether that was asked since the last time.
    pub(crate) fn is_asked(&mut self) -> bool {
        let asked = REOPENINGS.load(Ordering::Relaxed);
        std::mem::replace(&mut self.0, asked) != asked
    }
}

/// Appends all of `bytes` or nothing to a file that has no other writer. If the disk is full after a part was
/// written, that part is cut off again.
pub(crate) fn append_whole(file: &mut File, bytes: &[u8]) -> io::Result<()> {
    let mut written = 0;
    while written < bytes.len() {
        let outcome = match file.write(&bytes[written..]) {
            Ok(0) => Err(io::ErrorKind::WriteZero.into()),
            Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
            Ok(more) => {
                written += more;
                Ok(())
            }
            Err(_) => Ok(()),
        };
        if outcome.is_err() {
            if written > 0 {
                let length = file.metadata()?.len();
                file.set_len(length.saturating_sub(written as u64))?;
            }
            return outcome;
        }
    }
    Ok(())
}

/// `path`, and then `name-2.mp4`, `name-3.mp4` and so on.
pub(crate) fn numbered(path: &Path) -> impl Iterator<Item = PathBuf> {
    let stem = path.file_stem().unwrap_or_default().to_owned();
    let extension = path.extension().map(std::ffi::OsStr::to_owned);
    let next = move |path: &Path, number: u32| {
        let mut name = stem.clone();
        name.push(format!("-{number}"));
        if let Some(extension) = &extension {
            name.push(".");
            name.push(extension);
        }
        path.with_file_name(name)
    };
    let first = path.to_owned();
    let later = path.to_owned();
    std::iter::once(first).chain((2..=MAX_NUMBER).map(move |number| next(&later, number)))
}

/// Renames the file `from` to the first free one of `names`. Never replaces a file, even if others look for a name
/// concurrently.
pub(crate) fn move_to_free_name(from: &Path, names: impl Iterator<Item = PathBuf>) -> io::Result<PathBuf> {
    for name in names {
        // An empty file reserves the name against concurrent runs, and is then replaced.
        match OpenOptions::new().write(true).create_new(true).open(&name) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
            Err(error) => return Err(error),
        }
        return match std::fs::rename(from, &name) {
            Ok(()) => Ok(name),
            Err(error) => {
                // The reservation, an empty file; if it cannot be removed, it does no harm.
                let _ = std::fs::remove_file(&name);
                Err(error)
            }
        };
    }
    Err(io::Error::new(
        io::ErrorKind::AlreadyExists,
        format!("{MAX_NUMBER} files of that name are there"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_free_name_is_the_next_number_before_the_extension() {
        let names: Vec<PathBuf> = numbered(Path::new("out/a.b.mp4")).take(3).collect();
        assert_eq!(
            names,
            ["out/a.b.mp4", "out/a.b-2.mp4", "out/a.b-3.mp4"].map(PathBuf::from)
        );
        let bare: Vec<PathBuf> = numbered(Path::new("a")).take(2).collect();
        assert_eq!(bare, ["a", "a-2"].map(PathBuf::from));
    }

    #[test]
    fn concurrent_renames_replace_no_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let wanted = folder.path().join("video.mp4");
        std::fs::write(&wanted, "the first").expect("written");
        std::thread::scope(|scope| {
            for mover in 0..8 {
                let (folder, wanted) = (folder.path(), &wanted);
                scope.spawn(move || {
                    let from = folder.join(format!("{mover}.part"));
                    std::fs::write(&from, mover.to_string()).expect("written");
                    move_to_free_name(&from, numbered(wanted)).expect("a name is free");
                });
            }
        });
        let texts = numbered(&wanted)
            .take(9)
            .map(|name| std::fs::read_to_string(name).expect("it is there"));
        let mut texts: Vec<String> = texts.collect();
        assert_eq!(texts.remove(0), "the first");
        texts.sort();
        assert_eq!(texts, ["0", "1", "2", "3", "4", "5", "6", "7"]);
    }

    #[test]
    fn a_file_is_locked_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a");
        let first = File::create(&path).expect("made");
        assert!(lock(&first).expect("locks work here"));
        let second = File::open(&path).expect("opened");
        assert!(!lock(&second).expect("locks work here"));
        drop(first);
        assert!(lock(&second).expect("locks work here"));
        assert!(is_still(&path, &second).expect("known"));
        std::fs::rename(&path, folder.path().join("b")).expect("renamed");
        assert!(!is_still(&path, &second).expect("known"));
    }
}
