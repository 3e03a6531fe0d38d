//! Arguments of `weir export`.

use std::path::PathBuf;

use clap::Args as Group;

use super::search::time;

/// `weir export`.
#[derive(Debug, Group)]
pub(crate) struct Export {
    /// Graph with the sink that recorded, or the folder of that sink
    #[arg(value_name = "GRAPH.toml|FOLDER")]
    pub(crate) archive: PathBuf,
    /// Stream to export; not needed if there is only one, or if FOLDER is that of a stream
    #[arg(long, value_name = "NAME")]
    pub(crate) stream: Option<String>,
    /// Begin of the range, such as 2026-11-30T06:00:00Z; the video begins with the key frame at or before it
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) from: u64,
    /// End of the range
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) to: u64,
    /// Video to write
    #[arg(short, long, value_name = "FILE.mp4")]
    pub(crate) out: PathBuf,
    /// Replace the video if it exists
    #[arg(long)]
    pub(crate) overwrite: bool,
}
