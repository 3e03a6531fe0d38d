//! The data that flows through a graph, and the traits of sources, models, operators and sinks.
//!
//! A [`Source`] decodes a [`Frame`]; an [`Operator`] selects its [`Item`]s, a [`Session`] turns items into
//! [`Inference`]s, the operator assembles them into the [`ModuleOutput`], and the outputs of all modules are the request's
//! [`RequestResults`]; a [`Sink`] writes the [`Delivery`]. A model that generates text has [`GenerativeSession`]s. Nothing here
//! runs, reads a clock, or names a codec or an inference library.

mod analytics;
mod camera_events;
mod cascade;
mod catalog;
mod cause;
mod class_names;
mod coco;
mod delivery;
mod dense_map;
mod device;
mod error;
mod frame;
mod generate;
mod geometry;
mod image;
mod interleave;
mod item;
mod mask;
mod mask_outline;
mod model;
mod operator;
mod packet;
mod packet_tap;
mod partition;
mod parts;
mod picture;
mod prepared_model;
pub mod printable;
mod privacy_mask;
mod program;
mod python;
mod request_results;
mod results;
mod rotated;
mod sink;
mod source;
mod steps;
mod stop;
mod stream_names;
mod tensor;
mod tiles;
mod uri;

pub use analytics::{BestShot, Description, Incident, IncidentValue, Overlay, Phase, TrackEnd, TrackState};
pub use camera_events::{CameraEvent, CameraEvents, CameraReport, CameraTopic, topic_path};
pub use cascade::{Answer, CascadeAnswers, SplitAnswer};
pub use catalog::{
    Catalog, HeadOutput, HeadSpec, KeyFault, KeyKind, KeySpec, ModelDefaults, OperatorInput, OperatorSpec,
    PYTHON_FUNCTION, PYTHON_PREFIX, Settings, SinkCheck, SinkSpec, Value, catalog_name,
};
pub use cause::Cause;
pub use class_names::ClassNames;
pub use coco::{COCO, COCO_KEY_POINTS, COCO_LABEL};
pub use delivery::{DeliveredObject, Delivery, Notice, RunHeader, StreamHeader};
pub use dense_map::{DenseMap, MapCells};
pub use device::{DeviceKind, VideoDecoder};
pub use error::{SessionError, SinkError, SourceError};
pub use frame::{Frame, MemoryGuard};
pub use generate::{
    CacheKind, Generated, GeneratedToken, GenerativeLimits, GenerativeModel, GenerativeSession, Sampling,
    SequenceCommand, SequenceEnd, SequenceSpec, SequenceState, SequenceStep, compute_up_to,
};
pub use geometry::{Affine, Point, Rect};
pub use image::{ColorMatrix, DevicePlanes, Image, OwnedPlanes, PixelFormat, Planes};
pub use item::{BoxCertainty, Implausible, Inference, Item, Region};
pub use mask::{Mask, MaskSpan, coco_text};
pub use model::{Batching, Model, Session, Step};
pub use operator::Operator;
pub use packet::{Packet, PacketCodec, PacketFormat, PacketObserver, SoundCodec, SoundFormat};
pub use packet_tap::{PacketSubscription, PacketTap, Withheld};
pub use partition::{PartitionLoader, PartitionSession, PartitionedModel, PrePost};
pub use parts::Parts;
pub use picture::{Picture, PictureLimits, PictureTaker};
pub use prepared_model::PreparedModel;
pub use privacy_mask::{HiddenArea, HiddenForm, HiddenParts, HiddenShape, PrivacyMask};
pub use program::{
    AttributeChange, ProgramAnswer, ProgramFailure, ProgramFault, ProgramIncident, TransformProgram,
    TransformPrograms,
};
pub use python::{PYTHON_INTERPRETER, PythonPlace};
pub use request_results::RequestResults;
pub use results::{Attribute, KeyPoint, ModuleOutput, Object, ObjectAttribute, ObjectRef, Points};
pub use rotated::RotatedRect;
pub use sink::{Sink, SinkFactory};
pub use source::{
    CameraService, Connection, DecodeLimit, GroupCounts, Joined, PacketGate, PacketKind, Source,
    SourceCounts, SourceFactory, SourceInfo, SourceLogin, Transport,
};
pub use steps::{Infer, Prepare, ReadOut, SessionSteps, StepData, step_data};
pub use stop::StopFlag;
pub use stream_names::{SINGLE_PICTURES, StreamNames, is_of_single_pictures};
pub use tensor::{Element, Tensor};
pub use tiles::Tiling;
pub use uri::{
    has_login, host, host_problem, is_image, is_service_path, mask_credentials, percent_decoded,
    raw_in_password, service_path_problem, split_login, takes_login, with_small_scheme,
};
pub use weir_types::{DecodeLevel, FrameSkip, SequenceId, StreamState, TileGrid};
