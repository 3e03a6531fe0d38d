//! The API of an engine over HTTP, and its page: streams, state, drops, health, readiness, metrics. It knows no engine: what answers is a
//! [`Backend`].
//!
//! JSON in and out; errors say what is wrong and what to do. Described by `docs/openapi.json`, which is served as well.
//! Loopback is open to this machine; an address that others reach needs a [`Token`], a [`TokensFile`] or a proxy that
//! authenticates. Bodies, connections and their time are bounded.

mod access;
mod accounts;
mod archive;
mod audit;
mod backend;
mod clip;
mod connections;
mod digest;
mod error;
mod incidents;
mod infer;
mod kept;
mod kserve;
mod limited;
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
pub use error::{ApiError, Refusal};
pub use incidents::{IncidentChange, IncidentQuery};
pub use infer::{
    Drawing, Picture, PictureAnswer, PictureInput, PictureObject, PictureRequest, PictureSender,
};
pub use kept::{Kept, KeptIn};
pub use live::MAX_WATCHED;
pub use live_queue::{LiveKind, LiveMessage, LiveQueue, LiveView, MAX_QUEUED_BYTES};
pub use proxy::{Network, ProxyOptions};
pub use role::Role;
pub use routes::{OPENAPI, ROUTES, RouteSpec};
pub use search::{MAX_SEARCHES, SearchQuery};
pub use server::{BasePath, ServeError, ServeOptions, Server};
pub use tls::TlsFiles;
pub use token::{MIN_TOKEN_BYTES, Token, TokenError};
