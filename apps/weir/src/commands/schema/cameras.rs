//! Sources, cameras and their defaults.

use serde_json::{Map, Value, json};
use weir_analytics::transforms::TRANSFORM_TYPES;
use weir_flow::{Catalog, KeySpec};

use super::shapes::{
    closed, flag, number, positive, properties, reference, spec_properties, text, texts, words,
};

pub(super) const TIMEZONE: &str =
    "Time zone of schedules by its name, such as \"Europe/Berlin\"; default that of [app], or UTC.";

fn polygons() -> Value {
    let point = json!({ "type": "array", "items": { "type": "number" }, "minItems": 2, "maxItems": 2 });
    let polygon = json!({ "type": "array", "items": point, "minItems": 3 });
    json!({ "anyOf": [polygon, { "type": "array", "items": polygon }] })
}

fn source_keys(catalog: &Catalog) -> Map<String, Value> {
    let options = closed(&[], spec_properties(catalog.connection_options));
    properties(&[
        (
            "uri",
            text(),
            "A file, a folder of images, a pipe, a device such as /dev/video0, an address, or emulated:KIND?rate=30.",
        ),
        (
            "detect_uri",
            text(),
            "The address of a smaller stream of the same pictures, from which frames are taken.",
        ),
        (
            "like",
            text(),
            "A source or template: frames enter wherever its frames do; \"*\": wherever those of any source do.",
        ),
        (
            "template",
            flag(),
            "true instead of all other keys: it stands for streams that are added to `weir serve`.",
        ),
        (
            "mode",
            words(&["live", "lossless", "queued"]),
            "live: what would be late is dropped; lossless: the source is held back; queued: its videos come from jobs.",
        ),
        (
            "queue",
            text(),
            "The folder of the queue of a queued source, or nats://HOST:PORT/NAME.",
        ),
        (
            "segment",
            text(),
            "The least length of a segment of a queued source, in media time; default \"10s\".",
        ),
        (
            "streams",
            json!({ "type": "integer", "minimum": 1, "maximum": 64 }),
            "Videos of a queued source at a time; default 2.",
        ),
        (
            "fps",
            positive(),
            "Frames per second of streams that do not declare a rate.",
        ),
        (
            "sample",
            text(),
            "Rate of the frames that are taken, such as \"5fps\"; default all.",
        ),
        (
            "decode",
            words(&["as-needed", "all"]),
            "Frames of a live source that are decoded under overload; default as-needed.",
        ),
        (
            "decoder",
            text(),
            "Decoder: cpu, auto, qsv, vaapi, or an NVIDIA GPU such as cuda:0; the CPU decodes what a device cannot; default cpu.",
        ),
        (
            "gate",
            words(&["motion", "camera", "none"]),
            "motion: frames without changes are skipped; camera: frames while the camera reports no motion; none: no frames. Default none.",
        ),
        (
            "gate_hold",
            text(),
            "Media time for which frames are processed after the last motion that the camera reports; default \"5s\".",
        ),
        (
            "gate_ignore",
            json!({ "type": "array", "maxItems": 32 }),
            "Polygons, in fractions of the picture, in which changes do not count.",
        ),
        (
            "loop",
            flag(),
            "true: a recording restarts at its end; default false.",
        ),
        (
            "slo",
            text(),
            "The latency objective of its frames; default that of [app].",
        ),
        (
            "weight",
            number(0.001, 1000.0),
            "Its weight under overload; default 1.",
        ),
        (
            "reserve",
            json!({ "type": "number", "minimum": 0 }),
            "Frames per second that are reserved for it before all others.",
        ),
        (
            "transport",
            words(&["tcp", "udp"]),
            "Transport of an rtsp:// camera; default tcp.",
        ),
        (
            "user",
            text(),
            "User of the camera or the server at an rtsp:// or http:// address, not encoded.",
        ),
        (
            "password_file",
            text(),
            "File with the password of `user`, with any characters; read each time that the source is opened.",
        ),
        (
            "sound",
            flag(),
            "true: the camera is asked for its sound, for sinks and pages that want it; default false.",
        ),
        (
            "onvif",
            text(),
            "Address of the device service of the camera, such as http://10.0.0.7/onvif/device_service, for its events and its presets.",
        ),
        (
            "onvif_source",
            text(),
            "Token of the video source whose events count, of a device with several; default all.",
        ),
        ("options", options, "Options of FFmpeg."),
        ("timezone", text(), TIMEZONE),
        (
            "group",
            json!({ "anyOf": [text(), texts()] }),
            "Name of the group of cameras that it belongs to, or a list of names.",
        ),
        (
            "only",
            polygons(),
            "Polygons, in one of which an object must stand to count.",
        ),
        ("ignore", polygons(), "Polygons in which no object counts."),
        (
            "objects",
            json!({ "type": "object", "additionalProperties": reference("object") }),
            "By class, or for all by \"*\": masks, sizes, shapes and scores of objects that count.",
        ),
        (
            "ground",
            ground(),
            "Four points of the ground in its picture and their places, by which heights of objects are measured.",
        ),
        (
            "privacy",
            reference("privacy"),
            "Objects and regions that encoded pictures hide; models see them.",
        ),
        (
            "private",
            flag(),
            "true: the video of the camera itself is neither recorded nor shown; default false.",
        ),
    ])
}

fn ground() -> Value {
    let point = json!({ "type": "array", "items": { "type": "number" }, "minItems": 2, "maxItems": 2 });
    let four = json!({ "type": "array", "items": point, "minItems": 4, "maxItems": 4 });
    closed(
        &["points", "metres"],
        properties(&[
            (
                "points",
                four.clone(),
                "Points of the picture in fractions of it, in their order around a quadrilateral.",
            ),
            ("metres", four, "Places of these points on the ground, in metres."),
        ]),
    )
}

