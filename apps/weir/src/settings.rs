//! Settings of this machine, not of a graph: how much memory decoded frames may take, where models are kept, how long
//! queues to sinks are. Layers, each over the one before: defaults, a file (`weir.toml` of the current folder, or
//! `--settings`), the environment (`WEIR_FRAME_MEMORY` for `frame_memory`, and so on).

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use config::{Config, Environment, FileFormat};
use serde::{Deserialize, Deserializer};

use crate::error::UserError;

/// Keys that hold paths: those of a file are relative to it.
const PATHS: [&str; 2] = ["model_cache", "model_mirror"];
/// All keys. Other variables that begin with `WEIR_` are not settings (`WEIR_ASSETS`, `WEIR_VIDEO`).
const KEYS: [&str; 6] = [
    "frame_memory",
    "model_cache",
    "model_mirror",
    "sink_events",
    "trace_endpoint",
    "trace_rate",
];
/// Keys that a file may only set which was asked for: models are programs, and traces say what happens here.
const TRUSTED: [&str; 3] = ["model_cache", "model_mirror", "trace_endpoint"];

/// The settings, all checked.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settings {
    /// The most that decoded frames in flight may take, over all streams. 512 MiB by default: some 170 frames of 1080p.
    pub(crate) frame_memory: Bytes,
    /// Folder of the pulled models.
    pub(crate) model_cache: PathBuf,
    /// A folder that models are read from instead of the network.
    #[serde(default)]
    pub(crate) model_mirror: Option<PathBuf>,
    /// The most deliveries that wait for one sink. 256 by default: some seconds of a few cameras.
    pub(crate) sink_events: SinkEvents,
    /// The collector of OpenTelemetry that traces of requests go to; without it there are none.
    #[serde(default)]
    pub(crate) trace_endpoint: Option<String>,
    /// The share of requests that are traced.
    pub(crate) trace_rate: TraceRate,
    /// The file of the settings, where there is one.
    #[serde(skip)]
    pub(crate) file: Option<PathBuf>,
}

impl Settings {
    /// Reads all layers, with the variables of this process.
    ///
    /// # Errors
    /// As [`Settings::load`].
    pub(crate) fn of_process(file: Option<&Path>) -> anyhow::Result<Self> {
        // Others' variables may be no text; a setting that is none is refused with what it looks like.
        let mut variables = std::env::vars_os().filter_map(|(name, value)| {
            Some((name.into_string().ok()?, value.to_string_lossy().into_owned()))
        });
        Self::load(file, &mut variables)
    }

    /// Reads all layers. `environment` gives all variables of the process.
    ///
    /// # Errors
    /// [`UserError`] that names the layer's key or file and what it may hold.
    pub(crate) fn load(
        file: Option<&Path>,
        environment: &mut dyn Iterator<Item = (String, String)>,
    ) -> anyhow::Result<Self> {
        let variables: Vec<(String, String)> = environment.collect();
        let beside = Path::new("weir.toml");
        let asked = file.is_some();
        let file = file.or_else(|| beside.is_file().then_some(beside));
        let bad = |error: &dyn fmt::Display| UserError::new(format!("settings: {error}"));
        let mut builder = Config::builder()
            .set_default("frame_memory", "512MiB")
            .and_then(|builder| builder.set_default("sink_events", 256))
            .and_then(|builder| builder.set_default("trace_rate", "0.01"))
            .and_then(|builder| {
                let cache = default_cache(&variables);
                builder.set_default("model_cache", cache.to_string_lossy().into_owned())
            })
            .map_err(|error| bad(&error))?;
        if let Some(file) = file {
            let layer = read_file(file).map_err(|error| bad(&error))?;
            if !asked {
                check_trusted(&layer, &variables).map_err(|error| bad(&error))?;
            }
            builder = builder.add_source(layer);
        }
        let collector = collector(&variables);
        builder
            .add_source(environment_layer(variables))
            .build()
            .and_then(Config::try_deserialize)
            .map(|settings: Self| Self {
                file: file.map(Path::to_owned),
                trace_endpoint: settings.trace_endpoint.or(collector),
                ..settings
            })
            .map_err(|error| bad(&error).into())
    }
}

