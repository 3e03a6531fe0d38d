//! Keys of the policy. Parameters of its parts are in docs/reference/policy.md.

use weir_policy::SlotPlanning;

use super::key::{SectionKey, ValueKind};

/// Keys of `[policy]`.
pub const POLICY: &[SectionKey] = &[
    SectionKey {
        name: "preset",
        kind: ValueKind::Preset,
        default: "pard",
        about: "preset of the whole policy, which the other keys override",
        marks: &[],
    },
    SectionKey {
        name: "drop",
        kind: ValueKind::DropRule,
        default: "pard",
        about: "rule that drops requests: its name, or a table with `rule` and its parameters",
        marks: &[],
    },
    SectionKey {
        name: "order",
        kind: ValueKind::words(&["adaptive", "fcfs", "hbf", "lbf", "instant"]),
        default: "adaptive",
        about: "order in which requests of a mailbox are considered",
        marks: &[],
    },
    SectionKey {
        name: "forming",
        kind: ValueKind::words(&["eager", "late"]),
        default: "late",
        about: "time at which requests are bound to a batch; eager: as the batch before it starts; late: when the slot is free",
        marks: &[],
    },
    SectionKey {
        name: "arbitration",
        kind: ValueKind::words(&["least-slack", "downstream-first", "fifo", "weighted"]),
        default: "downstream-first",
        about: "choice of the module whose batch runs next on a shared slot",
        marks: &[],
    },
    SectionKey {
        name: "queues",
        kind: ValueKind::words(&["fcfs", "edf", "shepherd", "sticky", "virtual"]),
        default: "by the arbitration and turns",
        about: "choice of the next work on a device with memory for some of its models",
        marks: &[],
    },
    SectionKey {
        name: "delta",
        kind: ValueKind::integer(1, SlotPlanning::MAX_DELTA as i64),
        default: "4",
        about: "maximum number of batches in a group of planned queues",
        marks: &[],
    },
    SectionKey {
        name: "operations",
        kind: ValueKind::Operations,
        default: "all",
        about: "operations of planned queues, which must include `pull`",
        marks: &[],
    },
    SectionKey {
        name: "mailbox",
        kind: ValueKind::words(&["pool", "worker"]),
        default: "pool",
        about: "place where requests wait: one mailbox before all workers, or one for each worker",
        marks: &[],
    },
    SectionKey {
        name: "sweep",
        kind: ValueKind::FLAG,
        default: "true",
        about: "true: requests that will certainly miss their deadline are dropped at once",
        marks: &[],
    },
    SectionKey {
        name: "fair",
        kind: ValueKind::FLAG,
        default: "true",
        about: "true: requests that are about equally urgent run in random order",
        marks: &[],
    },
    SectionKey {
        name: "sizing",
        kind: ValueKind::words(&["fair", "together", "one"]),
        default: "by the drop rule",
        about: "rule that chooses batch sizes",
        marks: &[],
    },
    SectionKey {
        name: "length",
        kind: ValueKind::words(&["mean", "history", "stream", "experts", "single"]),
        default: "mean",
        about: "prediction of the number of tokens in a sequence of a generative model",
        marks: &[],
    },
    SectionKey {
        name: "tables",
        kind: ValueKind::words(&["intervals", "until"]),
        default: "intervals",
        about: "bookings that reservations keep: all intervals, or only the end of the last one (until)",
        marks: &[],
    },
    SectionKey {
        name: "head_min_fraction",
        kind: ValueKind::FRACTION,
        default: "0.95",
        about: "for models with a plan: the smallest batch, as a fraction of the planned batch",
        marks: &[],
    },
    SectionKey {
        name: "booking_margin",
        kind: ValueKind::FRACTION,
        default: "0.02",
        about: "for models with a plan: the fraction of the SLO that is kept as a margin",
        marks: &[],
    },
    SectionKey {
        name: "replan",
        kind: ValueKind::FLAG,
        default: "false",
        about: "for models with a plan: true solves the plan again when arrivals, durations or links depart from it",
        marks: &[],
    },
    SectionKey {
        name: "admission",
        kind: ValueKind::Strategy,
        default: "of the rule",
        about: "rule that admits requests to a batch",
        marks: &[],
    },
    SectionKey {
        name: "estimate",
        kind: ValueKind::Strategy,
        default: "of the rule",
        about: "terms of the latency that is estimated downstream",
        marks: &[],
    },
    SectionKey {
        name: "joint_sizing",
        kind: ValueKind::Strategy,
        default: "by the drop rule",
        about: "parameters of sizing = \"together\"",
        marks: &[],
    },
    SectionKey {
        name: "slack",
        kind: ValueKind::Strategy,
        default: "true under drop = \"weir\"",
        about: "under overload, requests with more slack than a margin go first",
        marks: &[],
    },
    SectionKey {
        name: "stagger",
        kind: ValueKind::Strategy,
        default: "true under drop = \"weir\"",
        about: "batches of a pool are kept from ending together",
        marks: &[],
    },
    SectionKey {
        name: "cost_limit",
        kind: ValueKind::Strategy,
        default: "true under drop = \"weir\"",
        about: "under overload, requests with more items than a limit go last",
        marks: &[],
    },
    SectionKey {
        name: "branch_shedding",
        kind: ValueKind::Strategy,
        default: "true under drop = \"weir\"",
        about: "requests that are too much for a branch downstream go last",
        marks: &[],
    },
    SectionKey {
        name: "duration_spread",
        kind: ValueKind::Strategy,
        default: "true under drop = \"weir\"",
        about: "durations follow the last half second, and a quantile of their spread is promised",
        marks: &[],
    },
    SectionKey {
        name: "fair_streams",
        kind: ValueKind::Strategy,
        default: "true under drop = \"weir\"",
        about: "under overload, a stream that has had less than the others goes first",
        marks: &[],
    },
    SectionKey {
        name: "overload_control",
        kind: ValueKind::Strategy,
        default: "true under drop = \"oc\"",
        about: "while a module is overloaded, a share of the arriving requests is shed",
        marks: &[],
    },
    SectionKey {
        name: "route",
        kind: ValueKind::Strategy,
        default: "earliest for models that generate, otherwise weir",
        about: "instance or slot on which a request runs, of a model on devices that differ in speed",
        marks: &[],
    },
];

/// Keys that hold a strategy with its parameters.
pub(crate) fn parts() -> impl Iterator<Item = &'static str> {
    let is_part = |key: &&SectionKey| key.kind == ValueKind::Strategy;
    POLICY.iter().filter(is_part).map(|key| key.name)
}
