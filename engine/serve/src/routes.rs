//! The routes of the API: method, path and operation; `rights.rs` has the role that each needs. A test checks that
//! `docs/openapi.json` describes the same routes.

/// The description of the API, as it is served.
pub const OPENAPI: &str = include_str!("../../../docs/openapi.json");

/// The schema of graph files, as it is served.
pub(crate) const GRAPH_SCHEMA: &str = include_str!("../../../docs/graph.schema.json");

/// Operation that a request performs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Health,
    Session,
    SignIn,
    SignOut,
    Readiness,
    Metrics,
    State,
    Drops,
    StreamDrops,
    Timeline,
    Fleet,
    Description,
    ListStreams,
    AddStream,
    Discover,
    RemoveStream,
    PauseStream,
    ResumeStream,
    ChangeStream,
    Watch,
    WatchAll,
    Incidents,
    Incident,
    ChangeIncident,
    IncidentPicture,
    IncidentClip,
    Search,
    TrackPicture,
    Infer,
    Archive(ArchiveOperation),
    KServe(KServeOperation),
    Policy,
    ApplyPolicy,
    Graph,
    ApplyGraph,
    GraphSchema,
    GraphFile,
    CheckGraph,
    SaveGraph,
    UndoGraph,
    StreamPicture,
}

/// Operation on archives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ArchiveOperation {
    Cameras,
    Segments,
    Segment,
    Export,
}

/// Operation of the KServe protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KServeOperation {
    Server,
    ServerLive,
    ServerReady,
    Model,
    ModelReady,
    Infer,
}

/// Method and path of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RouteSpec {
    /// HTTP method in capitals, such as `GET`.
    pub method: &'static str,
    /// Its path, with its parameters in braces.
    pub path: &'static str,
    pub(crate) operation: Operation,
}

const fn route(method: &'static str, path: &'static str, operation: Operation) -> RouteSpec {
    RouteSpec {
        method,
        path,
        operation,
    }
}

const fn archive(path: &'static str, operation: ArchiveOperation) -> RouteSpec {
    route("GET", path, Operation::Archive(operation))
}

const fn kserve(method: &'static str, path: &'static str, operation: KServeOperation) -> RouteSpec {
    route(method, path, Operation::KServe(operation))
}

/// All routes of the API; the files of the page are apart.
pub const ROUTES: &[RouteSpec] = &[
    route("GET", "/healthz", Operation::Health),
    route("GET", "/readyz", Operation::Readiness),
    route("GET", "/metrics", Operation::Metrics),
    route("GET", "/api/session", Operation::Session),
    route("POST", "/api/session", Operation::SignIn),
    route("DELETE", "/api/session", Operation::SignOut),
    route("GET", "/api/openapi.json", Operation::Description),
    route("GET", "/api/state", Operation::State),
    route("GET", "/api/drops", Operation::Drops),
    route("GET", "/api/timeline", Operation::Timeline),
    route("GET", "/api/fleet", Operation::Fleet),
    route("GET", "/api/streams", Operation::ListStreams),
    route("POST", "/api/streams", Operation::AddStream),
    route("POST", "/api/discover", Operation::Discover),
    route("PATCH", "/api/streams/{name}", Operation::ChangeStream),
    route("DELETE", "/api/streams/{name}", Operation::RemoveStream),
    route("POST", "/api/streams/{name}/pause", Operation::PauseStream),
    route("POST", "/api/streams/{name}/resume", Operation::ResumeStream),
    route("GET", "/api/streams/{name}/drops", Operation::StreamDrops),
    route("GET", "/api/streams/{name}/live", Operation::Watch),
    route("GET", "/api/streams/{name}/picture", Operation::StreamPicture),
    route("GET", "/api/live", Operation::WatchAll),
    route("GET", "/api/incidents", Operation::Incidents),
    route("GET", "/api/incidents/{name}", Operation::Incident),
    route("PATCH", "/api/incidents/{name}", Operation::ChangeIncident),
    route("GET", "/api/incidents/{name}/picture", Operation::IncidentPicture),
    route("GET", "/api/incidents/{name}/clip", Operation::IncidentClip),
    route("GET", "/api/search", Operation::Search),
    route("GET", "/api/search/{name}/picture", Operation::TrackPicture),
    archive("/api/archive", ArchiveOperation::Cameras),
    archive("/api/archive/{name}", ArchiveOperation::Segments),
    archive(
        "/api/archive/{name}/segments/{segment}",
        ArchiveOperation::Segment,
    ),
    archive("/api/archive/{name}/export", ArchiveOperation::Export),
    route("POST", "/api/infer", Operation::Infer),
    kserve("GET", "/v2", KServeOperation::Server),
    kserve("GET", "/v2/health/live", KServeOperation::ServerLive),
    kserve("GET", "/v2/health/ready", KServeOperation::ServerReady),
    kserve("GET", "/v2/models/{name}", KServeOperation::Model),
    kserve("GET", "/v2/models/{name}/ready", KServeOperation::ModelReady),
    kserve("POST", "/v2/models/{name}/infer", KServeOperation::Infer),
    kserve(
        "GET",
        "/v2/models/{name}/versions/{version}",
        KServeOperation::Model,
    ),
    kserve(
        "GET",
        "/v2/models/{name}/versions/{version}/ready",
        KServeOperation::ModelReady,
    ),
    kserve(
        "POST",
        "/v2/models/{name}/versions/{version}/infer",
        KServeOperation::Infer,
    ),
    route("GET", "/api/policy", Operation::Policy),
    route("PUT", "/api/policy", Operation::ApplyPolicy),
    route("GET", "/api/graph", Operation::Graph),
    route("PUT", "/api/graph", Operation::ApplyGraph),
    route("GET", "/api/graph/schema", Operation::GraphSchema),
    route("GET", "/api/graph/file", Operation::GraphFile),
    route("PUT", "/api/graph/file", Operation::SaveGraph),
    route("POST", "/api/graph/file/undo", Operation::UndoGraph),
    route("POST", "/api/graph/check", Operation::CheckGraph),
];
