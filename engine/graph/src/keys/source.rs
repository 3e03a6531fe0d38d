//! Keys of sources, cameras and `[defaults]`, and of the tables within them.

use weir_analytics::transforms::{ScheduleKeys, transform_type};
use weir_flow::KeySpec;
use weir_policy::StreamShare;
use weir_types::Span;

use super::key::Mark::{Camera, Clients, Decoded, Defaults, Login, Picture, Queued, QueuedOnly, Rtsp};
use super::key::{REQUIRED, SectionKey, ValueKind};

/// Polygons of a key of objects: each costs a step for each object.
pub(crate) const MAX_POLYGONS: usize = 64;

/// Polygons of a gate: each costs a step for each cell of the grid, once.
pub(crate) const MAX_GATE_POLYGONS: usize = 32;

/// Groups of one camera.
pub(crate) const MAX_GROUPS: usize = 8;

/// Regions that a source hides: each costs a pass over its pixels for each picture that is encoded.
pub(crate) const MAX_REGIONS: usize = 64;

/// Keys of a schedule, which are those of a rule of these names.
pub(crate) const SCHEDULE_KEYS: [&str; 3] = [
    ScheduleKeys::PLAIN.hours,
    ScheduleKeys::PLAIN.days,
    ScheduleKeys::PLAIN.except,
];

