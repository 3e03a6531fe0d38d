//! The place of a video: its final name, and the `.part` file beside it that it is until it is complete.
//!
//! The `.part` file is created and locked before the first picture, so that two runs never write one file. An unlocked
//! `.part` file was left by an interrupted run: if it can be played it is renamed, else it stays. Neither is ever
//! overwritten.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use weir_flow::SinkError;

use super::fragments::{self, Form, Fragments};
use crate::files::{IN_USE, is_still, lock, move_to_free_name, numbered};
use crate::sinks::target::{failed, io_failed, make_folder};

/// Treatment of an existing file with the name of the video.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Naming {
    /// It stays, and the video gets the next free name: `north-2.mp4`.
    Free,
    /// It is replaced when the video is complete.
    Replace,
}

/// A place for a video, claimed against other runs.
#[derive(Debug)]
pub struct VideoPlace {
    wanted: PathBuf,
    path: PathBuf,
    part_file: PathBuf,
    naming: Naming,
    /// The lock; `None` for a device, which cannot be left behind half written.
    held: Option<File>,
    started: bool,
}

/// State of a `.part` file.
enum PartFile {
    /// Claimed: locked and empty, or a device.
    Claimed(Option<File>),
    /// Another run writes it.
    InUse,
    /// It has content to be kept, or was renamed meanwhile.
    Skipped,
}

impl VideoPlace {
    /// Claims a place for the video `wanted`. Creates missing folders.
    ///
    /// # Errors
    /// [`SinkError`] if no file can be written there, or another run writes it.
    pub fn claim(wanted: &Path, naming: Naming) -> Result<Self, SinkError> {
        make_folder(wanted)?;
        if std::fs::metadata(wanted).is_ok_and(|there| !there.is_file()) {
            let reason = "it is there already, and no file: choose another name";
            return Err(failed(wanted, reason));
        }
        if wanted.to_str().is_none_or(|name| name.contains('\0')) {
            return Err(failed(wanted, "the name is no UTF-8 text: choose another one"));
        }
        for name in numbered(wanted) {
            let part_file = part_path(&name);
            let is_free = || naming == Naming::Replace || std::fs::symlink_metadata(&name).is_err();
            // A taken name is examined too, since an interrupted run may have left a `.part` file beside it.
            if !is_free() && std::fs::symlink_metadata(&part_file).is_err() {
                continue;
            }
            match claim_part(&part_file, wanted).map_err(|error| io_failed(wanted, &error))? {
                PartFile::InUse => return Err(failed(wanted, IN_USE)),
                PartFile::Skipped => {}
                PartFile::Claimed(held) => {
                    let place = Self {
                        wanted: wanted.to_owned(),
                        path: if naming == Naming::Replace {
                            wanted.to_owned()
                        } else {
                            name.clone()
                        },
                        part_file,
                        naming,
                        held,
                        started: false,
                    };
                    // Checked again under the lock.
                    if is_free() {
                        return Ok(place);
                    }
                }
            }
        }
        Err(failed(
            wanted,
            "too many files of that name are there: clear them up, or choose another name",
        ))
    }

    /// Whether a place for the video `wanted` could be claimed. Where another run writes one, it could.
    ///
    /// # Errors
    /// As [`VideoPlace::claim`].
    pub fn check(wanted: &Path, naming: Naming) -> Result<(), SinkError> {
        match Self::claim(wanted, naming) {
            Err(error) if error.reason == IN_USE => Ok(()),
            claimed => claimed.map(drop),
        }
    }

    /// The final name.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file that is written until then.
    pub(crate) fn part_path(&self) -> &Path {
        &self.part_file
    }

    /// Marks that the file has content.
    pub(crate) fn begin(&mut self) {
        self.started = true;
    }

    /// Whether the MP4 that was written is there to its end; always of a device, which keeps nothing.
    pub(super) fn is_complete(&self, form: Form) -> io::Result<bool> {
        match self.held {
            Some(_) => fragments::is_complete(&self.part_file, form),
            None => Ok(true),
        }
    }

    /// Whether all of the fragmented MP4 that was written can be played. What is beyond its last whole fragment is cut off.
    pub(super) fn settle_fragments(&self) -> io::Result<Played> {
        settle_fragments(&mut OpenOptions::new().read(true).write(true).open(&self.part_file)?)
    }

    /// Dates the file by the time in milliseconds since 1970 (UTC).
    pub(super) fn set_modified(&self, time_ms: u64) {
        if let Some(file) = &self.held {
            // Some file systems keep no such times.
            let _ = file.set_modified(UNIX_EPOCH + Duration::from_millis(time_ms));
        }
    }

