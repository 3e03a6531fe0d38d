//! The models that ship with the program, compiled into it.
//!
//! `shipped.toml` lists them; [`FILES`] contains the files that it names. A model is added to both; a test compares them.
//! This crate does not run models.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;
use weir_flow::Settings;

/// Prefix in graphs of the names of shipped models.
pub const PREFIX: &str = "embedded:";

/// The list of models in TOML.
const MANIFEST: &str = include_str!("../shipped.toml");

macro_rules! files {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_bytes!(concat!("../", $name)))),*]
    };
}

/// Name and content of every file in the list.
const FILES: &[(&str, &[u8])] = files![
    "alive-count.onnx",
    "expression-small.onnx",
    "expression.onnx",
    "game-detector.onnx",
    "gaze.onnx",
    "health.onnx",
    "icon.onnx",
    "kill-count.onnx",
    "live-detector.onnx",
    "live-faces.onnx",
    "plate-reader-small.onnx",
    "plate-reader.onnx",
    "pose.onnx",
    "scribe.onnx",
    "street-detector-small.onnx",
    "street-detector.onnx",
    "street-faces.onnx",
];

/// The same of the nets that predict how long the texts of a model become.
const LENGTHS: &[(&str, &str)] = &[("scribe-lengths.json", include_str!("../scribe-lengths.json"))];

/// A model that ships.
#[derive(Debug, Clone, PartialEq)]
pub struct Shipped {
    /// Name in graphs after [`PREFIX`].
    pub name: String,
    /// Its output in one line.
    pub about: String,
    /// Name of its head.
    pub head: String,
    /// Keys of the head; keys in the graph override them.
    pub settings: Settings,
    /// Content of its ONNX file.
    pub onnx: &'static [u8],
    /// Of one that generates: nets that predict how long its texts become, as JSON.
    pub lengths: Option<&'static str>,
}

impl Shipped {
    /// True if the model generates text, token by token.
    #[must_use]
    pub fn generates(&self) -> bool {
        self.head == "generate"
    }
}

/// A model's table in the list.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    about: String,
    head: String,
    file: String,
    lengths: Option<String>,
    #[serde(default)]
    settings: Settings,
    /// File about its training and accuracy; for readers of the list.
    #[serde(default, rename = "card")]
    _card: Option<String>,
}

/// All shipped models, sorted by name.
#[must_use]
pub fn shipped() -> &'static [Shipped] {
    // The list is compiled in and a test parses it, so reading it cannot fail at run time.
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
        let nets = |name: &String| {
            LENGTHS
                .iter()
                .find(|(file, _)| file == name)
                .map(|(_, nets)| *nets)
        };
        Ok(Shipped {
            lengths: entry.lengths.as_ref().and_then(nets),
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
        let with_lengths = models.iter().filter(|model| model.lengths.is_some());
        assert_eq!(with_lengths.count(), LENGTHS.len(), "nets that no model names");
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
    fn a_small_model_answers_in_the_form_of_the_large_one() {
        let pairs = shipped().iter().filter_map(|small| {
            let large = small.name.strip_suffix("-small")?;
            Some((small, find(large).unwrap_or_else(|| panic!("no {large}"))))
        });
        // At which scores an object is one, or a candidate, is of each net.
        let form = |model: &Shipped| {
            let mut settings = model.settings.clone();
            for score in ["class_thresholds", "score_threshold"] {
                settings.0.remove(score);
            }
            (model.head.clone(), settings)
        };
        let mut compared = 0;
        for (small, large) in pairs {
            assert_eq!(form(small), form(large), "{}", small.name);
            compared += 1;
        }
        assert_eq!(compared, 3);
    }

    #[test]
    fn models_are_found_by_their_names() {
        assert_eq!(find("gaze").map(|model| &*model.head), Some("gaze"));
        assert_eq!(find("embedded:gaze"), find("gaze"));
        assert_eq!(find("zoo:gaze"), None);
    }
}
