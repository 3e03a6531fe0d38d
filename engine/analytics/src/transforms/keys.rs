//! The types of transforms as a graph names them, with their keys.

use weir_flow::{KeyKind, KeySpec, PYTHON_FUNCTION, PYTHON_INTERPRETER, catalog_name};

/// A type of transform.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TransformType {
    /// Value of the key `type`.
    pub name: &'static str,
    /// One line for the reference.
    pub about: &'static str,
    /// Keys beside `type` and `inputs`.
    pub keys: &'static [KeySpec],
}

const fn key(name: &'static str, kind: KeyKind, about: &'static str) -> KeySpec {
    KeySpec { name, kind, about }
}

/// Margins and tolerances, in parts of an object's size.
const PARTS: KeyKind = KeyKind::Number { min: 0.0, max: 5.0 };

const CLASSES: KeySpec = key(
    "classes",
    KeyKind::Texts,
    "classes of the objects that it takes, as they settled over their tracks; default all",
);
const ANCHOR: KeySpec = key(
    "anchor",
    KeyKind::OneOf(&["bottom", "center"]),
    "point of a box that stands for the object: the middle of its lower edge, where it stands on the ground, or its centre; \
     default bottom",
);
const UNITS: KeySpec = key(
    "units",
    KeyKind::OneOf(&["parts", "pixels"]),
    "unit of coordinates: parts of the frame's width and height, 0 to 1, or pixels of its frames; default parts",
);
const EVERY: KeySpec = key(
    "every",
    KeyKind::Duration,
    "media time from one update of an incident to the next; default \"5s\"",
);
const STATIONARY: KeySpec = key(
    "stationary",
    KeyKind::Flag,
    "false: objects that have not moved for ten seconds are left out; default true",
);
const ZONE_POINTS: KeySpec = key(
    "points",
    KeyKind::Points,
    "corners of the polygon, at least three, in their order (required)",
);
const AREA_POINTS: KeySpec = key(
    "points",
    KeyKind::Points,
    "corners of the polygon that it looks at, in their order; default the whole frame",
);

