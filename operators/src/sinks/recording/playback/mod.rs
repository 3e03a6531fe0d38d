//! Reading of what the sink `archive` recorded: the segments of a camera with their times, their files, and videos of any range.
//!
//! Segments are fragmented MP4s that this program wrote. They are read without FFmpeg, by their indexes alone, so that a range is
//! found, described and copied with little work. Only files in the folder of the camera whose names are those of segments are
//! opened, and no link below the folder of the sink is followed.

mod boxes;
mod export;
mod fragments;
mod header;
mod index;
mod segments;

pub use export::{Export, ExportError, MAX_EXPORT_MS};
pub use segments::{ArchiveReader, Listing, MAX_LISTED, Segment, SegmentCache, SegmentFile, SegmentName};
