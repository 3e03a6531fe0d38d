//! Sources, model heads, operators and sinks of a Weir graph.

mod catalog;
#[cfg(test)]
#[path = "../../tests/shared/edited.rs"]
mod edited;
mod ffmpeg_info;
mod files;
mod gpu;
mod heads;
mod hexadecimal;
pub mod media;
mod model;
pub mod onvif;
mod operator;
mod pictures;
pub mod pixels;
pub mod sinks;
#[cfg(test)]
#[path = "../../tests/shared/soap_server.rs"]
mod soap_server;
#[cfg(test)]
#[path = "../../tests/shared/tiny_chat.rs"]
mod tiny_chat;
#[cfg(test)]
#[path = "../../tests/shared/tiny_encoders.rs"]
mod tiny_encoders;
#[cfg(test)]
#[path = "../../tests/shared/tiny_onnx.rs"]
mod tiny_onnx;

pub use catalog::{heads, operators};
pub use ffmpeg_info::{VideoDevices, ffmpeg_versions, h264_encoder, video_devices};
pub use files::reopen;
pub use gpu::{DeviceFacts, device_facts};
pub use heads::UNREAD_NAMES;
pub use model::{
    BareDecoder, CutError, GpuOptions, InspectedHead, InspectedPort, Inspection, LayerChain, LoadError,
    LoadRequest, MAX_MODEL_BYTES, ModelError, ModelFile, OnnxModel, OnnxPartitionLoader, OpenError,
    OutputDifference, PartitionedOnnx, Precision, Provider, RejectedBoundary, RuntimeLibraryError,
    ServerModel, SessionOperation, TextEncoder, ValidatedCut, dump_index, find_runtime, inspect,
    limit_heap_arenas, load, load_runtime, observe_sessions, read_model, return_unused_memory,
};
pub use operator::{
    FunctionKind, OperatorError, OperatorRequest, PythonFunction, PythonModel, PythonTransforms, operator,
};
pub use pictures::{ObjectPictures, ShownPicture};
