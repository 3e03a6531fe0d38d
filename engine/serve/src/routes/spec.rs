//! Row of a route, and the operations of requests.

use crate::rights::Right;
use crate::routes::interface::{MediaSchema, RouteBody, RouteParameter, RouteReply};

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

/// Row of a route.
#[derive(Debug, Clone, Copy)]
pub struct RouteSpec {
    /// HTTP method in capitals, such as `GET`.
    pub method: &'static str,
    /// Its path, with its parameters in braces.
    pub path: &'static str,
    pub(crate) operation: Operation,
    pub(crate) right: Right,
    /// Name of the operation for clients that are generated from the description.
    pub(crate) id: &'static str,
    /// Summary in one or two sentences.
    pub(crate) summary: &'static str,
    pub(crate) parameters: &'static [RouteParameter],
    /// Body of the request, if the operation takes one.
    pub(crate) body: Option<RouteBody>,
    /// False if it answers while the engine is starting or stopping.
    pub(crate) needs_engine: bool,
    /// Replies beside those that all routes have.
    pub(crate) replies: &'static [RouteReply],
}

/// Row of a route without parameters, body and replies of its own.
pub(super) const fn route(
    method: &'static str,
    path: &'static str,
    operation: Operation,
    right: Right,
) -> RouteSpec {
    RouteSpec {
        method,
        path,
        operation,
        right,
        id: "",
        summary: "",
        parameters: &[],
        body: None,
        needs_engine: true,
        replies: &[],
    }
}

impl RouteSpec {
    pub(super) const fn named(mut self, id: &'static str, summary: &'static str) -> Self {
        self.id = id;
        self.summary = summary;
        self
    }

    pub(super) const fn parameters(mut self, parameters: &'static [RouteParameter]) -> Self {
        self.parameters = parameters;
        self
    }

    /// Adds a body that the request must have.
    pub(super) const fn body(
        mut self,
        max_bytes: usize,
        about: &'static str,
        content: &'static [MediaSchema],
    ) -> Self {
        self.body = Some(RouteBody {
            is_required: true,
            about,
            max_bytes,
            content,
        });
        self
    }

    /// Adds a body that may be absent.
    pub(super) const fn optional_body(mut self, max_bytes: usize, content: &'static [MediaSchema]) -> Self {
        self.body = Some(RouteBody {
            is_required: false,
            about: "",
            max_bytes,
            content,
        });
        self
    }

    pub(super) const fn without_engine(mut self) -> Self {
        self.needs_engine = false;
        self
    }

    pub(super) const fn replies(mut self, replies: &'static [RouteReply]) -> Self {
        self.replies = replies;
        self
    }
}
