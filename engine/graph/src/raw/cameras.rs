//! `[cameras.NAME]` and `[defaults]`: the short form of a site.
//!
//! The table of a camera holds the keys of its source, its masks, zones, lines and rules, and the schedule of these. It is turned
//! into tables of `[sources]` and `[transforms]` before these are read, each value with its position in the text: what is wrong is
//! reported where it was written.

use std::collections::BTreeMap;

use weir_config::{Content, Diagnostics, Entry, Fields, Node, Spanned, spelling};
use weir_flow::{has_login, takes_login, with_small_scheme};

use super::context::Context;
use super::section;
use crate::emulated::EmulatedStream;
use crate::graph::TRACK;
use crate::keys::{self, CAMERA, Mark, SCHEDULE_KEYS, SOURCE, ValueKind};
use crate::stream_defaults::StreamDefaults;

/// The value of `gate` that needs `onvif`.
const BY_CAMERA: &str = "camera";

/// Turns cameras and defaults into sources and transforms; gives the keys that added streams take from them, too.
pub(super) fn expand(document: &[Entry], diagnostics: &mut Diagnostics) -> (Vec<Entry>, StreamDefaults) {
    let (mut plain, mut cameras) = (Vec::new(), Vec::new());
    let mut defaults = Vec::new();
    for entry in document {
        match entry.name.as_str() {
            "defaults" => defaults = read_defaults(entry, diagnostics),
            "cameras" => cameras.push(entry),
            _ => plain.push(entry.clone()),
        }
    }
    for sources in plain.iter_mut().filter(|entry| entry.name == "sources") {
        let Content::Table(sources) = &mut sources.node.content else {
            continue;
        };
        for source in sources {
            if let Content::Table(keys) = &mut source.node.content {
                add_defaults(keys, &defaults);
            }
        }
    }
    let trackers = trackers(document);
    for section in cameras {
        let Content::Table(tables) = &section.node.content else {
            let message = format!(
                "[cameras] must hold named tables, not {}",
                section.node.content.kind()
            );
            let hint = "write [cameras.NAME] above the keys of each".to_owned();
            if !matches!(section.node.content, Content::Broken) {
                diagnostics.add(section.at, message, Some(hint));
            }
            continue;
        };
        for table in tables {
            if diagnostics.is_full() {
                break;
            }
            let Some(camera) = Camera::open(table, &defaults, diagnostics) else {
                continue;
            };
            let transforms = camera.transforms(&trackers, diagnostics);
            add(&mut plain, "sources", section.at, vec![camera.source()]);
            add(&mut plain, "transforms", section.at, transforms);
        }
    }
    let pictures = pictures(&plain);
    let defaults = StreamDefaults {
        shared: defaults,
        pictures,
    };
    (plain, defaults)
}

/// Keys of the picture of each source.
fn pictures(document: &[Entry]) -> BTreeMap<String, Vec<Entry>> {
    let sections = document.iter().filter(|entry| entry.name == "sources");
    let sources = sections.flat_map(|section| table(section).unwrap_or_default());
    let pictures = sources.map(|source| {
        let keys = table(source).unwrap_or_default().iter();
        let keys = keys.filter(|key| keys::is_marked(SOURCE, &key.name, Mark::Picture));
        (source.name.clone(), keys.cloned().collect())
    });
    pictures.collect()
}

/// The section `[sources]` of added streams, with the keys that they have from a graph.
pub(super) fn with_defaults(sources: &Entry, defaults: &StreamDefaults) -> Entry {
    let mut sources = sources.clone();
    let Content::Table(streams) = &mut sources.node.content else {
        return sources;
    };
    for stream in streams {
        let Content::Table(keys) = &mut stream.node.content else {
            continue;
        };
        let picture = defaults.pictures.get(&stream.name);
        let is_gated = text_of(keys, "gate").or(text_of(&defaults.shared, "gate")) == Some("motion")
            && text_of(keys, "uri").is_some_and(|uri| !uri.starts_with(EmulatedStream::SCHEME));
        let missing = picture.into_iter().flatten().filter(|entry| {
            let is_there = keys.iter().any(|key| key.name == entry.name);
            !is_there && (is_gated || entry.name != "gate_ignore")
        });
        let missing: Vec<Entry> = missing.cloned().collect();
        keys.extend(missing);
        add_defaults(keys, &defaults.shared);
    }
    sources
}

