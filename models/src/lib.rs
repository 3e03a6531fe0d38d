//! The models that ship with the program, compiled into it.
//!
//! `shipped.toml` is the list of them; [`FILES`] holds what it names. A model is added in both: a test says which is
//! behind. It knows nothing of how models are run.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;
use weir_flow::Settings;

/// What a graph puts before the name of a model that ships.
pub const PREFIX: &str = "embedded:";

/// The list.
const MANIFEST: &str = include_str!("../shipped.toml");

macro_rules! files {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_bytes!(concat!("../", $name)))),*]
    };
}

/// Every file that the list names.
const FILES: &[(&str, &[u8])] = files![
    "alive-count.onnx",
    "expression.onnx",
    "game-detector.onnx",
    "gaze.onnx",
    "health.onnx",
    "icon.onnx",
    "kill-count.onnx",
    "live-detector.onnx",
    "live-faces.onnx",
    "plate-reader.onnx",
    "pose.onnx",
    "street-detector.onnx",
    "street-faces.onnx",
];

/// A model that ships.
#[derive(Debug, Clone, PartialEq)]
pub struct Shipped {
    /// What graphs call it, behind [`PREFIX`].
    pub name: String,
    /// What it finds or says.
    pub about: String,
    /// How it is fed and read.
    pub head: String,
    /// Keys of the head, where the graph does not say otherwise.
    pub settings: Settings,
    /// Its ONNX file.
    pub onnx: &'static [u8],
}

/// A table of the list.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    about: String,
    head: String,
    file: String,
    #[serde(default)]
    settings: Settings,
    /// File that says how it was trained and how good it is; for readers of the list.
    #[serde(default, rename = "card")]
    _card: Option<String>,
}

/// All models that ship, by name.
#[must_use]
pub fn shipped() -> &'static [Shipped] {
    // The list is part of the build, and the test below reads it: no run can find it otherwise.
    static ALL: LazyLock<Vec<Shipped>> = LazyLock::new(|| read(MANIFEST).unwrap_or_default());
    &ALL
}

/// The model of that name, with or without [`PREFIX`].
#[must_use]
pub fn find(name: &str) -> Option<&'static Shipped> {
    let name = name.strip_prefix(PREFIX).unwrap_or(name);
    shipped().iter().find(|model| model.name == name)
}

fn read(manifest: &str) -> Result<Vec<Shipped>, String> {
    let entries: BTreeMap<String, Entry> = toml::from_str(manifest).map_err(|error| error.to_string())?;
    let model = |(name, entry): (String, Entry)| {
        let file = FILES.iter().find(|(file, _)| *file == entry.file);
        let (_, onnx) = file.ok_or_else(|| format!("{name}: {} is not compiled in", entry.file))?;
        Ok(Shipped {
            name,
            about: entry.about,
            head: entry.head,
            settings: entry.settings,
            onnx,
        })
    };
    entries.into_iter().map(model).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_and_the_files_agree() {
        let models = read(MANIFEST).unwrap_or_else(|reason| panic!("shipped.toml: {reason}"));
        assert_eq!(models, shipped());
        assert_eq!(
            models.len(),
            FILES.len(),
            "a file is compiled in that no model names"
        );
        for model in &models {
            assert!(
                !model.about.is_empty() && !model.onnx.is_empty(),
                "{}",
                model.name
            );
            assert!(model.onnx.len() < 2 << 20, "{} is larger than 2 MiB", model.name);
        }
    }

    #[test]
    fn models_are_found_by_their_names() {
        assert_eq!(find("gaze").map(|model| &*model.head), Some("gaze"));
        assert_eq!(find("embedded:gaze"), find("gaze"));
        assert_eq!(find("zoo:gaze"), None);
    }
}
