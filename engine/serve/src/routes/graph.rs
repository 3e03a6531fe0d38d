//! Routes of the policy and the graph.

use crate::limits::{MAX_BODY_BYTES, MAX_GRAPH_BYTES};
use crate::rights::{Scope, right};
use crate::role::Role;
use crate::routes::interface::RouteReply::{Json, Refused};
use crate::routes::interface::{JSON, MediaSchema};
use crate::routes::spec::{Operation, RouteSpec, route};
use crate::schema::JsonSchema::{Named, Table, Text};

/// Routes of the policy and the graph.
pub(super) const ROUTES: &[RouteSpec] = &[
    route(
        "GET",
        "/api/policy",
        Operation::Policy,
        right(Role::View, Scope::Engine),
    )
    .named("getPolicy", "The policy in force.")
    .replies(&[Json(200, "The policy.", Named("Policy"))]),
    route(
        "PUT",
        "/api/policy",
        Operation::ApplyPolicy,
        right(Role::Operate, Scope::Engine),
    )
    .named(
        "applyPolicy",
        "Replaces the policy. Running batches finish, and queued requests are ordered \
         by the new policy; absent keys have their defaults.",
    )
    .body(MAX_BODY_BYTES, "", &[MediaSchema(JSON, Named("Policy"))])
    .replies(&[
        Json(200, "It is in force.", Named("Policy")),
        Refused(400, "The body is no policy."),
        Refused(
            409,
            "The policy differs in what cannot be changed while the graph runs.",
        ),
    ]),
    route(
        "GET",
        "/api/graph",
        Operation::Graph,
        right(Role::View, Scope::Engine),
    )
    .named("getGraph", "The graph in force.")
    .replies(&[Json(200, "The graph.", Named("Graph"))]),
    route(
        "PUT",
        "/api/graph",
        Operation::ApplyGraph,
        right(Role::Edit, Scope::Engine),
    )
    .named(
        "applyGraph",
        "Applies the graph of a text: its policy, its streams, or the whole graph if \
         more differs. Variables in it are not looked up, and the graph file is not \
         changed.",
    )
    .body(
        MAX_GRAPH_BYTES,
        "",
        &[
            MediaSchema(JSON, Named("GraphText")),
            MediaSchema("text/plain", Text),
        ],
    )
    .replies(&[
        Json(200, "It is in force.", Named("GraphChanges")),
        Refused(400, "The text is no graph: all its problems."),
        Refused(
            409,
            "It is another graph, which is applied only from its file, or a name in it is taken.",
        ),
    ]),
    route(
        "GET",
        "/api/graph/schema",
        Operation::GraphSchema,
        right(Role::View, Scope::None),
    )
    .named("getGraphSchema", "The JSON Schema of graph files, for editors.")
    .without_engine()
    .replies(&[Json(200, "The schema.", Table)]),
    route(
        "GET",
        "/api/graph/file",
        Operation::GraphFile,
        right(Role::View, Scope::Engine),
    )
    .named(
        "getGraphFile",
        "The text of the graph file as it is on disk, with its secrets masked.",
    )
    .replies(&[
        Json(200, "The text.", Named("GraphFile")),
        Refused(400, "The text is longer than 256 KiB, which clients may edit."),
        Refused(409, "The file cannot be read."),
    ]),
    route(
        "PUT",
        "/api/graph/file",
        Operation::SaveGraph,
        right(Role::Edit, Scope::Engine),
    )
    .named(
        "saveGraphFile",
        "Puts a text into force and into the graph file. Masked secrets keep their \
         values, and lines that are not edited keep their bytes. Without \
         --allow-any-source, only streams, zones, lines, rules, the policy, and inputs \
         of sinks and modules can be changed.",
    )
    .body(MAX_GRAPH_BYTES, "", &[MediaSchema(JSON, Named("GraphSave"))])
    .replies(&[
        Json(200, "It is in force and saved.", Named("GraphSaved")),
        Refused(
            400,
            "The text does not pass: all its problems, in `diagnostics` with their lines.",
        ),
        Refused(
            409,
            "The file has changed since, cannot be written, or the graph cannot be changed \
             while it runs.",
        ),
    ]),
    route(
        "POST",
        "/api/graph/file/undo",
        Operation::UndoGraph,
        right(Role::Edit, Scope::Engine),
    )
    .named(
        "undoGraphFile",
        "Puts the text before the last save into force and into the file. The last 20 \
         saves can be undone one after the other, until the engine ends.",
    )
    .body(MAX_BODY_BYTES, "", &[MediaSchema(JSON, Named("GraphUndo"))])
    .replies(&[
        Json(200, "The text before is in force and saved.", Named("GraphSaved")),
        Refused(
            400,
            "The body has no version, or the text before does not pass any more.",
        ),
        Refused(
            409,
            "The file has changed since, cannot be written, or nothing was saved.",
        ),
    ]),
    route(
        "POST",
        "/api/graph/check",
        Operation::CheckGraph,
        right(Role::Edit, Scope::Engine),
    )
    .named(
        "checkGraph",
        "Checks a text for the graph file as weir check --quick does, after edits of \
         single keys. Nothing is opened, and nothing is changed.",
    )
    .body(MAX_GRAPH_BYTES, "", &[MediaSchema(JSON, Named("GraphCheck"))])
    .replies(&[
        Json(
            200,
            "Problems of the text, and the text with the edits.",
            Named("GraphChecked"),
        ),
        Refused(
            400,
            "The body is no check, or an edit cannot be made in the text.",
        ),
        Refused(409, "The file cannot be read."),
    ]),
];