/// Settings are a page at most; what is larger was named by mistake.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// The layer of one file, with its paths made relative to it.
fn read_file(file: &Path) -> Result<Config, String> {
    let wrong = |reason: &dyn fmt::Display| format!("{}: {reason}", file.display());
    let text = weir_files::read_text(file, MAX_FILE_BYTES).map_err(|error| wrong(&error))?;
    let source = config::File::from_str(&text, FileFormat::Toml);
    let read = || {
        let plain = Config::builder().add_source(source.clone()).build()?;
        if let Some(key) = unknown_key(&plain) {
            let meant = weir_config::spelling::hint(&key, "keys", KEYS).unwrap_or_default();
            return Err(config::ConfigError::Message(format!(
                "there is no key `{key}`; {meant}"
            )));
        }
        let folder = file.parent().unwrap_or(Path::new(""));
        let mut builder = Config::builder().add_source(source.clone());
        for key in PATHS {
            if let Ok(path) = plain.get_string(key) {
                builder = builder.set_override(key, folder.join(path).to_string_lossy().into_owned())?;
            }
        }
        builder.build()
    };
    read().map_err(|error: config::ConfigError| wrong(&error))
}

/// A `weir.toml` that was not named on the command line may not say where models come from, or where traces go: it lies in
/// whatever folder the program was started in, and a model is a program. What the environment says instead of it is as good as named.
fn check_trusted(layer: &Config, variables: &[(String, String)]) -> Result<(), String> {
    for key in TRUSTED {
        let variable = format!("WEIR_{}", key.to_uppercase());
        let replaced = variables
            .iter()
            .any(|(name, value)| *name == variable && !value.is_empty());
        if !replaced && layer.get::<config::Value>(key).is_ok() {
            return Err(format!(
                "the weir.toml of this folder sets {key}, but where models come from and traces go must be asked for: \
                 give --settings weir.toml, or set {variable}"
            ));
        }
    }
    Ok(())
}

/// A key of the file that is none of the settings.
fn unknown_key(plain: &Config) -> Option<String> {
    let keys = plain
        .clone()
        .try_deserialize::<std::collections::BTreeMap<String, config::Value>>();
    keys.ok()?.into_keys().find(|key| !KEYS.contains(&key.as_str()))
}

/// The layer of the environment: `WEIR_` and a key in capitals. An empty variable counts as unset.
fn environment_layer(variables: Vec<(String, String)>) -> Environment {
    let known = |name: &str| {
        name.strip_prefix("WEIR_")
            .is_some_and(|key| KEYS.contains(&key.to_lowercase().as_str()))
    };
    let variables = variables
        .into_iter()
        .filter(|(name, value)| known(name) && !value.is_empty());
    Environment::with_prefix("WEIR")
        .prefix_separator("_")
        .source(Some(variables.collect()))
}

/// Address for traces in the variables of OpenTelemetry, which other programs of the machine share. A build without traces ignores
/// them.
fn collector(variables: &[(String, String)]) -> Option<String> {
    if !cfg!(feature = "otlp") {
        return None;
    }
    let variable = |name: &str| {
        let mut found = variables
            .iter()
            .filter(|(given, value)| given == name && !value.is_empty());
        found.next().map(|(_, value)| value.clone())
    };
    let of_all = || {
        let base = variable("OTEL_EXPORTER_OTLP_ENDPOINT")?;
        Some(format!("{}/v1/traces", base.trim_end_matches('/')))
    };
    variable("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT").or_else(of_all)
}

/// `$XDG_CACHE_HOME/weir/models`, else `~/.cache/weir/models`.
fn default_cache(variables: &[(String, String)]) -> PathBuf {
    let variable = |name: &str| {
        let found = variables
            .iter()
            .find(|(given, value)| given == name && !value.is_empty());
        found.map(|(_, value)| PathBuf::from(value))
    };
    variable("XDG_CACHE_HOME")
        .or_else(|| variable("HOME").map(|home| home.join(".cache")))
        .unwrap_or_else(|| PathBuf::from(".cache"))
        .join("weir/models")
}

/// An amount of memory, written with its unit: `"512MiB"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bytes(pub(crate) u64);

impl FromStr for Bytes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        weir_config::parse_bytes(text).map(Self).ok_or_else(|| {
            format!("\"{text}\" is not an amount of memory; write a number with a unit, such as \"512MiB\"")
        })
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(1_u64 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
        match units.iter().find(|(unit, _)| self.0 >= *unit) {
            Some((unit, name)) if self.0.is_multiple_of(*unit) => write!(f, "{} {name}", self.0 / unit),
            Some((unit, name)) => write!(f, "{:.1} {name}", self.0 as f64 / *unit as f64),
            None => write!(f, "{} B", self.0),
        }
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

/// A queue's bound: at least one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SinkEvents(pub(crate) usize);

impl<'de> Deserialize<'de> for SinkEvents {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        match text.parse() {
            Ok(bound @ 1..=1_000_000) => Ok(Self(bound)),
            _ => Err(serde::de::Error::custom(format!(
                "\"{text}\" is not a whole number from 1 to 1000000"
            ))),
        }
    }
}