/// Reads the defaults as those of a camera, so that what is wrong with them is reported before one is added.
pub(super) fn check_defaults(defaults: &[Entry], context: &mut Context<'_>) {
    let Some(first) = defaults.first() else { return };
    let name = "defaults".to_owned();
    let mut keys = vec![text("uri", "rtsp://camera/stream", first.at)];
    if text_of(defaults, "gate") == Some(BY_CAMERA) {
        keys.push(text("onvif", "http://camera/onvif/device_service", first.at));
    }
    add_defaults(&mut keys, defaults);
    let camera = Entry {
        name: name.clone(),
        at: first.at,
        node: Node::new(first.at, Content::Table(keys)),
    };
    section::source(Spanned::new(name, first.at), &camera, context);
}

/// Keys of a camera whose tables become transforms, each with the type of these; `None`: they name their own.
fn parts() -> impl Iterator<Item = (&'static str, Option<&'static str>)> {
    CAMERA.iter().filter_map(|key| match key.kind {
        ValueKind::Parts(kind) => Some((key.name, kind)),
        _ => None,
    })
}

/// Names of the trackers of a graph.
fn trackers(document: &[Entry]) -> Vec<&str> {
    let modules = document.iter().filter(|entry| entry.name == "modules");
    let modules = modules.flat_map(|entry| table(entry).unwrap_or_default());
    let is_tracker = |module: &&Entry| text_of(table(module).unwrap_or_default(), "operator") == Some(TRACK);
    modules
        .filter(is_tracker)
        .map(|module| module.name.as_str())
        .collect()
}

/// Entries of `[defaults]`.
fn read_defaults(entry: &Entry, diagnostics: &mut Diagnostics) -> Vec<Entry> {
    let Some(mut fields) = Fields::open("[defaults]".to_owned(), entry, diagnostics) else {
        return Vec::new();
    };
    let known = keys::names(&keys::default_keys());
    fields.expect(&known, false, diagnostics);
    let privacy = fields.entry("privacy").and_then(table).unwrap_or_default();
    if let Some(entry) = privacy.iter().find(|entry| entry.name == "regions") {
        let message = "`regions` of `privacy` have no meaning in [defaults]";
        let hint = "write them into the table of the camera; it keeps `blur` and `blackout` of [defaults]";
        diagnostics.add(entry.at, message, Some(hint.to_owned()));
    }
    known.into_iter().filter_map(|key| named(&fields, key)).collect()
}

/// The entry of a key, by the name that it is read as.
fn named(fields: &Fields<'_>, key: &str) -> Option<Entry> {
    let entry = fields.entry(key)?.clone();
    Some(Entry {
        name: key.to_owned(),
        ..entry
    })
}

/// Adds the defaults to the keys of a source that has none of its own, where they have a meaning for it.
fn add_defaults(keys: &mut Vec<Entry>, defaults: &[Entry]) {
    let is_there = |key: &str| keys.iter().any(|entry| entry.name == key);
    if is_there("template") || is_there("queue") || text_of(keys, "mode") == Some("queued") {
        return;
    }
    let Some(uri) = text_of(keys, "uri") else { return };
    let is_emulated = uri.starts_with(EmulatedStream::SCHEME);
    let addresses = [Some(uri), text_of(keys, "detect_uri")];
    let is_rtsp = addresses.into_iter().flatten().any(|uri| {
        let uri = with_small_scheme(uri);
        uri.starts_with("rtsp://") || uri.starts_with("rtsps://")
    });
    let has_no_login = addresses
        .into_iter()
        .flatten()
        .all(|uri| takes_login(uri) && !has_login(uri));
    let is_by_camera = text_of(defaults, "gate") == Some(BY_CAMERA);
    let has_meaning = |name: &str| {
        // A key of the camera alone, such as its tracker, is no key of its source.
        let Some(key) = SOURCE.iter().find(|key| key.name == name) else {
            return false;
        };
        if name == "gate" && is_by_camera {
            return is_there("onvif");
        }
        (is_rtsp || !key.has(Mark::Rtsp))
            && (has_no_login || !key.has(Mark::Login))
            && (!is_emulated || !key.has(Mark::Decoded))
    };
    let missing = defaults
        .iter()
        .filter(|entry| has_meaning(&entry.name) && !is_there(&entry.name));
    let missing: Vec<Entry> = missing.cloned().collect();
    keys.extend(missing);
    if let Some(default) = defaults.iter().find(|entry| entry.name == "privacy") {
        complete(keys, default);
    }
}

/// Adds to a table among the keys what it lacks of the default for it.
fn complete(keys: &mut [Entry], default: &Entry) {
    let own = keys.iter_mut().find(|entry| entry.name == default.name);
    if let Some(Content::Table(own)) = own.map(|entry| &mut entry.node.content) {
        let missing = table(default).unwrap_or_default().iter();
        let missing = missing.filter(|entry| own.iter().all(|own| own.name != entry.name));
        let missing: Vec<Entry> = missing.cloned().collect();
        own.extend(missing);
    }
}

