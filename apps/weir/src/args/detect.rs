//! Arguments of `weir detect`.

use std::path::PathBuf;

use clap::Args as Group;

/// `weir detect`.
#[derive(Debug, Group)]
pub(crate) struct Detect {
    /// The graph
    #[arg(value_name = "GRAPH.toml")]
    pub(crate) graph: PathBuf,
    /// JPEG and PNG images, and folders of them
    #[arg(value_name = "IMAGE", required = true)]
    pub(crate) images: Vec<PathBuf>,
    /// Draw the objects of each picture on it, and put it into this folder as NAME.png
    #[arg(long, value_name = "DIR")]
    pub(crate) draw: Option<PathBuf>,
}
