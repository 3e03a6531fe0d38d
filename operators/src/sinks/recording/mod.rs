//! Sinks that record what cameras sent, without encoding it again: incidents as clips, and everything in segments.
//!
//! Packets come from sources, on their threads, into a bounded queue; one thread of the sink takes them from there, so that a
//! slow disk delays no source. Files are fragmented MP4s with `.part` beside their names until they are complete.

mod archive;
mod archive_writer;
mod books;
mod clip;
mod clips;
mod clips_writer;
mod descriptions;
mod find;
mod folder_lock;
mod free_space;
mod hours;
mod limits;
mod mount;
mod names;
mod pattern;
mod places;
mod playback;
mod queue;
mod recorder;
mod retention;
mod retention_clock;
mod ring;
mod unremoved;

pub(super) use archive::KIND as ARCHIVE;
pub(super) use clips::KIND as CLIPS;
pub use find::{ClipOf, clip_start_ms, has_clip, open_clip, pin_clip};
pub(super) use folder_lock::hold as hold_folder;
pub(super) use hours::faults as hours_faults;
pub(super) use names::{stem as time_name, time_ms as time_of_name};
pub use pattern::recordings_overlap;
pub use playback::{
    ArchiveReader, Export, ExportError, Listing, MAX_EXPORT_MS, MAX_LISTED, Segment, SegmentCache,
    SegmentFile, SegmentName,
};
pub(super) use retention_clock::{RetentionClock, clocks};
