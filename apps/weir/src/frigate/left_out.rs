//! Settings that were not taken over: every value of the file that nothing read, each with the nearest thing in Weir.

use std::collections::BTreeMap;

use super::Remark;
use super::yaml::{Content, Node};

/// The nearest thing in Weir by the path of a setting, below its camera or at the top; `*` is any key. The longest path counts.
const NEAREST: &[(&str, &str)] = &[
    ("audio", "Weir does not listen for sounds"),
    ("audio_transcription", "Weir does not turn speech into text"),
    (
        "auth",
        "tokens and roles of weir serve are in a file of their own (docs/reference/access.md)",
    ),
    (
        "best_image_timeout",
        "a transform `best-shot` keeps the best picture of each track (docs/reference/best-shot.md)",
    ),
    (
        "birdseye",
        "the view Live of the page shows all cameras at once (docs/reference/page.md)",
    ),
    ("camera_groups", "`group` of a camera (docs/reference/cameras.md)"),
    (
        "classification",
        "a module with `operator = \"classify\"` (docs/reference/modules.md)",
    ),
    (
        "database",
        "Weir has no database: incidents are in the state folder, recordings in the folders of their sinks",
    ),
    (
        "detect",
        "frames are analysed in their own size; `sample` of a source, keys of the tracker (docs/reference/tracking.md)",
    ),
    (
        "detect.stationary",
        "`stationary = false` of a rule, `still_lost_after` of the tracker (docs/reference/tracking.md)",
    ),
    (
        "detectors",
        "`device` of a model; weir doctor lists devices (docs/how-to/gpu.md)",
    ),
    (
        "environment_vars",
        "variables of the service that runs weir (docs/how-to/systemd.md)",
    ),
    (
        "face_recognition",
        "modules `detect` and `embed` with a gallery (docs/how-to/recognise-faces.md)",
    ),
    (
        "ffmpeg",
        "packets are recorded as they come; `transport`, `options` and `decoder` of a source (docs/reference/sources.md)",
    ),
    (
        "ffmpeg.inputs",
        "a camera has one address for recordings (`uri`) and one for models (`detect_uri`)",
    ),
    ("genai", "a sink `describe` (docs/how-to/describe-incidents.md)"),
    (
        "go2rtc",
        "weir serve shows each camera itself; a sink `push` sends streams to a media server (docs/how-to/push.md)",
    ),
    (
        "live",
        "the page shows `uri`, and pictures where a browser cannot play it (docs/reference/page.md)",
    ),
    (
        "logger",
        "the variable RUST_LOG and --log-format (docs/reference/settings.md)",
    ),
    (
        "lpr",
        "modules `detect` and `read-text` (docs/how-to/read-plates.md)",
    ),
    (
        "model",
        "`model` and `labels` of [models.detector] (docs/how-to/own-model.md)",
    ),
    (
        "motion",
        "`gate` and `gate_ignore` of a source; the gate has no thresholds to set (docs/reference/sources.md)",
    ),
    ("mqtt", "keys of [sinks.home] (docs/reference/sinks.md)"),
    (
        "mqtt.client_id",
        "each run has a name of its own, so that Frigate may run beside it; `client_id` of [sinks.home]",
    ),
    ("networking", "--listen of weir serve (docs/reference/service.md)"),
    (
        "notifications",
        "a sink `webhook` with a preset (docs/how-to/alarms-to-a-phone.md)",
    ),
    ("objects", "`objects` of a camera (docs/reference/cameras.md)"),
    (
        "objects.filters.*.threshold",
        "`min_score` of a rule, one for all of its classes (docs/reference/rules.md)",
    ),
    (
        "objects.genai",
        "a sink `describe` (docs/how-to/describe-incidents.md)",
    ),
    (
        "onvif",
        "`onvif` of a camera, and a sink `ptz` for presets (docs/how-to/camera-events.md)",
    ),
    (
        "proxy",
        "--trusted-proxy of weir serve (docs/reference/access.md)",
    ),
    (
        "record",
        "keys of the sinks `archive` and `clips` (docs/reference/recording.md)",
    ),
    (
        "record.export",
        "exports copy packets and encode nothing (docs/how-to/play-recordings.md)",
    ),
    (
        "record.preview",
        "the strip over time of the page (docs/reference/page.md)",
    ),
    ("review", "`rules` of a camera (docs/reference/rules.md)"),
    (
        "review.genai",
        "a sink `describe` (docs/how-to/describe-incidents.md)",
    ),
    (
        "rtmp",
        "a sink `push` sends streams to a media server (docs/how-to/push.md)",
    ),
    (
        "semantic_search",
        "pictures are found by weir search (docs/how-to/search.md)",
    ),
    (
        "snapshots",
        "a transform `best-shot`: pictures are kept with their clip (docs/reference/best-shot.md)",
    ),
    ("telemetry", "metrics for Prometheus (docs/how-to/prometheus.md)"),
    ("timestamp_style", "the clock that the camera draws itself"),
    (
        "tls",
        "--tls-cert and --tls-key of weir serve (docs/reference/access.md)",
    ),
    (
        "ui",
        "the page keeps its choices in the browser (docs/reference/page.md)",
    ),
    ("webui_url", "the address of the camera's own page is not kept"),
    (
        "zones",
        "`zones` and `rules` of a camera (docs/reference/transforms.md)",
    ),
    (
        "zones.*.distances",
        "a transform `speed` with four ground points (docs/reference/transforms.md)",
    ),
    (
        "zones.*.filters",
        "sizes and scores are of a camera and a class, not of a zone: `objects` (docs/reference/cameras.md)",
    ),
    ("zones.*.friendly_name", "the name of the zone is shown"),
    (
        "zones.*.speed_threshold",
        "`above_kmh` of a transform `speed` (docs/reference/transforms.md)",
    ),
];

