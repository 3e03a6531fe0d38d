//! Parameters, bodies and replies of routes, as the API description has them.

use crate::schema::JsonSchema;

/// Media type of JSON.
pub(crate) const JSON: &str = "application/json";

/// Parameter of a route: its name, the schema of its value, and its meaning.
#[derive(Debug, Clone, Copy)]
pub(crate) enum RouteParameter {
    /// A text in the path.
    InPath(&'static str, &'static str),
    /// A value in the query that may be absent.
    InQuery(&'static str, JsonSchema, &'static str),
    /// A value that the query must have.
    Needed(&'static str, JsonSchema, &'static str),
    /// A header of the request that may be absent.
    InHeader(&'static str, JsonSchema, &'static str),
}

/// A media type, with the schema of its content.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MediaSchema(pub(crate) &'static str, pub(crate) JsonSchema);

/// Body of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RouteBody {
    /// True if the request must have it.
    pub(crate) is_required: bool,
    /// Its meaning; empty if the schema says it.
    pub(crate) about: &'static str,
    /// Greatest length in bytes; a longer body is refused.
    pub(crate) max_bytes: usize,
    /// Its media types.
    pub(crate) content: &'static [MediaSchema],
}

/// Reply to a request: its status, its meaning and its content.
#[derive(Debug, Clone, Copy)]
pub(crate) enum RouteReply {
    /// JSON of a schema.
    Json(u16, &'static str, JsonSchema),
    /// A file of a media type.
    File(u16, &'static str, &'static str),
    /// Content of one of several media types.
    Typed(u16, &'static str, &'static [MediaSchema]),
    /// A reply without content.
    Empty(u16, &'static str),
    /// An error as JSON.
    Refused(u16, &'static str),
    /// An error with the header `Retry-After`.
    Retry(u16, &'static str),
    /// Another reply with a header: its name, its schema and its meaning.
    WithHeader(&'static RouteReply, &'static str, JsonSchema, &'static str),
}
