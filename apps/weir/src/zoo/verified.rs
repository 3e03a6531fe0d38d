//! Record of files that were verified as models of the zoo, so that their checksums are not computed at every
//! start.
//!
//! A file counts as verified while its size, times, inode and expected checksum are the same. The record is a
//! small file in the cache folder. If it is lost, damaged or not writable, checksums are computed again, and
//! nothing else happens.

use std::collections::BTreeMap;
use std::fs::Metadata;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::Entry;
use crate::hexadecimal::hexadecimal;

/// Its name in the cache folder.
const FILE: &str = ".verified.json";
/// Models that are remembered: more than the zoo has, from a few places.
const MAX_ENTRIES: usize = 256;
/// Bytes of the file: that many entries with long paths.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Properties that differ if a file is written again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct FileVersion {
    sha256: String,
    bytes: u64,
    /// Time of the last change to the content, in nanoseconds since 1970, at the resolution of the system.
    modified_ns: i128,
    /// Time of the last change to content, name or rights, in nanoseconds since 1970; no program can set it
    /// back.
    changed_ns: i128,
    device: u64,
    inode: u64,
}

impl FileVersion {
    #[cfg(unix)]
    fn new(found: &Metadata, sha256: &str) -> Option<Self> {
        use std::os::unix::fs::MetadataExt;
        let ns = |seconds: i64, ns: i64| i128::from(seconds) * 1_000_000_000 + i128::from(ns);
        Some(Self {
            sha256: sha256.to_owned(),
            bytes: found.len(),
            modified_ns: ns(found.mtime(), found.mtime_nsec()),
            changed_ns: ns(found.ctime(), found.ctime_nsec()),
            device: found.dev(),
            inode: found.ino(),
        })
    }

    /// Without a number on the disk nothing is remembered.
    #[cfg(not(unix))]
    fn new(_: &Metadata, _: &str) -> Option<Self> {
        None
    }
}

/// Verified files, by absolute path.
#[derive(Debug)]
pub(super) struct Verified {
    file: PathBuf,
    stamps: BTreeMap<PathBuf, FileVersion>,
}

impl Verified {
    /// Reads the record in `cache`, which earlier runs wrote.
    pub(super) fn read(cache: &Path) -> Self {
        let file = cache.join(FILE);
        let text = weir_files::read_text(&file, MAX_FILE_BYTES).unwrap_or_default();
        let stamps: BTreeMap<PathBuf, FileVersion> = serde_json::from_str(&text).unwrap_or_default();
        Self { file, stamps }
    }

    /// The reason why the file at `path` is not the model; `None` if it is. Computes the checksum unless the
    /// record has the file.
    pub(super) fn mismatch(&mut self, path: &Path, entry: &Entry) -> Option<String> {
        let unreadable = |reason: &dyn std::fmt::Display| Some(format!("it cannot be read: {reason}"));
        let opened = weir_files::open(path);
        let file = match opened {
            Ok(file) => file,
            Err(error) => return unreadable(&error),
        };
        let found = match file.metadata() {
            Ok(found) => found,
            Err(error) => return unreadable(&error),
        };
        if found.len() != entry.bytes {
            return Some(wrong_size(found.len(), entry));
        }
        let stamp = FileVersion::new(&found, &entry.sha256);
        let name = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        if stamp.is_some() && self.stamps.get(&name) == stamp.as_ref() {
            return None;
        }
        match sum(file.take(entry.bytes + 1)) {
            Ok(sum) if sum == entry.sha256 => {}
            Ok(sum) => return Some(wrong_sum(&sum, entry)),
            Err(error) => return unreadable(&error),
        }
        if let Some(stamp) = stamp {
            self.remember(name, stamp);
        }
        None
    }

    fn remember(&mut self, name: PathBuf, stamp: FileVersion) {
        if self.stamps.len() >= MAX_ENTRIES && !self.stamps.contains_key(&name) {
            self.stamps.clear();
        }
        self.stamps.insert(name, stamp);
        if let Err(error) = self.write() {
            tracing::debug!("{} is not written: {error}", self.file.display());
        }
    }

    /// Written beside its place first: two programs at a time each leave a whole file.
    fn write(&self) -> std::io::Result<()> {
        let mut part = self.file.as_os_str().to_owned();
        part.push(format!(".{}.part", std::process::id()));
        let part = PathBuf::from(part);
        if let Some(folder) = self.file.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let written = std::fs::write(&part, serde_json::to_string(&self.stamps)?)
            .and_then(|()| std::fs::rename(&part, &self.file));
        if written.is_err() {
            // What is left of it says nothing; that it cannot be removed does no harm.
            let _ = std::fs::remove_file(&part);
        }
        written
    }
}