/// A share of requests.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct TraceRate(pub(crate) f64);

impl<'de> Deserialize<'de> for TraceRate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        match text.parse() {
            Ok(rate) if (0.0..=1.0).contains(&rate) => Ok(Self(rate)),
            _ => Err(serde::de::Error::custom(format!(
                "\"{text}\" is not a share of requests: write a number from 0 to 1"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(file: Option<&Path>, variables: &[(&str, &str)]) -> anyhow::Result<Settings> {
        let mut variables = variables
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Settings::load(file, &mut variables)
    }

    #[test]
    fn later_layers_win() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("mine.toml");
        std::fs::write(
            &file,
            "frame_memory = \"64MiB\"\nsink_events = 8\nmodel_mirror = \"mirror\"\n",
        )
        .unwrap();

        let settings = load(None, &[("HOME", "/somewhere")]).unwrap();
        assert_eq!(settings.frame_memory, Bytes(512 << 20));
        assert_eq!(settings.model_cache, Path::new("/somewhere/.cache/weir/models"));
        assert_eq!(settings.model_mirror, None);

        let settings = load(
            Some(&file),
            &[("WEIR_FRAME_MEMORY", "1GiB"), ("XDG_CACHE_HOME", "/c")],
        )
        .unwrap();
        assert_eq!(settings.frame_memory, Bytes(1 << 30));
        assert_eq!(settings.sink_events, SinkEvents(8));
        assert_eq!(settings.model_cache, Path::new("/c/weir/models"));
        assert_eq!(settings.model_mirror, Some(folder.path().join("mirror")));
    }

    #[test]
    fn what_is_wrong_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("mine.toml");
        let check = |text: &str, variables: &[(&str, &str)], part: &str| {
            std::fs::write(&file, text).unwrap();
            let error = load(Some(&file), variables).unwrap_err();
            assert!(error.is::<UserError>());
            assert!(error.to_string().contains(part), "{error}");
        };
        check(
            "frame_memory = \"many\"",
            &[],
            "\"many\" is not an amount of memory",
        );
        check("frame_memry = \"1MiB\"", &[], "frame_memry");
        check("", &[("WEIR_SINK_EVENTS", "0")], "not a whole number from 1");
        check("trace_rate = 1.5", &[], "write a number from 0 to 1");
        check("sink_events = [", &[], "mine.toml");
        assert!(load(Some(Path::new("nowhere.toml")), &[]).is_err());
    }

    #[test]
    fn other_variables_are_no_settings() {
        assert!(
            load(
                None,
                &[
                    ("WEIR_ASSETS", "a"),
                    ("WEIR_VIDEO", "b"),
                    ("WEIR_MODEL_MIRROR", "")
                ]
            )
            .is_ok()
        );
    }

    #[cfg(feature = "otlp")]
    #[test]
    fn variables_of_opentelemetry_name_the_collector_unless_a_setting_does() {
        let endpoint = |variables: &[(&str, &str)]| load(None, variables).unwrap().trace_endpoint;
        let base = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318/");
        let own = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://traces/in");
        assert_eq!(
            endpoint(&[base]).as_deref(),
            Some("http://collector:4318/v1/traces")
        );
        assert_eq!(endpoint(&[base, own]).as_deref(), Some("http://traces/in"));
        let setting = ("WEIR_TRACE_ENDPOINT", "http://mine");
        assert_eq!(endpoint(&[base, setting]).as_deref(), Some("http://mine"));
        assert_eq!(endpoint(&[(base.0, "")]), None);
    }

    #[test]
    fn amounts_of_memory() {
        let check =
            |text: &str, bytes: Option<u64>| assert_eq!(text.parse().ok(), bytes.map(Bytes), "{text}");
        check("512MiB", Some(512 << 20));
        check("2 GB", Some(2_000_000_000));
        check("0B", None);
        check("12", None);
        check("-1MiB", None);
        check("99999999999GiB", None);
        assert_eq!(Bytes(512 << 20).to_string(), "512 MiB");
        assert_eq!(Bytes(3_660_092).to_string(), "3.5 MiB");
    }
}
