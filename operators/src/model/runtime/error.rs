//! Why there is no ONNX Runtime, and why it does not open a graph.

use std::path::PathBuf;

/// Why there is no ONNX Runtime.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RuntimeLibraryError {
    /// `ORT_DYLIB_PATH` names something else.
    #[error("ORT_DYLIB_PATH names {}, which is not a file; unset it and run `make setup`", .0.display())]
    NotAFile(PathBuf),
    /// It is in none of the places where it is looked for.
    #[error(
        "ONNX Runtime is not installed: no .runtime/onnxruntime/libonnxruntime.so beside the program or the current \
         folder; run `make setup`, or set ORT_DYLIB_PATH"
    )]
    NotInstalled,
    /// The file is no such library, or not one for this machine.
    #[error("cannot load ONNX Runtime from {}: {reason}; {remedy}", path.display())]
    NotLoadable {
        /// Path of the library.
        path: PathBuf,
        /// Reason that the loader of the operating system gives.
        reason: String,
        /// A way to correct it, which depends on whether the user or the program chose the file.
        remedy: &'static str,
    },
    /// It is loaded and refuses to work.
    #[error("ONNX Runtime at {} does not start: {reason}; run `make setup`", path.display())]
    NotStarting {
        /// Path of the library.
        path: PathBuf,
        /// Reason that the library gives.
        reason: String,
    },
}

/// Why a graph is not opened on a device.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// There is no runtime to open it with.
    #[error(transparent)]
    Library(#[from] RuntimeLibraryError),
    /// The bytes are no graph.
    #[error("it is no ONNX file, or a damaged one")]
    NotOnnx,
    /// Weights lie in another file, and nothing says in which folder.
    #[error(
        "its weights lie in another file (external data): name the model by its path, or export it in one file"
    )]
    External,
    /// The device is not there, or not usable by this build.
    #[error("{0}")]
    Device(String),
    /// The runtime refuses the graph: its first line.
    #[error("{0}")]
    Refused(String),
}
