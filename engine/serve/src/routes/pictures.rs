//! Routes that take pictures, those of the KServe protocol among them.

use crate::infer::MAX_FORM_BYTES;
use crate::rights::{Scope, right};
use crate::role::Role;
use crate::routes::interface::RouteParameter::{InHeader, InPath, InQuery};
use crate::routes::interface::RouteReply::{Empty, Json, Refused, Retry, Typed, WithHeader};
use crate::routes::interface::{JSON, MediaSchema, RouteParameter, RouteReply};
use crate::routes::spec::{KServeOperation, Operation, RouteSpec, route};
use crate::schema::JsonSchema::{Bytes, FlagOr, Named, Object, Table, Text, WholeFrom};
use crate::schema::SchemaProperty::Optional;

/// Name of a model in a path of the KServe protocol.
const MODEL: RouteParameter = InPath("name", "Name of a module that takes frames.");

/// Version of a model in a path of the KServe protocol.
const VERSION: RouteParameter = InPath("version", "Version of the model, which is 1.");

/// Header that divides the body of a KServe request into JSON and bytes.
const JSON_LENGTH: RouteParameter = InHeader(
    "Inference-Header-Content-Length",
    WholeFrom(0),
    "Length of the JSON in bytes, if bytes of the input follow it.",
);

/// Reply to a request for a model or a version that does not exist.
const NO_MODEL: RouteReply = Refused(404, "There is no such model, or no such version.");

const MODEL_ABOUT: &str = "Input and outputs of a model, which is a module of the graph that takes frames.";

const INFER_ABOUT: &str = "Finds objects in one picture: it enters this module as a frame of a camera does, by the \
                           same objective and policy, and passes the modules behind it.";

const INFER_BODY_ABOUT: &str = "The request, of at most 16 MiB and 64 KiB; bytes of the input may follow the JSON. It is \
                                not compressed.";

/// Bodies of inference requests by their media type.
const INFER_BODY: &[MediaSchema] = &[
    MediaSchema(JSON, Named("KServeRequest")),
    MediaSchema("application/octet-stream", Bytes),
];

/// Replies to a request for the readiness of a model.
const READY_REPLIES: &[RouteReply] = &[
    Empty(200, "Pictures can pass."),
    NO_MODEL,
    Refused(
        503,
        "Pictures cannot pass, with the reason; or the engine is starting or stopping.",
    ),
];

/// Replies to an inference request.
const INFER_REPLIES: &[RouteReply] = &[
    WithHeader(
        &Typed(
            200,
            "The outputs; bytes of outputs that were asked for as bytes follow the JSON, \
             whose length is in Inference-Header-Content-Length then.",
            &[
                MediaSchema(JSON, Named("KServeResponse")),
                MediaSchema("application/octet-stream", Bytes),
            ],
        ),
        "Inference-Header-Content-Length",
        WholeFrom(0),
        "Length of the JSON in bytes, if bytes follow it.",
    ),
    Refused(
        400,
        "The request cannot be read, contradicts itself, or has no picture.",
    ),
    NO_MODEL,
    Refused(409, "There are too many streams."),
    Refused(413, "The request is longer than 16 MiB and 64 KiB."),
    Refused(415, "The request is compressed."),
    Retry(
        429,
        "As many pictures are being processed as may be; the header Retry-After has \
         the seconds to wait.",
    ),
    Refused(500, "The engine failed."),
    Retry(
        503,
        "The picture was dropped, with the reason, as it could not be ready in time; \
         or the engine is starting or stopping.",
    ),
];

