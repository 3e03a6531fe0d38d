//! Objects or tracks as Apache Parquet: typed columns which programs for data read as they are. One file
//! for all streams, complete after some time or some bytes; the next one follows.

#[cfg(feature = "parquet")]
mod columns;
#[cfg(feature = "parquet")]
mod rows;
#[cfg(feature = "parquet")]
mod table;
#[cfg(feature = "parquet")]
mod writer;

use weir_flow::{KeyKind, KeySpec, Settings, SinkError, SinkFactory};

use super::{SinkKind, required_path};

pub(super) const KIND: SinkKind = SinkKind {
    name: "parquet",
    about: "objects or tracks as Apache Parquet, all streams in one table that is split by time (docs/reference/sinks.md; feature `parquet`)",
    keys: KEYS,
    file_per_stream: false,
    create,
};

const KEYS: &[KeySpec] = &[
    KeySpec {
        name: "path",
        kind: KeyKind::Text,
        about: "folder to write files to; each is called after the time of its first row, and put there when it is complete (required)",
    },
    KeySpec {
        name: "rows",
        kind: KeyKind::OneOf(&["objects", "tracks"]),
        about: "content of a row: an object in a frame, or a track that ended (default `\"objects\"`)",
    },
    KeySpec {
        name: "row_group",
        kind: KeyKind::Integer {
            min: 1_000,
            max: 1_000_000,
        },
        about: "rows that are kept in memory and written together, and at most 32 MiB of them (default 65536)",
    },
    KeySpec {
        name: "rotate_every",
        kind: KeyKind::Duration,
        about: "a file is complete after that time; what a killed run has not completed is lost (default `\"1h\"`)",
    },
    KeySpec {
        name: "rotate_bytes",
        kind: KeyKind::Bytes,
        about: "a file is complete with that size, too (default `\"256MiB\"`)",
    },
];

fn create(settings: &Settings, _streams: &[String]) -> Result<Box<dyn SinkFactory>, SinkError> {
    let path = required_path(&KIND, settings)?;
    let fault = if path == "-" {
        "rows cannot go to standard output: name a folder"
    } else if path.contains("{stream}") {
        "all streams are in one table, which has a column for them: leave {stream} out"
    } else {
        return build(path, settings);
    };
    Err(super::target::failed(std::path::Path::new(path), fault))
}

#[cfg(feature = "parquet")]
fn build(path: &str, settings: &Settings) -> Result<Box<dyn SinkFactory>, SinkError> {
    Ok(Box::new(table::TableFactory::new(path, settings)))
}

#[cfg(not(feature = "parquet"))]
fn build(_path: &str, _settings: &Settings) -> Result<Box<dyn SinkFactory>, SinkError> {
    Err(super::feature::missing(KIND.name))
}
