//! Components of the API description: incidents, tracks and archives.

use crate::schema::JsonSchema::{
    Changes, Flag, List, Map, Named, Number, Object, OrNull, Table, Text, Whole, WholeFrom, Words,
};
use crate::schema::SchemaProperty::{Optional, Required};
use crate::schema::{JsonSchema, SchemaComponent};

/// One kind of search, with the reason if it does not work.
const SEARCH_KIND: JsonSchema = Object(&[
    Required("available", Flag, ""),
    Optional("why", Text, "Reason why it does not work."),
    Optional("hint", Text, "Keys or tables to add or change."),
]);

/// Components of the API description: incidents, tracks and archives.
pub(super) const COMPONENTS: &[SchemaComponent] = &[
    SchemaComponent(
        "Incident",
        "Something that a transform found (docs/reference/events.md).",
        Object(&[
            Required("id", Text, "Unique over restarts."),
            Required("stream", Text, ""),
            Required("transform", Text, "Name of the transform in the graph."),
            Required("type", Text, "Type of the transform."),
            Required("phase", Words(&["began", "updated", "ended"]), ""),
            Required("is_over", Flag, ""),
            Optional("track", Whole, "The track that it is about."),
            Optional("class", Text, "Class of that track."),
            Required("score", Number, "0 to 1."),
            Required("began_ms", Whole, "Milliseconds since 1970 (UTC)."),
            Required(
                "time_ms",
                Whole,
                "Time of this phase, in milliseconds since 1970 (UTC).",
            ),
            Required("zones", List(&Text), ""),
            Required(
                "values",
                Table,
                "Measured values by name; the unit is the end of the name.",
            ),
            Required("attributes", Table, "Words of attributes, by name."),
            Required("has_picture", Flag, "Whether there is a picture of it."),
            Required(
                "has_clip",
                Flag,
                "Whether there is a clip of it, which is so some seconds after it is over if a \
                 sink of type `clips` records it.",
            ),
            Optional(
                "descriptions",
                Map(&Text),
                "Words of models about its picture, by the name of the describe sink; left out \
                 while there are none.",
            ),
            Required("seen", Flag, "Whether a person has seen it."),
            Required(
                "pinned",
                Flag,
                "Whether it and its clip stay, however old they are.",
            ),
            Optional(
                "clip_start_ms",
                Whole,
                "Time of the first picture of its clip, in milliseconds since 1970 (UTC); of a \
                 single incident only.",
            ),
            Optional(
                "time_zone",
                Text,
                "Time zone of its camera by the graph, such as `Europe/Berlin`; of a single \
                 incident only.",
            ),
        ]),
    ),
    SchemaComponent(
        "IncidentChange",
        "Change of the marks of an incident; absent keys keep their values.",
        Changes(&[
            Optional("seen", Flag, "Whether a person has seen it."),
            Optional(
                "pinned",
                Flag,
                "Whether it stays, with its clip, however old it is.",
            ),
        ]),
    ),
    SchemaComponent(
        "IncidentList",
        "Incidents by filters.",
        Object(&[
            Required(
                "count",
                Whole,
                "All that began since the start of the engine; for a client that sees some \
                 cameras only, those of them that are kept.",
            ),
            Required("incidents", List(&Named("Incident")), ""),
            Optional(
                "next",
                Text,
                "`before` of the list that continues this one; absent at the end.",
            ),
            Optional(
                "to_ms",
                Whole,
                "End of the last of `bins`, in milliseconds since 1970 (UTC).",
            ),
            Optional(
                "bins",
                List(&Object(&[
                    Required("count", Whole, ""),
                    Optional("picture", Text, "Id of the newest of them that has a picture."),
                ])),
                "Incidents that meet the filters, by the span between `from` and `to` in which \
                 they began; those that began before are in the first.",
            ),
            Required(
                "names",
                Object(&[
                    Required("streams", List(&Text), "Streams."),
                    Required("classes", List(&Text), "Classes."),
                    Required("zones", List(&Text), "Zones."),
                    Required("rules", List(&Text), "Names of transforms."),
                    Required("types", List(&Text), "Types of transforms."),
                ]),
                "Names that filters can have, of all incidents; 200 of each at most.",
            ),
            Required(
                "kept",
                Object(&[
                    Required(
                        "in",
                        Words(&["state", "none"]),
                        "`state`: in files of the engine; `none`: until the engine ends.",
                    ),
                    Optional(
                        "why",
                        Text,
                        "Reason why they are not stored, or cannot be stored now.",
                    ),
                ]),
                "Whether incidents are there again after a restart.",
            ),
        ]),
    ),
    SchemaComponent(
        "FoundTrack",
        "A stored track that a search found.",
        Object(&[
            Required("id", Text, "STREAM/NUMBER."),
            Required("stream", Text, ""),
            Required(
                "track",
                Whole,
                "Number of the track, as events and incidents have it.",
            ),
            Required("class", Text, ""),
            Required("score", Number, "Highest confidence of its objects, 0 to 1."),
            Required(
                "began_ms",
                Whole,
                "Time of the first detection, in milliseconds since 1970 (UTC).",
            ),
            Required("time_ms", Whole, "Time of the last detection."),
            Required("picture_ms", OrNull(&Whole), "Time of the picture."),
            Required(
                "attributes",
                Map(&Text),
                "Texts, classes and names by the name of the attribute.",
            ),
            Required("zones", List(&Text), "Zones of its picture."),
            Required(
                "incidents",
                List(&Text),
                "Ids of its incidents, the newest first; 8 at most.",
            ),
            Required("has_picture", Flag, ""),
            Required("by", Words(&["words", "picture", "newest"]), "Kind of the match."),
            Required(
                "similarity",
                OrNull(&Number),
                "Cosine to the vector of the query, -1 to 1.",
            ),
        ]),
    ),
    SchemaComponent(
        "TrackList",
        "Stored tracks by a query.",
        Object(&[
            Required("available", Flag, "Whether the graph stores tracks."),
            Optional("why", Text, "Reason why it does not."),
            Optional("hint", Text, "Keys or tables to add to the graph."),
            Required("words", SEARCH_KIND, "Search by words in texts."),
            Required("meaning", SEARCH_KIND, "Search by what a text describes."),
            Required("like", SEARCH_KIND, "Search by what a track looks like."),
            Required("results", List(&Named("FoundTrack")), ""),
            Required(
                "compared",
                Whole,
                "Tracks that met the filters and were compared.",
            ),
            Required(
                "other_model",
                Whole,
                "Tracks that met the filters and have a vector of another model: they are \
                 found by words only.",
            ),
            Required(
                "kept",
                Object(&[
                    Required("tracks", Whole, ""),
                    Required("bytes", Whole, "Size of all files of the store."),
                    Optional(
                        "from_ms",
                        Whole,
                        "Begin of the first track, in milliseconds since 1970 (UTC); absent if there is none.",
                    ),
                    Optional("to_ms", Whole, "End of the last track."),
                ]),
                "All stored tracks that the client may see.",
            ),
            Required(
                "names",
                Object(&[
                    Required("streams", List(&Text), "Names of streams."),
                    Required("classes", List(&Text), "Classes."),
                ]),
                "Names that filters can have; 200 of each at most.",
            ),
        ]),
    ),
    SchemaComponent(
        "ArchiveList",
        "Cameras of archives.",
        Object(&[Required(
            "cameras",
            List(&Object(&[
                Required("stream", Text, "Name of the stream."),
                Optional(
                    "from_ms",
                    Whole,
                    "Time of the first picture, in milliseconds since 1970 (UTC).",
                ),
                Optional(
                    "to_ms",
                    Whole,
                    "End of the last picture, in milliseconds since 1970 (UTC).",
                ),
                Optional("segments", Whole, "Number of segments."),
                Optional(
                    "withheld",
                    Text,
                    "Reason why the video of the camera is not shown; the times and the number are then missing.",
                ),
                Optional("cause", Named("Cause"), ""),
            ])),
            "",
        )]),
    ),
    SchemaComponent(
        "Segment",
        "A recorded file of an archive.",
        Object(&[
            Required(
                "id",
                Text,
                "Id of the segment in GET /api/archive/{name}/segments/{segment}.",
            ),
            Required(
                "from_ms",
                Whole,
                "Time of its first picture, in milliseconds since 1970 (UTC).",
            ),
            Required(
                "to_ms",
                Whole,
                "End of its last picture, in milliseconds since 1970 (UTC).",
            ),
            Required(
                "bytes",
                WholeFrom(0),
                "Bytes from its beginning that can be played.",
            ),
            Required("unfinished", Flag, "True while the segment is being written."),
            Required("type", Text, "MIME type with the codecs."),
            Required("frame_ms", Number, "Mean duration of a picture in milliseconds."),
        ]),
    ),
    SchemaComponent(
        "SegmentList",
        "Segments and gaps of a camera.",
        Object(&[
            Required("stream", Text, "Name of the stream."),
            Required("from_ms", Whole, "Begin of the range."),
            Required("to_ms", Whole, "End of the range."),
            Required("segments", List(&Named("Segment")), ""),
            Required(
                "gaps",
                List(&Object(&[
                    Required("from_ms", Whole, "Begin of the gap."),
                    Required("to_ms", Whole, "End of the gap."),
                ])),
                "Parts of the range of at least 3 seconds without video.",
            ),
            Optional(
                "next_ms",
                Whole,
                "Begin of the first segment that is not listed, if there are more.",
            ),
        ]),
    ),
];
