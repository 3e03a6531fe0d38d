//! One process records into a folder at a time: a lock of the system, which a killed process releases.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use weir_flow::SinkError;

use super::super::target::{failed, io_failed};
use crate::files::lock;

const NAME: &str = ".weir-recording.lock";

/// Locked folders of this process: its sinks share them, such as an old and a new one during a reload.
static HELD: Mutex<BTreeMap<PathBuf, Weak<File>>> = Mutex::new(BTreeMap::new());

/// Locks a folder that is there for as long as the result is kept.
pub(super) fn hold(folder: &Path) -> Result<Arc<File>, SinkError> {
    let fail = |error: std::io::Error| io_failed(folder, &error);
    let key = folder.canonicalize().map_err(fail)?;
    let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(file) = held.get(&key).and_then(Weak::upgrade) {
        return Ok(file);
    }
    let mut options = OpenOptions::new();
    let file = options
        .create(true)
        .truncate(false)
        .write(true)
        .open(key.join(NAME));
    let file = file.map_err(fail)?;
    if !lock(&file).map_err(fail)? {
        let reason = "another process records into this folder: stop it, or name another folder";
        return Err(failed(folder, reason));
    }
    let file = Arc::new(file);
    held.retain(|_, file| file.strong_count() > 0);
    held.insert(key, Arc::downgrade(&file));
    Ok(file)
}
