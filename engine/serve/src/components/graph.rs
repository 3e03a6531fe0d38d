//! Components of the API description: the policy and the graph.

use crate::limits::{MAX_EDIT_PATH, MAX_GRAPH_EDITS};
use crate::schema::JsonSchema::{
    Any, Closed, Flag, List, ListUpTo, Named, Object, OrNull, Table, Text, Whole, Words,
};
use crate::schema::SchemaComponent;
use crate::schema::SchemaProperty::{Optional, Required};

/// Components of the API description: the policy and the graph.
pub(super) const COMPONENTS: &[SchemaComponent] = &[
    SchemaComponent(
        "Policy",
        "The keys of [policy] of a graph (docs/reference/policy.md).",
        Table,
    ),
    SchemaComponent(
        "Graph",
        "The graph in force.",
        Object(&[
            Required("name", Text, ""),
            Required("text", Text, "As it was read, without credentials."),
            Required("reloads", Whole, "Texts that were taken since the start."),
            Required(
                "problems",
                List(&Object(&[
                    Optional("line", Whole, ""),
                    Required("message", Text, ""),
                    Optional("hint", Text, ""),
                ])),
                "Reasons why the last text was refused.",
            ),
        ]),
    ),
    SchemaComponent(
        "GraphText",
        "Text of a graph.",
        Closed(&[Required("text", Text, "As in a graph file.")]),
    ),
    SchemaComponent(
        "GraphChanges",
        "Changes that a graph brought.",
        Object(&[
            Required(
                "graph",
                Flag,
                "Whether another graph took the place of the one before.",
            ),
            Required("policy", Flag, "Whether another policy is in force."),
            Required("added", List(&Text), "Names of streams."),
            Required("removed", List(&Text), "Names of streams."),
            Required("changed", List(&Text), "Names of streams."),
        ]),
    ),
    SchemaComponent(
        "GraphDiagnostic",
        "A problem or a warning of a text.",
        Object(&[
            Required("severity", Words(&["error", "warning"]), ""),
            Required("line", Whole, "Line from 1; 0: the whole text."),
            Optional("column", Whole, "Column in characters, from 1."),
            Required("message", Text, ""),
            Optional("hint", Text, "The remedy."),
        ]),
    ),
    SchemaComponent(
        "GraphFile",
        "The graph file.",
        Object(&[
            Required("text", Text, "Secrets are shown as ***."),
            Required("version", Text, "Hash of the text as it is on disk."),
            Optional(
                "file",
                OrNull(&Text),
                "Path of the file; null where the graph came from a pipe.",
            ),
            Required("writable", Flag, "Whether it can be saved."),
            Optional("why", OrNull(&Text), "Reason why it cannot be saved."),
            Required("can_undo", Flag, "Whether the last save can be undone."),
        ]),
    ),
    SchemaComponent(
        "GraphSave",
        "A text for the graph file.",
        Closed(&[
            Required("text", Text, "The whole text."),
            Required("version", Text, "Version of the file that was edited."),
        ]),
    ),
    SchemaComponent(
        "GraphSaved",
        "Result of a save.",
        Object(&[
            Required("version", Text, "Version of the file now."),
            Required(
                "applied",
                Table,
                "Changes of the engine, as PUT /api/graph answers.",
            ),
            Optional(
                "diagnostics",
                List(&Named("GraphDiagnostic")),
                "Problems and warnings by line.",
            ),
        ]),
    ),
    SchemaComponent(
        "GraphUndo",
        "Request to undo the last save.",
        Closed(&[Required("version", Text, "Version that the last save made.")]),
    ),
    SchemaComponent(
        "GraphCheck",
        "A text of a graph to check, with edits.",
        Closed(&[
            Required(
                "text",
                Text,
                "The whole text; masked secrets stand for those of the file.",
            ),
            Optional(
                "edits",
                ListUpTo(
                    MAX_GRAPH_EDITS,
                    &Closed(&[
                        Required(
                            "path",
                            ListUpTo(MAX_EDIT_PATH, &Text),
                            "Names from the top-level table to the key, such as cameras, door, zones, porch.",
                        ),
                        Optional(
                            "value",
                            OrNull(&Any),
                            "Value of the key; null: the key is removed.",
                        ),
                    ]),
                ),
                "Edits that are made in the text first. All other bytes stay as they are.",
            ),
        ]),
    ),
    SchemaComponent(
        "GraphChecked",
        "Result of a check.",
        Object(&[
            Required("text", Text, "The text with the edits."),
            Required(
                "diagnostics",
                List(&Named("GraphDiagnostic")),
                "Problems and warnings by line.",
            ),
            Required("is_valid", Flag, "Whether it could be saved."),
            Optional(
                "document",
                OrNull(&Table),
                "Tables of the text as JSON; null where it is not TOML.",
            ),
        ]),
    ),
];
