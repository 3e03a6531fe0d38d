//! Why a model is not loaded.

use weir_files::FileError;
use weir_flow::SessionError;

use super::runtime::OpenError;

/// A model is not loaded.
#[derive(Debug, thiserror::Error)]
#[error("cannot load model {model}: {cause}")]
pub struct LoadError {
    /// Its name, with its file.
    pub model: String,
    /// The reason why the model cannot be loaded.
    #[source]
    pub cause: ModelError,
}

/// Reason why a model cannot be loaded; each variant needs a different correction.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// No head has this name.
    #[error("there is no head {name}; there are {known}")]
    NoHead {
        /// Name of the head in the graph.
        name: String,
        /// All heads, separated by commas.
        known: String,
    },
    /// The file is missing, or cannot be read.
    #[error("it cannot be read: {0}")]
    File(FileError),
    /// Its weights lie in another file, which is not there or not its own.
    #[error("{0}")]
    Weights(String),
    /// The file has no bytes.
    #[error("the file is empty")]
    Empty,
    /// The model whose outputs are decoded together with those of the first.
    #[error("second model {path}: {cause}")]
    Second {
        /// Path of the second model's file.
        path: String,
        /// Reason why the second model cannot be loaded.
        cause: Box<Self>,
    },
    /// The runtime is missing, the file is no graph, or the device is not there.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Inputs or outputs are not those that the head takes, or those of two models differ.
    #[error("{0}")]
    Head(String),
    /// It fails when it is run, or its inputs cannot be dumped.
    #[error("{0}")]
    Run(String),
}

impl From<LoadError> for SessionError {
    fn from(error: LoadError) -> Self {
        match &error.cause {
            ModelError::Open(cause) => session_error(&error.model, cause),
            cause => Self::Load {
                reason: cause.to_string(),
                model: error.model,
            },
        }
    }
}

/// Why there is no session: the device and the library, or the model.
pub(super) fn session_error(model: &str, error: &OpenError) -> SessionError {
    let (model, reason) = (model.to_owned(), error.to_string());
    match error {
        OpenError::Library(_) | OpenError::Device(_) => SessionError::Device { model, reason },
        OpenError::NotOnnx | OpenError::External | OpenError::Refused(_) => {
            SessionError::Load { model, reason }
        }
    }
}
