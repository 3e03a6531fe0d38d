//! Components of the API description: streams and cameras.

use crate::limits::{MAX_HOST_BYTES, MAX_LOGIN_BYTES};
use crate::schema::JsonSchema::{
    Closed, Either, Flag, List, Map, Named, Number, NumberIn, Object, OrNull, Text, TextUpTo, Whole,
    WholeFrom, Words,
};
use crate::schema::SchemaComponent;
use crate::schema::SchemaProperty::{Optional, Required};

/// Components of the API description: streams and cameras.
pub(super) const COMPONENTS: &[SchemaComponent] = &[
    SchemaComponent(
        "NewStream",
        "The keys of [sources.NAME] of a graph.",
        Closed(&[
            Required(
                "name",
                Text,
                "Letters, digits, \"-\", \"_\" and \".\"; not dots alone; no stream, module or sink has it.",
            ),
            Required(
                "uri",
                Text,
                "A URL of a camera, a file in the folder of the graph, or emulated:...",
            ),
            Optional(
                "detect_uri",
                Text,
                "The address of a smaller stream of the same pictures: frames come from it, \
                 and uri is not opened.",
            ),
            Optional("mode", Words(&["live", "lossless"]), ""),
            Optional("fps", Number, ""),
            Optional(
                "sample",
                Either(&[Number, Text]),
                "Frames a second that are taken: a number, or a text with its unit, such as 5fps.",
            ),
            Optional("loop", Flag, ""),
            Optional("decode", Words(&["all", "as-needed"]), ""),
            Optional("gate", Words(&["motion", "none"]), ""),
            Optional("decoder", Text, "Device that decodes it, as in a graph file."),
            Optional(
                "transport",
                Words(&["tcp", "udp"]),
                "Transport of a camera at an rtsp:// address.",
            ),
            Optional("user", Text, "User of the camera or the server."),
            Optional(
                "password_file",
                Text,
                "File of the engine with the password of the user: one that a source or \
                 [defaults] of the graph names, or any with --allow-any-source. The password \
                 is sent only to hosts that the graph names.",
            ),
            Optional(
                "slo",
                Text,
                "Its own latency objective with its unit, such as 150ms.",
            ),
            Optional("weight", NumberIn(0.001, 1000.0), ""),
            Optional(
                "reserve",
                NumberIn(0.001, 10000.0),
                "Frames a second that are reserved for it under overload.",
            ),
            Optional("group", Text, "Group of cameras that it belongs to."),
            Optional(
                "like",
                Text,
                "The source of the graph whose inputs it shares; all that take any \
                 source by default.",
            ),
        ]),
    ),
    SchemaComponent(
        "StreamPatch",
        "Keys of a stream to change; absent keys keep their values.",
        Closed(&[
            Optional(
                "slo",
                OrNull(&Text),
                "Its own latency objective with its unit; null for that of the graph.",
            ),
            Optional("weight", NumberIn(0.001, 1000.0), ""),
            Optional(
                "reserve",
                OrNull(&NumberIn(0.001, 10000.0)),
                "Frames a second that are reserved for it under overload; null for none.",
            ),
        ]),
    ),
    SchemaComponent(
        "Kept",
        "Place in which a change of the streams is kept for the next start.",
        Object(&[
            Required(
                "in",
                Words(&["graph", "state", "none"]),
                "graph: in the file of the graph; state: in a file of the engine; none: the \
                 change holds until the engine ends.",
            ),
            Optional("file", Text, "Path of the file, if there is one."),
            Optional("why", Text, "Reason why it is not in the file of the graph."),
        ]),
    ),
    SchemaComponent(
        "ChangedStream",
        "A stream that was added or changed.",
        Object(&[Required("name", Text, ""), Optional("kept", Named("Kept"), "")]),
    ),
    SchemaComponent(
        "Counts",
        "Requests by outcome: arrived = delivered + late + dropped + still + in_flight.",
        Object(&[
            Required("arrived", WholeFrom(0), ""),
            Required("delivered", WholeFrom(0), ""),
            Required("late", WholeFrom(0), ""),
            Required("dropped", WholeFrom(0), ""),
            Optional(
                "still",
                WholeFrom(0),
                "Frames that no model was to see: nothing had changed in them (gate of a \
                 source), or they came outside its times (active).",
            ),
            Required("in_flight", WholeFrom(0), ""),
        ]),
    ),
    SchemaComponent(
        "Cause",
        "The cause in a text as a code, for clients that word it themselves.",
        Object(&[
            Required("code", Text, "Stable name of the cause."),
            Optional("values", Map(&Text), "Values in the text by name."),
        ]),
    ),
    SchemaComponent(
        "Stream",
        "A stream, at this moment.",
        Object(&[
            Required("name", Text, ""),
            Required("id", Whole, "No other stream of this run has or had it."),
            Required("source", Text, "Its address, without credentials."),
            Optional(
                "detect_source",
                Text,
                "The address that its frames come from, where that is another one; without \
                 credentials.",
            ),
            Required(
                "state",
                Words(&[
                    "connecting",
                    "live",
                    "stalled",
                    "waiting",
                    "gone",
                    "paused",
                    "removing",
                ]),
                "",
            ),
            Required("for_s", Number, "Seconds in that state."),
            Optional(
                "lost_s",
                Number,
                "Seconds since its last frame, or since it was first opened, while it is lost. \
                 Retries do not reset it.",
            ),
            Optional(
                "frozen_s",
                Number,
                "Seconds for which its picture has not changed at all although frames arrive, \
                 from 30 on.",
            ),
            Optional(
                "outside_schedule",
                Flag,
                "True while its frames come outside the times of active of its source: they \
                 are recorded and shown, and not analysed. Absent otherwise.",
            ),
            Optional(
                "groups",
                List(&Text),
                "Groups of cameras that it belongs to; absent where it is in none.",
            ),
            Optional("reason", Text, ""),
            Optional("cause", Named("Cause"), ""),
            Optional(
                "slo_ms",
                Number,
                "Its own latency objective in milliseconds, where it has one.",
            ),
            Required("weight", Number, ""),
            Optional("reserve", Number, "Frames a second."),
            Required("requests", Named("Counts"), ""),
        ]),
    ),
    SchemaComponent(
        "RemovedStream",
        "The report of a stream (docs/reference/report.md).",
        Object(&[
            Required("requests", Named("Counts"), ""),
            Required("goodput_rps", Number, ""),
            Required("drop_rate", Number, ""),
            Optional("kept", Named("Kept"), ""),
        ]),
    ),
    SchemaComponent(
        "DroppedFrame",
        "A frame that was not delivered, or consecutive frames that differ only in their number.",
        Object(&[
            Required(
                "frame",
                Whole,
                "Number of the first of them in its stream, from 0.",
            ),
            Required("last_frame", Whole, "That of the last."),
            Required("count", Whole, "Number of frames."),
            Required("pts_ms", Number, "Its media time in milliseconds."),
            Required(
                "time_ms",
                Whole,
                "Time of arrival, in milliseconds since 1970 (UTC).",
            ),
            Required("module", Text, "The module that dropped it, or source."),
            Required(
                "reason",
                Text,
                "As in reports; late: it was complete after its deadline.",
            ),
            Optional(
                "needed_ms",
                Object(&[
                    Required("wait", Number, "Until its batch would have started."),
                    Required("execution", Number, "Its batch in that module."),
                    Required("downstream", Number, "All that comes after it, waiting included."),
                ]),
                "Time that it would have needed when it was dropped, by the estimates of that \
                 moment, in milliseconds. Only if it would have been late.",
            ),
            Optional(
                "remaining_ms",
                Number,
                "Time that was left until its deadline then, in milliseconds.",
            ),
        ]),
    ),
    SchemaComponent(
        "CameraSearch",
        "A search for cameras.",
        Closed(&[
            Optional(
                "address",
                TextUpTo(MAX_HOST_BYTES),
                "Host of one device, with its port if it is not the usual one. Without it the \
                 networks of the engine are searched.",
            ),
            Optional(
                "user",
                TextUpTo(MAX_LOGIN_BYTES),
                "User of the cameras; needs `password`.",
            ),
            Optional(
                "password",
                TextUpTo(MAX_LOGIN_BYTES),
                "Its password, which is sent as a digest only; needs `user`.",
            ),
        ]),
    ),
    SchemaComponent(
        "FoundCameras",
        "Devices that answered a search, with their cameras.",
        Object(&[
            Required(
                "devices",
                List(&Object(&[
                    Required("address", Text, "Host of the device, with its port."),
                    Optional("name", OrNull(&Text), "Name of the device, as it gives it."),
                    Optional("manufacturer", OrNull(&Text), ""),
                    Optional("model", OrNull(&Text), ""),
                    Required(
                        "cameras",
                        List(&Object(&[
                            Required("name", Text, "A name for a graph."),
                            Required(
                                "streams",
                                List(&Object(&[
                                    Required("profile", Text, ""),
                                    Optional("codec", OrNull(&Text), ""),
                                    Optional("width", OrNull(&Whole), ""),
                                    Optional("height", OrNull(&Whole), ""),
                                    Optional("fps", OrNull(&Number), ""),
                                    Required("uri", Text, "Its address, without user and password."),
                                ])),
                                "",
                            ),
                        ])),
                        "",
                    ),
                    Required("warnings", List(&Text), ""),
                ])),
                "",
            ),
            Required("warnings", List(&Text), "Warnings on the search as a whole."),
        ]),
    ),
];
