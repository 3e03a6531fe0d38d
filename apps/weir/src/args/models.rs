//! Arguments of `weir models`.

use clap::{Args as Group, Subcommand};

/// `weir models`.
#[derive(Debug, Subcommand)]
pub(crate) enum Models {
    /// List them
    List,
    /// Describe an ONNX file: inputs, outputs, metadata, the heads that read it, and the lines of a graph that name it
    Inspect(Inspect),
    /// Fetch them into the cache and verify them
    Pull {
        /// Names of the models; all of them without any
        names: Vec<String>,
    },
}

/// `weir models inspect`.
#[derive(Debug, Group)]
pub(crate) struct Inspect {
    /// The file, or a model of the zoo
    #[arg(value_name = "FILE.onnx|zoo:NAME")]
    pub(crate) file: String,
    /// The head that reads it, where the file does not say which one does
    #[arg(long)]
    pub(crate) head: Option<String>,
    /// Measure how long it takes on this machine
    #[arg(long)]
    pub(crate) time: bool,
    /// As JSON
    #[arg(long)]
    pub(crate) json: bool,
}
