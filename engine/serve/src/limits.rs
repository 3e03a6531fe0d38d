//! Bounds of requests. The API description names the same constants that the server and its backend check.

/// Longest body in bytes: a stream takes some hundred bytes.
pub(crate) const MAX_BODY_BYTES: usize = 64 << 10;

/// Longest body with the text of a graph file, in bytes.
pub(crate) const MAX_GRAPH_BYTES: usize = 1 << 20;

/// Longest address of one device in a search for cameras, in bytes.
pub(crate) const MAX_HOST_BYTES: usize = 300;

/// Longest user or password in a search for cameras, in bytes.
pub(crate) const MAX_LOGIN_BYTES: usize = 200;

/// Incidents of a list if the request names no number.
pub const DEFAULT_LISTED_INCIDENTS: usize = 100;

/// Greatest number of incidents of a list.
pub const MAX_LISTED_INCIDENTS: usize = 500;

/// Greatest number of spans in which incidents are counted.
pub const MAX_INCIDENT_BINS: usize = 288;

/// Tracks of a search if the request names no number.
pub const DEFAULT_FOUND_TRACKS: usize = 20;

/// Greatest number of tracks of a search.
pub const MAX_FOUND_TRACKS: usize = 100;

/// Greatest number of edits in one check of a graph: a camera has fewer zones.
pub const MAX_GRAPH_EDITS: usize = 200;

/// Greatest number of names in the path of an edit.
pub const MAX_EDIT_PATH: usize = 8;