/// "it has ... bytes where ... are expected".
pub(super) fn wrong_size(bytes: u64, entry: &Entry) -> String {
    format!("it has {bytes} bytes where {} are expected", entry.bytes)
}

/// "its sha256 is ... where ... is expected".
pub(super) fn wrong_sum(sum: &str, entry: &Entry) -> String {
    format!("its sha256 is {sum} where {} is expected", entry.sha256)
}

/// The sha256 of what is read, in hexadecimal.
fn sum(mut from: impl Read) -> std::io::Result<String> {
    let mut digest = Sha256::new();
    let mut block = vec![0; 64 << 10];
    loop {
        match from.read(&mut block)? {
            0 => return Ok(hexadecimal(&digest.finalize())),
            read => digest.update(&block[..read]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Zoo, sha256};
    use super::*;

    const MODEL: &[u8] = b"not much of a model";

    fn zoo(cache: &Path, mirror: Option<&Path>) -> Zoo {
        let sum = sha256(MODEL);
        let text = format!(
            "[tiny]\nabout = \"tiny\"\nurl = \"https://example.org\"\nfile = \"tiny.onnx\"\nbytes = {}\n\
             sha256 = \"{sum}\"\nlicence = \"MIT\"\n",
            MODEL.len()
        );
        Zoo::parse(&text, cache.to_owned(), mirror.map(Path::to_owned)).unwrap()
    }

    #[test]
    fn a_model_is_verified_when_it_is_looked_for_wherever_it_lies() {
        let (cache, mirror) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let resolve = || {
            let found = zoo(cache.path(), Some(mirror.path())).resolve("tiny");
            found.map_err(|error| error.to_string())
        };
        let refused = |part: &str| {
            let error = resolve().unwrap_err();
            assert!(error.contains(part), "{error}");
        };
        refused("is not here");
        for folder in [&mirror, &cache] {
            let path = folder.path().join("tiny.onnx");
            // Of the right size, which was all that was looked at.
            std::fs::write(&path, b"NOT much of a model").unwrap();
            refused("its sha256 is");
            refused("weir models pull tiny");
            std::fs::write(&path, b"not much").unwrap();
            refused("it has 8 bytes where 19 are expected");
            std::fs::write(&path, MODEL).unwrap();
            assert_eq!(resolve().unwrap(), path);
            if folder.path() == mirror.path() {
                std::fs::remove_file(&path).unwrap();
            }
        }
        // What is damaged here may be whole there.
        std::fs::write(mirror.path().join("tiny.onnx"), MODEL).unwrap();
        std::fs::write(cache.path().join("tiny.onnx"), b"NOT much of a model").unwrap();
        assert_eq!(resolve().unwrap(), mirror.path().join("tiny.onnx"));
    }

    #[cfg(unix)]
    #[test]
    fn a_file_that_was_verified_is_not_read_again_until_it_changes() {
        let cache = tempfile::tempdir().unwrap();
        let path = cache.path().join("tiny.onnx");
        std::fs::write(&path, MODEL).unwrap();
        assert!(zoo(cache.path(), None).resolve("tiny").is_ok());
        // The list now says that these are good: a sum that is taken would say otherwise.
        let list = cache.path().join(FILE);
        let text = std::fs::read_to_string(&list).unwrap();
        std::fs::write(&path, b"NOT much of a model").unwrap();
        let found = std::fs::metadata(&path).unwrap();
        let stamp = FileVersion::new(&found, &sha256(MODEL)).unwrap();
        let forged = BTreeMap::from([(path.clone(), stamp)]);
        std::fs::write(&list, serde_json::to_string(&forged).unwrap()).unwrap();
        assert!(
            zoo(cache.path(), None).resolve("tiny").is_ok(),
            "the list is believed"
        );
        // The same size and content time, but written again.
        let again = std::fs::File::options().write(true).open(&path).unwrap();
        again
            .set_modified(found.modified().unwrap() + std::time::Duration::from_secs(1))
            .unwrap();
        assert!(zoo(cache.path(), None).resolve("tiny").is_err());
        for garbage in ["", "{", "[]", "{\"a\": 1}", text.as_str()] {
            std::fs::write(&list, garbage).unwrap();
            assert!(zoo(cache.path(), None).resolve("tiny").is_err(), "{garbage}");
        }
        std::fs::remove_file(&list).unwrap();
        std::fs::create_dir(&list).unwrap();
        std::fs::write(&path, MODEL).unwrap();
        assert!(
            zoo(cache.path(), None).resolve("tiny").is_ok(),
            "it is only not remembered"
        );
    }
}
