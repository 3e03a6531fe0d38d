//! Components of the API description: the engine, its modules and its clients.

use crate::schema::JsonSchema::{
    Flag, List, ListOf, Map, Named, Number, Object, OrNull, Table, Text, Whole, WholeFrom, Words,
};
use crate::schema::SchemaProperty::{Optional, Required};
use crate::schema::{JsonSchema, SchemaComponent};

/// A part of the engine that is not ready or fails.
const FAILING_PART: JsonSchema = Object(&[Required("what", Text, ""), Required("why", Text, "")]);

/// Components of the API description: the engine, its modules and its clients.
pub(super) const COMPONENTS: &[SchemaComponent] = &[
    SchemaComponent(
        "Error",
        "A fault, with its remedy.",
        Object(&[
            Required("error", Text, "The fault, as a text for people."),
            Optional("hint", Text, "The remedy."),
            Optional(
                "diagnostics",
                List(&Named("GraphDiagnostic")),
                "Problems and warnings by line.",
            ),
            Optional(
                "code",
                Text,
                "Stable name of the kind of the error, for clients that word it themselves; \
                 absent of most errors.",
            ),
            Optional(
                "values",
                Map(&Text),
                "Values in the texts of an error with a `code`, by name.",
            ),
        ]),
    ),
    SchemaComponent(
        "Done",
        "Answer of a request that has nothing to tell.",
        Object(&[Required("status", Words(&["ok"]), "")]),
    ),
    SchemaComponent(
        "Readiness",
        "Readiness of the engine.",
        Object(&[
            Required("ready", Flag, ""),
            Required("not_ready", List(&FAILING_PART), ""),
            Optional(
                "degraded",
                List(&FAILING_PART),
                "Parts that fail while the engine is ready, such as a camera that is dark or a \
                 sink whose disk is full; absent if all work.",
            ),
        ]),
    ),
    SchemaComponent(
        "SignIn",
        "Request for a session.",
        Object(&[Optional(
            "keep",
            Flag,
            "Whether the browser stays signed in after it was closed; default false.",
        )]),
    ),
    SchemaComponent(
        "Session",
        "The client of a request, as the engine knows it.",
        Object(&[
            Required("name", Text, "Name of the token, or of the user at the proxy."),
            Required("role", Words(&["view", "operate", "edit"]), ""),
            Required(
                "by",
                Words(&["open", "token", "session", "proxy"]),
                "Means by which the engine knows the client; `open`: it asks no client of this \
                 machine.",
            ),
            Optional(
                "cameras",
                List(&Text),
                "Streams that the client sees; absent: all of them.",
            ),
        ]),
    ),
    SchemaComponent(
        "DropCount",
        "Dropped requests of a module for one reason.",
        Object(&[
            Required("module", Text, "Name of the module, or source."),
            Required("reason", Text, ""),
            Required("count", Whole, ""),
        ]),
    ),
    SchemaComponent(
        "ModuleTotals",
        "Sums since the start that only grow: the difference of two states is what \
         happened between them.",
        Object(&[
            Required(
                "requests",
                WholeFrom(0),
                "Requests of which a first item was in a batch.",
            ),
            Required("items", WholeFrom(0), "Their items."),
            Required("batches", WholeFrom(0), "Batches that started."),
            Required("ended", WholeFrom(0), "Batches that ended."),
            Required(
                "queue_s",
                Number,
                "Of the requests, from entering the mailbox to joining a batch, in seconds.",
            ),
            Required(
                "batch_wait_s",
                Number,
                "Of the requests, from joining a batch to its start, in seconds.",
            ),
            Required(
                "exec_s",
                Number,
                "Of the batches that ended, on their slots, in seconds.",
            ),
        ]),
    ),
    SchemaComponent(
        "Module",
        "A module of the graph in force, at this moment.",
        Object(&[
            Required("name", Text, "As in the report."),
            Required("operator", Text, ""),
            Required(
                "inputs",
                List(&Text),
                "Names of the sources and modules that it takes from.",
            ),
            Required(
                "requests",
                WholeFrom(0),
                "Requests in it: waiting, in a batch that forms, or on a slot.",
            ),
            Required("batch_size", WholeFrom(0), "The batch size that it aims at."),
            Required("input_rate", Number, "Items a second that arrive."),
            Required("throughput", Number, "Items a second that it can do."),
            Required("slots", Number, "Slots that it has, or its share of them."),
            Required("placed_slots", WholeFrom(0), "Slots that its model is open on."),
            Required(
                "overdue_slots",
                WholeFrom(0),
                "Those of `placed_slots` that are out of use, since a batch there does not end.",
            ),
            Required("totals", Named("ModuleTotals"), ""),
        ]),
    ),
    SchemaComponent(
        "Sink",
        "A sink of the graph in force; what it came to is in the report.",
        Object(&[
            Required("name", Text, ""),
            Required("type", Text, ""),
            Required(
                "inputs",
                List(&Text),
                "Names of the sources and modules that it takes from.",
            ),
        ]),
    ),
    SchemaComponent(
        "State",
        "The engine, at this moment.",
        Object(&[
            Required("stopping", Flag, ""),
            Required("streams", List(&Named("Stream")), ""),
            Required(
                "slo_ms",
                Number,
                "Latency objective of the graph in milliseconds.",
            ),
            Required(
                "modules",
                List(&Named("Module")),
                "Each after those that it takes from.",
            ),
            Required("sinks", List(&Named("Sink")), ""),
            Required("policy", Named("Policy"), ""),
            Optional(
                "warnings",
                List(&Text),
                "Likely mistakes, such as reserves beyond the machine, and sinks that write \
                 nothing at the moment, such as an archive on a full disk.",
            ),
            Optional(
                "warning_causes",
                List(&OrNull(&Object(&[
                    Required("code", Text, "Stable name of the cause."),
                    Optional("values", Map(&Text), "Values in the warning by name."),
                    Optional("sink", Text, "The sink that the warning is about."),
                ]))),
                "Causes of the warnings in their order; null for one that has a wording of its own.",
            ),
            Required(
                "report",
                Table,
                "The report as of now, as weir run --report writes it.",
            ),
            Optional("fleet", Named("Fleet"), ""),
            Required(
                "graph",
                Object(&[
                    Optional("name", Text, ""),
                    Optional("reloads", Whole, "Texts that were taken since the start."),
                    Optional(
                        "problems",
                        List(&Object(&[
                            Optional("line", Whole, ""),
                            Required("message", Text, ""),
                            Optional("hint", Text, ""),
                        ])),
                        "Reasons why the last text was refused.",
                    ),
                ]),
                "The graph in force, without its text.",
            ),
            Required(
                "incidents",
                WholeFrom(0),
                "Grows with whatever is new in GET /api/incidents.",
            ),
        ]),
    ),
    SchemaComponent(
        "Timeline",
        "Work of the slots over the last seconds.",
        Object(&[
            Required(
                "seconds",
                Number,
                "Seconds that it goes back; less if there were more than 4,000 batches.",
            ),
            Required(
                "modules",
                List(&Text),
                "Names of modules, whose places spans name.",
            ),
            Required(
                "lanes",
                List(&Object(&[
                    Required(
                        "kind",
                        Words(&["slot", "share", "link"]),
                        "slot: what ran; share, link: what is booked.",
                    ),
                    Required("name", Text, ""),
                    Required(
                        "spans",
                        List(&ListOf(4, &Number)),
                        "Of each batch: the place of its module, when it began or begins in seconds \
                         from now (before it is negative), how many seconds it takes, and its items.",
                    ),
                ])),
                "",
            ),
        ]),
    ),
    SchemaComponent(
        "Fleet",
        "The fleet, as this engine sees it.",
        Object(&[
            Required("fleet", Text, "Its name."),
            Required("node", Text, "This engine."),
            Required(
                "engines",
                List(&Object(&[
                    Required("name", Text, ""),
                    Required("up", Flag, ""),
                    Optional("capacity", Number, "Frames a second that it can serve in time."),
                    Optional(
                        "load",
                        Number,
                        "Frames a second that its streams bring, as a part of that.",
                    ),
                    Optional(
                        "missed",
                        Number,
                        "Part of its frames that it did not serve in time.",
                    ),
                    Required("streams", WholeFrom(0), "Streams of which it has frames."),
                    Optional(
                        "devices",
                        Map(&WholeFrom(1)),
                        "Slots that run its models, by device.",
                    ),
                ])),
                "",
            ),
            Required(
                "streams",
                List(&Object(&[
                    Required("name", Text, ""),
                    Required("assigned", OrNull(&Text), "The engine that is to have it."),
                    Required(
                        "engines",
                        List(&Text),
                        "Engines that have frames of it: two while it changes hands.",
                    ),
                    Optional("problem", Text, "Reason why this engine could not add it."),
                ])),
                "",
            ),
            Required(
                "moves",
                Object(&[
                    Required("taken", WholeFrom(0), ""),
                    Required("released", WholeFrom(0), ""),
                    Required("redirected", WholeFrom(0), ""),
                    Required("recalled", WholeFrom(0), ""),
                ]),
                "",
            ),
            Required(
                "messages",
                Object(&[
                    Required("sent", WholeFrom(0), ""),
                    Required("received", WholeFrom(0), ""),
                    Required("too_large", WholeFrom(0), ""),
                    Required("malformed", WholeFrom(0), ""),
                    Required("overflowed", WholeFrom(0), ""),
                ]),
                "",
            ),
            Required(
                "refused",
                Object(&[
                    Required("connections", WholeFrom(0), "Without a certificate of the fleet."),
                    Required(
                        "messages",
                        WholeFrom(0),
                        "Under keys that are not their sender's.",
                    ),
                    Required(
                        "reports",
                        WholeFrom(0),
                        "Unreadable, or older than what is known.",
                    ),
                ]),
                "",
            ),
        ]),
    ),
];
