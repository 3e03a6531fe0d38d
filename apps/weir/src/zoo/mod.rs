//! The zoo: public models that graphs may name, where they come from, and where they are on this machine.
//!
//! Nothing is fetched while a graph runs: [`Zoo::resolve`] looks for a file and verifies it, [`Zoo::pull`] fetches.

mod entry;
mod pull;
mod verified;

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context;
use sha2::{Digest, Sha256};
use weir_flow::{ModelDefaults, Settings as Keys, Value};
use weir_graph::{Graph, ModelNode, ModelOrigin};

use crate::error::UserError;
use crate::hexadecimal::hexadecimal;
use crate::settings::Settings;

pub(crate) use entry::{Entry, Origin};
pub(crate) use pull::PullSource;
use verified::Verified;

/// Prefix of zoo models in graphs.
const PREFIX: &str = "zoo:";
/// The zoo of this build.
const ZOO: &str = include_str!("../../../../models/zoo.toml");

/// The known models, the folders that they may be in, and the folder of operators in Python.
#[derive(Debug, Clone)]
pub struct Zoo {
    entries: BTreeMap<String, Entry>,
    cache: PathBuf,
    mirror: Option<PathBuf>,
    /// Folder of the Python modules that graphs may name operators of; absolute, without links.
    python: Option<PathBuf>,
    /// Read when it is first asked for.
    verified: Arc<Mutex<Option<Verified>>>,
}

impl Zoo {
    /// The zoo of this build, kept where the settings say.
    ///
    /// # Errors
    /// A mistake in the zoo itself; a test keeps it from being there.
    pub(crate) fn new(settings: &Settings) -> anyhow::Result<Self> {
        Self::parse(ZOO, settings.model_cache.clone(), settings.model_mirror.clone())
    }

    /// The zoo of this build, read from a folder that has its files under their names.
    ///
    /// # Errors
    /// As those of every zoo: a mistake in the zoo itself.
    pub fn in_folder(folder: impl Into<PathBuf>) -> anyhow::Result<Self> {
        Self::parse(ZOO, folder.into(), None)
    }

    fn parse(text: &str, cache: PathBuf, mirror: Option<PathBuf>) -> anyhow::Result<Self> {
        let entries = toml::from_str(text).context("models/zoo.toml is malformed")?;
        Ok(Self {
            entries,
            cache,
            mirror,
            python: None,
            verified: Arc::default(),
        })
    }

    /// Lets graphs name operators in the Python modules of a folder, if there is one.
    ///
    /// # Errors
    /// There is no such folder.
    pub fn with_python(self, folder: Option<&Path>) -> anyhow::Result<Self> {
        let Some(folder) = folder else { return Ok(self) };
        let found = folder.canonicalize().and_then(|found| {
            if found.is_dir() {
                Ok(found)
            } else {
                Err(ErrorKind::NotADirectory.into())
            }
        });
        let found = found.map_err(|error| {
            let reason = weir_files::io_reason(&error);
            UserError::new(format!("--python {}: {reason}", folder.display()))
        })?;
        Ok(Self {
            python: Some(found),
            ..self
        })
    }

    /// The folder of Python modules that graphs may name operators of.
    pub(crate) fn python(&self) -> Option<&Path> {
        self.python.as_deref()
    }

