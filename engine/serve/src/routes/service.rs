//! Routes of health, sessions and the state of the engine.

use crate::limits::MAX_BODY_BYTES;
use crate::rights::{Scope, right};
use crate::role::Role;
use crate::routes::interface::RouteReply::{Json, Refused, Typed, WithHeader};
use crate::routes::interface::{JSON, MediaSchema};
use crate::routes::spec::{Operation, RouteSpec, route};
use crate::schema::JsonSchema::{List, Named, Table, Text};

/// Routes of health, sessions and the state of the engine.
pub(super) const ROUTES: &[RouteSpec] = &[
    route(
        "GET",
        "/healthz",
        Operation::Health,
        right(Role::View, Scope::None),
    )
    .named("health", "Whether the process answers.")
    .without_engine()
    .replies(&[Json(200, "The process answers.", Named("Done"))]),
    route(
        "GET",
        "/readyz",
        Operation::Readiness,
        right(Role::View, Scope::Engine),
    )
    .named(
        "readiness",
        "Whether the engine serves: it runs, and every module has a slot whose batches \
         end. Cameras that are dark and sinks that fail are in `degraded`.",
    )
    .replies(&[
        Json(200, "The engine serves.", Named("Readiness")),
        Json(
            503,
            "The engine is starting or stopping, or a module hangs: `not_ready` names it.",
            Named("Readiness"),
        ),
    ]),
    route(
        "GET",
        "/metrics",
        Operation::Metrics,
        right(Role::View, Scope::Engine),
    )
    .named("metrics", "Metrics in the text format of Prometheus.")
    .without_engine()
    .replies(&[Typed(200, "The metrics.", &[MediaSchema("text/plain", Text)])]),
    route(
        "GET",
        "/api/session",
        Operation::Session,
        right(Role::View, Scope::None),
    )
    .named(
        "getSession",
        "The client of the request: its name, its role, and the cameras that it sees.",
    )
    .without_engine()
    .replies(&[Json(200, "The client.", Named("Session"))]),
    route(
        "POST",
        "/api/session",
        Operation::SignIn,
        right(Role::View, Scope::None),
    )
    .named(
        "signIn",
        "Opens a session for the token in the header Authorization: browsers send its \
         cookie from then on. A session lasts twelve hours, or thirty days with \
         `keep`.",
    )
    .optional_body(MAX_BODY_BYTES, &[MediaSchema(JSON, Named("SignIn"))])
    .without_engine()
    .replies(&[
        WithHeader(
            &Json(200, "The session is open.", Named("Session")),
            "Set-Cookie",
            Text,
            "The cookie of the session: HttpOnly, SameSite=Strict, and Secure over TLS.",
        ),
        Refused(400, "The body describes no session."),
        Refused(
            409,
            "The request has no token: the engine needs none, or a proxy or a session has \
             authenticated the client.",
        ),
    ]),
    route(
        "DELETE",
        "/api/session",
        Operation::SignOut,
        right(Role::View, Scope::None),
    )
    .named("signOut", "Ends the session of the cookie that the request has.")
    .without_engine()
    .replies(&[WithHeader(
        &Json(200, "The session has ended, or there was none.", Named("Done")),
        "Set-Cookie",
        Text,
        "The cookie of the session: HttpOnly, SameSite=Strict, and Secure over TLS.",
    )]),
    route(
        "GET",
        "/api/openapi.json",
        Operation::Description,
        right(Role::View, Scope::None),
    )
    .named("description", "This description.")
    .without_engine()
    .replies(&[Json(200, "The description.", Table)]),
    route(
        "GET",
        "/api/state",
        Operation::State,
        right(Role::View, Scope::Filtered),
    )
    .named("state", "Streams with their states, and the report as of now.")
    .replies(&[Json(200, "The state.", Named("State"))]),
    route(
        "GET",
        "/api/drops",
        Operation::Drops,
        right(Role::View, Scope::Engine),
    )
    .named("drops", "Dropped requests by module and reason.")
    .replies(&[Json(200, "The drops.", List(&Named("DropCount")))]),
    route(
        "GET",
        "/api/timeline",
        Operation::Timeline,
        right(Role::View, Scope::Engine),
    )
    .named(
        "timeline",
        "Work of the slots over the last seconds, and bookings of shares and links of \
         partitioned models.",
    )
    .replies(&[Json(200, "The timeline.", Named("Timeline"))]),
    route(
        "GET",
        "/api/fleet",
        Operation::Fleet,
        right(Role::View, Scope::Engine),
    )
    .named(
        "fleet",
        "The fleet that shares the streams of the graph, as this engine sees it.",
    )
    .replies(&[
        Json(200, "The fleet.", Named("Fleet")),
        Refused(404, "This engine is in no fleet."),
    ]),
];
