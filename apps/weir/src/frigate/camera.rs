//! One camera of a configuration: its streams, masks, zones and rules.

use std::collections::BTreeSet;

use weir_graph::text_edit::key_text;

use super::address::{self, Address};
use super::graph::{is_reserved, milliseconds, strings};
use super::layer::Layer;
use super::objects::{self, Objects};
use super::points::{Size, polygon};
use super::recording::{self, Recording};
use super::rules::{self, Rule};
use super::yaml::{Entry, Node};
use super::{Remark, Site};
use crate::graph_text::free_name;

/// Frames a second that Frigate detects in, where nothing is set.
const DEFAULT_FPS: f64 = 5.0;
/// Frames that Frigate wants of an object within a zone, where nothing is set.
const DEFAULT_INERTIA: f64 = 3.0;

/// A camera of the graph.
pub(super) struct Camera {
    /// Name in the graph.
    pub(super) name: String,
    /// Name in the configuration.
    pub(super) frigate_name: String,
    /// Keys of its table, a line each, without those of its rules.
    pub(super) lines: Vec<String>,
    /// User and number of the password file.
    pub(super) login: Option<address::Login>,
    pub(super) groups: Vec<String>,
    pub(super) zones: usize,
    pub(super) rules: Vec<Rule>,
    /// Classes that it tracks; empty if detection is off.
    pub(super) tracked: Vec<String>,
    pub(super) fps: f64,
    /// True if best pictures are taken.
    pub(super) pictures: bool,
    pub(super) recording: Recording,
}

/// A zone of a camera.
pub(super) struct Zone {
    /// Name in the graph.
    pub(super) name: String,
    pub(super) frigate_name: String,
    /// Classes that it takes; empty: all.
    pub(super) classes: Vec<String>,
    pub(super) loitering_s: f64,
}

/// Reads a camera; `None` where it is left out, which its values say.
pub(super) fn camera(entry: &Entry, root: &Node, site: &mut Site) -> Option<Camera> {
    let node = &entry.node;
    let layer = Layer::new(Some(node), Some(root));
    if node.get("enabled").and_then(Node::flag) == Some(false) {
        node.refuse("the camera is disabled, and left out");
        return None;
    }
    if node.entries().is_empty() {
        node.refuse("it has no keys, and is left out");
        return None;
    }
    let name = camera_name(entry, site);
    let mut lines = Vec::new();
    let login = streams(&name, node, root, site, &mut lines)?;
    let detect = layer.section("detect");
    // Switched off by default from 0.16 on.
    let version = root.get("version").and_then(Node::scalar).unwrap_or_default();
    let is_new = version
        .split(['.', '-'])
        .nth(1)
        .and_then(|minor| minor.parse::<u32>().ok())
        >= Some(16);
    let detects = detect.flag("enabled").unwrap_or(!is_new);
    let fps = detect.number("fps").filter(|(node, fps)| {
        let is_rate = (0.01..=1000.0).contains(fps);
        if !is_rate {
            node.refuse("it must lie between 0.01 and 1000 frames a second");
        }
        is_rate
    });
    let fps = fps.map(|(_, fps)| fps);
    let size = size(detect);
    let recording = recording::read(layer);
    lines.extend(recording.sound_key());
    let objects = detects.then(|| objects::read(layer, size, &mut lines));
    let objects = objects.filter(|objects| !objects.tracked.is_empty());
    if objects.is_none() && recording.archive.is_none() {
        node.refuse("it detects nothing, and nothing is recorded without that: the camera is left out");
        return None;
    }
    let detects = objects.is_some();
    let (mut zones, mut rules, mut tracked) = (Vec::new(), Vec::new(), Vec::new());
    if let Some(Objects {
        tracked: classes,
        thresholds,
    }) = objects
    {
        motion(layer, size, &mut lines);
        let mut names = BTreeSet::new();
        let fps = fps.unwrap_or(DEFAULT_FPS);
        zones = read_zones(entry, &classes, size, fps, (&mut names, site), &mut lines);
        rules = rules::read(layer, &classes, &zones, &thresholds);
        tracked = classes;
    }
    site.names.insert(name.clone());
    Some(Camera {
        frigate_name: entry.name.clone(),
        name,
        lines,
        login,
        groups: Vec::new(),
        zones: zones.len(),
        rules,
        tracked,
        fps: fps.unwrap_or(DEFAULT_FPS),
        pictures: detects && layer.section("snapshots").flag("enabled").unwrap_or(false),
        recording,
    })
}

/// A name that the graph may have: letters, digits, `-` and `_`, and none that the graph uses itself.
fn camera_name(entry: &Entry, site: &mut Site) -> String {
    let mut name = plain_name(&entry.name, "camera");
    if is_reserved(&name) {
        name += "-camera";
    }
    let name = free_name(&name, &site.names);
    if name != entry.name {
        let path = ["cameras".to_owned(), entry.name.clone()];
        let text = format!("the camera is called \"{name}\" in the graph, and so in topics and events");
        site.renamed.push(Remark::new(entry.line, &path, text));
    }
    name
}

