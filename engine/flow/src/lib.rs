//! What travels through a graph, and the traits of those that handle it.
//!
//! A [`Frame`] is decoded by a [`Source`]; a module turns it into [`Item`]s, a [`Session`] turns items into
//! [`Inference`]s, a module's inferences become a [`Finding`], and the findings of a request are its [`Evidence`];
//! a [`Sink`] takes the [`Delivery`]. Nothing here runs, reads a clock, or names a codec or an inference library.

mod catalog;
mod error;
mod evidence;
mod frame;
mod geometry;
mod item;
mod partition;
mod tensor;
mod traits;
mod uri;

pub use catalog::{
    Bearing, Catalog, HeadSpec, KeyKind, KeySpec, OperatorSpec, Settings, SinkSpec, Taking, Value, ZooHint,
};
pub use error::{SessionError, SinkError, SourceError};
pub use evidence::{Attribute, Evidence, Finding, KeyPoint, Note, Object, ObjectRef, Points};
pub use frame::{ColorMatrix, Frame, Image, Layout, OwnedPlanes, Planes, Reservation};
pub use geometry::{Affine, Point, Rect};
pub use item::{Inference, Item, Region};
pub use partition::{Divided, Ends, Part, PartLoader};
pub use tensor::{Element, Tensor};
pub use traits::{
    Batching, DecodeLimit, Delivery, DeviceKind, Labelled, Model, Notice, Operator, RunHeader, Session, Sink,
    SinkFactory, Source, SourceCounts, SourceFactory, SourceInfo, Step, StopFlag, StreamHeader, StreamState,
};
pub use uri::{is_image, mask_credentials};