/// Every value that was not taken over, in the order of the file. Values of several cameras with the same reason are one remark.
pub(super) fn left_out(root: &Node) -> Vec<Remark> {
    let mut found = Vec::new();
    walk(root, &mut Vec::new(), &mut found);
    found.sort_by_key(|remark| remark.line);
    let mut out: Vec<Remark> = Vec::new();
    let mut groups: BTreeMap<(String, String), usize> = BTreeMap::new();
    for remark in found {
        if remark.path.first().is_some_and(|first| first == "cameras") {
            let group = (pattern(&remark.path).join("."), remark.text.clone());
            if let Some(index) = groups.get(&group) {
                out[*index].more_lines.push(remark.line);
                continue;
            }
            groups.insert(group, out.len());
        }
        out.push(remark);
    }
    out
}

fn walk(node: &Node, path: &mut Vec<String>, found: &mut Vec<Remark>) {
    if let Some(reason) = node.refusal() {
        let text = match nearest(path) {
            Some(nearest) => format!("{reason}: {nearest}"),
            None => reason,
        };
        found.push(Remark::new(node.line, path, text));
        return;
    }
    if node.is_taken()
        || (path.first().is_some_and(|first| first == "cameras") && path.len() > 2 && is_off(node))
    {
        return;
    }
    let is_section = path.is_empty() || (path.len() <= 2 && path[0] == "cameras");
    if !is_section && is_untouched(node) {
        let nearest = nearest(path);
        if nearest.is_some() && is_off(node) {
            return;
        }
        let text = nearest.map_or_else(|| "unknown key".to_owned(), str::to_owned);
        found.push(Remark::new(node.line, path, text));
        return;
    }
    match &node.content {
        Content::Scalar(..) => {
            let text = nearest(path).unwrap_or("unknown key").to_owned();
            found.push(Remark::new(node.line, path, text));
        }
        Content::List(items) => {
            for (index, item) in items.iter().enumerate() {
                path.push(format!("[{index}]"));
                walk(item, path, found);
                path.pop();
            }
        }
        Content::Table(entries) => {
            for entry in entries {
                path.push(entry.name.clone());
                let before = found.len();
                walk(&entry.node, path, found);
                // The line of the key, where the value begins below it.
                if let [remark] = &mut found[before..]
                    && remark.path.len() == path.len()
                {
                    remark.line = entry.line;
                }
                path.pop();
            }
        }
    }
}

/// True if nothing of it was taken over or refused.
fn is_untouched(node: &Node) -> bool {
    if node.is_taken() || node.refusal().is_some() {
        return false;
    }
    match &node.content {
        Content::Scalar(..) => true,
        Content::List(items) => items.iter().all(is_untouched),
        Content::Table(entries) => entries.iter().all(|entry| is_untouched(&entry.node)),
    }
}

/// True for a section that is switched off: nothing is lost with it.
fn is_off(node: &Node) -> bool {
    let enabled = node.entries().iter().find(|entry| entry.name == "enabled");
    let word = enabled.and_then(|entry| entry.node.scalar());
    word.is_some_and(|word| word.eq_ignore_ascii_case("false"))
}

/// The path below a camera, or the whole; indexes of lists are left out.
fn pattern(path: &[String]) -> Vec<&str> {
    let below = match path {
        [first, _, below @ ..] if first == "cameras" => below,
        _ => path,
    };
    let names = below.iter().filter(|name| !name.starts_with('['));
    names.map(String::as_str).collect()
}

fn nearest(path: &[String]) -> Option<&'static str> {
    let names = pattern(path);
    let fits = |known: &str| {
        let mut parts = known.split('.');
        let mut names = names.iter();
        parts.all(|part| names.next().is_some_and(|name| part == "*" || part == *name))
    };
    let fitting = NEAREST.iter().filter(|(known, _)| fits(known));
    let longest = fitting.max_by_key(|(known, _)| known.split('.').count());
    longest.map(|(_, nearest)| *nearest)
}

#[cfg(test)]
mod tests {
    use super::super::yaml::parse;
    use super::*;

    fn listed(text: &str) -> Vec<String> {
        let root = parse(text).unwrap();
        left_out(&root).iter().map(Remark::to_string).collect()
    }

    #[test]
    fn what_nothing_read_is_listed_with_its_line() {
        let listed = listed(
            "birdseye:\n  mode: objects\nlpr:\n  enabled: false\nodd: 1\ncameras:\n  a:\n    live:\n      height: 720\n  b:\n    \
             live:\n      height: 480\n    odd: [1]\n",
        );
        assert_eq!(listed.len(), 4, "{listed:#?}");
        assert!(listed[0].starts_with("1: birdseye: the view Live"), "{listed:#?}");
        assert_eq!(listed[1], "5: odd: unknown key");
        let live = "8: cameras.a.live: the page shows";
        assert!(
            listed[2].starts_with(live) && listed[2].ends_with("(also line 11)"),
            "{listed:#?}"
        );
        assert_eq!(listed[3], "13: cameras.b.odd: unknown key");
    }

    #[test]
    fn a_part_of_a_section_is_listed_alone() {
        let root = parse("motion:\n  mask: 0,0\n  threshold: 30\n").unwrap();
        root.get("motion").unwrap().get("mask").unwrap().take();
        let listed = left_out(&root);
        assert_eq!((listed.len(), listed[0].line), (1, 3));
    }
}
