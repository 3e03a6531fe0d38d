//! Recordings of a camera: for how long all of it is kept, and clips of its alerts, detections and events.

use weir_graph::text_edit::key_text;

use super::graph::{days, milliseconds};
use super::layer::Layer;
use super::rules::events;

/// Days and seconds of Frigate where nothing is set.
const DEFAULT_DAYS: f64 = 10.0;
const DEFAULT_CAPTURE: f64 = 5.0;
/// Longest retention and longest time around an incident.
const MAX_DAYS: f64 = 36_500.0;
const MAX_CAPTURE: f64 = 3600.0;

/// Recordings of a camera that are kept.
#[derive(Debug, Default)]
pub(super) struct Recording {
    /// Keys of the sink that keeps everything, a line each.
    pub(super) archive: Option<Vec<String>>,
    /// Clips of rules: the name of the rule, and keys of the sink, a line each.
    pub(super) clips: Vec<(&'static str, Vec<String>)>,
    /// True if sound is recorded, too.
    pub(super) sound: bool,
}

impl Recording {
    /// The key of a camera or a sink whose sound is recorded.
    pub(super) fn sound_key(&self) -> impl Iterator<Item = String> + use<> {
        self.sound.then(|| "sound = true".to_owned()).into_iter()
    }
}

/// Reads the section `record`, in all its forms.
pub(super) fn read(layer: Layer<'_>) -> Recording {
    let record = layer.section("record");
    if record.flag("enabled") != Some(true) {
        return Recording::default();
    }
    let mut recording = Recording {
        sound: sound(layer),
        ..Recording::default()
    };
    let retain = record.section("retain");
    // `continuous` has taken the place of `retain`.
    let kept = retain
        .number("days")
        .or(record.section("continuous").number("days"));
    if let Some((node, kept)) = kept {
        if kept > MAX_DAYS {
            node.refuse("it is longer than a hundred years");
        } else if kept > 0.0 {
            let keep = format!("keep = {}", days(kept));
            recording.archive = Some(recording.sound_key().chain([keep]).collect());
        }
        only_all(retain, "all packets are kept, whether something moves or not");
    }
    let sections = if let Some(events) = events(layer) {
        vec![("event", events)]
    } else {
        vec![
            ("alert", record.section("alerts")),
            ("detection", record.section("detections")),
        ]
    };
    for (rule, section) in sections {
        let clips = clips(section).map(|keys| (rule, recording.sound_key().chain(keys).collect()));
        recording.clips.extend(clips);
    }
    recording
}

/// True if the arguments of recordings keep the sound.
fn sound(layer: Layer<'_>) -> bool {
    let arguments = layer.section("ffmpeg").section("output_args").text("record");
    match arguments {
        Some((_, "preset-record-generic-audio-aac" | "preset-record-generic-audio-copy")) => true,
        None | Some((_, "preset-record-generic")) => false,
        Some((node, _)) => {
            node.refuse("these arguments are not taken over");
            false
        }
    }
}

/// Keys of the sink for clips of a rule, a line each; `None` where they are kept for no time.
fn clips(section: Layer<'_>) -> Option<Vec<String>> {
    let retain = section.section("retain");
    let keep = retain.number("days").or(retain.number("default"));
    let keep = keep.map_or(DEFAULT_DAYS, |(_, days)| days).clamp(0.0, MAX_DAYS);
    let by_class = retain.section("objects");
    only_all(retain, "all packets of a clip are kept");
    if keep == 0.0 && by_class.names().is_empty() {
        return None;
    }
    let mut keys = Vec::new();
    for (name, key) in [("pre_capture", "before"), ("post_capture", "after")] {
        let seconds = section
            .number(name)
            .map_or(DEFAULT_CAPTURE, |(_, seconds)| seconds);
        keys.push(format!(
            "{key} = {}",
            milliseconds(seconds.clamp(0.0, MAX_CAPTURE))
        ));
    }
    let mut kept = Vec::new();
    for name in by_class.names() {
        match by_class.number(name) {
            Some((_, class_days)) if class_days > 0.0 => {
                kept.push(format!("{} = {}", key_text(name), days(class_days.min(MAX_DAYS))));
            }
            _ => {}
        }
    }
    // Nothing is kept for no time: an hour is the least.
    let keep = if keep == 0.0 {
        "\"1h\"".to_owned()
    } else {
        days(keep)
    };
    if kept.is_empty() {
        keys.push(format!("keep = {keep}"));
    } else {
        kept.push(format!("default = {keep}"));
        keys.push(format!("keep_by = {{ {} }}", kept.join(", ")));
    }
    Some(keys)
}

/// Takes over `mode = all`; other modes keep less than Weir does.
fn only_all(retain: Layer<'_>, reason: &str) {
    if let Some((node, mode)) = retain.text("mode")
        && mode != "all"
    {
        node.refuse(reason.to_owned());
    }
}
