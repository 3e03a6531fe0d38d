//! Incidents on the disk: a line of JSON for each change, in a file that is appended to and now and then rewritten as a whole, and
//! a JPEG for each picture. The folder is that of one graph, and locked by the engine that uses it.
//!
//! A crash loses the line that was being written. A file with other damage is put aside, and read as far as it can be.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use weir_files::io_reason;

use super::record::Record;
use crate::hexadecimal::hexadecimal;
use crate::kept_streams::state::hold;
use crate::whole_file::write_private;

/// Bytes of the file from which on it is rewritten without the lines that later ones replace.
pub(super) const MAX_LOG_BYTES: u64 = 32 << 20;

/// Longest file that is read; one batch may come on top of [`MAX_LOG_BYTES`].
const MAX_READ_BYTES: u64 = 2 * MAX_LOG_BYTES;

/// Longest picture that is read; the engine encodes 256 KiB at most.
const MAX_PICTURE_BYTES: u64 = 1 << 20;

/// Numbers of incidents are below: a larger one is damage.
const MAX_NUMBER: u64 = 1 << 53;

const LOG: &str = "incidents.jsonl";
const PICTURES: &str = "pictures";

/// Bytes of the hash of an id in the name of its picture.
const HASH_BYTES: usize = 16;

/// See the module.
#[derive(Debug)]
pub(super) struct Store {
    log: PathBuf,
    file: File,
    bytes: u64,
    pictures: PictureFolder,
    /// Holds the lock.
    _lock: File,
}

/// Content of a store when it is opened.
#[derive(Debug, Default)]
pub(super) struct Stored {
    /// The newest state of each incident, by its number.
    pub(super) records: BTreeMap<u64, Record>,
    /// Bytes of pictures by the name of their file.
    pub(super) pictures: BTreeMap<String, u64>,
    /// True if the file has more than the records.
    pub(super) is_untidy: bool,
}

impl Store {
    /// Opens the store in a folder, which is made if there is none.
    ///
    /// # Errors
    /// The reason why it cannot be used.
    pub(super) fn open(folder: &Path) -> Result<(Self, Stored), String> {
        let log = folder.join(LOG);
        let lock = hold(&log)?;
        let unusable = |error: io::Error| format!("{} cannot be used: {}", log.display(), io_reason(&error));
        let pictures = PictureFolder(folder.join(PICTURES));
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&pictures.0);
        made.map_err(unusable)?;
        let mut stored = read(&log).map_err(unusable)?;
        stored.pictures = pictures.list();
        let file = open_log(&log).map_err(unusable)?;
        let store = Self {
            bytes: file.metadata().map_err(unusable)?.len(),
            log,
            file,
            pictures,
            _lock: lock,
        };
        Ok((store, stored))
    }

    pub(super) fn pictures(&self) -> &PictureFolder {
        &self.pictures
    }

    /// True if the file should be rewritten.
    pub(super) fn is_long(&self) -> bool {
        self.bytes > MAX_LOG_BYTES
    }

    /// Appends the state of incidents, and puts it onto the disk.
    ///
    /// # Errors
    /// Those of the disk. The last line may be torn then: [`Store::rewrite`] mends the file.
    pub(super) fn append(&mut self, records: &[Record]) -> io::Result<()> {
        let text = lines(records.iter());
        self.file.write_all(&text)?;
        self.bytes += text.len() as u64;
        self.file.sync_data()
    }

    /// Replaces the file by the state of these incidents.
    ///
    /// # Errors
    /// Those of the disk; the file is as it was then.
    pub(super) fn rewrite<'a>(&mut self, records: impl Iterator<Item = &'a Record>) -> io::Result<()> {
        let text = lines(records);
        write_private(&self.log, &text, || true)?;
        self.file = open_log(&self.log)?;
        self.bytes = text.len() as u64;
        Ok(())
    }
}

fn open_log(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(path)
}

fn lines<'a>(records: impl Iterator<Item = &'a Record>) -> Vec<u8> {
    let mut text = Vec::new();
    for record in records {
        text.extend(line(record));
        text.push(b'\n');
    }
    text
}

/// The line of an incident, without its end.
pub(super) fn line(record: &Record) -> Vec<u8> {
    // Names and numbers are always JSON.
    serde_json::to_vec(record).unwrap_or_default()
}

/// Reads the file of a store; one with damage is put aside.
fn read(path: &Path) -> io::Result<Stored> {
    let mut text = Vec::new();
    match File::open(path) {
        Ok(file) => file.take(MAX_READ_BYTES + 1).read_to_end(&mut text)?,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Stored::default()),
        Err(error) => return Err(error),
    };
    let mut stored = Stored::default();
    let is_torn = text.last().is_some_and(|byte| *byte != b'\n');
    let mut all: Vec<&[u8]> = text.split(|byte| *byte == b'\n').collect();
    // Behind the last line end is nothing, or a line that was being written.
    all.pop();
    let mut broken = usize::from(text.len() as u64 > MAX_READ_BYTES);
    for line in &all {
        match serde_json::from_slice::<Record>(line) {
            Ok(record) if record.number < MAX_NUMBER => _ = stored.records.insert(record.number, record),
            _ => broken += 1,
        }
    }
    stored.is_untidy = is_torn || all.len() > stored.records.len();
    if broken > 0 {
        let mut aside = path.as_os_str().to_owned();
        aside.push(".broken");
        fs::rename(path, &aside)?;
        tracing::warn!(
            target: "weir::incidents",
            "{} is damaged and was put aside as {}: {} incidents of it are kept, {broken} lines are not",
            path.display(),
            Path::new(&aside).display(),
            stored.records.len(),
        );
    }
    Ok(stored)
}

/// The folder with the pictures of incidents, each named by the hash of the id.
#[derive(Debug, Clone)]
pub(super) struct PictureFolder(PathBuf);

impl PictureFolder {
    /// Name of the picture of an incident.
    pub(super) fn name(id: &str) -> String {
        let hash = Sha256::digest(id);
        format!("{}.jpg", hexadecimal(&hash[..HASH_BYTES]))
    }

    /// Bytes of the pictures, by their names.
    fn list(&self) -> BTreeMap<String, u64> {
        let entries = fs::read_dir(&self.0).into_iter().flatten().flatten();
        let named = entries.filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let metadata = entry.metadata().ok()?;
            let hex = name.strip_suffix(".jpg")?;
            let is_hash = hex.len() == 2 * HASH_BYTES && hex.bytes().all(|byte| byte.is_ascii_hexdigit());
            (is_hash && metadata.is_file()).then_some((name, metadata.len()))
        });
        named.collect()
    }

    /// Writes the picture of an incident, or replaces it.
    ///
    /// # Errors
    /// Those of the disk.
    pub(super) fn write(&self, id: &str, jpeg: &[u8]) -> io::Result<()> {
        // One thread writes, so the name is free.
        let part = self.0.join("new.part");
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&part);
        file?.write_all(jpeg)?;
        fs::rename(part, self.0.join(Self::name(id)))
    }

    /// The picture of an incident; `None` if there is none.
    pub(super) fn read(&self, id: &str) -> Option<Vec<u8>> {
        let file = File::open(self.0.join(Self::name(id))).ok()?;
        let mut jpeg = Vec::new();
        file.take(MAX_PICTURE_BYTES).read_to_end(&mut jpeg).ok()?;
        (!jpeg.is_empty()).then_some(jpeg)
    }

    pub(super) fn remove(&self, name: &str) {
        match fs::remove_file(self.0.join(name)) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                tracing::debug!("{name} cannot be removed: {error}");
            }
            _ => {}
        }
    }
}