fn plain_name(name: &str, default: &str) -> String {
    let plain = |c: char| if c.is_alphanumeric() || c == '_' { c } else { '-' };
    let name: String = name.trim().chars().map(plain).take(60).collect();
    if name.contains(char::is_alphanumeric) {
        name
    } else {
        default.to_owned()
    }
}

/// Width and height of the pictures that Frigate detects in.
fn size(detect: Layer<'_>) -> Option<Size> {
    let [width, height] = ["width", "height"].map(|name| detect.number(name).map(|(_, number)| number));
    let is_size = |number: &f64| (1.0..=100_000.0).contains(number);
    Some(Size {
        width: width.filter(is_size)?,
        height: height.filter(is_size)?,
    })
}

/// An input of a camera whose address can be opened.
struct Input<'a> {
    node: &'a Node,
    address: Address,
    /// Address as the configuration has it, restreams replaced.
    plain: String,
    roles: Vec<&'a str>,
}

/// Addresses of the camera; `None` where there is none.
fn streams(
    name: &str,
    camera: &Node,
    root: &Node,
    site: &mut Site,
    lines: &mut Vec<String>,
) -> Option<Option<address::Login>> {
    let layer = Layer::new(Some(camera), Some(root)).section("ffmpeg");
    let inputs = camera.get("ffmpeg").and_then(|ffmpeg| ffmpeg.get("inputs"));
    let Some(inputs) = inputs else {
        camera.refuse("it has no inputs, and is left out");
        return None;
    };
    let mut read = Vec::new();
    for node in inputs.items() {
        read.extend(input(name, node, root, site));
    }
    let with_role = |role: &str| read.iter().position(|input| input.roles.contains(&role));
    let detect = with_role("detect")
        .or(with_role("record"))
        .or((!read.is_empty()).then_some(0));
    let Some(detect) = detect else {
        let reason = inputs
            .items()
            .iter()
            .find_map(Node::refusal)
            .unwrap_or_else(|| "there is none".to_owned());
        camera.refuse(format!(
            "it is left out, since none of its inputs can be opened: {reason}"
        ));
        return None;
    };
    let record = with_role("record").unwrap_or(detect);
    let (detect, record) = (&read[detect], &read[record]);
    lines.push(format!("uri = {}", text(&record.address.uri.0)));
    if detect.plain != record.plain {
        let is_one_login = detect.address.login == record.address.login
            || detect.address.login.is_none() && !detect.address.has_variables;
        let is_mixed = record.address.login.is_some() && detect.address.has_variables;
        if is_one_login && !is_mixed {
            lines.push(format!("detect_uri = {}", text(&detect.address.uri.0)));
        } else {
            detect.node.refuse(
                "its user or password is not that of the input that is recorded, which is analysed instead",
            );
        }
    }
    for input in &read {
        let is_used = std::ptr::eq(input.node, detect.node) || std::ptr::eq(input.node, record.node);
        if is_used && input.node.refusal().is_none() {
            ["path", "roles"]
                .iter()
                .filter_map(|key| input.node.get(key))
                .for_each(Node::take);
        }
    }
    connection(layer, detect, record, lines);
    Some(record.address.login.clone())
}

/// One input; `None` where its address cannot be opened, which it says.
fn input<'a>(name: &str, node: &'a Node, root: &'a Node, site: &mut Site) -> Option<Input<'a>> {
    let Some(path) = node.get("path").and_then(Node::scalar) else {
        node.refuse("it has no path");
        return None;
    };
    let streams = root.get("go2rtc").and_then(|go2rtc| go2rtc.get("streams"));
    let followed = address::followed(path, streams);
    let read = followed.and_then(|plain| {
        let address = address::read(name, &plain, &mut site.secrets)?;
        Ok((address, plain))
    });
    let (address, plain) = read.map_err(|reason| node.refuse(reason)).ok()?;
    let roles = node.get("roles").map(Node::texts).unwrap_or_default();
    Some(Input {
        node,
        address,
        plain,
        roles: roles.into_iter().filter_map(Node::scalar).collect(),
    })
}

