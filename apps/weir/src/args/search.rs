//! Arguments of `weir search`.

use std::path::PathBuf;

use clap::Args as Group;

use super::values::listen;
use crate::search::{MAX_LIMIT, USUAL_LIMIT};
use crate::times;

/// `weir search`.
#[derive(Debug, Group)]
pub(crate) struct Search {
    /// Words, such as a class, a part of a plate, or with a text encoder what is seen: "red van"; none: the newest tracks
    #[arg(value_name = "TEXT", conflicts_with = "like")]
    pub(crate) text: Option<String>,
    /// Tracks that look like a track (STREAM/NUMBER), or with --graph like a picture
    #[arg(long, value_name = "TRACK|PICTURE")]
    pub(crate) like: Option<String>,
    /// Graph whose stored tracks are read from the disk; without it, an engine is asked
    #[arg(long, value_name = "GRAPH.toml", conflicts_with_all = ["at", "token_file"])]
    pub(crate) graph: Option<PathBuf>,
    /// API address of the engine
    #[arg(long, value_name = "HOST:PORT", default_value = super::DEFAULT_API, value_parser = listen)]
    pub(crate) at: String,
    /// File with the API token of the engine; or set WEIR_API_TOKEN
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Only tracks of this camera; may be repeated
    #[arg(long = "camera", value_name = "NAME")]
    pub(crate) cameras: Vec<String>,
    /// Only tracks of this class
    #[arg(long, value_name = "CLASS")]
    pub(crate) class: Option<String>,
    /// Leave out tracks that ended before this time, such as 2026-11-30T06:00:00Z
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) from: Option<u64>,
    /// Leave out tracks that began at this time or later
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) to: Option<u64>,
    /// Number of tracks at most
    #[arg(long, value_name = "NUMBER", default_value_t = USUAL_LIMIT as u64, value_parser = clap::value_parser!(u64).range(1..=MAX_LIMIT as u64))]
    pub(crate) limit: u64,
    /// Print the answer of the API as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// A time in milliseconds since 1970 (UTC).
pub(super) fn time(text: &str) -> Result<u64, String> {
    times::read_time(text).ok_or_else(|| times::FORMS.to_owned())
}