/// Keys of a source. Marks tell which of them cameras and `[defaults]` may have.
pub const SOURCE: &[SectionKey] = &[
    SectionKey {
        name: "uri",
        kind: ValueKind::TEXT,
        default: "required, but for templates and queued sources",
        about: "file, folder of images, named pipe, device such as /dev/video0, address such as rtsp://10.0.0.7/live, or emulated stream such as emulated:uniform?rate=30",
        marks: &[Camera, Clients],
    },
    SectionKey {
        name: "detect_uri",
        kind: ValueKind::TEXT,
        default: "none",
        about: "address of a smaller stream of the same pictures, from which frames are taken",
        marks: &[Camera, Clients],
    },
    SectionKey {
        name: "like",
        kind: ValueKind::TEXT,
        default: "none",
        about: "a source or template: frames enter wherever its frames do; \"*\": wherever those of any source do",
        marks: &[Camera, Clients],
    },
    SectionKey {
        name: "template",
        kind: ValueKind::FLAG,
        default: "false",
        about: "true instead of all other keys: it stands for streams that are added to `weir serve`",
        marks: &[],
    },
    SectionKey {
        name: "mode",
        kind: ValueKind::words(&["live", "lossless", "queued"]),
        default: "lossless for images and folders of images, otherwise live",
        about: "handling of overload; live: frames that would be late are dropped; lossless: the source is held back; queued, not of cameras: its videos come from jobs",
        marks: &[Camera, Defaults, Clients, Queued],
    },
    SectionKey {
        name: "fps",
        kind: ValueKind::Above(0.0),
        default: "the rate that the stream declares",
        about: "frames per second of streams that do not declare a rate",
        marks: &[Camera, Defaults, Clients],
    },
    SectionKey {
        name: "sample",
        kind: ValueKind::FrameRate,
        default: "all frames",
        about: "rate of the frames that are taken, by media time",
        marks: &[Camera, Defaults, Clients, Decoded],
    },
    SectionKey {
        name: "decode",
        kind: ValueKind::words(&["as-needed", "all"]),
        default: "as-needed",
        about: "frames of a live source that are decoded under overload",
        marks: &[Camera, Defaults, Clients],
    },
    SectionKey {
        name: "decoder",
        kind: ValueKind::TEXT,
        default: "cpu",
        about: "device that decodes the stream: cpu, auto, qsv, vaapi, or an NVIDIA GPU such as cuda:0; the CPU decodes streams that the device cannot",
        marks: &[Camera, Defaults, Clients, Decoded],
    },
    SectionKey {
        name: "loop",
        kind: ValueKind::FLAG,
        default: "false",
        about: "true: a recording restarts at its end",
        marks: &[Camera, Defaults, Clients],
    },
    SectionKey {
        name: "slo",
        kind: ValueKind::DURATION,
        default: "that of [app]; of a queued source 1h",
        about: "latency objective of its frames; of a queued source, time limit of a job",
        marks: &[Camera, Defaults, Clients, Queued],
    },
    SectionKey {
        name: "weight",
        kind: ValueKind::number(*StreamShare::WEIGHTS.start(), *StreamShare::WEIGHTS.end()),
        default: "1",
        about: "weight under overload: streams get through in proportion to their weights",
        marks: &[Camera, Defaults, Clients],
    },
    SectionKey {
        name: "reserve",
        kind: ValueKind::number(*StreamShare::RESERVES.start(), *StreamShare::RESERVES.end()),
        default: "none",
        about: "frames per second that are reserved for it before all others",
        marks: &[Camera, Defaults, Clients],
    },
    SectionKey {
        name: "queue",
        kind: ValueKind::TEXT,
        default: "none",
        about: "folder of the queue of a queued source, or its address nats://HOST:PORT/NAME",
        marks: &[QueuedOnly],
    },
    SectionKey {
        name: "segment",
        kind: ValueKind::DURATION,
        default: "10s",
        about: "minimum length of a segment of a queued source, in media time",
        marks: &[QueuedOnly],
    },
    SectionKey {
        name: "streams",
        kind: ValueKind::integer(1, 64),
        default: "2",
        about: "number of videos of a queued source that are processed at a time",
        marks: &[QueuedOnly],
    },
    SectionKey {
        name: "gate",
        kind: ValueKind::words(&["motion", "camera", "none"]),
        default: "none",
        about: "frames that are skipped; motion: frames without changes; camera: frames while the camera reports no motion; none: no frames",
        marks: &[Camera, Defaults, Clients, Decoded],
    },
    SectionKey {
        name: "gate_ignore",
        kind: ValueKind::Polygons(MAX_GATE_POLYGONS),
        default: "none",
        about: "with gate = \"motion\": polygons, in fractions of the picture, in which changes do not count",
        marks: &[Camera, Clients, Picture],
    },
    SectionKey {
        name: "gate_hold",
        kind: ValueKind::DurationIn(Span::from_millis(100), Span::from_secs(600)),
        default: "5s",
        about: "with gate = \"camera\": media time for which frames are processed after the last motion that the camera reports",
        marks: &[Camera, Clients],
    },
    SectionKey {
        name: "gate_schedule",
        kind: ValueKind::Table("schedule"),
        default: "always",
        about: "with a gate: times at which it applies; at other times every frame is processed",
        marks: &[Camera, Clients],
    },
    SectionKey {
        name: "active",
        kind: ValueKind::Table("schedule"),
        default: "always",
        about: "times at which frames are processed; at other times they count as still, and recordings and live video go on",
        marks: &[Camera, Defaults, Clients, Decoded],
    },
    SectionKey {
        name: "transport",
        kind: ValueKind::words(&["tcp", "udp"]),
        default: "tcp",
        about: "transport of an rtsp:// camera",
        marks: &[Camera, Defaults, Clients, Rtsp],
    },
    SectionKey {
        name: "user",
        kind: ValueKind::TEXT,
        default: "none",
        about: "user of the camera or the server at an rtsp:// or http:// address, not encoded",
        marks: &[Camera, Defaults, Clients, Login],
    },
    SectionKey {
        name: "password_file",
        kind: ValueKind::FILE,
        default: "none",
        about: "file with the password of `user`, with any characters; read each time that the source is opened",
        marks: &[Camera, Defaults, Clients, Login],
    },
    SectionKey {
        name: "sound",
        kind: ValueKind::FLAG,
        default: "false",
        about: "true: the camera is asked for its sound, for sinks and pages that want it",
        marks: &[Camera, Defaults, Decoded],
    },
    SectionKey {
        name: "onvif",
        kind: ValueKind::TEXT,
        default: "none",
        about: "address of the device service of the camera, such as http://10.0.0.7/onvif/device_service, for its events and its presets",
        marks: &[Camera, Clients],
    },
    SectionKey {
        name: "onvif_source",
        kind: ValueKind::TEXT,
        default: "all",
        about: "token of the video source whose events count, of a device with several",
        marks: &[Camera, Clients],
    },
    SectionKey {
        name: "options",
        kind: ValueKind::Options,
        default: "none",
        about: "options of FFmpeg",
        marks: &[Camera, Defaults, Decoded],
    },
    SectionKey {
        name: "only",
        kind: ValueKind::Polygons(MAX_POLYGONS),
        default: "none",
        about: "polygons, in one of which an object must stand to count",
        marks: &[Camera, Clients, Picture],
    },
    SectionKey {
        name: "ignore",
        kind: ValueKind::Polygons(MAX_POLYGONS),
        default: "none",
        about: "polygons in which no object counts",
        marks: &[Camera, Clients, Picture],
    },
    SectionKey {
        name: "objects",
        kind: ValueKind::Tables("object"),
        default: "none",
        about: "masks, sizes, shapes and scores of objects that count, by class, or for all classes by \"*\"",
        marks: &[Camera, Defaults, Clients, Picture],
    },
    SectionKey {
        name: "ground",
        kind: ValueKind::Table("ground"),
        default: "none",
        about: "four points of the ground in its picture and their places, by which heights of objects are measured",
        marks: &[Camera, Clients, Picture],
    },
    SectionKey {
        name: "privacy",
        kind: ValueKind::Table("privacy"),
        default: "that of [defaults]",
        about: "objects and regions that encoded pictures hide; models see them",
        marks: &[Camera, Defaults, Picture],
    },
    SectionKey {
        name: "private",
        kind: ValueKind::FLAG,
        default: "false",
        about: "true: the video of the camera itself is neither recorded nor shown",
        marks: &[Camera, Defaults, Picture],
    },
    SectionKey {
        name: "timezone",
        kind: ValueKind::TEXT,
        default: "that of [app]",
        about: "time zone of schedules by its name, such as Europe/Berlin",
        marks: &[Camera, Defaults, Clients, Picture],
    },
    SectionKey {
        name: "group",
        kind: ValueKind::TextOrTexts(MAX_GROUPS),
        default: "none",
        about: "name of the group of cameras that it belongs to, or a list of names",
        marks: &[Camera, Defaults, Clients, Picture],
    },
];

