//! Arguments of `weir import`.

use std::path::PathBuf;

use clap::{Args as Group, Subcommand};

/// `weir import`.
#[derive(Debug, Subcommand)]
pub(crate) enum Import {
    /// Write a graph from the configuration of Frigate, and list what was not taken over
    Frigate(ImportFrigate),
}

/// `weir import frigate`.
#[derive(Debug, Group)]
pub(crate) struct ImportFrigate {
    /// Configuration of Frigate 0.13 to 0.16
    #[arg(value_name = "CONFIG.yml")]
    pub(crate) file: PathBuf,
    /// The graph file to write, which must not exist yet; passwords are written into files beside it
    #[arg(long, value_name = "GRAPH.toml", default_value = "graph.toml")]
    pub(crate) out: PathBuf,
}
