//! A file that lines are appended to: existing content stays, an incomplete line of an interrupted run is terminated,
//! and a file that is too large or too old is rotated if configured.
//!
//! It does not interpret lines and reads no clock: the age of a file follows from the times of its lines.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use serde::Deserialize;
use weir_flow::SinkError;

use super::target::{failed, io_failed, make_folder};
use crate::files::{IN_USE, Reopening, is_still, lock};

/// When files are rotated, and how many rotated ones are kept.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Rotation {
    /// Largest size of a file in bytes, except for a single longer line.
    pub(super) bytes: Option<u64>,
    /// Milliseconds from its first line to its last.
    pub(super) age_ms: Option<u64>,
    /// Rotated files that are kept; all if unset.
    pub(super) keep: Option<usize>,
}

/// Attempts to open a pipe without a reader, and the interval between them: ten seconds in all.
const MAX_READER_TRIES: u32 = 500;
const READER_RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// Time in milliseconds after which a rotation that failed is tried again.
const RETRY_ROTATION_MS: u64 = 60_000;

/// Longest time in milliseconds for which a line may be late, as that of a track that ended or of a description. An older one comes after
/// the wall clock was set back.
const MAX_LATE_MS: u64 = 3_600_000;

/// Whether so many milliseconds are over since a time. They are over as well where the wall clock was set back by more than that and than
/// any line is late: it may take years to come there again.
pub(super) const fn is_over(since_ms: u64, now_ms: u64, span_ms: u64) -> bool {
    let back_ms = since_ms.saturating_sub(now_ms);
    now_ms.saturating_sub(since_ms) >= span_ms || back_ms > MAX_LATE_MS && back_ms >= span_ms
}

/// Bytes at the beginning of a file that are searched for the time of its first line.
const HEAD_BYTES: u64 = 64 << 10;

/// A file, device, pipe or standard output with complete lines.
pub(super) struct LineFile {
    path: PathBuf,
    target: Target,
    reopening: Reopening,
    rotation: Rotation,
    /// Size of the file in bytes.
    bytes: u64,
    /// Time of its first line, except headers, whose time is that of the run.
    since_ms: Option<u64>,
    /// Whether it has lines besides a header, so that it can be rotated.
    has_lines: bool,
    /// Whether the last line is incomplete.
    torn: bool,
    /// Whether the file is new and nothing has been written.
    untouched: bool,
    /// Whether it has the header of this run.
    headed: bool,
    /// Time of the line at which its rotation failed last.
    unrotated_ms: Option<u64>,
}

enum Target {
    /// A regular file, locked against other processes.
    File(File),
    /// A device or a pipe: neither locked nor rotated.
    Other(File),
    StandardOutput,
}

impl LineFile {
    pub(super) fn standard_output() -> Self {
        Self::new(PathBuf::from("-"), Target::StandardOutput, Rotation::default())
    }

    /// Opens `path` to append to it. Existing content is not changed.
    pub(super) fn open(path: &Path, rotation: Rotation) -> Result<Self, SinkError> {
        make_folder(path)?;
        let opened = match std::fs::metadata(path) {
            Ok(there) if there.is_dir() => return Err(failed(path, "it is a folder: name a file in it")),
            Ok(there) if there.file_type().is_fifo() => pipe(path).map(Target::Other),
            Ok(there) if !there.is_file() => OpenOptions::new().write(true).open(path).map(Target::Other),
            Ok(_) | Err(_) => return Self::appending(path, rotation),
        };
        let target = opened.map_err(|error| match error.raw_os_error() {
            Some(errno) if errno == rustix::io::Errno::NXIO.raw_os_error() => {
                failed(path, "this pipe has no reader: start its reader first")
            }
            _ => io_failed(path, &error),
        })?;
        Ok(Self::new(path.to_owned(), target, Rotation::default()))
    }

    fn new(path: PathBuf, target: Target, rotation: Rotation) -> Self {
        Self {
            path,
            target,
            reopening: Reopening::new(),
            rotation,
            bytes: 0,
            since_ms: None,
            has_lines: false,
            torn: false,
            untouched: false,
            headed: false,
            unrotated_ms: None,
        }
    }