/// Keys of a camera beside those of its source.
pub const CAMERA: &[SectionKey] = &[
    SectionKey {
        name: "tracker",
        kind: ValueKind::TEXT,
        default: "the only tracker",
        about: "tracker whose objects zones, lines and rules take",
        marks: &[Defaults, Clients],
    },
    SectionKey {
        name: "schedule",
        kind: ValueKind::Table("schedule"),
        default: "always",
        about: "hours, days and dates of rules that have none of their own",
        marks: &[Defaults, Clients],
    },
    SectionKey {
        name: "zones",
        kind: ValueKind::Parts(Some("zone")),
        default: "none",
        about: "zones of its picture by name: tables, or points alone",
        marks: &[Clients],
    },
    SectionKey {
        name: "lines",
        kind: ValueKind::Parts(Some("line")),
        default: "none",
        about: "lines of its picture by name: tables, or points alone",
        marks: &[Clients],
    },
    SectionKey {
        name: "rules",
        kind: ValueKind::Parts(Some("rule")),
        default: "none",
        about: "rules for its stream by name; they name its zones without its own name",
        marks: &[Clients],
    },
    SectionKey {
        name: "transforms",
        kind: ValueKind::Parts(None),
        default: "none",
        about: "transforms of any type for its stream, by name",
        marks: &[Clients],
    },
];

