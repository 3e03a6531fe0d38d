//! The text of the graph.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use weir_analytics::transforms::time_zone;
use weir_graph::text_edit::key_text;

use super::address::with_variables;
use super::camera::Camera;
use super::layer::Layer;
use super::yaml::Node;
use crate::graph_text::{one_line, quoted};

/// Names that the graph has beside those of its cameras; sinks may have a number behind theirs.
const RESERVED: [&str; 9] = [
    "detect",
    "tracks",
    "pictures",
    "events",
    ARCHIVE,
    "alerts",
    "detections",
    "event-clips",
    "home",
];
/// Name of the first sink that records everything.
const ARCHIVE: &str = "archive";
/// Frames a second where a graph must have a detector and no camera wants one.
const IDLE_FPS: f64 = 0.2;

/// Names of the files beside the graph.
pub(crate) struct Files<'a> {
    /// Name of the configuration, for the first line of the graph.
    pub(crate) config: &'a str,
    /// Name of the password file with this number, from 0.
    pub(crate) passwords: &'a dyn Fn(usize) -> String,
    /// The file with the password of the broker.
    pub(crate) mqtt: &'a str,
}

/// True if a camera cannot have the name.
pub(super) fn is_reserved(name: &str) -> bool {
    let base = name.trim_end_matches(|c: char| c.is_ascii_digit());
    RESERVED.contains(&name) || RESERVED.contains(&base.trim_end_matches('-'))
}

/// Writes the graph. `mqtt_password` gets the password that belongs into a file.
pub(super) fn text(
    root: &Node,
    cameras: &[Camera],
    files: &Files<'_>,
    mqtt_password: &mut Option<String>,
) -> String {
    let detects = cameras.iter().any(|camera| !camera.tracked.is_empty());
    let fps = common_fps(cameras, detects);
    let mut out = format!(
        "# Written by `weir import frigate {}`. docs/how-to/from-frigate.md has the counterparts of all settings.\n\n[app]\nname = \"site\"\n\
         slo = \"1s\"\n",
        one_line(files.config)
    );
    out += &timezone(root);
    let _ = write!(
        out,
        "\n# Keys of every camera: frames a second for models, which look where something changes.\n[defaults]\nsample = \
         \"{fps}fps\"\ngate = \"motion\"\n"
    );
    let labels: BTreeSet<String> = cameras.iter().flat_map(|camera| camera.tracked.clone()).collect();
    for camera in cameras {
        write_camera(camera, fps, &labels, detects, files, &mut out);
    }
    let with = |wanted: &dyn Fn(&Camera) -> bool| {
        let names = cameras.iter().filter(|camera| wanted(camera));
        names.map(|camera| camera.name.clone()).collect::<Vec<_>>()
    };
    let detecting = with(&|camera| !camera.tracked.is_empty());
    let inputs = if detecting.len() == cameras.len() || !detects {
        vec!["*".to_owned()]
    } else {
        detecting
    };
    let of_labels = if detects {
        format!("labels = {}\n", strings(&labels))
    } else {
        String::new()
    };
    let _ = write!(
        out,
        "\n[models.detector]\nmodel = \"zoo:yolox-nano\"\nbatch = [1, 2, 4]\n\n[modules.detect]\noperator = \"detect\"\nmodel = \
         \"detector\"\ninputs = {}\n{of_labels}\n[modules.tracks]\noperator = \"track\"\ninputs = [\"detect\"]\n{}",
        strings(&inputs),
        tracker(root, fps)
    );
    let pictures = with(&|camera| camera.pictures);
    if !pictures.is_empty() {
        let _ = write!(
            out,
            "\n[transforms.pictures]\ntype = \"best-shot\"\ninputs = [\"tracks\"]\nstreams = {}\n",
            strings(&pictures)
        );
    }
    let has_transforms = cameras.iter().any(|camera| camera.zones + camera.rules.len() > 0);
    let all = if has_transforms || !pictures.is_empty() {
        "[\"tracks\", \"*\"]"
    } else {
        "[\"tracks\"]"
    };
    let _ = write!(
        out,
        "\n# A line for each incident, each track that ended and each state of a camera.\n[sinks.events]\ntype = \"jsonl\"\npath = \
         \"events.jsonl\"\ninputs = {all}\nframes = false\n"
    );
    recordings(cameras, &mut out);
    mqtt(root, all, files, mqtt_password, &mut out);
    out
}