/// Adds tables to a section, which is made where there is none.
fn add(document: &mut Vec<Entry>, section: &str, at: usize, tables: Vec<Entry>) {
    if tables.is_empty() {
        return;
    }
    let known = document.iter_mut().find(|entry| entry.name == section);
    match known.map(|entry| &mut entry.node.content) {
        Some(Content::Table(known)) => known.extend(tables),
        // A section that is no table is reported where it is read.
        Some(_) => {}
        None => document.push(Entry {
            name: section.to_owned(),
            at,
            node: Node::new(at, Content::Table(tables)),
        }),
    }
}

fn table(entry: &Entry) -> Option<&[Entry]> {
    match &entry.node.content {
        Content::Table(entries) => Some(entries),
        _ => None,
    }
}

fn text_of<'e>(entries: &'e [Entry], key: &str) -> Option<&'e str> {
    let entry = entries.iter().find(|entry| entry.name == key)?;
    match &entry.node.content {
        Content::Text(text) => Some(text),
        _ => None,
    }
}

fn text(name: &str, value: &str, at: usize) -> Entry {
    let content = Content::Text(value.to_owned());
    Entry {
        name: name.to_owned(),
        at,
        node: Node::new(at, content),
    }
}

fn texts(name: &str, value: &str, at: usize) -> Entry {
    let value = Node::new(at, Content::Text(value.to_owned()));
    let content = Content::List(vec![value]);
    Entry {
        name: name.to_owned(),
        at,
        node: Node::new(at, content),
    }
}

/// The table of a camera.
struct Camera<'d> {
    name: &'d str,
    at: usize,
    fields: Fields<'d>,
    /// Keys of its source, with the defaults.
    source: Vec<Entry>,
    /// The tracker that it names, by itself or by the defaults.
    tracker: Option<(String, usize)>,
    /// Keys of its schedule.
    schedule: Vec<Entry>,
}

impl<'d> Camera<'d> {
    fn open(entry: &'d Entry, defaults: &[Entry], diagnostics: &mut Diagnostics) -> Option<Self> {
        let owner = format!("camera \"{}\"", entry.name.escape_debug());
        let mut fields = Fields::open(owner, entry, diagnostics)?;
        fields.expect(&keys::names(&keys::camera_keys()), false, diagnostics);
        let of_source = keys::marked(SOURCE, Mark::Camera);
        let mut source: Vec<Entry> = of_source.filter_map(|key| named(&fields, key)).collect();
        add_defaults(&mut source, defaults);
        let default = |key: &str| defaults.iter().find(|entry| entry.name == key);
        let tracker = fields.text("tracker", diagnostics);
        let tracker = tracker.given().map(|name| (name.value.clone(), name.at));
        let tracker = tracker.or_else(|| {
            let entry = default("tracker")?;
            let name = text_of(std::slice::from_ref(entry), "tracker")?;
            Some((name.to_owned(), entry.node.at))
        });
        let own = fields.entry("schedule");
        let schedule = own.or_else(|| default("schedule"));
        let schedule = schedule.map_or_else(Vec::new, |entry| read_schedule(entry, diagnostics));
        if let Some(entry) = own.filter(|_| fields.entry("rules").is_none()) {
            let message = format!("{} has a `schedule` and no `rules`", fields.owner);
            let hint = "rules have schedules: zones and lines count at all times".to_owned();
            diagnostics.warn(entry.at, message, Some(hint));
        }
        Some(Self {
            name: &entry.name,
            at: entry.at,
            fields,
            source,
            tracker,
            schedule,
        })
    }

    /// The table of its source.
    fn source(&self) -> Entry {
        Entry {
            name: self.name.to_owned(),
            at: self.at,
            node: Node::new(self.at, Content::Table(self.source.clone())),
        }
    }

    /// Names of its parts, as its own tables have them.
    fn parts(&self) -> impl Iterator<Item = &'d Entry> + '_ {
        let parts = parts().filter_map(|(section, _)| self.fields.entry(section));
        parts.flat_map(|entry| table(entry).unwrap_or_default())
    }