    /// All models by name.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&str, &Entry)> {
        self.entries.iter().map(|(name, entry)| (name.as_str(), entry))
    }

    /// Defaults of all models that a head reads, by name: head and settings that a graph need not repeat.
    pub(crate) fn hints(&self) -> BTreeMap<String, ModelDefaults> {
        let hint = |entry: &Entry| {
            Some(ModelDefaults {
                head: entry.head.clone()?,
                settings: entry.settings.clone(),
                lengths: None,
            })
        };
        self.entries
            .iter()
            .filter_map(|(name, entry)| Some((name.clone(), hint(entry)?)))
            .collect()
    }

    /// The file of a model on this machine, in the cache, else in the mirror; its size and sum are those of the zoo.
    ///
    /// # Errors
    /// [`UserError`] that says what is wrong with the file that is there, or how to get one.
    pub(crate) fn resolve(&self, name: &str) -> anyhow::Result<PathBuf> {
        let entry = self.entry(name)?;
        let mut mismatch = None;
        for path in self.places(entry).filter(|path| path.exists()) {
            let mut verified = self.verified.lock().unwrap_or_else(PoisonError::into_inner);
            let verified = verified.get_or_insert_with(|| Verified::read(&self.cache));
            match verified.mismatch(&path, entry) {
                None => return Ok(path),
                Some(reason) => {
                    tracing::warn!("{} is not the model zoo:{name}: {reason}", path.display());
                    mismatch.get_or_insert((path, reason));
                }
            }
        }
        let how = format!("run `weir models pull {name}`");
        Err(UserError::new(match mismatch {
            Some((path, reason)) if path.starts_with(&self.cache) => {
                format!("{} is not the model zoo:{name}: {reason}; {how}", path.display())
            }
            Some((path, reason)) => format!(
                "{} is not the model zoo:{name}: {reason}; fix the mirror, or {how} without it",
                path.display()
            ),
            None => format!("the model zoo:{name} is not here; {how} or set WEIR_MODEL_MIRROR"),
        })
        .into())
    }

    fn places(&self, entry: &Entry) -> impl Iterator<Item = PathBuf> {
        let folders = std::iter::once(&self.cache).chain(&self.mirror);
        folders.map(|folder| folder.join(&entry.file))
    }

    /// The keys with paths where they name models of the zoo, as heads and operators want them.
    ///
    /// # Errors
    /// As [`Zoo::resolve`].
    pub(crate) fn resolve_keys(&self, keys: &Keys) -> anyhow::Result<Keys> {
        let resolved = keys.0.iter().map(|(key, value)| {
            let value = match value {
                Value::Text(text) => match text.strip_prefix(PREFIX) {
                    Some(name) => Value::Text(self.resolve(name)?.to_string_lossy().into_owned()),
                    None => value.clone(),
                },
                _ => value.clone(),
            };
            Ok((key.clone(), value))
        });
        Ok(Keys(resolved.collect::<anyhow::Result<_>>()?))
    }

    /// Path of a model, if it is on this machine. Only the size is checked, not the checksum, so that long
    /// lists are fast.
    pub(crate) fn find(&self, entry: &Entry) -> Option<PathBuf> {
        let is_whole = |path: &PathBuf| std::fs::metadata(path).is_ok_and(|data| data.len() == entry.bytes);
        self.places(entry).find(is_whole)
    }

    /// True if a file with the model's name exists; its contents are not checked.
    pub(crate) fn is_present(&self, entry: &Entry) -> bool {
        self.places(entry).any(|path| path.exists())
    }

    /// The model of the zoo that the file is, by its bytes.
    pub(crate) fn identify(&self, path: &Path) -> Option<(&str, &Entry)> {
        let length = std::fs::metadata(path).ok()?.len();
        let alike: Vec<(&str, &Entry)> = self
            .entries()
            .filter(|(_, entry)| entry.bytes == length)
            .collect();
        if alike.is_empty() {
            return None;
        }
        let sum = sha256(&weir_files::read(path, length).ok()?);
        alike.into_iter().find(|(_, entry)| entry.sha256 == sum)
    }

    /// Every file of the zoo that is on this machine.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let folders = || std::iter::once(&self.cache).chain(&self.mirror);
        let of = |entry: &Entry| {
            folders()
                .map(|folder| folder.join(&entry.file))
                .collect::<Vec<_>>()
        };
        let files = self.entries.values().flat_map(of);
        files.filter(|file| file.is_file()).collect()
    }

    /// The folder that models are pulled into.
    pub(crate) fn cache(&self) -> &Path {
        &self.cache
    }

    /// The folder that models are read from instead of the network.
    pub(crate) fn mirror(&self) -> Option<&Path> {
        self.mirror.as_deref()
    }

    pub(crate) fn entry(&self, name: &str) -> anyhow::Result<&Entry> {
        self.entries.get(name).ok_or_else(|| {
            let known = self.entries.keys().map(String::as_str);
            let meant = weir_config::spelling::nearest(name, known);
            let meant = meant.map_or_else(String::new, |meant| format!("; did you mean \"{meant}\"?"));
            UserError::new(format!(
                "the zoo has no model \"{name}\"{meant}; `weir models list` shows those it has"
            ))
            .into()
        })
    }
}

/// Models of the zoo that the graph needs, by name.
fn required_models(graph: &Graph) -> BTreeSet<&str> {
    let modules = graph
        .modules()
        .iter()
        .flat_map(|module| models_in_keys(&module.settings));
    graph
        .models()
        .iter()
        .flat_map(models_of_node)
        .chain(modules)
        .collect()
}

/// Those that one of its models needs.
fn models_of_node(model: &ModelNode) -> impl Iterator<Item = &str> {
    let origin = match &model.origin {
        ModelOrigin::Zoo(name) => Some(name.as_str()),
        _ => None,
    };
    origin.into_iter().chain(models_in_keys(&model.settings))
}

/// True if all zoo models that the model needs are on this machine and verified.
pub(crate) fn has_models_for(model: &ModelNode, zoo: &Zoo) -> bool {
    models_of_node(model).all(|name| zoo.resolve(name).is_ok())
}