pub(super) fn source(catalog: &Catalog) -> Value {
    let mut source = closed(&[], source_keys(catalog));
    source["anyOf"] =
        json!([{ "required": ["uri"] }, { "required": ["template"] }, { "required": ["queue"] }]);
    source
}

pub(super) fn camera(catalog: &Catalog) -> Value {
    let mut keys = source_keys(catalog);
    for key in ["template", "queue", "segment", "streams"] {
        keys.remove(key);
    }
    keys.insert("mode".to_owned(), words(&["live", "lossless"]));
    keys.extend(shared());
    let named = |of: Value| json!({ "type": "object", "additionalProperties": of });
    let typed = |name: &str| {
        let kind = TRANSFORM_TYPES.iter().find(|kind| kind.name == name);
        let own = kind.map_or(&[][..], |kind| kind.keys);
        let points = json!({ "type": "array", "items": { "type": "array", "items": { "type": "number" } } });
        let table = closed(&[], part(own));
        if name == "rule" {
            named(table)
        } else {
            named(json!({ "anyOf": [points, table] }))
        }
    };
    let variants = TRANSFORM_TYPES.iter().map(|kind| {
        let mut keys = part(kind.keys);
        keys.insert(
            "type".to_owned(),
            json!({ "const": kind.name, "description": kind.about }),
        );
        closed(&["type"], keys)
    });
    let variants: Vec<Value> = variants.collect();
    keys.extend(properties(&[
        (
            "zones",
            typed("zone"),
            "Zones of its picture: tables, or points alone.",
        ),
        (
            "lines",
            typed("line"),
            "Lines of its picture: tables, or points alone.",
        ),
        (
            "rules",
            typed("rule"),
            "Rules for its stream; they name its zones without its own name.",
        ),
        (
            "transforms",
            named(json!({ "oneOf": variants })),
            "Transforms of any type for its stream.",
        ),
    ]));
    closed(&["uri"], keys)
}

/// Keys of a transform of a camera.
fn part(specs: &[KeySpec]) -> Map<String, Value> {
    let mut keys = spec_properties(specs);
    let inputs = properties(&[(
        "inputs",
        texts(),
        "Trackers whose objects it takes; default the tracker of the camera.",
    )]);
    keys.extend(inputs);
    keys
}

/// Keys of cameras that `[defaults]` has, too.
fn shared() -> Map<String, Value> {
    properties(&[
        (
            "tracker",
            text(),
            "The tracker that zones, lines and rules take from; default the only one.",
        ),
        (
            "schedule",
            reference("schedule"),
            "Hours, days and dates of rules that have none of their own.",
        ),
    ])
}

pub(super) fn defaults(catalog: &Catalog) -> Value {
    let mut keys = source_keys(catalog);
    for key in [
        "uri",
        "detect_uri",
        "like",
        "template",
        "queue",
        "segment",
        "streams",
        "only",
        "ignore",
        "ground",
        "gate_ignore",
        "gate_hold",
        "onvif",
        "onvif_source",
    ] {
        keys.remove(key);
    }
    keys.insert("mode".to_owned(), words(&["live", "lossless"]));
    keys.extend(shared());
    closed(&[], keys)
}

pub(super) fn schedule() -> Value {
    let rule = TRANSFORM_TYPES.iter().find(|kind| kind.name == "rule");
    let keys = rule.map_or(&[][..], |rule| rule.keys).iter();
    let keys = keys.filter(|key| ["hours", "days", "except"].contains(&key.name));
    let keys: Vec<KeySpec> = keys.copied().collect();
    closed(&[], spec_properties(&keys))
}

pub(super) fn privacy() -> Value {
    let points = json!({ "type": "array", "items": { "type": "array", "items": { "type": "number" } }, "minItems": 3 });
    let region = closed(
        &["points"],
        properties(&[
            (
                "points",
                points.clone(),
                "Corners of a polygon, in fractions of the picture.",
            ),
            (
                "form",
                words(&["blur", "blackout"]),
                "Form in which it is hidden; default blackout.",
            ),
        ]),
    );
    let regions = json!({ "anyOf": [points, { "type": "array", "maxItems": 64, "items": { "anyOf": [points, region] } }] });
    closed(
        &[],
        properties(&[
            (
                "blur",
                texts(),
                "Classes of objects that are shown as at most eight by eight cells.",
            ),
            ("blackout", texts(), "Classes of objects that are shown black."),
            (
                "regions",
                regions,
                "Polygons of the picture that are shown black, or tables with the points and the form.",
            ),
        ]),
    )
}

pub(super) fn object() -> Value {
    let ratio = || json!({ "type": "number", "minimum": 0, "maximum": 1000 });
    let metres = ratio;
    closed(
        &[],
        properties(&[
            (
                "only",
                polygons(),
                "Polygons, in one of which an object must stand to count.",
            ),
            ("ignore", polygons(), "Polygons in which no object counts."),
            (
                "min_area",
                number(0.0, 1.0),
                "Smallest box, as a part of the frame's area.",
            ),
            (
                "max_area",
                number(0.0, 1.0),
                "Largest box, as a part of the frame's area.",
            ),
            (
                "min_ratio",
                ratio(),
                "Narrowest box: its width by its height, in pixels.",
            ),
            (
                "max_ratio",
                ratio(),
                "Widest box: its width by its height, in pixels.",
            ),
            (
                "min_height_m",
                metres(),
                "Lowest object in metres, by `ground` of its camera.",
            ),
            (
                "max_height_m",
                metres(),
                "Highest object in metres, by `ground` of its camera.",
            ),
            (
                "min_score",
                number(0.0, 1.0),
                "Lowest score; objects below it are used by trackers only.",
            ),
        ]),
    )
}
