//! Keys that several heads share.

use weir_flow::{KeyKind, KeySpec};

const fn number(name: &'static str, min: f64, max: f64, about: &'static str) -> KeySpec {
    KeySpec {
        name,
        kind: KeyKind::Number { min, max },
        about,
    }
}

const fn integer(name: &'static str, min: i64, max: i64, about: &'static str) -> KeySpec {
    KeySpec {
        name,
        kind: KeyKind::Integer { min, max },
        about,
    }
}

/// Keys of the input.
pub(crate) const INPUT_KEYS: &[KeySpec] = &[
    integer(
        "size",
        16,
        8192,
        "side of the input where the model leaves it free; default by head",
    ),
    integer(
        "width",
        16,
        8192,
        "width of the input where the model leaves it free; default `size`",
    ),
    integer(
        "height",
        16,
        8192,
        "height of the input where the model leaves it free; default `size`",
    ),
    KeySpec {
        name: "channels",
        kind: KeyKind::OneOf(&["rgb", "bgr", "gray"]),
        about: "order of channels that the model was trained with; default by head",
    },
    KeySpec {
        name: "mean",
        kind: KeyKind::Text,
        about: "subtracted from values 0 to 255, one number or three in the order of `channels`; default by head",
    },
    KeySpec {
        name: "std",
        kind: KeyKind::Text,
        about: "divisor of the values afterwards, one number or three; default by head",
    },
    KeySpec {
        name: "resize",
        kind: KeyKind::OneOf(&["stretch", "letterbox", "centre"]),
        about: "placement of an item in the input; default by head",
    },
    number(
        "fill",
        0.0,
        255.0,
        "value of the input outside of the item; default by head",
    ),
];

/// Key for the measure of certainty of a detector; see `detection` for its computation.
pub(super) const DETECTION_CERTAINTY: KeySpec = KeySpec {
    name: "certainty",
    kind: KeyKind::OneOf(&["distance"]),
    about: "certainty of an answer in a cascade: distance, the least distance of a score from the operating threshold \
            of its class, 0 at it and 1 at a score of 1 or of half of it",
};

/// Keys of detectors.
pub(super) const DETECTION_KEYS: &[KeySpec] = &[
    number(
        "score_threshold",
        0.0,
        1.0,
        "objects below this score are left out; default by head",
    ),
    KeySpec {
        name: "class_thresholds",
        kind: KeyKind::Texts,
        about: "operating thresholds of classes, such as [\"car 0.45\", \"person 0.4\"]: objects below the threshold \
                of their class are in no event and go to no other module, but trackers and `weir score` see them \
                (docs/explain/score.md); default `score_threshold`, and those of a shipped model where the graph does \
                not set `score_threshold`",
    },
    number(
        "nms_iou",
        0.0,
        1.0,
        "of two objects of a class that overlap by more, the better stays; default by head",
    ),
    KeySpec {
        name: "nms_groups",
        kind: KeyKind::Texts,
        about: "classes that one thing may be taken for, such as [\"car, truck, bus\"]: each text is a group, from which a \
                thing is given once; [\"*\"] for all classes; default none, vehicles for COCO models of the zoo and the \
                shipped street detector",
    },
    number(
        "nms_group_iou",
        0.0,
        1.0,
        "of two objects of different classes of a group that overlap by more, the better stays; default 0.8",
    ),
    DETECTION_CERTAINTY,
];

/// Keys that name the classes.
pub(super) const LABEL_KEYS: &[KeySpec] = &[
    KeySpec {
        name: "labels",
        kind: KeyKind::Texts,
        about: "names of classes in the model's order; [\"coco\"] for the 80 classes of COCO; default those that the file names \
                (`names` in its metadata), else by head, else numbers",
    },
    KeySpec {
        name: "labels_file",
        kind: KeyKind::File,
        about: "file with the name of a class on each line, perhaps behind its number (`0  person`)",
    },
];