/// The frames a second that most cameras have.
fn common_fps(cameras: &[Camera], detects: bool) -> f64 {
    if !detects {
        return IDLE_FPS;
    }
    let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
    for camera in cameras {
        *counts.entry(camera.fps.to_bits()).or_default() += 1;
    }
    let common = counts.into_iter().max_by_key(|(_, count)| *count);
    common.map_or(5.0, |(bits, _)| f64::from_bits(bits))
}

/// `timezone` of the app, where the configuration has a time zone.
fn timezone(root: &Node) -> String {
    let node = root.get("ui").and_then(|ui| ui.get("timezone"));
    let Some((node, name)) = node.and_then(|node| Some((node, node.scalar()?))) else {
        return String::new();
    };
    if time_zone(name).is_err() {
        node.refuse("there is no time zone of this name");
        return String::new();
    }
    node.take();
    format!("timezone = {}\n", quoted(name))
}

fn write_camera(
    camera: &Camera,
    fps: f64,
    labels: &BTreeSet<String>,
    detects: bool,
    files: &Files<'_>,
    out: &mut String,
) {
    let _ = write!(out, "\n[cameras.{}]\n", key_text(&camera.name));
    let (addresses, rest): (Vec<&String>, Vec<&String>) = camera
        .lines
        .iter()
        .partition(|line| line.starts_with("uri = ") || line.starts_with("detect_uri = "));
    for line in addresses {
        let _ = writeln!(out, "{line}");
    }
    if let Some(login) = &camera.login {
        let _ = writeln!(out, "user = {}", quoted(&login.user));
        if let Some(number) = login.password {
            let _ = writeln!(out, "password_file = {}", quoted(&(files.passwords)(number)));
        }
    }
    if !camera.groups.is_empty() {
        let _ = writeln!(out, "group = {}", strings(&camera.groups));
    }
    if detects && camera.fps.to_bits() != fps.to_bits() {
        let _ = writeln!(out, "sample = \"{}fps\"", camera.fps);
    }
    for line in rest {
        let _ = writeln!(out, "{line}");
    }
    // Classes that other cameras track, and this one does not.
    if !camera.tracked.is_empty() {
        for class in labels.iter().filter(|class| !camera.tracked.contains(class)) {
            let _ = writeln!(out, "objects.{} = {{ max_area = 0 }}", key_text(class));
        }
    }
    for rule in &camera.rules {
        let _ = writeln!(out, "rules.{} = {}", rule.name, rule.table);
    }
}

/// Keys of the tracker that the configuration has for all cameras.
fn tracker(root: &Node, fps: f64) -> String {
    let detect = Layer::new(None, Some(root)).section("detect");
    let mut keys = String::new();
    if let Some((_, frames)) = detect.number("max_disappeared") {
        let _ = writeln!(
            keys,
            "lost_after = {}",
            milliseconds((frames / fps).clamp(0.1, 3600.0))
        );
    }
    if let Some((node, frames)) = detect.number("min_initialized") {
        if (1.0..=100.0).contains(&frames) {
            let _ = writeln!(keys, "min_hits = {}", frames.round());
        } else {
            node.refuse("a track counts after 1 to 100 frames");
        }
    }
    keys
}

