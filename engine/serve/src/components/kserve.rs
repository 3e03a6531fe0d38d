//! Components of the API description: the KServe protocol.

use crate::schema::JsonSchema::{Any, Flag, List, Object, Text, Whole, Words};
use crate::schema::SchemaComponent;
use crate::schema::SchemaProperty::{Optional, Required};

/// Components of the API description: the KServe protocol.
pub(super) const COMPONENTS: &[SchemaComponent] = &[
    SchemaComponent(
        "KServeServer",
        "The server by the KServe protocol.",
        Object(&[
            Required("name", Text, ""),
            Required("version", Text, ""),
            Required("extensions", List(&Text), ""),
        ]),
    ),
    SchemaComponent(
        "KServeError",
        "A fault by the KServe protocol.",
        Object(&[Required(
            "error",
            Text,
            "The fault and its remedy, as a text for people.",
        )]),
    ),
    SchemaComponent(
        "KServeModel",
        "A model by the KServe protocol.",
        Object(&[
            Required("name", Text, ""),
            Required("versions", List(&Text), ""),
            Required("platform", Text, ""),
            Required(
                "inputs",
                List(&Object(&[
                    Required("name", Text, ""),
                    Required("datatype", Text, ""),
                    Required(
                        "shape",
                        List(&Whole),
                        "Sizes of the dimensions; -1 for a free one.",
                    ),
                ])),
                "",
            ),
            Required(
                "outputs",
                List(&Object(&[
                    Required("name", Text, ""),
                    Required("datatype", Text, ""),
                    Required(
                        "shape",
                        List(&Whole),
                        "Sizes of the dimensions; -1 for a free one.",
                    ),
                ])),
                "",
            ),
        ]),
    ),
    SchemaComponent(
        "KServeRequest",
        "A request for the objects of a picture.",
        Object(&[
            Optional("id", Text, "Sent back; at most 1024 bytes."),
            Optional(
                "parameters",
                Object(&[Optional(
                    "binary_data_output",
                    Flag,
                    "Outputs that do not say otherwise are answered as bytes.",
                )]),
                "",
            ),
            Required(
                "inputs",
                List(&Object(&[
                    Required("name", Words(&["image"]), ""),
                    Required(
                        "datatype",
                        Words(&["UINT8", "BYTES"]),
                        "Red, green and blue of each pixel, or a JPEG or PNG file.",
                    ),
                    Required(
                        "shape",
                        List(&Whole),
                        "[1, height, width, 3] of UINT8, [1] of BYTES.",
                    ),
                    Optional(
                        "data",
                        List(&Whole),
                        "Elements of UINT8, flat or as nested lists.",
                    ),
                    Optional(
                        "parameters",
                        Object(&[Optional(
                            "binary_data_size",
                            Whole,
                            "Bytes behind the JSON, instead of data. The file of BYTES has its length in \
                             four bytes before it, the lowest first.",
                        )]),
                        "",
                    ),
                ])),
                "One input.",
            ),
            Optional(
                "outputs",
                List(&Object(&[
                    Required("name", Words(&["boxes", "scores", "labels", "objects"]), ""),
                    Optional(
                        "parameters",
                        Object(&[Optional("binary_data", Flag, "Answers as bytes behind the JSON.")]),
                        "",
                    ),
                ])),
                "Outputs that are wanted, in their order; all without it.",
            ),
        ]),
    ),
    SchemaComponent(
        "KServeResponse",
        "The objects of a picture as tensors.",
        Object(&[
            Required("model_name", Text, ""),
            Required("model_version", Text, ""),
            Optional("id", Text, ""),
            Required(
                "outputs",
                List(&Object(&[
                    Required(
                        "name",
                        Words(&["boxes", "scores", "labels", "objects"]),
                        "boxes: FP32 [n, 4], left, top, right and bottom edges in pixels; scores: FP32 \
                         [n]; labels: BYTES [n], names of classes; objects: BYTES [1], the event line \
                         of the frame (docs/events.schema.json).",
                    ),
                    Required("datatype", Words(&["FP32", "BYTES"]), ""),
                    Required("shape", List(&Whole), ""),
                    Optional(
                        "data",
                        List(&Any),
                        "Numbers or texts, unless they follow as bytes.",
                    ),
                    Optional(
                        "parameters",
                        Object(&[Optional("binary_data_size", Whole, "")]),
                        "",
                    ),
                ])),
                "",
            ),
        ]),
    ),
];
