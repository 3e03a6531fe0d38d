//! One model of the zoo, as `models/zoo.toml` writes it.

use serde::Deserialize;
use weir_flow::Settings;

/// A public model.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "Table")]
pub(crate) struct Entry {
    /// Task of the model, in a few words for lists.
    pub(crate) about: String,
    /// Head that prepares its inputs and reads its outputs; `None` if no head of this build can.
    pub(crate) head: Option<String>,
    pub(crate) origin: Origin,
    /// Name of its file in the cache and in mirrors.
    pub(crate) file: String,
    pub(crate) bytes: u64,
    /// Checksum of the file, in hexadecimal.
    pub(crate) sha256: String,
    /// Its licence, as its publisher states it.
    pub(crate) licence: String,
    /// Keys of the head, where the graph does not say otherwise.
    pub(crate) settings: Settings,
}

/// Origin of a model's file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A file that can be fetched, at one commit of its repository.
    Url(String),
    /// Converted from these published weights, which come in another format: only a mirror has the file.
    Weights(String),
}

/// The keys of an entry.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    about: String,
    head: Option<String>,
    url: Option<String>,
    source: Option<Mirror>,
    origin: Option<String>,
    file: String,
    bytes: u64,
    sha256: String,
    licence: String,
    #[serde(default)]
    settings: Settings,
}

/// The word `mirror`.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Mirror {
    Mirror,
}

impl TryFrom<Table> for Entry {
    type Error = &'static str;

    fn try_from(table: Table) -> Result<Self, &'static str> {
        let origin = match (table.url, table.source, table.origin) {
            (Some(url), None, None) => Origin::Url(url),
            (None, Some(Mirror::Mirror), Some(weights)) => Origin::Weights(weights),
            _ => return Err("an entry has a url, or source = \"mirror\" and an origin"),
        };
        let Table {
            about,
            head,
            file,
            bytes,
            sha256,
            licence,
            settings,
            ..
        } = table;
        Ok(Self {
            about,
            head,
            origin,
            file,
            bytes,
            sha256,
            licence,
            settings,
        })
    }
}

impl Entry {
    /// Checks the rules for an entry that types cannot express.
    #[cfg(test)]
    pub(super) fn check(&self) -> Result<(), String> {
        let is_hex = |text: &str| text.chars().all(|c| matches!(c, '0'..='9' | 'a'..='f'));
        if self.sha256.len() != 64 || !is_hex(&self.sha256) {
            return Err("sha256 is no sum".to_owned());
        }
        if self.file.contains('/') || self.bytes == 0 || self.about.is_empty() || self.licence.is_empty() {
            return Err("a key is empty or no file name".to_owned());
        }
        if let Origin::Url(url) = &self.origin {
            let pinned = url.split('/').any(|part| part.len() == 40 && is_hex(part));
            if !url.starts_with("https://") || !pinned {
                return Err("url is not of one commit".to_owned());
            }
        }
        Ok(())
    }
}