    /// Gives the complete file its final name.
    pub(crate) fn finish(mut self) -> io::Result<PathBuf> {
        self.started = true;
        if self.held.is_none() || self.naming == Naming::Replace {
            return std::fs::rename(&self.part_file, &self.path).map(|()| self.path.clone());
        }
        let names = std::iter::once(self.path.clone()).chain(numbered(&self.wanted));
        let name = move_to_free_name(&self.part_file, names)?;
        if name != self.wanted {
            tracing::warn!(
                "{} is there already: the video is {}",
                self.wanted.display(),
                name.display()
            );
        }
        Ok(name)
    }

    /// Abandons the place and removes the file.
    pub(crate) fn discard(mut self) {
        self.started = true;
        // If it cannot be removed, its name still marks it as incomplete.
        let _ = std::fs::remove_file(&self.part_file);
    }
}

impl Drop for VideoPlace {
    fn drop(&mut self) {
        // Empty and locked by this run: nothing was written.
        if !self.started && self.held.is_some() {
            let _ = std::fs::remove_file(&self.part_file);
        }
    }
}

/// Playable extent of a fragmented MP4.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Played {
    Nothing,
    /// The whole fragments play; the incomplete rest was cut off.
    Part,
    All,
}

fn settle_fragments(file: &mut File) -> io::Result<Played> {
    let found = Fragments::of(file)?;
    match found.whole {
        0 => Ok(Played::Nothing),
        _ if found.is_complete(Form::Fragmented) => Ok(Played::All),
        whole => file.set_len(whole).map(|()| Played::Part),
    }
}

/// Outcome for a `.part` file that an interrupted run left behind.
pub(crate) enum Leftover {
    /// It plays, and has its name now.
    Completed(PathBuf),
    /// There was nothing in it to play, and it is gone.
    Removed,
    /// Another run writes it, or it cannot be touched.
    Kept,
}

/// Completes the `.part` file of the fragmented MP4 `whole` if it plays, or removes it.
pub(crate) fn settle_leftover(part_file: &Path, whole: &Path) -> Leftover {
    let settle = || {
        let mut file = OpenOptions::new().read(true).write(true).open(part_file)?;
        if !lock(&file)? || !is_still(part_file, &file)? {
            return Ok(Leftover::Kept);
        }
        if settle_fragments(&mut file)? != Played::Nothing {
            return move_to_free_name(part_file, numbered(whole)).map(Leftover::Completed);
        }
        std::fs::remove_file(part_file).map(|()| Leftover::Removed)
    };
    settle().unwrap_or_else(|error: io::Error| {
        tracing::warn!("{} was left by an interrupted run: {error}", part_file.display());
        Leftover::Kept
    })
}

/// The name of a video while it is written.
pub(crate) fn part_path(path: &Path) -> PathBuf {
    let mut part_file = path.as_os_str().to_owned();
    part_file.push(".part");
    PathBuf::from(part_file)
}

/// Claims the `.part` file if it is free; renames one of an interrupted run of `wanted` if it can be played.
fn claim_part(part_file: &Path, wanted: &Path) -> io::Result<PartFile> {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    let mut file = match options.clone().create_new(true).open(part_file) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => match std::fs::metadata(part_file) {
            Ok(there) if there.is_dir() => return Ok(PartFile::Skipped),
            Ok(there) if !there.is_file() => return Ok(PartFile::Claimed(None)),
            Ok(_) => match options.open(part_file) {
                Ok(file) => file,
                Err(_) => return Ok(PartFile::Skipped),
            },
            Err(_) => return Ok(PartFile::Skipped),
        },
        Err(error) => return Err(error),
    };
    if !lock(&file)? {
        return Ok(PartFile::InUse);
    }
    if !is_still(part_file, &file)? {
        return Ok(PartFile::Skipped);
    }
    if file.metadata()?.len() == 0 {
        return Ok(PartFile::Claimed(Some(file)));
    }
    if Fragments::of(&mut file)?.whole > 0 {
        let name = move_to_free_name(part_file, numbered(wanted))?;
        tracing::warn!(
            "{} was left by an interrupted run; it can be played and is now {}",
            part_file.display(),
            name.display()
        );
    } else {
        tracing::warn!(
            "{} was left by an interrupted run and is kept",
            part_file.display()
        );
    }
    Ok(PartFile::Skipped)
}
