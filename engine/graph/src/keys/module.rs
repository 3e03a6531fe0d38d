//! Keys of modules, and of the tables within them.

use super::key::Mark::{Cascade, Clients, Tracker};
use super::key::{REQUIRED, SectionKey, ValueKind};

/// Stages of a cascade: each is a module, and adds to the latency of answers that are handed on.
pub(crate) const MAX_STAGES: usize = 8;

/// Keys of a module beside those of its operator.
pub const MODULE: &[SectionKey] = &[
    SectionKey {
        name: "operator",
        kind: ValueKind::TEXT,
        default: REQUIRED,
        about: "function of the module: an operator, or `emulate`, which has no keys of operators, or `track`, which has keys of its own",
        marks: &[Tracker],
    },
    SectionKey {
        name: "model",
        kind: ValueKind::TEXT,
        default: "required, or `cascade`",
        about: "name of the `[models]` table that it runs, whose head is one of the operator's",
        marks: &[],
    },
    SectionKey {
        name: "cascade",
        kind: ValueKind::TableList {
            section: "stage",
            min: 2,
            max: MAX_STAGES,
        },
        default: "none",
        about: "models in place of `model`, the smallest first: `{ model = \"NAME\", certainty = 0.9 }`. Answers that are less certain than that are handed on to the next; the last takes the rest and has no `certainty`",
        marks: &[],
    },
    SectionKey {
        name: "settle",
        kind: ValueKind::words(&["last", "surest"]),
        default: "last",
        about: "answer of a cascade that counts; last: that of the last stage with a valid answer; surest: the answer with the highest certainty",
        marks: &[Cascade],
    },
    SectionKey {
        name: "on_late",
        kind: ValueKind::words(&["drop", "accept"]),
        default: "drop",
        about: "handling of a frame for which the next stage of a cascade would be late; drop: the frame is dropped; accept: it continues with the answers that it has",
        marks: &[Cascade],
    },
    SectionKey {
        name: "escalate",
        kind: ValueKind::words(&["frames", "regions"]),
        default: "frames",
        about: "part of a frame that a detector in a cascade hands on; frames: the whole frame; regions: crops around uncertain objects, whose results replace the old ones",
        marks: &[Cascade],
    },
    SectionKey {
        name: "on_drop",
        kind: ValueKind::words(&["drop", "degrade"]),
        default: "as all modules before it, else drop",
        about: "outcome of a frame that the module cannot serve in time, or whose batch fails; drop: the frame is dropped; degrade: it continues without the findings of the module, and its event names the module (`without`); the module then gets slots that others leave idle. Not beside `cascade`",
        marks: &[],
    },
    SectionKey {
        name: "inputs",
        kind: ValueKind::TEXTS,
        default: REQUIRED,
        about: "names of the sources and modules that it waits for",
        marks: &[Tracker, Clients],
    },
    SectionKey {
        name: "regions",
        kind: ValueKind::TEXTS,
        default: "by the operator",
        about: "classes of objects whose crops are its items. Without it `detect`, `classify` and `describe` take whole frames, `read-text` takes `plate`, `embed` and `iris` take `face`; the others need it, or `items`",
        marks: &[],
    },
    SectionKey {
        name: "per_track",
        kind: ValueKind::Table("per_track"),
        default: "every object of every frame",
        about: "limit on how often the module runs for the objects of a track: `{ every = \"1s\", until = 0.9 }`, or `{ once = true }` (docs/reference/tracking.md)",
        marks: &[],
    },
    SectionKey {
        name: "streams",
        kind: ValueKind::TEXTS,
        default: "all that its inputs have",
        about: "the streams whose frames it sees, as `[\"door\", \"yard-*\"]`; frames of others pass it by",
        marks: &[Tracker, Clients],
    },
    SectionKey {
        name: "weight",
        kind: ValueKind::Above(0.0),
        default: "1",
        about: "its share under the arbitration `weighted`",
        marks: &[],
    },
];

/// Keys of a stage of a cascade.
pub const STAGE: &[SectionKey] = &[
    SectionKey {
        name: "model",
        kind: ValueKind::TEXT,
        default: REQUIRED,
        about: "name of a `[models]` table",
        marks: &[],
    },
    SectionKey {
        name: "certainty",
        kind: ValueKind::FRACTION,
        default: "required, but in the last stage",
        about: "answers with a lower certainty go to the next stage",
        marks: &[],
    },
];

/// Keys of `per_track`.
pub const PER_TRACK: &[SectionKey] = &[
    SectionKey {
        name: "every",
        kind: ValueKind::DURATION,
        default: "1s",
        about: "interval between runs for a track, in media time",
        marks: &[],
    },
    SectionKey {
        name: "until",
        kind: ValueKind::FRACTION,
        default: "none",
        about: "certainty of the attribute from which on the module no longer runs for a track",
        marks: &[],
    },
    SectionKey {
        name: "once",
        kind: ValueKind::FLAG,
        default: "false",
        about: "true: one run per track, as soon as the track counts; not with the other keys",
        marks: &[],
    },
];