/// Routes that take pictures, those of the KServe protocol among them.
pub(super) const ROUTES: &[RouteSpec] = &[
    route(
        "POST",
        "/api/infer",
        Operation::Infer,
        right(Role::Operate, Scope::Engine),
    )
    .named(
        "infer",
        "Finds objects in one picture: it passes the modules of the graph as a frame \
         of a camera does, by the same objective and policy. Trackers, transforms and \
         sinks do not see it.",
    )
    .parameters(&[
        InQuery(
            "like",
            Text,
            "A source of the graph: the picture passes the modules that take its frames. \
             Without it, those that take frames of any source.",
        ),
        InQuery(
            "draw",
            FlagOr(false),
            "Answers with the picture and what was found drawn on it, as a PNG.",
        ),
    ])
    .body(
        MAX_FORM_BYTES,
        "A JPEG or PNG of at most 16 MiB: as it is, or as the first file of a form.",
        &[
            MediaSchema("image/jpeg", Bytes),
            MediaSchema("image/png", Bytes),
            MediaSchema("multipart/form-data", Object(&[Optional("picture", Bytes, "")])),
        ],
    )
    .replies(&[
        Typed(
            200,
            "The event line of the frame (docs/events.schema.json), or the drawn picture.",
            &[MediaSchema(JSON, Table), MediaSchema("image/png", Bytes)],
        ),
        Refused(
            400,
            "The body is no picture, the query is wrong, or there is no such source.",
        ),
        Refused(409, "There are too many streams."),
        Refused(413, "The picture is longer than 16 MiB."),
        Refused(415, "The request is compressed."),
        Retry(
            429,
            "As many pictures are being processed as may be; the header Retry-After has \
             the seconds to wait.",
        ),
        Refused(500, "The drawn picture cannot be encoded."),
        Retry(
            503,
            "The picture was dropped, with the reason, as it could not be ready in time; \
             or the engine is starting or stopping.",
        ),
    ]),
    route(
        "GET",
        "/v2",
        Operation::KServe(KServeOperation::Server),
        right(Role::View, Scope::None),
    )
    .named(
        "kserveServer",
        "The server, by the KServe v2 (Open Inference) protocol.",
    )
    .without_engine()
    .replies(&[Json(200, "Name, version and extensions.", Named("KServeServer"))]),
    route(
        "GET",
        "/v2/health/live",
        Operation::KServe(KServeOperation::ServerLive),
        right(Role::View, Scope::None),
    )
    .named("kserveLive", "Whether the process answers.")
    .without_engine()
    .replies(&[Empty(200, "The process answers.")]),
    route(
        "GET",
        "/v2/health/ready",
        Operation::KServe(KServeOperation::ServerReady),
        right(Role::View, Scope::Engine),
    )
    .named(
        "kserveReady",
        "Whether pictures can pass all models. Cameras do not count here; /readyz reports them.",
    )
    .replies(&[
        Empty(200, "Pictures can pass."),
        Refused(
            503,
            "Pictures cannot pass, with the reasons; or the engine is starting or stopping.",
        ),
    ]),
    route(
        "GET",
        "/v2/models/{name}",
        Operation::KServe(KServeOperation::Model),
        right(Role::View, Scope::Engine),
    )
    .named("kserveModel", MODEL_ABOUT)
    .parameters(&[MODEL])
    .replies(&[Json(200, "The model.", Named("KServeModel")), NO_MODEL]),
    route(
        "GET",
        "/v2/models/{name}/ready",
        Operation::KServe(KServeOperation::ModelReady),
        right(Role::View, Scope::Engine),
    )
    .named("kserveModelReady", "Whether pictures can pass a model.")
    .parameters(&[MODEL])
    .replies(READY_REPLIES),
    route(
        "POST",
        "/v2/models/{name}/infer",
        Operation::KServe(KServeOperation::Infer),
        right(Role::Operate, Scope::Engine),
    )
    .named("kserveInfer", INFER_ABOUT)
    .parameters(&[MODEL, JSON_LENGTH])
    .body(MAX_FORM_BYTES, INFER_BODY_ABOUT, INFER_BODY)
    .replies(INFER_REPLIES),
    route(
        "GET",
        "/v2/models/{name}/versions/{version}",
        Operation::KServe(KServeOperation::Model),
        right(Role::View, Scope::Engine),
    )
    .named("kserveModelVersion", MODEL_ABOUT)
    .parameters(&[MODEL, VERSION])
    .replies(&[Json(200, "The model.", Named("KServeModel")), NO_MODEL]),
    route(
        "GET",
        "/v2/models/{name}/versions/{version}/ready",
        Operation::KServe(KServeOperation::ModelReady),
        right(Role::View, Scope::Engine),
    )
    .named("kserveModelVersionReady", "Whether pictures can pass a model.")
    .parameters(&[MODEL, VERSION])
    .replies(READY_REPLIES),
    route(
        "POST",
        "/v2/models/{name}/versions/{version}/infer",
        Operation::KServe(KServeOperation::Infer),
        right(Role::Operate, Scope::Engine),
    )
    .named("kserveInferVersion", INFER_ABOUT)
    .parameters(&[MODEL, VERSION, JSON_LENGTH])
    .body(MAX_FORM_BYTES, INFER_BODY_ABOUT, INFER_BODY)
    .replies(INFER_REPLIES),
];