    /// The tables of its transforms.
    fn transforms(&self, trackers: &[&str], diagnostics: &mut Diagnostics) -> Vec<Entry> {
        let mut transforms = Vec::new();
        let mut lacks_tracker = None;
        for (section, kind) in parts() {
            let Some(entry) = self.fields.entry(section) else {
                continue;
            };
            let owner = format!("`{section}` of {}", self.fields.owner);
            if Fields::open(owner, entry, diagnostics).is_none() {
                continue;
            }
            for part in table(entry).unwrap_or_default() {
                let Some(mut keys) = self.keys_of(part, section, kind, diagnostics) else {
                    continue;
                };
                let has_inputs = keys.iter().any(|key| key.name == "inputs");
                match (&self.tracker, trackers) {
                    _ if has_inputs => {}
                    (Some((tracker, at)), _) => keys.push(texts("inputs", tracker, *at)),
                    (None, [tracker]) => keys.push(texts("inputs", tracker, part.at)),
                    (None, _) => {
                        lacks_tracker.get_or_insert(part.at);
                        continue;
                    }
                }
                transforms.push(Entry {
                    name: format!("{}.{}", self.name, part.name),
                    at: part.at,
                    node: Node::new(part.node.at, Content::Table(keys)),
                });
            }
        }
        if let Some(at) = lacks_tracker {
            self.report_tracker(at, trackers, diagnostics);
        }
        transforms
    }

    /// Keys of one part as a transform; `None` where they are wrong, which is reported.
    fn keys_of(
        &self,
        part: &Entry,
        section: &str,
        kind: Option<&str>,
        diagnostics: &mut Diagnostics,
    ) -> Option<Vec<Entry>> {
        let mut keys = match &part.node.content {
            Content::Table(keys) => keys.clone(),
            // Points alone are the short form of a table that has no more.
            Content::List(_) if matches!(section, "zones" | "lines") => vec![Entry {
                name: "points".to_owned(),
                at: part.at,
                node: part.node.clone(),
            }],
            Content::Broken => return None,
            other => {
                let message = format!(
                    "\"{}\" of `{section}` must be a table, not {}",
                    part.name.escape_debug(),
                    other.kind()
                );
                let hint = matches!(section, "zones" | "lines")
                    .then(|| "or a list of points: [[0.1, 0.5], [0.9, 0.5]]".to_owned());
                diagnostics.add(part.node.at, message, hint);
                return None;
            }
        };
        let fixed = ["streams"].into_iter().chain(kind.map(|_| "type"));
        for key in fixed {
            if let Some(entry) = keys.iter().find(|entry| entry.name == key) {
                let message = format!("`{key}` has no meaning in `{section}` of a camera");
                let hint = if key == "type" {
                    "leave it out: `transforms` of a camera name their types"
                } else {
                    "leave it out: they are for its stream alone"
                };
                diagnostics.add(entry.at, message, Some(hint.to_owned()));
                return None;
            }
        }
        keys.extend(kind.map(|kind| text("type", kind, part.at)));
        keys.push(texts("streams", self.name, part.at));
        if text_of(&keys, "type") == Some("rule") {
            let missing = self.schedule.iter();
            let missing = missing.filter(|entry| keys.iter().all(|key| key.name != entry.name));
            let missing: Vec<Entry> = missing.cloned().collect();
            keys.extend(missing);
        }
        let parts: Vec<&str> = self.parts().map(|part| part.name.as_str()).collect();
        let names = ["inputs", "zones", "transforms"];
        for key in keys.iter_mut().filter(|key| names.contains(&key.name.as_str())) {
            let Content::List(list) = &mut key.node.content else {
                continue;
            };
            for node in list {
                if let Content::Text(name) = &mut node.content
                    && parts.contains(&name.as_str())
                {
                    *name = format!("{}.{name}", self.name);
                }
            }
        }
        Some(keys)
    }

    fn report_tracker(&self, at: usize, trackers: &[&str], diagnostics: &mut Diagnostics) {
        let owner = &self.fields.owner;
        let (message, hint) = if trackers.is_empty() {
            (
                format!(
                    "{owner} has zones, lines or rules, and the graph has no tracker that they take from"
                ),
                "add [modules.tracks] with operator = \"track\" and inputs = [\"DETECTOR\"]".to_owned(),
            )
        } else {
            let known = spelling::list("trackers", trackers.iter().copied()).unwrap_or_default();
            (
                format!(
                    "the graph has {} trackers, and {owner} names none of them",
                    trackers.len()
                ),
                format!("tracker = \"{}\", here or in [defaults]; {known}", trackers[0]),
            )
        };
        diagnostics.add_if_parsed(at, message, Some(hint));
    }
}

/// Keys of a schedule.
fn read_schedule(entry: &Entry, diagnostics: &mut Diagnostics) -> Vec<Entry> {
    let Some(mut fields) = Fields::open("`schedule`".to_owned(), entry, diagnostics) else {
        return Vec::new();
    };
    fields.expect(&SCHEDULE_KEYS, false, diagnostics);
    SCHEDULE_KEYS
        .iter()
        .filter_map(|key| named(&fields, key))
        .collect()
}
