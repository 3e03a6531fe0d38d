//! Keys of sections whose tables hold plain values.

use super::key::Mark::Clients;
use super::key::{REQUIRED, SectionKey, ValueKind};

/// Slots of a device; bounds the threads of a run.
const MAX_SLOTS: i64 = 1_024;

/// Keys of `[app]`.
pub const APP: &[SectionKey] = &[
    SectionKey {
        name: "name",
        kind: ValueKind::TEXT,
        default: "the file's name without .toml",
        about: "name of the application in reports",
        marks: &[Clients],
    },
    SectionKey {
        name: "slo",
        kind: ValueKind::DURATION,
        default: REQUIRED,
        about: "longest time from the arrival of a frame to its delivery, such as 400ms",
        marks: &[Clients],
    },
    SectionKey {
        name: "gears",
        kind: ValueKind::FILE,
        default: "none",
        about: "file of the gears that cascades and tiles are shifted by (docs/explain/gears.md)",
        marks: &[],
    },
    SectionKey {
        name: "timezone",
        kind: ValueKind::TEXT,
        default: "UTC",
        about: "time zone of schedules by its name, such as Europe/Berlin",
        marks: &[Clients],
    },
    SectionKey {
        name: "stream_hosts",
        kind: ValueKind::TEXTS,
        default: "any",
        about: "hosts that clients of the API may add streams of, such as 10.0.7.0/24",
        marks: &[],
    },
    SectionKey {
        name: "stream_folders",
        kind: ValueKind::TEXTS,
        default: "none",
        about: "folders with files that clients of the API may add as streams, beside that of the graph",
        marks: &[],
    },
];

/// Keys of a device.
pub const DEVICE: &[SectionKey] = &[
    SectionKey {
        name: "slots",
        kind: ValueKind::integer(1, MAX_SLOTS),
        default: "one per core on cpu, otherwise one",
        about: "number of batches that the device runs at once",
        marks: &[],
    },
    SectionKey {
        name: "prepare",
        kind: ValueKind::words(&["overlap", "inline"]),
        default: "overlap on cuda, otherwise inline",
        about: "preparation of the inputs of a batch; overlap: while the batch before runs; inline: by the thread that runs it",
        marks: &[],
    },
    SectionKey {
        name: "prepare_threads",
        kind: ValueKind::integer(1, 256),
        default: "half of the cores, at most 8",
        about: "on cuda: number of threads that prepare the inputs of a batch",
        marks: &[],
    },
    SectionKey {
        name: "memory",
        kind: ValueKind::BYTES,
        default: "all models stay open",
        about: "memory for all its models together: models are opened and closed as needed",
        marks: &[],
    },
    SectionKey {
        name: "host_memory",
        kind: ValueKind::BYTES,
        default: "512MiB",
        about: "with `memory`: host memory that caches models, so that they open faster than from their files",
        marks: &[],
    },
    SectionKey {
        name: "slowdown",
        kind: ValueKind::AtLeast(1.0),
        default: "1",
        about: "factor by which execution is slowed down, to emulate a slower device; not of emulated devices",
        marks: &[],
    },
];

/// Keys of a partition worker.
pub const WORKER: &[SectionKey] = &[
    SectionKey {
        name: "class",
        kind: ValueKind::TEXT,
        default: REQUIRED,
        about: "class of its device, as named in the plan",
        marks: &[],
    },
    SectionKey {
        name: "address",
        kind: ValueKind::TEXT,
        default: "in this process",
        about: "HOST:PORT of its process, or node:NAME of a node of the fleet",
        marks: &[],
    },
    SectionKey {
        name: "server",
        kind: ValueKind::TEXT,
        default: "its own name",
        about: "server on which it runs: workers of one server share its links",
        marks: &[],
    },
    SectionKey {
        name: "bandwidth",
        kind: ValueKind::Bandwidth,
        default: "10Gbps",
        about: "bandwidth of its server's link in each direction",
        marks: &[],
    },
    SectionKey {
        name: "emulated",
        kind: ValueKind::FLAG,
        default: "false",
        about: "true: it emulates a device of its class",
        marks: &[],
    },
    SectionKey {
        name: "slowdown",
        kind: ValueKind::AtLeast(1.0),
        default: "1",
        about: "in this process: factor by which execution is slowed down",
        marks: &[],
    },
    SectionKey {
        name: "core",
        kind: ValueKind::integer(0, 65_535),
        default: "any",
        about: "in this process: the core to which it is pinned",
        marks: &[],
    },
];

/// Keys of a transform beside those of its type.
pub const TRANSFORM: &[SectionKey] = &[
    SectionKey {
        name: "type",
        kind: ValueKind::TEXT,
        default: REQUIRED,
        about: "type of the transform",
        marks: &[],
    },
    SectionKey {
        name: "inputs",
        kind: ValueKind::TEXTS,
        default: REQUIRED,
        about: "trackers whose objects it takes",
        marks: &[],
    },
    SectionKey {
        name: "streams",
        kind: ValueKind::TEXTS,
        default: "all",
        about: "names of the streams that it is for, of those that its inputs have; * stands for any characters",
        marks: &[],
    },
];

/// Keys of a sink beside those of its type.
pub const SINK: &[SectionKey] = &[
    SectionKey {
        name: "type",
        kind: ValueKind::TEXT,
        default: REQUIRED,
        about: "type of the sink",
        marks: &[],
    },
    SectionKey {
        name: "inputs",
        kind: ValueKind::TEXTS,
        default: REQUIRED,
        about: "names of the sources, modules, trackers and transforms whose deliveries it takes",
        marks: &[Clients],
    },
    SectionKey {
        name: "streams",
        kind: ValueKind::TEXTS,
        default: "all",
        about: "names of the streams that it is for, of those that its inputs have; * stands for any characters",
        marks: &[Clients],
    },
    SectionKey {
        name: "when_slow",
        kind: ValueKind::words(&["wait", "skip"]),
        default: "wait",
        about: "behaviour of a sink that is slower than deliveries; wait: requests keep their permits until the sink has written them; skip: the sink skips deliveries and counts them",
        marks: &[],
    },
];
