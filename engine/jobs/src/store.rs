//! Rows of a queue in two stores, `queue.redb` and its copy; every change is made to one after the other. The
//! store is open only while a row is read or changed, under a lock, so that `weir submit` and `weir jobs`
//! work beside an engine.
//!
//! If a process is killed during a change, the store has the change completely or not at all; the store
//! itself guarantees this. It does not guarantee this if its last bytes are lost. The copy, which then lacks
//! at most the last change, replaces it.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::Duration;

use redb::{Database, DatabaseError, ReadableDatabase, TableDefinition, TableError};

use crate::error::{QueueError, in_words};

/// Format of the rows.
pub(crate) const FORMAT: u32 = 1;

const ROWS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("rows");
const FORMAT_ROW: &str = "meta/format";
const REVISION_ROW: &str = "meta/revision";
const LOSS_ROW: &str = "meta/loss";

/// Text for errors of the store that hide the error of the disk.
const DISK_REFUSES: &str = "the disk refuses to write to it: see whether it is full";

/// Attempts to take the lock of the store: 10 s in all.
const MAX_LOCK_TRIES: u32 = 1_000;
const LOCK_RETRY_INTERVAL: Duration = Duration::from_millis(10);

/// Change of a row; `None` removes the row.
pub(crate) type Change = (String, Option<Vec<u8>>);

/// Store of a queue's rows in its folder.
#[derive(Debug)]
pub(crate) struct Store {
    folder: PathBuf,
}

/// The rows while the lock is held.
pub(crate) struct OpenStore<'a> {
    folder: &'a Path,
    database: Database,
    _lock: File,
}

impl Store {
    pub(crate) fn new(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
        }
    }

    pub(crate) fn main_path(folder: &Path) -> PathBuf {
        folder.join("queue.redb")
    }

    pub(crate) fn copy_path(folder: &Path) -> PathBuf {
        folder.join("queue.copy.redb")
    }

    /// Locks and opens the store.
    pub(crate) fn open(&self) -> Result<OpenStore<'_>, QueueError> {
        let lock = self.lock()?;
        let (main, copy) = (Self::main_path(&self.folder), Self::copy_path(&self.folder));
        let is_new = !main.exists() && !copy.exists();
        let loss = match self.open_checked(&main, is_new) {
            Ok(database) => {
                return Ok(OpenStore {
                    folder: &self.folder,
                    database,
                    _lock: lock,
                });
            }
            Err(Unreadable::Final(error)) => return Err(error),
            Err(Unreadable::Damaged(reason)) => reason,
        };
        let database = match self.open_checked(&copy, false) {
            Ok(database) => database,
            Err(Unreadable::Final(error)) => return Err(error),
            Err(Unreadable::Damaged(reason)) => {
                return Err(QueueError::Damaged {
                    path: self.folder.clone(),
                    reason: format!("{loss}; {reason}"),
                });
            }
        };
        let revision = revision(&database).map_err(|reason| self.failed(&reason))?;
        drop(database);
        // The damaged store stays in its place until there is another one.
        let part = self.folder.join("queue.redb.part");
        let copied = std::fs::copy(&copy, &part).map_err(QueueError::file(&part));
        if let Err(error) = copied.and_then(|_| crate::output::sync(&part)) {
            let _ = std::fs::remove_file(&part);
            return Err(error);
        }
        if main.exists() {
            let aside = self.folder.join("queue.redb.damaged");
            std::fs::rename(&main, &aside).map_err(QueueError::file(&aside))?;
        }
        std::fs::rename(&part, &main).map_err(QueueError::file(&main))?;
        let opened = self.open_checked(&main, false);
        let database = opened.map_err(|error| match error {
            Unreadable::Final(error) => error,
            Unreadable::Damaged(reason) => self.failed(&reason),
        })?;
        let opened = OpenStore {
            folder: &self.folder,
            database,
            _lock: lock,
        };
        let words = format!(
            "the store was damaged ({loss}) and was replaced by its copy, which has all changes up to number {revision}: at \
             most the last one is lost, and a segment that it committed is processed again"
        );
        opened.change(&[(LOSS_ROW.to_owned(), Some(words.into_bytes()))])?;
        Ok(opened)
    }

    fn failed(&self, reason: &str) -> QueueError {
        QueueError::Store {
            path: self.folder.clone(),
            reason: reason.to_owned(),
        }
    }

    fn lock(&self) -> Result<File, QueueError> {
        let path = self.folder.join("store.lock");
        let file = File::create(&path).map_err(QueueError::file(&path))?;
        for _ in 0..MAX_LOCK_TRIES {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_RETRY_INTERVAL),
                Err(TryLockError::Error(error)) => return Err(QueueError::file(&path)(error)),
            }
        }
        Err(QueueError::Busy(self.folder.clone()))
    }

    fn open_checked(&self, path: &Path, is_new: bool) -> Result<Database, Unreadable> {
        if !is_new && !path.exists() {
            return Err(Unreadable::Damaged(format!("{} is not there", path.display())));
        }
        let damaged = |reason: String| Unreadable::Damaged(format!("{}: {reason}", path.display()));
        let other_version = |found: String| {
            Unreadable::Final(QueueError::Version {
                path: self.folder.clone(),
                found,
                expected: FORMAT,
            })
        };
        let database = match Database::create(path) {
            Ok(database) => database,
            Err(DatabaseError::UpgradeRequired(version)) => {
                return Err(other_version(format!("of the store {version}")));
            }
            Err(DatabaseError::Storage(redb::StorageError::Io(error)))
                if error.kind() != std::io::ErrorKind::InvalidData
                    && error.kind() != std::io::ErrorKind::UnexpectedEof =>
            {
                return Err(Unreadable::Final(QueueError::file(path)(error)));
            }
            // The disk refused a write; the store itself is intact.
            Err(DatabaseError::Storage(redb::StorageError::PreviousIo)) => {
                return Err(Unreadable::Final(self.failed(DISK_REFUSES)));
            }
            Err(error) => return Err(damaged(error.to_string())),
        };
        match row(&database, FORMAT_ROW).map_err(damaged)? {
            None if is_new => Ok(database),
            // Killed before its first change, which the copy gets after it.
            None if !Self::copy_path(&self.folder).exists() => Ok(database),
            None => Err(damaged("it has no format".to_owned())),
            Some(found) if found == FORMAT.to_string().into_bytes() => Ok(database),
            Some(found) => Err(other_version(String::from_utf8_lossy(&found).into_owned())),
        }
    }
}