/// All types of transforms.
pub const TRANSFORM_TYPES: &[TransformType] = &[
    TransformType {
        name: "zone",
        about: "visits of a polygon: objects that enter and leave it, the length of each stay, and the number of objects in it",
        keys: &[
            ZONE_POINTS,
            key(
                "margin",
                PARTS,
                "distance from the border, in parts of its size, from which on an object counts as inside or outside \
                 at once; default 0.1",
            ),
            key(
                "settle",
                KeyKind::Duration,
                "time after which an object nearer to the border counts as well; default \"2s\"",
            ),
            CLASSES,
            ANCHOR,
            UNITS,
            EVERY,
        ],
    },
    TransformType {
        name: "line",
        about: "crossings of a line, counted by direction and class",
        keys: &[
            key("points", KeyKind::Points, "the two ends of the line (required)"),
            key(
                "directions",
                KeyKind::Texts,
                "names of the two directions: from left to right as seen looking from the first point to the second, and back; \
                 default [\"in\", \"out\"]",
            ),
            key(
                "margin",
                PARTS,
                "distance behind the line, in parts of its size, that an object must reach for its crossing to count; default 0.1",
            ),
            key(
                "settle",
                KeyKind::Duration,
                "time that it must be there; at more than half of its size away, two frames in a row are enough; \
                 default \"1s\"",
            ),
            CLASSES,
            ANCHOR,
            UNITS,
        ],
    },
    TransformType {
        name: "speed",
        about: "speeds on the ground, by four points whose places on it are known",
        keys: &[
            key(
                "points",
                KeyKind::Points,
                "four points of the picture, in their order around a quadrilateral (required)",
            ),
            key(
                "ground",
                KeyKind::Points,
                "positions of these points on the ground, in metres, in the same order (required)",
            ),
            key(
                "window",
                KeyKind::Duration,
                "time over which a speed is measured; default \"1s\"",
            ),
            key(
                "above_kmh",
                KeyKind::Number {
                    min: 0.0,
                    max: 1000.0,
                },
                "speeds below are no incident; default 0",
            ),
            CLASSES,
            ANCHOR,
            UNITS,
            EVERY,
        ],
    },
    TransformType {
        name: "stopped",
        about: "objects that stand still",
        keys: &[
            AREA_POINTS,
            key(
                "after",
                KeyKind::Duration,
                "time after which it is an incident; default \"3s\"",
            ),
            key(
                "within",
                PARTS,
                "distance that an object may move and still count as standing, in parts of its size; default 0.2",
            ),
            CLASSES,
            ANCHOR,
            UNITS,
            EVERY,
        ],
    },
    TransformType {
        name: "wrong-way",
        about: "objects that move against the allowed direction",
        keys: &[
            key(
                "direction",
                KeyKind::Points,
                "the allowed direction: from the first of two points to the second (required)",
            ),
            AREA_POINTS,
            key(
                "after",
                KeyKind::Duration,
                "time over which the direction of an object is measured; default \"1s\"",
            ),
            key(
                "tolerance_deg",
                KeyKind::Number { min: 1.0, max: 90.0 },
                "angle from the opposite of the allowed direction up to which it is the wrong one; default 60",
            ),
            CLASSES,
            ANCHOR,
            UNITS,
            EVERY,
        ],
    },
    TransformType {
        name: "loitering",
        about: "objects that are in a polygon for long, standing or walking",
        keys: &[
            ZONE_POINTS,
            key(
                "after",
                KeyKind::Duration,
                "time after which it is an incident; default \"30s\"",
            ),
            key(
                "leave",
                KeyKind::Duration,
                "time that an object may be outside meanwhile; default \"5s\"",
            ),
            CLASSES,
            ANCHOR,
            UNITS,
            EVERY,
        ],
    },
    TransformType {
        name: "parked",
        about: "objects that stand still for long, also where they are hidden for a moment and get another track",
        keys: &[
            AREA_POINTS,
            key(
                "after",
                KeyKind::Duration,
                "time after which it is an incident; default \"60s\"",
            ),
            key(
                "within",
                PARTS,
                "distance that an object may move and still count as standing, in parts of its size; default 0.2",
            ),
            key(
                "rejoin",
                KeyKind::Duration,
                "time within which another track at the same place counts as the same object; default \"10s\"",
            ),
            CLASSES,
            ANCHOR,
            UNITS,
            EVERY,
        ],
    },
    TransformType {
        name: "crowd",
        about: "many objects at once; needs no tracker",
        keys: &[
            AREA_POINTS,
            key(
                "min",
                KeyKind::Integer { min: 1, max: 10_000 },
                "number of objects from which on it is a crowd; default 5",
            ),
            key(
                "after",
                KeyKind::Duration,
                "time for which there must be so many, or fewer again; default \"2s\"",
            ),
            CLASSES,
            ANCHOR,
            UNITS,
            EVERY,
        ],
    },
    TransformType {
        name: "absence",
        about: "no object where there should be one; needs no tracker",
        keys: &[
            AREA_POINTS,
            key(
                "after",
                KeyKind::Duration,
                "time for which there must be no object; default \"30s\"",
            ),
            CLASSES,
            ANCHOR,
            UNITS,
            EVERY,
        ],
    },
    TransformType {
        name: "rule",
        about: "tracks that match all conditions of a filter",
        keys: &[
            CLASSES,
            key(
                "min_score",
                KeyKind::Number { min: 0.0, max: 1.0 },
                "least confidence of the object; default 0",
            ),
            key(
                "zones",
                KeyKind::Texts,
                "names of zones, in one of which it must be; default anywhere",
            ),
            key(
                "hours",
                KeyKind::Text,
                "time of day, such as \"22:00-06:00\": from the first minute on until before the second; default always",
            ),
            key(
                "days",
                KeyKind::Texts,
                "weekdays on which `hours` begin, such as [\"mon-fri\", \"sun\"]; default all",
            ),
            key(
                "except",
                KeyKind::Texts,
                "dates on which they do not begin, such as [\"2026-12-24\", \"2027-07-26..2027-09-03\", \"12-25\"]",
            ),
            key(
                "timezone",
                KeyKind::Text,
                "time zone of the schedule by its name, such as \"Europe/Berlin\", with its summer time; default that of the stream",
            ),
            key(
                "utc_offset",
                KeyKind::Text,
                "in its place: how far the clock is ahead of UTC, in summer and winter alike, such as \"+01:00\"",
            ),
            key(
                "attributes",
                KeyKind::Texts,
                "attributes that the object must have, such as \"identity=unknown\", \"identity!=unknown\", \
                 \"plate=WR 123\", \"plate=*\" (any text) or \"health=0..20\"; conditions on the same attribute are \
                 alternatives, and every != must hold",
            ),
            STATIONARY,
            key(
                "after",
                KeyKind::Duration,
                "time for which the filter must match; default at once",
            ),
            key(
                "end_after",
                KeyKind::Duration,
                "time without a match after which the incident is over; default \"2s\"",
            ),
            EVERY,
        ],
    },
    TransformType {
        name: "camera-event",
        about: "events that the camera reports itself by ONVIF; needs no tracker, and `onvif` of the camera",
        keys: &[
            key(
                "events",
                KeyKind::Texts,
                "\"motion\", \"line\", \"tamper\", \"input\", or topics such as \"tns1:Device/Trigger/DigitalInput\" (required)",
            ),
            key(
                "from",
                KeyKind::Text,
                "rule, input or other part of the camera that it is of, as events name it in `source`; default any",
            ),
            EVERY,
        ],
    },
    TransformType {
        name: "best-shot",
        about: "the picture in which each object is seen best, of its own and with the incidents of other transforms",
        keys: &[
            CLASSES,
            key(
                "transforms",
                KeyKind::Texts,
                "transforms whose incidents have the pictures of their objects; default all",
            ),
            STATIONARY,
            key(
                "margin",
                KeyKind::Number { min: 0.0, max: 2.0 },
                "margin around an object, in parts of the sides of its box; default 0.15",
            ),
            key(
                "max_side",
                KeyKind::Integer { min: 32, max: 1920 },
                "longer side of a picture in pixels, to which larger ones are scaled; default 480",
            ),
            key(
                "max_bytes",
                KeyKind::Bytes,
                "bytes of a JPEG, at most \"256KiB\", for which its quality is lowered; default \"64KiB\"",
            ),
            key(
                "min_gain",
                KeyKind::Number { min: 1.0, max: 10.0 },
                "factor by which a picture must be better than the one before to replace it; default 1.15",
            ),
            key(
                "per_second",
                KeyKind::Number { min: 0.1, max: 100.0 },
                "pictures that are taken of a stream within a second of media time; others are skipped, and half are \
                 for objects without a picture; default 10",
            ),
            key(
                "keep",
                KeyKind::Integer { min: 1, max: 1000 },
                "objects of a stream that have pictures at a time; further ones have none; default 32",
            ),
            EVERY,
        ],
    },
    TransformType {
        name: PYTHON_FUNCTION,
        about: "calls a function or a class in Python, of a module in the folder of `--python` (docs/how-to/python-functions.md)",
        keys: &[
            CLASSES,
            key(
                "timeout",
                KeyKind::Duration,
                "longest time of one call, and for which a frame waits for it; a process that takes longer is killed and started \
                 again, and the frame passes unchanged; default \"500ms\"",
            ),
            key(
                "memory",
                KeyKind::Bytes,
                "address space of the process; Python raises MemoryError beyond it; default no limit",
            ),
            PYTHON_INTERPRETER,
        ],
    },
];

/// The type that a graph names.
#[must_use]
pub fn transform_type(name: &str) -> Option<&'static TransformType> {
    let name = catalog_name(name);
    TRANSFORM_TYPES.iter().find(|kind| kind.name == name)
}
