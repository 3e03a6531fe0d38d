//! The API of an engine over HTTP, and its page: streams, state, drops, health, readiness, metrics. It knows no engine: what answers is a
//! [`Backend`].
//!
//! JSON in and out; errors say what is wrong and what to do. [`openapi`] describes it, from the rows of [`routes()`].
//! Loopback is open to this machine; an address that others reach needs a [`Token`], a [`TokensFile`] or a proxy that
//! authenticates. Bodies, connections and their time are bounded.

mod access;
mod accounts;
mod archive;
mod audit;
mod backend;
mod clip;
mod components;
mod connections;
mod description;
mod digest;
mod error;
mod error_code;
mod incidents;
mod infer;
mod kept;
mod kserve;
mod limited;
mod limits;
mod live;
mod live_queue;
mod page;
mod places;
mod proxy;
mod requests;
mod reread;
mod rights;
mod role;
mod routes;
mod schema;
mod search;
mod server;
mod session;
mod tls;
mod token;

pub use access::AccessOptions;
pub use accounts::TokensFile;
pub use archive::{ArchiveExport, ArchiveRange, ArchiveSegment, MAX_EXPORTS};
pub use backend::{
    Backend, DiscoverRequest, FrameRate, GraphCheck, GraphEdit, GraphSave, NotReady, StreamPatch,
    StreamRequest, Watching,
};
pub use clip::MAX_CLIPS;
pub use connections::MAX_CONNECTIONS;
pub use description::openapi;
pub use error::{ApiError, Refusal};
pub use error_code::ErrorCode;
pub use incidents::{IncidentChange, IncidentQuery};
pub use infer::{
    Drawing, Picture, PictureAnswer, PictureInput, PictureObject, PictureRequest, PictureSender,
};
pub use kept::{Kept, KeptIn};
pub use limits::{
    DEFAULT_FOUND_TRACKS, DEFAULT_LISTED_INCIDENTS, MAX_EDIT_PATH, MAX_FOUND_TRACKS, MAX_GRAPH_EDITS,
    MAX_INCIDENT_BINS, MAX_LISTED_INCIDENTS,
};
pub use live::MAX_WATCHED;
pub use live_queue::{LiveKind, LiveMessage, LiveQueue, LiveView, MAX_QUEUED_BYTES};
pub use proxy::{Network, ProxyOptions};
pub use role::Role;
pub use routes::{RouteSpec, routes};
pub use search::{MAX_SEARCHES, SearchQuery};
pub use server::{BasePath, ServeError, ServeOptions, Server};
pub use tls::TlsFiles;
pub use token::{MIN_TOKEN_BYTES, Token, TokenError};