/// Keys of the rule of a class in `objects`.
pub const OBJECT: &[SectionKey] = &[
    SectionKey {
        name: "only",
        kind: ValueKind::Polygons(MAX_POLYGONS),
        default: "none",
        about: "polygons, in one of which an object must stand to count",
        marks: &[],
    },
    SectionKey {
        name: "ignore",
        kind: ValueKind::Polygons(MAX_POLYGONS),
        default: "none",
        about: "polygons in which no object counts",
        marks: &[],
    },
    SectionKey {
        name: "min_area",
        kind: ValueKind::FRACTION,
        default: "none",
        about: "smallest box, as a fraction of the frame's area",
        marks: &[],
    },
    SectionKey {
        name: "max_area",
        kind: ValueKind::FRACTION,
        default: "none",
        about: "largest box, as a fraction of the frame's area",
        marks: &[],
    },
    SectionKey {
        name: "min_ratio",
        kind: ValueKind::number(0.0, 1000.0),
        default: "none",
        about: "narrowest box: its width by its height, in pixels",
        marks: &[],
    },
    SectionKey {
        name: "max_ratio",
        kind: ValueKind::number(0.0, 1000.0),
        default: "none",
        about: "widest box: its width by its height, in pixels",
        marks: &[],
    },
    SectionKey {
        name: "min_height_m",
        kind: ValueKind::number(0.0, 1000.0),
        default: "none",
        about: "lowest object in metres, by `ground` of its camera",
        marks: &[],
    },
    SectionKey {
        name: "max_height_m",
        kind: ValueKind::number(0.0, 1000.0),
        default: "none",
        about: "highest object in metres, by `ground` of its camera",
        marks: &[],
    },
    SectionKey {
        name: "min_score",
        kind: ValueKind::FRACTION,
        default: "none",
        about: "lowest score; objects below it are used by trackers only",
        marks: &[],
    },
];

/// Keys of the map of the ground.
pub const GROUND: &[SectionKey] = &[
    SectionKey {
        name: "points",
        kind: ValueKind::FourPoints,
        default: REQUIRED,
        about: "points of the picture in fractions of it, in their order around a quadrilateral",
        marks: &[],
    },
    SectionKey {
        name: "metres",
        kind: ValueKind::FourPoints,
        default: REQUIRED,
        about: "places of these points on the ground, in metres",
        marks: &[],
    },
];

/// Keys of `privacy`.
pub const PRIVACY: &[SectionKey] = &[
    SectionKey {
        name: "blur",
        kind: ValueKind::TEXTS,
        default: "none",
        about: "classes of objects that are shown as at most eight by eight cells",
        marks: &[],
    },
    SectionKey {
        name: "blackout",
        kind: ValueKind::TEXTS,
        default: "none",
        about: "classes of objects that are shown black",
        marks: &[],
    },
    SectionKey {
        name: "regions",
        kind: ValueKind::Regions(MAX_REGIONS),
        default: "none",
        about: "polygons of the picture that are shown black, or tables with the points and the form",
        marks: &[],
    },
];

/// Keys of a region in `regions` of `privacy`.
pub const REGION: &[SectionKey] = &[
    SectionKey {
        name: "points",
        kind: ValueKind::Polygon,
        default: REQUIRED,
        about: "corners of a polygon, in fractions of the picture",
        marks: &[],
    },
    SectionKey {
        name: "form",
        kind: ValueKind::words(&["blur", "blackout"]),
        default: "blackout",
        about: "form in which it is hidden",
        marks: &[],
    },
];

/// Keys of a table of `[cameras]`. A camera is never a queued source.
pub(crate) fn camera_keys() -> Vec<SectionKey> {
    let of_source = SOURCE.iter().filter(|key| key.has(Camera)).map(unqueued);
    of_source.chain(CAMERA.iter().copied()).collect()
}

/// Keys of `[defaults]`.
pub(crate) fn default_keys() -> Vec<SectionKey> {
    let all = SOURCE.iter().chain(CAMERA);
    all.filter(|key| key.has(Defaults)).map(unqueued).collect()
}

/// A key without the mode of queued sources.
fn unqueued(key: &SectionKey) -> SectionKey {
    let kind = if key.name == "mode" {
        ValueKind::words(&["live", "lossless"])
    } else {
        key.kind
    };
    SectionKey { kind, ..*key }
}

/// Keys of a schedule.
pub(crate) fn schedule_keys() -> Vec<SectionKey> {
    let keys = schedule_specs().map(|key| SectionKey {
        name: key.name,
        kind: ValueKind::Plain(key.kind),
        default: "none",
        about: key.about,
        marks: &[],
    });
    keys.collect()
}

/// Keys of a schedule as those of a rule.
pub(crate) fn schedule_specs() -> impl Iterator<Item = KeySpec> {
    let rule = transform_type("rule").map_or(&[][..], |rule| rule.keys);
    let keys = rule.iter().filter(|key| SCHEDULE_KEYS.contains(&key.name));
    keys.copied()
}
