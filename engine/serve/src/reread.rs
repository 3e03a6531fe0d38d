//! Values of files that are read again when a file changes. While a file is wrong, the value before it stays in force.

use std::fmt::Display;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Interval at which files are looked at, at most: requests ask more often.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// Identity of the content of a file, as far as the file system shows it; `None` if the file is missing.
type Stamp = Option<(u64, i64, i64, i64, i64, u64)>;

/// A value of files. See the module.
pub(crate) struct Reread<T> {
    paths: Vec<PathBuf>,
    read: Box<dyn Fn() -> Result<T, String> + Send + Sync>,
    state: Mutex<State<T>>,
}

struct State<T> {
    value: Arc<T>,
    /// Files that the value was read from.
    stamps: Vec<Stamp>,
    /// Files of the last reading, also if they were wrong.
    tried: Vec<Stamp>,
    checked: Instant,
}

impl<T> Reread<T> {
    /// Reads the value for the first time.
    ///
    /// # Errors
    /// That of `read`.
    pub(crate) fn new<E: Display>(
        paths: Vec<PathBuf>,
        read: impl Fn() -> Result<T, E> + Send + Sync + 'static,
    ) -> Result<Self, E> {
        // Before the files are read: a change in between is read again.
        let stamps = stamps(&paths);
        let value = Arc::new(read()?);
        Ok(Self {
            paths,
            read: Box::new(move || read().map_err(|error| error.to_string())),
            state: Mutex::new(State {
                value,
                tried: stamps.clone(),
                stamps,
                checked: Instant::now(),
            }),
        })
    }

    /// Returns the value, read again if a file has changed.
    pub(crate) fn get(&self) -> Arc<T> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if now.duration_since(state.checked) >= CHECK_INTERVAL {
            state.checked = now;
            let stamps = stamps(&self.paths);
            if stamps != state.stamps {
                let is_new = stamps != state.tried;
                state.tried.clone_from(&stamps);
                match (self.read)() {
                    Ok(value) => (state.value, state.stamps) = (Arc::new(value), stamps),
                    // It is read again at the next look: the system may have had no handle or no disk for a moment.
                    Err(error) if is_new => tracing::error!("{error}; what was read before stays in force"),
                    Err(_) => {}
                }
            }
        }
        Arc::clone(&state.value)
    }
}

fn stamps(paths: &[PathBuf]) -> Vec<Stamp> {
    let stamp = |path: &PathBuf| {
        let file = std::fs::metadata(path).ok()?;
        // The change time covers the mode as well.
        Some((
            file.ino(),
            file.mtime(),
            file.mtime_nsec(),
            file.ctime(),
            file.ctime_nsec(),
            file.size(),
        ))
    };
    paths.iter().map(stamp).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn file_that_could_not_be_read_for_a_moment_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens");
        fs::write(&path, "first").unwrap();
        let is_away = Arc::new(AtomicBool::new(false));
        let (file, away) = (path.clone(), Arc::clone(&is_away));
        let read = move || {
            if away.load(Ordering::Relaxed) {
                return Err("there is no file handle left".to_owned());
            }
            fs::read_to_string(&file).map_err(|error| error.to_string())
        };
        let reread = Reread::new(vec![path.clone()], read).unwrap();
        let look = || {
            reread.state.lock().unwrap().checked = Instant::now() - CHECK_INTERVAL;
            reread.get()
        };
        fs::write(&path, "the second").unwrap();
        is_away.store(true, Ordering::Relaxed);
        assert_eq!(*look(), "first");
        is_away.store(false, Ordering::Relaxed);
        assert_eq!(*look(), "the second");
    }
}