/// Transport and decoder, where they are set by presets that have a counterpart.
fn connection(ffmpeg: Layer<'_>, detect: &Input<'_>, record: &Input<'_>, lines: &mut Vec<String>) {
    let preset = |name: &str| {
        let [own, other] = [detect, record].map(|input| input.node.get(name));
        let Some(node) = own.or(other) else {
            return ffmpeg.text(name);
        };
        // The same words of the other input say the same.
        if let Some(other) = other.filter(|other| other.scalar() == node.scalar()) {
            other.take();
        }
        Some((node, node.scalar()?))
    };
    if let Some((node, words)) = preset("input_args") {
        let is_rtsp = [detect, record]
            .iter()
            .any(|input| input.address.uri.0.starts_with("rtsp"));
        match words {
            "preset-rtsp-udp" if is_rtsp => {
                node.take();
                lines.push("transport = \"udp\"".to_owned());
            }
            "preset-rtsp-generic" | "preset-rtsp-restream" | "preset-rtsp-restream-low-latency" => {
                node.take()
            }
            _ => node.refuse("these arguments are not taken over"),
        }
    }
    if let Some((node, words)) = preset("hwaccel_args") {
        let decoder = match words {
            "auto" => Some("auto"),
            "preset-vaapi" => Some("vaapi"),
            "preset-intel-qsv-h264" | "preset-intel-qsv-h265" => Some("qsv"),
            "preset-nvidia" | "preset-nvidia-h264" | "preset-nvidia-h265" => Some("cuda:0"),
            _ => None,
        };
        match decoder {
            Some(decoder) => {
                node.take();
                lines.push(format!("decoder = \"{decoder}\""));
            }
            None => node.refuse("no decoder has this name"),
        }
    }
}

/// The motion gate: Frigate detects where something moves.
fn motion(layer: Layer<'_>, size: Option<Size>, lines: &mut Vec<String>) {
    let motion = layer.section("motion");
    if motion.flag("enabled") == Some(false) {
        lines.push("gate = \"none\"".to_owned());
        return;
    }
    let masks = polygons(motion.texts("mask"), size);
    if !masks.is_empty() {
        lines.push(format!("gate_ignore = [{}]", masks.join(", ")));
    }
}

/// Masks of a key, each as TOML; what is no polygon is refused.
pub(super) fn polygons(masks: Option<Vec<&Node>>, size: Option<Size>) -> Vec<String> {
    let masks = masks.into_iter().flatten();
    let read = masks.filter_map(|node| {
        let polygon = polygon(&[node.scalar()?], size);
        polygon
            .map_err(|reason| node.refuse(reason))
            .ok()
            .inspect(|_| node.take())
    });
    read.collect()
}

/// Zones of the camera, and objects that stay in them.
fn read_zones(
    entry: &Entry,
    tracked: &[String],
    size: Option<Size>,
    fps: f64,
    (names, site): (&mut BTreeSet<String>, &mut Site),
    lines: &mut Vec<String>,
) -> Vec<Zone> {
    let mut zones = Vec::new();
    names.extend(rules::NAMES.iter().map(|name| (*name).to_owned()));
    for zone in entry.node.get("zones").map(Node::entries).unwrap_or_default() {
        let node = &zone.node;
        if node.get("enabled").and_then(Node::flag) == Some(false) {
            node.refuse("the zone is disabled, and left out");
            continue;
        }
        let Some(coordinates) = node.get("coordinates") else {
            node.refuse("it has no coordinates");
            continue;
        };
        let corners = coordinates.texts();
        let corners: Vec<&str> = corners.iter().filter_map(|corner| corner.scalar()).collect();
        let points = match polygon(&corners, size) {
            Ok(points) => points,
            Err(reason) => {
                node.refuse(reason);
                continue;
            }
        };
        let wanted = node.get("objects").map(Node::texts).unwrap_or_default();
        let classes = objects::of_tracked(&wanted, tracked);
        if classes.is_empty() && !wanted.is_empty() {
            node.refuse("the camera tracks none of its objects");
            continue;
        }
        coordinates.take();
        let mut name = plain_name(&zone.name, "zone");
        if names.contains(&name) {
            name += "-zone";
        }
        let name = free_name(&name, names);
        names.insert(name.clone());
        if name != zone.name {
            let path = ["cameras", &entry.name, "zones", &zone.name].map(str::to_owned);
            let text = format!("the zone is called \"{name}\" in the graph");
            site.renamed.push(Remark::new(zone.line, &path, text));
        }
        let of_classes = if classes.is_empty() {
            String::new()
        } else {
            format!(", classes = {}", strings(&classes))
        };
        let inertia = node
            .get("inertia")
            .and_then(Node::number)
            .unwrap_or(DEFAULT_INERTIA);
        let settle = milliseconds((inertia.clamp(0.0, 1000.0)) / fps);
        lines.push(format!(
            "zones.{} = {{ points = {points}{of_classes}, settle = {settle} }}",
            key_text(&name)
        ));
        let loitering = node.get("loitering_time").and_then(Node::number);
        let loitering_s = loitering.unwrap_or(0.0).clamp(0.0, 1e6);
        if loitering_s > 0.0 {
            let loiterer = free_name(&format!("{name}-loitering"), names);
            names.insert(loiterer.clone());
            lines.push(format!(
                "transforms.{} = {{ type = \"loitering\", points = {points}{of_classes}, after = {} }}",
                key_text(&loiterer),
                milliseconds(loitering_s)
            ));
        }
        zones.push(Zone {
            name,
            frigate_name: zone.name.clone(),
            classes,
            loitering_s,
        });
    }
    zones
}

/// A text of a graph in which dollar signs are doubled already.
fn text(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}