    fn appending(path: &Path, rotation: Rotation) -> Result<Self, SinkError> {
        let file = locked(path).map_err(|error| io_failed(path, &error))?;
        let Some(mut file) = file else {
            return Err(failed(path, IN_USE));
        };
        let existing = ExistingContent::read(&mut file).map_err(|error| io_failed(path, &error))?;
        let mut opened = Self::new(path.to_owned(), Target::File(file), rotation);
        opened.bytes = existing.bytes;
        opened.since_ms = existing.since_ms;
        opened.has_lines = existing.bytes > 0;
        opened.torn = existing.torn;
        opened.untouched = existing.bytes == 0;
        Ok(opened)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether a line of so many bytes and that time belongs into the next file. A rotation that failed is tried again after a minute.
    pub(super) fn is_full(&self, bytes: usize, time_ms: u64) -> bool {
        let Rotation {
            bytes: most, age_ms, ..
        } = self.rotation;
        let large = most.is_some_and(|most| self.bytes + bytes as u64 > most);
        let old = age_ms.is_some_and(|age| {
            self.since_ms
                .is_some_and(|since_ms| is_over(since_ms, time_ms, age))
        });
        let unrotated = self.unrotated_ms;
        let is_due = unrotated.is_none_or(|failed_ms| time_ms.abs_diff(failed_ms) >= RETRY_ROTATION_MS);
        self.has_lines && matches!(self.target, Target::File(_)) && (large || old) && is_due
    }

    /// Renames the file to the next number, and starts a new one. If another program has moved or removed the file, its name is opened
    /// once more.
    pub(super) fn rotate(&mut self) -> io::Result<()> {
        if let Target::File(file) = &self.target
            && !is_still(&self.path, file)?
        {
            return self.reopen().map_err(io::Error::other);
        }
        let rotated = RotatedFiles::list(&self.path)?;
        let number = rotated.numbers.last().map_or(1, |last| last + 1);
        // The name is reserved first, so that no older file is ever replaced.
        let aside = rotated.path(number);
        OpenOptions::new().write(true).create_new(true).open(&aside)?;
        if let Err(error) = std::fs::rename(&self.path, &aside) {
            let _ = std::fs::remove_file(&aside);
            return Err(error);
        }
        let file = locked(&self.path)?.ok_or_else(|| io::Error::new(io::ErrorKind::ResourceBusy, IN_USE))?;
        self.target = Target::File(file);
        (self.bytes, self.since_ms) = (0, None);
        (self.has_lines, self.torn, self.headed) = (false, false, false);
        self.unrotated_ms = None;
        if let Some(keep) = self.rotation.keep {
            rotated.remove_oldest((keep as u64).max(1), number);
        }
        Ok(())
    }

    /// The rotation before the line of that time failed; the file grows until it is tried again. Returns whether this is the first
    /// failure.
    pub(super) fn on_unrotated(&mut self, time_ms: u64) -> bool {
        self.unrotated_ms.replace(time_ms).is_none()
    }

    /// Another rotation is in force from the next line on; devices and pipes are not rotated.
    pub(super) fn set_rotation(&mut self, rotation: Rotation) {
        if matches!(self.target, Target::File(_)) {
            self.rotation = rotation;
        }
    }

    /// Whether it has the header of this run.
    pub(super) fn is_headed(&self) -> bool {
        self.headed
    }

    /// Appends the header of this run.
    pub(super) fn write_header(&mut self, line: &[u8]) -> io::Result<()> {
        self.append(line)?;
        self.headed = true;
        Ok(())
    }

    /// Appends a line, which ends with its line break and was written at `time_ms`.
    pub(super) fn write(&mut self, line: &[u8], time_ms: u64) -> io::Result<()> {
        self.append(line)?;
        self.since_ms.get_or_insert(time_ms);
        self.has_lines = true;
        Ok(())
    }

    /// Opens the path once more where that was asked for, and another file or none is there now.
    ///
    /// # Errors
    /// It cannot be opened, or another run has it: the file that is open stays.
    pub(super) fn reopen_if_asked(&mut self) -> Result<(), SinkError> {
        let Target::File(file) = &self.target else {
            return Ok(());
        };
        if self.reopening.is_asked() && !is_still(&self.path, file).unwrap_or(false) {
            self.reopen()?;
        }
        Ok(())
    }

    fn reopen(&mut self) -> Result<(), SinkError> {
        let reopened = Self::open(&self.path, self.rotation)?;
        self.untouched = false;
        *self = reopened;
        Ok(())
    }

    fn append(&mut self, line: &[u8]) -> io::Result<()> {
        if self.torn {
            // The next line must not continue the incomplete one.
            self.put(b"\n")?;
        }
        let before = self.bytes;
        let written = self.put(line);
        if let (Err(_), Target::File(file)) = (&written, &self.target)
            && self.bytes > before
        {
            // What did not fit is taken back, so that each line is whole.
            let partial = self.bytes - before;
            let cut = file
                .metadata()
                .and_then(|found| file.set_len(found.len().saturating_sub(partial)));
            if cut.is_ok() {
                (self.bytes, self.torn) = (before, false);
            }
        }
        written
    }

    fn put(&mut self, mut rest: &[u8]) -> io::Result<()> {
        let writer: &mut dyn Write = match &mut self.target {
            Target::File(file) | Target::Other(file) => file,
            Target::StandardOutput => &mut io::stdout(),
        };
        while !rest.is_empty() {
            match writer.write(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    rest = &rest[written..];
                    self.untouched = false;
                    self.bytes += written as u64;
                    self.torn = !rest.is_empty();
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        writer.flush()
    }

    /// Ends the run: an empty file stays too.
    pub(super) fn finish(&mut self) {
        self.untouched = false;
    }
}

impl Drop for LineFile {
    fn drop(&mut self) {
        // The run did not start, and the file was created for it.
        if self.untouched {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Opens a file to append to, and locks it; `None` if another run has it.
fn locked(path: &Path) -> io::Result<Option<File>> {
    loop {
        let file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .open(path)?;
        if !lock(&file)? {
            return Ok(None);
        }
        // The previous lock holder may have rotated it between the opening and the lock.
        if is_still(path, &file)? {
            return Ok(Some(file));
        }
    }
}

/// Opens a pipe, waiting for its reader.
fn pipe(path: &Path) -> io::Result<File> {
    let mut tries = 0;
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = loop {
        match OpenOptions::new().write(true).custom_flags(flags).open(path) {
            Err(error)
                if error.raw_os_error() == Some(rustix::io::Errno::NXIO.raw_os_error())
                    && tries < MAX_READER_TRIES =>
            {
                tries += 1;
                std::thread::sleep(READER_RETRY_INTERVAL);
            }
            opened => break opened?,
        }
    };
    // Only the opening must not block.
    fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
    Ok(file)
}

/// Existing content of a file.
struct ExistingContent {
    bytes: u64,
    since_ms: Option<u64>,
    torn: bool,
}

/// Type and time of a line.
#[derive(Deserialize)]
struct LineTime {
    r#type: String,
    time: String,
}

impl LineTime {
    /// Milliseconds since 1970 of a line that is no header.
    fn ms(line: &[u8]) -> Option<u64> {
        let timed: Self = serde_json::from_slice(line).ok()?;
        let time = humantime::parse_rfc3339(&timed.time)
            .ok()
            .filter(|_| timed.r#type != "header")?;
        u64::try_from(time.duration_since(UNIX_EPOCH).ok()?.as_millis()).ok()
    }
}

impl ExistingContent {
    fn read(file: &mut File) -> io::Result<Self> {
        let bytes = file.metadata()?.len();
        if bytes == 0 {
            return Ok(Self {
                bytes,
                since_ms: None,
                torn: false,
            });
        }
        let mut head = Vec::new();
        (&mut *file).take(HEAD_BYTES).read_to_end(&mut head)?;
        let since_ms = head.split(|byte| *byte == b'\n').find_map(LineTime::ms);
        let mut last = [0];
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)?;
        Ok(Self {
            bytes,
            since_ms,
            torn: last != *b"\n",
        })
    }
}

/// Rotated files: `events.000001.jsonl`, `events.000002.jsonl` and so on beside `events.jsonl`, the newest with the
/// highest number.
struct RotatedFiles {
    path: PathBuf,
    /// Numbers of the rotated files, ascending.
    numbers: Vec<u64>,
}

impl RotatedFiles {
    fn list(path: &Path) -> io::Result<Self> {
        let mut rotated = Self {
            path: path.to_owned(),
            numbers: Vec::new(),
        };
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        for entry in std::fs::read_dir(folder.unwrap_or(Path::new(".")))? {
            let name = entry?.file_name();
            rotated
                .numbers
                .extend(name.to_str().and_then(|name| rotated.number(name)));
        }
        rotated.numbers.sort_unstable();
        Ok(rotated)
    }

    /// Stem and extension.
    fn stem_and_extension(&self) -> (String, String) {
        let text = |name: Option<&std::ffi::OsStr>| name.unwrap_or_default().to_string_lossy().into_owned();
        let extension = text(self.path.extension());
        let extension = if extension.is_empty() {
            extension
        } else {
            format!(".{extension}")
        };
        (text(self.path.file_stem()), extension)
    }

    fn path(&self, number: u64) -> PathBuf {
        let (stem, extension) = self.stem_and_extension();
        self.path.with_file_name(format!("{stem}.{number:06}{extension}"))
    }

    fn number(&self, name: &str) -> Option<u64> {
        let (stem, extension) = self.stem_and_extension();
        let middle = name
            .strip_prefix(&stem)?
            .strip_prefix('.')?
            .strip_suffix(&extension)?;
        (middle.len() >= 6 && middle.bytes().all(|byte| byte.is_ascii_digit()))
            .then(|| middle.parse().ok())
            .flatten()
    }

    /// Removes the oldest, so that `keep` files stay including `newest`.
    fn remove_oldest(&self, keep: u64, newest: u64) {
        let numbers: Vec<u64> = self.numbers.iter().copied().chain([newest]).collect();
        let surplus = numbers
            .len()
            .saturating_sub(usize::try_from(keep).unwrap_or(usize::MAX));
        for number in &numbers[..surplus] {
            let path = self.path(*number);
            if let Err(error) = std::fs::remove_file(&path) {
                tracing::warn!("cannot remove the old file {}: {error}", path.display());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const SMALL: Rotation = Rotation {
        bytes: Some(10),
        age_ms: None,
        keep: None,
    };

    fn text(path: &Path) -> String {
        fs::read_to_string(path).unwrap()
    }

    #[test]
    fn rotation_that_failed_is_tried_again_after_a_minute() {
        let place = tempfile::tempdir().unwrap();
        let (folder, moved) = (place.path().join("events"), place.path().join("moved"));
        let path = folder.join("a.jsonl");
        let mut lines = LineFile::open(&path, SMALL).unwrap();
        lines.write(b"12345678\n", 1_000).unwrap();
        assert!(lines.is_full(9, 2_000));
        // As on a disk that is gone.
        fs::rename(&folder, &moved).unwrap();
        fs::write(&folder, "").unwrap();
        assert!(lines.rotate().is_err() && lines.on_unrotated(2_000));
        assert!(!lines.is_full(9, 61_999));
        lines.write(b"23456789\n", 61_999).unwrap();
        assert!(lines.is_full(9, 62_000));
        assert!(lines.rotate().is_err() && !lines.on_unrotated(62_000));
        fs::remove_file(&folder).unwrap();
        fs::rename(&moved, &folder).unwrap();
        assert!(lines.is_full(9, 122_000));
        lines.rotate().unwrap();
        lines.write(b"34567890\n", 122_000).unwrap();
        assert_eq!(text(&folder.join("a.000001.jsonl")), "12345678\n23456789\n");
        assert_eq!(text(&path), "34567890\n");
    }

    #[test]
    fn file_that_was_moved_away_is_opened_anew_at_its_rotation() {
        let folder = tempfile::tempdir().unwrap();
        let [path, moved] = ["a.jsonl", "a.jsonl.1"].map(|name| folder.path().join(name));
        let mut lines = LineFile::open(&path, SMALL).unwrap();
        lines.write(b"12345678\n", 1_000).unwrap();
        fs::rename(&path, &moved).unwrap();
        lines.rotate().unwrap();
        lines.write(b"23456789\n", 2_000).unwrap();
        assert_eq!(
            (text(&moved).as_str(), text(&path).as_str()),
            ("12345678\n", "23456789\n")
        );
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn time_is_over_when_the_clock_was_set_back_and_not_when_a_line_is_late() {
        let (hour_ms, day_ms) = (3_600_000, 86_400_000);
        for (now_ms, span_ms, expected) in [
            (10 * day_ms, day_ms, false),
            (11 * day_ms - 1, day_ms, false),
            (11 * day_ms, day_ms, true),
            (10 * day_ms - 5_000, 1_000, false),
            (10 * day_ms - hour_ms, 1_000, false),
            (10 * day_ms - hour_ms - 1, 1_000, true),
            (9 * day_ms + 1, day_ms, false),
            (9 * day_ms, day_ms, true),
            (0, day_ms, true),
        ] {
            assert_eq!(is_over(10 * day_ms, now_ms, span_ms), expected, "{now_ms}");
        }
    }
}