/// Models of the zoo that keys name: `second = "zoo:fsanet-var"`.
fn models_in_keys(settings: &Keys) -> impl Iterator<Item = &str> {
    settings.0.values().filter_map(|value| match value {
        Value::Text(text) => text.strip_prefix(PREFIX),
        _ => None,
    })
}

/// Makes sure that every model of the zoo that the graph needs is here.
///
/// # Errors
/// [`UserError`] that names all that are not, or are not what they are called.
pub(crate) fn require(graph: &Graph, zoo: &Zoo) -> anyhow::Result<()> {
    let (mut missing, mut damaged) = (Vec::new(), Vec::new());
    for name in required_models(graph) {
        let Err(error) = zoo.resolve(name) else { continue };
        if zoo.entry(name).is_ok_and(|entry| !zoo.is_present(entry)) {
            missing.push(name);
        } else {
            damaged.push(error.to_string());
        }
    }
    if missing.is_empty() && damaged.is_empty() {
        return Ok(());
    }
    if missing.is_empty() {
        return Err(UserError::new(damaged.join("\n")).into());
    }
    let (listed, names) = (missing.join(", "), missing.join(" "));
    let how = match zoo.mirror() {
        Some(mirror) if !mirror.is_dir() => {
            format!("fix WEIR_MODEL_MIRROR: there is no folder {}", mirror.display())
        }
        _ => "set WEIR_MODEL_MIRROR to a folder that has them".to_owned(),
    };
    let missing = format!("models are not here: {listed}; run `weir models pull {names}` or {how}");
    damaged.insert(0, missing);
    Err(UserError::new(damaged.join("\n")).into())
}

/// The sha256 of a text of bytes, in hexadecimal.
fn sha256(bytes: &[u8]) -> String {
    hexadecimal(&Sha256::digest(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_zoo_of_this_build_is_well_formed() {
        let zoo = Zoo::parse(ZOO, PathBuf::new(), None).unwrap();
        for (name, entry) in zoo.entries() {
            entry.check().unwrap_or_else(|reason| panic!("{name}: {reason}"));
        }
        let files: std::collections::BTreeSet<_> = zoo.entries().map(|(_, entry)| &entry.file).collect();
        assert_eq!(files.len(), zoo.entries().count(), "two models of one file name");
    }

    #[test]
    fn the_asset_pack_is_a_mirror() {
        let Some(assets) = std::env::var_os("WEIR_ASSETS") else {
            println!("skipped: WEIR_ASSETS is not set");
            return;
        };
        let mirror = PathBuf::from(assets).join("models");
        let cache = tempfile::tempdir().unwrap();
        let zoo = Zoo::parse(ZOO, cache.path().to_owned(), Some(mirror)).unwrap();
        for (name, entry) in zoo.entries() {
            let pulled = zoo.pull(name).unwrap();
            assert_eq!(pulled.path, cache.path().join(&entry.file), "{name}");
        }
    }

    #[test]
    fn a_model_that_is_not_here_says_how_to_get_it() {
        let zoo = Zoo::parse(ZOO, PathBuf::from("nowhere"), None).unwrap();
        let error = zoo.resolve("yolox-nano").unwrap_err();
        assert!(error.is::<UserError>());
        assert!(
            error
                .to_string()
                .contains("run `weir models pull yolox-nano` or set WEIR_MODEL_MIRROR")
        );
        assert!(
            zoo.resolve("yolox-giga")
                .unwrap_err()
                .to_string()
                .contains("no model \"yolox-giga\"")
        );
    }

    #[test]
    fn keys_that_name_models_become_paths() {
        let mirror = tempfile::tempdir().unwrap();
        let (cache, model) = (mirror.path().join("cache"), b"a model");
        let entry = format!(
            "[fsanet-var]\nabout = \"a\"\nurl = \"https://example.org\"\nfile = \"fsanet_var_64.onnx\"\nbytes = 7\n\
             sha256 = \"{}\"\nlicence = \"MIT\"\n",
            sha256(model)
        );
        let zoo = Zoo::parse(&entry, cache, Some(mirror.path().to_owned())).unwrap();
        let text = |text: &str| Value::Text(text.to_owned());
        let keys = |second: Value| {
            Keys(
                [
                    ("second".to_owned(), second),
                    ("size".to_owned(), Value::Number(64.0)),
                ]
                .into_iter()
                .collect(),
            )
        };
        assert!(zoo.resolve_keys(&keys(text("zoo:fsanet-var"))).is_err());
        let path = mirror.path().join("fsanet_var_64.onnx");
        std::fs::write(&path, model).unwrap();
        let expected = keys(text(&path.to_string_lossy()));
        assert_eq!(zoo.resolve_keys(&keys(text("zoo:fsanet-var"))).unwrap(), expected);
    }
}