/// Sinks that record: one for each retention.
fn recordings(cameras: &[Camera], out: &mut String) {
    // By the name and the keys of the sink.
    let mut sinks: BTreeMap<(&str, &[String]), Vec<String>> = BTreeMap::new();
    for camera in cameras {
        if let Some(keys) = &camera.recording.archive {
            sinks
                .entry((ARCHIVE, keys.as_slice()))
                .or_default()
                .push(camera.name.clone());
        }
        for (rule, keys) in &camera.recording.clips {
            if camera.rules.iter().any(|known| known.name == *rule) {
                let name = match *rule {
                    "alert" => "alerts",
                    "detection" => "detections",
                    _ => "event-clips",
                };
                sinks
                    .entry((name, keys.as_slice()))
                    .or_default()
                    .push(format!("{}.{rule}", camera.name));
            }
        }
    }
    let mut numbers: BTreeMap<&str, usize> = BTreeMap::new();
    for ((base, keys), inputs) in sinks {
        let number = numbers.entry(base).or_default();
        *number += 1;
        let name = match *number {
            1 => base.to_owned(),
            number => format!("{base}-{number}"),
        };
        let kind = if base == ARCHIVE { "archive" } else { "clips" };
        let _ = write!(
            out,
            "\n[sinks.{name}]\ntype = \"{kind}\"\npath = \"{name}/{{stream}}\"\ninputs = {}\n{}\nmax_bytes = \"1024GiB\"\nmin_free = \"5%\"\n",
            strings(&inputs),
            keys.join("\n")
        );
    }
}

/// The sink for the broker.
fn mqtt(root: &Node, inputs: &str, files: &Files<'_>, password: &mut Option<String>, out: &mut String) {
    let section = Layer::new(None, Some(root)).section("mqtt");
    if section.flag("enabled") == Some(false) {
        return;
    }
    let Some((_, host)) = section.text("host") else {
        return;
    };
    let _ = write!(
        out,
        "\n# The topics that Frigate had. Frigate and Weir must not use them at once.\n[sinks.home]\ntype = \"mqtt\"\nhost = {}\n",
        quoted(host)
    );
    if let Some((node, port)) = section.number("port") {
        if port.fract() == 0.0 && (1.0..=65535.0).contains(&port) {
            let _ = writeln!(out, "port = {port}");
        } else {
            node.refuse("ports are 1 to 65535");
        }
    }
    let prefix = match section.text("topic_prefix") {
        Some((node, prefix)) if prefix.contains(['+', '#']) => {
            node.refuse("a prefix has no wildcards");
            None
        }
        prefix => prefix.map(|(_, prefix)| prefix),
    };
    let _ = writeln!(out, "prefix = {}", quoted(prefix.unwrap_or("frigate")));
    let user = section.text("user").filter(|(_, user)| !user.is_empty());
    if let Some((_, user)) = user {
        let _ = writeln!(out, "username = {}", value(user));
    }
    if let Some((node, secret)) = section.text("password") {
        let (text, varies) = with_variables(secret);
        if user.is_none() {
            node.refuse("a password is of no use without `user`");
        } else if varies {
            let _ = writeln!(out, "password = {}", toml::Value::String(text.0));
        } else {
            *password = Some(secret.to_owned());
            let _ = writeln!(out, "password_file = {}", quoted(files.mqtt));
        }
    }
    for (name, key) in [
        ("tls_ca_certs", "ca_file"),
        ("tls_client_cert", "certificate_file"),
        ("tls_client_key", "key_file"),
    ] {
        let Some((node, file)) = section.text(name) else {
            continue;
        };
        if Path::new(file).is_absolute() && Path::new(file).is_file() {
            let _ = writeln!(out, "{key} = {}", quoted(file));
        } else {
            node.refuse(format!("there is no such file on this machine, for `{key}`"));
        }
    }
    let _ = write!(out, "inputs = {inputs}\npath = \"undelivered.jsonl\"\n");
}

/// A text of the configuration, its variables as those of a graph.
fn value(text: &str) -> String {
    toml::Value::String(with_variables(text).0.0).to_string()
}

/// A list of texts.
pub(super) fn strings<'a>(texts: impl IntoIterator<Item = &'a String>) -> String {
    let texts: Vec<String> = texts.into_iter().map(|text| quoted(text)).collect();
    format!("[{}]", texts.join(", "))
}

/// A time in days.
pub(super) fn days(days: f64) -> String {
    if days.fract() == 0.0 {
        format!("\"{days}d\"")
    } else {
        format!("\"{}h\"", (days * 24.0).round().max(1.0))
    }
}

/// A time in seconds.
pub(super) fn milliseconds(seconds: f64) -> String {
    if seconds.fract() == 0.0 {
        format!("\"{seconds}s\"")
    } else {
        format!("\"{}ms\"", (seconds * 1000.0).round())
    }
}
