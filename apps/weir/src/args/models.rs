//! Arguments of `weir models`.

use clap::{Args as Group, Subcommand};

/// `weir models`.
#[derive(Debug, Subcommand)]
pub(crate) enum Models {
    /// List the models, and which of them are on this machine
    List,
    /// List the models whose name, head, licence or task has all these words
    Search {
        /// Words or parts of them, such as `plate` or `apache`
        #[arg(required = true)]
        words: Vec<String>,
    },
    /// Describe an ONNX file: inputs, outputs, metadata, the heads that can read it, and the graph lines that
    /// use it
    Inspect(Inspect),
    /// Fetch models of the zoo into the cache and verify them
    Pull {
        /// Names of the models [default: all]
        names: Vec<String>,
    },
}

/// `weir models inspect`.
#[derive(Debug, Group)]
pub(crate) struct Inspect {
    /// ONNX file, or a model of the zoo
    #[arg(value_name = "FILE.onnx|zoo:NAME")]
    pub(crate) file: String,
    /// Head that reads the model, if the file does not say which
    #[arg(long)]
    pub(crate) head: Option<String>,
    /// Measure the run time of the model on this machine
    #[arg(long)]
    pub(crate) time: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
