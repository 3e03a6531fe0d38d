//! Why an operator cannot be made.

use thiserror::Error;
use weir_flow::SessionError;

/// An operator cannot be created.
#[derive(Debug, Error)]
pub enum OperatorError {
    /// The name is unknown.
    #[error("there is no operator {name}; there are {known}")]
    Unknown {
        /// Name in the graph.
        name: String,
        /// All operators, separated by commas.
        known: String,
    },
    /// The gallery cannot be read.
    #[error("gallery {folder}: {reason}")]
    Gallery {
        /// Path of the folder, as in the graph.
        folder: String,
        /// Cause and remedy.
        reason: String,
    },
    /// A class to be kept is none of the model's.
    #[error("labels: the model has no class \"{label}\"; it has {known}")]
    Label {
        /// The class in the graph.
        label: String,
        /// The model's classes, separated by commas.
        known: String,
    },
    /// A template, or a list whose texts have a form of their own, cannot be read.
    #[error("`{key}`: {reason}")]
    Template {
        /// Name of the key in the graph.
        key: &'static str,
        /// Position of the error, and the expected syntax.
        reason: String,
    },
    /// The operator lets a model generate, and its model does not.
    #[error("its model does not generate text: give the model the head \"generate\"")]
    NotGenerative,
    /// A model that the operator needs cannot be loaded or run.
    #[error(transparent)]
    Model(#[from] SessionError),
}
