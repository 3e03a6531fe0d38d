//! Arguments of `weir detect`.

use std::path::PathBuf;

use clap::Args as Group;

use super::python::PythonArgs;

/// `weir detect`.
#[derive(Debug, Group)]
pub(crate) struct Detect {
    /// Graph whose models run
    #[arg(value_name = "GRAPH.toml")]
    pub(crate) graph: PathBuf,
    /// JPEG and PNG images, or folders of them
    #[arg(value_name = "IMAGE", required = true)]
    pub(crate) images: Vec<PathBuf>,
    /// Draw the objects on each image, and write it into this folder as NAME.png
    #[arg(long, value_name = "DIR")]
    pub(crate) draw: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) python: PythonArgs,
}