/// Reason why a store cannot be opened.
enum Unreadable {
    /// The store is damaged; its copy may be readable.
    Damaged(String),
    /// The copy must not be asked.
    Final(QueueError),
}

/// Message of a store error; for a full disk, with advice.
fn text(error: impl Into<redb::Error>) -> String {
    match error.into() {
        redb::Error::Io(error) => in_words(&error),
        other => other.to_string(),
    }
}

fn row(database: &Database, key: &str) -> Result<Option<Vec<u8>>, String> {
    let read = database.begin_read().map_err(text)?;
    let table = match read.open_table(ROWS) {
        Ok(table) => table,
        Err(TableError::TableDoesNotExist(_)) => return Ok(None),
        Err(error) => return Err(text(error)),
    };
    let found = table.get(key).map_err(text)?;
    Ok(found.map(|value| value.value().to_vec()))
}

fn revision(database: &Database) -> Result<u64, String> {
    let text = row(database, REVISION_ROW)?;
    let number = text.and_then(|text| String::from_utf8(text).ok()?.parse().ok());
    Ok(number.unwrap_or(0))
}

fn write(database: &Database, changes: &[Change], revision: u64) -> Result<(), String> {
    let write = database.begin_write().map_err(text)?;
    {
        let mut table = write.open_table(ROWS).map_err(text)?;
        for (key, value) in changes {
            let done = match value {
                Some(value) => table.insert(key.as_str(), value.as_slice()).map(drop),
                None => table.remove(key.as_str()).map(drop),
            };
            done.map_err(text)?;
        }
        let format = FORMAT.to_string();
        let revision = revision.to_string();
        for (key, value) in [(FORMAT_ROW, format), (REVISION_ROW, revision)] {
            table.insert(key, value.as_bytes()).map(drop).map_err(text)?;
        }
    }
    write.commit().map_err(text)
}

impl OpenStore<'_> {
    /// The value of a row.
    pub(crate) fn get(&self, key: &str) -> Result<Option<Vec<u8>>, QueueError> {
        row(&self.database, key).map_err(|reason| self.failed(reason))
    }

    /// Rows that were lost, as text; `None` if the store was never damaged.
    pub(crate) fn loss(&self) -> Result<Option<String>, QueueError> {
        let words = self.get(LOSS_ROW)?;
        Ok(words.map(|words| String::from_utf8_lossy(&words).into_owned()))
    }

    /// Rows whose keys begin with `prefix`, in the order of keys.
    pub(crate) fn with_prefix(&self, prefix: &str) -> Result<Vec<(String, Vec<u8>)>, QueueError> {
        let rows = || -> Result<Vec<(String, Vec<u8>)>, String> {
            let read = self.database.begin_read().map_err(text)?;
            let table = match read.open_table(ROWS) {
                Ok(table) => table,
                Err(TableError::TableDoesNotExist(_)) => return Ok(Vec::new()),
                Err(error) => return Err(text(error)),
            };
            let mut found = Vec::new();
            for entry in table.range(prefix..).map_err(text)? {
                let (key, value) = entry.map_err(text)?;
                if !key.value().starts_with(prefix) {
                    break;
                }
                found.push((key.value().to_owned(), value.value().to_vec()));
            }
            Ok(found)
        };
        rows().map_err(|reason| self.failed(reason))
    }

    /// Changes rows in the store, then in its copy.
    pub(crate) fn change(&self, changes: &[Change]) -> Result<(), QueueError> {
        let before = revision(&self.database).map_err(|reason| self.failed(reason))?;
        write(&self.database, changes, before + 1).map_err(|reason| self.failed(reason))?;
        let path = Store::copy_path(self.folder);
        let copied = Database::create(&path).map_err(text);
        let copied = copied.and_then(|copy| {
            let follows = revision(&copy)? == before;
            if follows {
                write(&copy, changes, before + 1)?;
            }
            Ok(follows)
        });
        match copied {
            Ok(true) => Ok(()),
            // The copy is damaged or missed a change, and is written again.
            Ok(false) | Err(_) => self
                .copy_all(&path, before + 1)
                .map_err(|reason| self.failed(reason)),
        }
    }

    fn copy_all(&self, path: &Path, revision: u64) -> Result<(), String> {
        let part = self.folder.join("queue.copy.redb.part");
        let _ = std::fs::remove_file(&part);
        let rows = self.with_prefix("").map_err(|error| error.to_string())?;
        let changes: Vec<Change> = rows.into_iter().map(|(key, value)| (key, Some(value))).collect();
        let fill = || {
            let copy = Database::create(&part).map_err(text)?;
            write(&copy, &changes, revision)
        };
        let filled = fill();
        if filled.is_err() {
            // On a full disk it takes the room of others.
            let _ = std::fs::remove_file(&part);
        }
        filled?;
        std::fs::rename(&part, path).map_err(|error| in_words(&error))
    }

    fn failed(&self, reason: String) -> QueueError {
        QueueError::Store {
            path: self.folder.to_owned(),
            reason,
        }
    }
}
