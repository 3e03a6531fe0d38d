//! The zoo: public models that graphs may name, where they come from, and where they are on this machine.
//!
//! Nothing is fetched while a graph runs: [`Zoo::resolve`] only looks, [`Zoo::pull`] fetches.

mod entry;
mod pull;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context;
use sha2::{Digest, Sha256};
use weir_flow::{Settings as Keys, Value, ZooHint};
use weir_graph::{Graph, ModelOrigin};

use crate::error::UserError;
use crate::settings::Settings;

pub(crate) use entry::{Entry, Origin};
pub(crate) use pull::How;

/// What a graph puts before the name of a model of the zoo.
const PREFIX: &str = "zoo:";
/// The zoo of this build.
const ZOO: &str = include_str!("../../../../models/zoo.toml");

/// The known models, and the folders that they may be in.
#[derive(Debug, Clone)]
pub struct Zoo {
    entries: BTreeMap<String, Entry>,
    cache: PathBuf,
    mirror: Option<PathBuf>,
}

impl Zoo {
    /// The zoo of this build, kept where the settings say.
    ///
    /// # Errors
    /// A mistake in the zoo itself; a test keeps it from being there.
    pub(crate) fn new(settings: &Settings) -> anyhow::Result<Self> {
        Self::of(ZOO, settings.model_cache.clone(), settings.model_mirror.clone())
    }

    /// The zoo of this build, read from a folder that has its files under their names.
    ///
    /// # Errors
    /// As those of every zoo: a mistake in the zoo itself.
    pub fn in_folder(folder: impl Into<PathBuf>) -> anyhow::Result<Self> {
        Self::of(ZOO, folder.into(), None)
    }

    fn of(text: &str, cache: PathBuf, mirror: Option<PathBuf>) -> anyhow::Result<Self> {
        let entries = toml::from_str(text).context("models/zoo.toml is malformed")?;
        Ok(Self {
            entries,
            cache,
            mirror,
        })
    }

    /// All models by name.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&str, &Entry)> {
        self.entries.iter().map(|(name, entry)| (name.as_str(), entry))
    }

    /// What a graph need not say of each model that some head reads.
    pub(crate) fn hints(&self) -> BTreeMap<String, ZooHint> {
        let hint = |entry: &Entry| {
            Some(ZooHint {
                head: entry.head.clone()?,
                settings: entry.settings.clone(),
            })
        };
        self.entries
            .iter()
            .filter_map(|(name, entry)| Some((name.clone(), hint(entry)?)))
            .collect()
    }

    /// The file of a model on this machine: in the cache, else in the mirror.
    ///
    /// # Errors
    /// [`UserError`] that says how to get it.
    pub(crate) fn resolve(&self, name: &str) -> anyhow::Result<PathBuf> {
        let entry = self.entry(name)?;
        self.find(entry).ok_or_else(|| {
            let how = "run `weir models pull";
            UserError::new(format!(
                "the model zoo:{name} is not here; {how} {name}` or set WEIR_MODEL_MIRROR"
            ))
            .into()
        })
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

    /// Where a model is, if anywhere. Size is looked at, not the sum: that was verified when it was pulled.
    pub(crate) fn find(&self, entry: &Entry) -> Option<PathBuf> {
        let folders = std::iter::once(&self.cache).chain(&self.mirror);
        let is_whole = |path: &PathBuf| std::fs::metadata(path).is_ok_and(|data| data.len() == entry.bytes);
        folders.map(|folder| folder.join(&entry.file)).find(is_whole)
    }

    /// The folder that models are pulled into.
    pub(crate) fn cache(&self) -> &Path {
        &self.cache
    }

    /// The folder that models are read from instead of the network.
    pub(crate) fn mirror(&self) -> Option<&Path> {
        self.mirror.as_deref()
    }

    fn entry(&self, name: &str) -> anyhow::Result<&Entry> {
        self.entries.get(name).ok_or_else(|| {
            let known = self.entries.keys().map(String::as_str);
            let meant = weir_graph::reading::nearest(name, known);
            let meant = meant.map_or_else(String::new, |meant| format!("; did you mean \"{meant}\"?"));
            UserError::new(format!(
                "the zoo has no model \"{name}\"{meant}; `weir models list` shows those it has"
            ))
            .into()
        })
    }
}

/// Models of the zoo that the graph needs and that are not on this machine.
pub(crate) fn missing(graph: &Graph, zoo: &Zoo) -> Vec<String> {
    let origins = graph.models().iter().filter_map(|model| match &model.origin {
        ModelOrigin::Zoo(name) => Some(name.as_str()),
        _ => None,
    });
    let models = graph.models().iter().map(|model| &model.settings);
    let texts = models
        .chain(graph.modules().iter().map(|module| &module.settings))
        .flat_map(named);
    let mut missing: Vec<String> = origins
        .chain(texts)
        .filter(|name| zoo.resolve(name).is_err())
        .map(str::to_owned)
        .collect();
    missing.sort_unstable();
    missing.dedup();
    missing
}

/// Models of the zoo that keys name: `second = "zoo:fsanet-var"`.
fn named(settings: &Keys) -> impl Iterator<Item = &str> {
    settings.0.values().filter_map(|value| match value {
        Value::Text(text) => text.strip_prefix(PREFIX),
        _ => None,
    })
}

/// Makes sure that every model of the zoo that the graph needs is here.
///
/// # Errors
/// [`UserError`] that names all that are not.
pub(crate) fn require(graph: &Graph, zoo: &Zoo) -> anyhow::Result<()> {
    let missing = missing(graph, zoo);
    if missing.is_empty() {
        return Ok(());
    }
    let (listed, names) = (missing.join(", "), missing.join(" "));
    let how = match zoo.mirror() {
        Some(mirror) if !mirror.is_dir() => {
            format!("mend WEIR_MODEL_MIRROR: there is no folder {}", mirror.display())
        }
        _ => "set WEIR_MODEL_MIRROR to a folder that has them".to_owned(),
    };
    Err(UserError::new(format!(
        "models are not here: {listed}; run `weir models pull {names}` or {how}"
    ))
    .into())
}

/// The sha256 of a text of bytes, in hexadecimal.
fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_zoo_of_this_build_is_well_formed() {
        let zoo = Zoo::of(ZOO, PathBuf::new(), None).unwrap();
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
        let zoo = Zoo::of(ZOO, cache.path().to_owned(), Some(mirror)).unwrap();
        for (name, entry) in zoo.entries() {
            let pulled = zoo.pull(name).unwrap();
            assert_eq!(pulled.path, cache.path().join(&entry.file), "{name}");
        }
    }

    #[test]
    fn a_model_that_is_not_here_says_how_to_get_it() {
        let zoo = Zoo::of(ZOO, PathBuf::from("nowhere"), None).unwrap();
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
        let zoo = Zoo::of(ZOO, PathBuf::from("nowhere"), Some(mirror.path().to_owned())).unwrap();
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
        let bytes = zoo.entry("fsanet-var").unwrap().bytes;
        std::fs::File::create(&path)
            .and_then(|file| file.set_len(bytes))
            .unwrap();
        let expected = keys(text(&path.to_string_lossy()));
        assert_eq!(zoo.resolve_keys(&keys(text("zoo:fsanet-var"))).unwrap(), expected);
    }
}
