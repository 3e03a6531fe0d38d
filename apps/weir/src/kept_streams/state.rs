//! The file in which the engine keeps streams that the graph's file cannot have, and the names of paused ones. There is one for each
//! graph file, in a folder of the user; it is locked by the engine that uses it. It may hold passwords of cameras: its owner alone
//! can read it.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use toml::{Table, Value};
use weir_files::io_reason;

use super::table::table_lines;
use crate::hexadecimal::hexadecimal;
use crate::whole_file::write_private;

/// The longest file that is read.
const MAX_BYTES: u64 = 4 << 20;

/// The most streams that are kept: as many as an engine has.
const MAX_STREAMS: usize = weir_runtime::MAX_STREAMS;

/// Bytes of the hash of a graph's path in the name of its file.
const HASH_BYTES: usize = 8;

/// The file of one graph.
#[derive(Debug)]
pub(crate) struct StateFile {
    path: PathBuf,
    /// Holds the lock.
    _lock: File,
    /// The file of the graph, for people.
    graph: PathBuf,
    /// Keys of each kept stream, with `like` beside those of a source.
    streams: BTreeMap<String, Table>,
    paused: BTreeSet<String>,
}

/// The folder of files of a kind: in that which systemd gives a service, else in one of the user. `None` where neither is known.
pub(crate) fn folder(variable: &dyn Fn(&str) -> Option<OsString>, kind: &str) -> Option<PathBuf> {
    // Paths that are not absolute are to be ignored, by the XDG Base Directory Specification.
    let given = |name: &str| {
        let path = PathBuf::from(variable(name)?);
        path.is_absolute().then_some(path)
    };
    let of_service = variable("STATE_DIRECTORY").and_then(|folders| {
        let first = folders.as_bytes().split(|byte| *byte == b':').next()?;
        let first = PathBuf::from(std::ffi::OsStr::from_bytes(first));
        first.is_absolute().then_some(first)
    });
    let of_user = || {
        let state = given("XDG_STATE_HOME").or_else(|| Some(given("HOME")?.join(".local/state")));
        Some(state?.join("weir"))
    };
    Some(of_service.or_else(of_user)?.join(kind))
}

/// Path of a file or folder of a graph, and of the node of its fleet, if it is in one; `ending` is that of its name.
pub(crate) fn path(folder: &Path, graph: &Path, node: Option<&str>, ending: &str) -> PathBuf {
    let graph = graph.canonicalize().unwrap_or_else(|_| graph.to_owned());
    let mut hash = Sha256::new();
    hash.update(graph.as_os_str().as_bytes());
    hash.update([0]);
    hash.update(node.unwrap_or_default());
    let hash = hash.finalize();
    let hash = hexadecimal(&hash[..HASH_BYTES]);
    let stem = graph.file_stem().unwrap_or_default().to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let stem: String = stem.chars().filter(|c| plain(*c)).take(40).collect();
    folder.join(format!("{stem}-{hash}{ending}"))
}

/// Locks a file of a graph by one beside it, and makes its folder if there is none. The lock ends when the result is dropped.
///
/// # Errors
/// The reason why the file cannot be used: another engine does, or it cannot be written.
pub(crate) fn hold(path: &Path) -> Result<File, String> {
    let shown = path.display();
    let unusable = |error: io::Error| format!("{shown} cannot be written: {}", io_reason(&error));
    if let Some(folder) = path.parent() {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(unusable)?;
    }
    let mut lock = path.as_os_str().to_owned();
    lock.push(".lock");
    let lock = OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(lock)
        .map_err(unusable)?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(format!("another engine of this graph uses {shown}")),
        Err(TryLockError::Error(error)) if weir_files::has_no_locks(&error) => {
            tracing::warn!("{shown} cannot be locked ({error}): another engine that uses it is not noticed");
            Ok(lock)
        }
        Err(TryLockError::Error(error)) => Err(unusable(error)),
    }
}

