//! The API of an engine over HTTP, and its page: streams, state, drops, health, readiness, metrics. It knows no engine: what answers is a
//! [`Backend`].
//!
//! JSON in and out; errors say what is wrong and what to do. Described by `docs/openapi.json`, which is served as well.
//! Loopback is open to this machine; an address that others reach needs a [`Token`]. Bodies, connections and their time
//! are bounded.

mod access;
mod backend;
mod clip;
mod connections;
mod error;
mod infer;
mod kept;
mod kserve;
mod live;
mod live_queue;
mod page;
mod places;
mod requests;
mod routes;
mod server;
mod token;

pub use backend::{Backend, FrameRate, NotReady, StreamPatch, StreamRequest, Watching};
pub use clip::MAX_CLIPS;
pub use connections::MAX_CONNECTIONS;
pub use error::{ApiError, Refusal};
pub use infer::{
    Drawing, Picture, PictureAnswer, PictureInput, PictureObject, PictureRequest, PictureSender,
};
pub use kept::{Kept, KeptIn};
pub use live::MAX_WATCHED;
pub use live_queue::{LiveKind, LiveMessage, LiveQueue, MAX_QUEUED_BYTES};
pub use routes::{OPENAPI, ROUTES, RouteSpec};
pub use server::{ServeError, ServeOptions, Server};
pub use token::{MIN_TOKEN_BYTES, Token, TokenError};
