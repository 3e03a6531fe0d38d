//! A value of files that other programs renew, such as certificates and tokens: it is read again when a file changes. While a file
//! cannot be used, the value before it stays in force.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use weir_flow::{Settings, SinkError};

/// Keys that name the files of a connection.
const FILE_KEYS: [&str; 8] = [
    "ca_file",
    "certificate_file",
    "credentials_file",
    "key_file",
    "password_file",
    "secret_file",
    "token_file",
    "url_file",
];

/// Inode, times of the last change and size of a file; `None`: it is missing.
type Stamp = Option<(u64, i64, i64, i64, i64, u64)>;

/// Stamp of what is read only once, such as a pipe, or will soon have a content, such as a file that was emptied to be written.
const UNREADABLE: Stamp = Some((0, 0, 0, 0, 0, 0));

/// Reads a value from keys and their files.
type ReadFiles<T> = dyn Fn(&Settings) -> Result<T, SinkError> + Send + Sync;

/// See the module.
pub(super) struct Renewed<T> {
    settings: Settings,
    files: Vec<PathBuf>,
    read: Box<ReadFiles<T>>,
    state: Mutex<State<T>>,
}

struct State<T> {
    value: T,
    /// Files that the value was read from.
    stamps: Vec<Stamp>,
    /// Files of the last reading, also if they were wrong.
    tried: Vec<Stamp>,
}

impl<T: Clone> Renewed<T> {
    /// Reads the value for the first time.
    ///
    /// # Errors
    /// That of `read`.
    pub(super) fn new(
        settings: &Settings,
        read: impl Fn(&Settings) -> Result<T, SinkError> + Send + Sync + 'static,
    ) -> Result<Self, SinkError> {
        let named = FILE_KEYS.iter().filter_map(|key| settings.text(key));
        let named = named.filter(|path| !path.is_empty());
        let files: Vec<PathBuf> = named.map(PathBuf::from).collect();
        // Before the files are read: a change in between is read again.
        let stamps = stamps(&files);
        let value = read(settings)?;
        Ok(Self {
            settings: settings.clone(),
            files,
            read: Box::new(read),
            state: Mutex::new(State {
                value,
                tried: stamps.clone(),
                stamps,
            }),
        })
    }

    /// Returns the value, read again if a file has changed.
    pub(super) fn get(&self) -> T {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let stamps = stamps(&self.files);
        if stamps != state.stamps && !stamps.contains(&UNREADABLE) {
            let is_new = stamps != state.tried;
            state.tried.clone_from(&stamps);
            match (self.read)(&self.settings) {
                Ok(value) => (state.value, state.stamps) = (value, stamps),
                // It is read again the next time: a certificate and its key are renewed one after the other.
                Err(error) if is_new => tracing::error!("{error}; what was read before stays in force"),
                Err(_) => {}
            }
        }
        state.value.clone()
    }
}

fn stamps(files: &[PathBuf]) -> Vec<Stamp> {
    let stamp = |path: &PathBuf| {
        let file = std::fs::metadata(path).ok()?;
        if !file.is_file() || file.size() == 0 {
            return UNREADABLE;
        }
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
    files.iter().map(stamp).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use weir_flow::Value;

    use super::super::secret::secret;
    use super::*;

    #[test]
    fn renewed_file_is_read_again_and_a_wrong_one_is_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("password");
        let write = |text: &str| fs::write(&path, text).expect("written");
        write("first");
        let keys = [(
            "password_file".to_owned(),
            Value::Text(path.display().to_string()),
        )];
        let read = |settings: &Settings| secret(settings, "password", "password_file");
        let password = Renewed::new(&Settings(keys.into()), read).expect("a password");
        let is = |expected: &str| assert_eq!(password.get().as_deref(), Some(expected));
        is("first");
        write("the second\n");
        is("the second");
        write(&"x".repeat(5 << 10));
        is("the second");
        write("");
        is("the second");
        fs::remove_file(&path).expect("removed");
        is("the second");
        write("the third one\n");
        is("the third one");
    }
}