impl StateFile {
    /// Opens the file at `path`, with what it holds; one that is not there yet is made with the first change.
    ///
    /// # Errors
    /// The reason why it cannot be used: another engine does, it cannot be written, or it does not hold what it should.
    pub(crate) fn open(path: &Path, graph: &Path) -> Result<Self, String> {
        let shown = path.display();
        let lock = hold(path)?;
        let (streams, paused) = if path.exists() {
            let text = weir_files::read_text(path, MAX_BYTES);
            let text = text.map_err(|error| format!("{shown} cannot be read: {error}"))?;
            parse(&text).ok_or_else(|| {
                format!("{shown} does not hold streams that weir serve kept: correct it or move it away")
            })?
        } else {
            (BTreeMap::new(), BTreeSet::new())
        };
        Ok(Self {
            path: path.to_owned(),
            _lock: lock,
            graph: graph.to_owned(),
            streams,
            paused,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn streams(&self) -> &BTreeMap<String, Table> {
        &self.streams
    }

    pub(crate) fn paused(&self) -> &BTreeSet<String> {
        &self.paused
    }

    /// Keeps a stream by its keys.
    ///
    /// # Errors
    /// The reason why it is not kept: the file cannot be written, or there are too many.
    pub(crate) fn keep(&mut self, name: &str, keys: Table) -> Result<(), String> {
        if self.streams.len() >= MAX_STREAMS && !self.streams.contains_key(name) {
            return Err(format!(
                "{} keeps {MAX_STREAMS} streams, which are the most",
                self.path.display()
            ));
        }
        let mut streams = self.streams.clone();
        streams.insert(name.to_owned(), keys);
        self.write(streams, self.paused.clone())
    }

    /// Forgets a stream, and that it is paused. False if nothing was known of it.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn forget(&mut self, name: &str) -> Result<bool, String> {
        let (mut streams, mut paused) = (self.streams.clone(), self.paused.clone());
        let was_paused = paused.remove(name);
        if streams.remove(name).is_none() && !was_paused {
            return Ok(false);
        }
        self.write(streams, paused)?;
        Ok(true)
    }

    /// Keeps whether a stream is paused. False if that was known.
    ///
    /// # Errors
    /// As [`StateFile::keep`].
    pub(crate) fn pause(&mut self, name: &str, is_paused: bool) -> Result<bool, String> {
        let mut paused = self.paused.clone();
        let is_new = if is_paused {
            paused.insert(name.to_owned())
        } else {
            paused.remove(name)
        };
        if paused.len() > MAX_STREAMS {
            let shown = self.path.display();
            return Err(format!(
                "{shown} has {MAX_STREAMS} paused streams, which are the most"
            ));
        }
        if is_new {
            self.write(self.streams.clone(), paused)?;
        }
        Ok(is_new)
    }

    /// Writes what the file is to hold; what it held stays where that fails.
    fn write(&mut self, streams: BTreeMap<String, Table>, paused: BTreeSet<String>) -> Result<(), String> {
        let text = text(&self.graph, &streams, &paused);
        let shown = self.path.display();
        if text.len() as u64 > MAX_BYTES {
            return Err(format!("{shown} would be longer than 4 MiB"));
        }
        write_private(&self.path, text.as_bytes(), || true)
            .map_err(|error| format!("{shown} cannot be written: {}", io_reason(&error)))?;
        (self.streams, self.paused) = (streams, paused);
        Ok(())
    }
}

fn text(graph: &Path, streams: &BTreeMap<String, Table>, paused: &BTreeSet<String>) -> String {
    let graph = graph.display().to_string();
    let mut lines = vec![
        "# Streams that were added while weir serve ran a graph, and names of paused ones. It may hold"
            .to_owned(),
        "# passwords. weir serve writes it; edit it only while weir serve does not run. The graph:"
            .to_owned(),
        format!("# {}", graph.escape_debug()),
    ];
    if !paused.is_empty() {
        let names: Vec<Value> = paused.iter().map(|name| name.as_str().into()).collect();
        lines.push(format!("paused = {}", Value::Array(names)));
    }
    for (name, keys) in streams {
        lines.push(String::new());
        lines.extend(table_lines(name, keys));
    }
    lines.join("\n") + "\n"
}

fn parse(text: &str) -> Option<(BTreeMap<String, Table>, BTreeSet<String>)> {
    let mut document: Table = text.parse().ok()?;
    let mut streams = BTreeMap::new();
    for (name, keys) in table(document.remove("sources"))? {
        streams.insert(name, table(Some(keys))?);
    }
    let paused = match document.remove("paused") {
        None => Vec::new(),
        Some(Value::Array(names)) => names,
        Some(_) => return None,
    };
    let paused = paused.iter().map(|name| Some(name.as_str()?.to_owned()));
    let paused: BTreeSet<String> = paused.collect::<Option<_>>()?;
    let is_bounded = streams.len() <= MAX_STREAMS && paused.len() <= MAX_STREAMS;
    (document.is_empty() && is_bounded).then_some((streams, paused))
}

/// The table that a value is; an absent one is empty.
fn table(value: Option<Value>) -> Option<Table> {
    match value {
        None => Some(Table::new()),
        Some(Value::Table(table)) => Some(table),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn keys(uri: &str) -> Table {
        Table::from_iter([("uri".to_owned(), uri.into()), ("weight".to_owned(), 2.0.into())])
    }

    #[test]
    fn kept_streams_are_there_again_and_for_the_owner_alone() {
        let place = tempfile::tempdir().unwrap();
        let (graph, folder) = (place.path().join("a graph.toml"), place.path().join("state"));
        let path = path(&folder, &graph, None, ".toml");
        let mut state = StateFile::open(&path, &graph).unwrap();
        assert!(!path.exists(), "nothing is kept");
        state.keep("gate", keys("rtsp://u:p@gate/1")).unwrap();
        state.keep("yard.2", keys("rtsp://yard/1")).unwrap();
        assert_eq!(state.pause("steady", true), Ok(true));
        assert_eq!(state.pause("steady", true), Ok(false));
        let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600);
        let busy = StateFile::open(&path, &graph).unwrap_err();
        assert!(busy.contains("another engine"), "{busy}");
        let kept = state.streams.clone();
        drop(state);
        let mut state = StateFile::open(&path, &graph).unwrap();
        assert_eq!((state.streams(), state.paused().len()), (&kept, 1));
        assert_eq!(state.forget("gate"), Ok(true));
        assert_eq!(state.forget("gate"), Ok(false));
        assert_eq!(state.pause("steady", false), Ok(true));
        drop(state);
        let state = StateFile::open(&path, &graph).unwrap();
        assert_eq!(state.streams().keys().collect::<Vec<_>>(), ["yard.2"]);
        drop(state);
        fs::write(&path, "sources = 1").unwrap();
        let wrong = StateFile::open(&path, &graph).unwrap_err();
        assert!(wrong.contains("move it away"), "{wrong}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "sources = 1");
    }

    #[test]
    fn folder_is_that_of_the_service_or_of_the_user() {
        let of = |variables: &[(&str, &str)]| {
            let value = |name: &str| {
                let found = variables.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| OsString::from(value))
            };
            folder(&value, "streams")
        };
        let (home, xdg) = (("HOME", "/users/me"), ("XDG_STATE_HOME", "/state"));
        let service = ("STATE_DIRECTORY", "/var/lib/weir:/var/lib/other");
        let expected = |path: &str| Some(PathBuf::from(path));
        assert_eq!(of(&[home]), expected("/users/me/.local/state/weir/streams"));
        assert_eq!(of(&[home, xdg]), expected("/state/weir/streams"));
        assert_eq!(of(&[home, xdg, service]), expected("/var/lib/weir/streams"));
        assert_eq!(
            of(&[("XDG_STATE_HOME", "relative"), home]),
            expected("/users/me/.local/state/weir/streams")
        );
        assert_eq!(of(&[]), None);
        let (folder, graph) = (Path::new("/state"), Path::new("/a/graph.toml"));
        let path = |graph, node| path(folder, graph, node, ".toml");
        assert_ne!(path(graph, None), path(graph, Some("north")));
        assert_ne!(path(graph, None), path(Path::new("/b/graph.toml"), None));
    }
}
