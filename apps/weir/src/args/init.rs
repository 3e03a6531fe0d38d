//! Arguments of `weir init`.

use std::path::PathBuf;

use clap::Args as Group;
use weir_types::Span;

use super::values::duration;

/// `weir init`.
#[derive(Debug, Group)]
pub(crate) struct Init {
    /// A clip, a folder of images, a device or a camera's address; without it the graph is a template for
    /// streams that are added while `weir serve` runs
    #[arg(value_name = "SOURCE")]
    pub(crate) source: Option<String>,
    /// User of the camera
    #[arg(long, value_name = "NAME", requires = "password_file")]
    pub(crate) user: Option<String>,
    /// File with the password of the user, which the graph then names; any characters are allowed in it
    #[arg(long, value_name = "FILE", requires_all = ["user", "source"])]
    pub(crate) password_file: Option<PathBuf>,
    /// A detector of your own, as an ONNX file; its head and class names are read from the file
    #[arg(long, value_name = "FILE.onnx")]
    pub(crate) model: Option<PathBuf>,
    /// The graph file to write, which must not exist yet; - for standard output
    #[arg(long, value_name = "GRAPH.toml", default_value = "graph.toml")]
    pub(crate) out: PathBuf,
    /// Folder that the sinks of the graph write to [default: the folder of the graph]
    #[arg(long, value_name = "FOLDER")]
    pub(crate) data: Option<PathBuf>,
    /// Longest time to wait for the first picture of the source, such as 5s
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "15s")]
    pub(crate) timeout: Span,
}
