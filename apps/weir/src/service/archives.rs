//! Archives that the sinks of the graph recorded, as clients play and export them.

use std::io;

use serde_json::{Value, json};
use weir_flow::{Cause, is_of_single_pictures};
use weir_operators::sinks::{ArchiveReader, ExportError, SegmentFile};
use weir_serve::{ApiError, ArchiveExport, ArchiveRange, ArchiveSegment, ErrorCode, Refusal};

use super::Service;
use super::refusals::invalid;
use crate::archives::{self, Archive};
use crate::jobs::now_ms;
use crate::lock::lock;
use crate::reload::LoadedGraph;
use crate::times;

/// Range of a listing that names no begin: a day.
const USUAL_RANGE_MS: u64 = 86_400_000;

impl Service {
    pub(super) fn list_archives(&self) -> Result<Value, ApiError> {
        let mut cameras = Vec::new();
        for archive in self.archives(None)? {
            if let Some(reason) = archive.withheld {
                cameras.push(withheld(&archive.stream, reason));
                continue;
            }
            let read = archive.reader.names().and_then(|names| {
                let extent = archive.reader.extent(&names, &self.segments)?;
                Ok(extent.map(|extent| (extent, names.len())))
            });
            match read {
                Ok(Some(((from_ms, to_ms), segments))) => cameras.push(json!({
                    "stream": archive.stream,
                    "from_ms": from_ms,
                    "to_ms": to_ms,
                    "segments": segments,
                })),
                Ok(None) => {}
                Err(error) => {
                    tracing::warn!("the archive of {} cannot be read: {error}", archive.stream);
                    cameras.push(withheld(&archive.stream, archives::UNREADABLE));
                }
            }
        }
        Ok(json!({ "cameras": cameras }))
    }

    pub(super) fn list_segments(&self, stream: &str, range: &ArchiveRange) -> Result<Value, ApiError> {
        let to = time("to", range.to.as_deref())?.unwrap_or_else(now_ms);
        let from = time("from", range.from.as_deref())?.unwrap_or(to.saturating_sub(USUAL_RANGE_MS));
        let (from, to) = checked((from, to))?;
        let reader = self.archive(stream)?;
        let listing = reader.list((from, to), &self.segments);
        let listing = listing.map_err(|error| unreadable(&error))?;
        if listing.segments.is_empty() {
            let names = reader.names().map_err(|error| unreadable(&error))?;
            let nearest = reader.nearest(&names, from).map_err(|error| unreadable(&error))?;
            return Err(none_recorded(stream, nearest));
        }
        let segments: Vec<Value> = listing
            .segments
            .iter()
            .map(|segment| {
                json!({
                    "id": segment.name.id,
                    "from_ms": segment.name.start_ms,
                    "to_ms": segment.end_ms,
                    "bytes": segment.bytes,
                    "unfinished": segment.name.unfinished,
                    "type": segment.mime,
                    "frame_ms": segment.frame_ms,
                })
            })
            .collect();
        let gaps: Vec<Value> = listing
            .gaps
            .iter()
            .map(|(from_ms, to_ms)| json!({ "from_ms": from_ms, "to_ms": to_ms }))
            .collect();
        let mut list = json!({
            "stream": stream,
            "from_ms": from,
            "to_ms": to,
            "segments": segments,
            "gaps": gaps,
        });
        if let Some(next_ms) = listing.next_ms {
            list["next_ms"] = next_ms.into();
        }
        Ok(list)
    }

    pub(super) fn open_segment(&self, stream: &str, id: &str) -> Result<ArchiveSegment, ApiError> {
        let reader = self.archive(stream)?;
        let none = || {
            let error = ApiError::new(Refusal::NotFound, format!("{stream} has no such segment"));
            let error = error.code(ErrorCode::SegmentGone, []);
            error.hint("it may have been removed since: list the segments again")
        };
        let SegmentFile { file, unfinished } = reader
            .open(id)
            .map_err(|error| unreadable(&error))?
            .ok_or_else(none)?;
        let bytes = SegmentFile::playable(&file).map_err(|error| unreadable(&error))?;
        Ok(ArchiveSegment {
            file,
            bytes: bytes.ok_or_else(none)?,
            unfinished,
        })
    }

    pub(super) fn export_archive(
        &self,
        stream: &str,
        range: &ArchiveRange,
    ) -> Result<ArchiveExport, ApiError> {
        let ends = (
            time("from", range.from.as_deref())?,
            time("to", range.to.as_deref())?,
        );
        let (Some(from), Some(to)) = ends else {
            return Err(invalid("an export needs `from` and `to`").hint(times::FORMS));
        };
        let range = checked((from, to))?;
        let reader = self.archive(stream)?;
        let export = reader.export(range).map_err(|error| match error {
            ExportError::Empty { nearest } => none_recorded(stream, nearest),
            ExportError::Unreadable(error) => unreadable(&error),
            ExportError::TooLong | ExportError::Changed { .. } => {
                let (what, hint) = archives::refusal(&error);
                ApiError::new(Refusal::Invalid, what).hint(hint)
            }
        })?;
        Ok(ArchiveExport {
            bytes: export.length(),
            file_name: archives::file_name(stream, export.extent().0),
            video: Box::new(export),
        })
    }

    /// The archive of a camera.
    fn archive(&self, stream: &str) -> Result<ArchiveReader, ApiError> {
        let mut found = self.archives(Some(stream))?;
        let none = || {
            let error = ApiError::new(Refusal::NotFound, format!("no archive has a camera {stream}"));
            error.code(ErrorCode::ArchiveMissing, [("name", stream)])
        };
        let archive = found
            .pop()
            .ok_or_else(|| none().hint("GET /api/archive lists the cameras that have one"))?;
        match archive.withheld {
            Some(reason) => {
                let error = ApiError::new(Refusal::Forbidden, format!("{stream}: {reason}"));
                Err(error.hint("what was recorded can be exported on the machine itself, by weir export"))
            }
            None => Ok(archive.reader),
        }
    }

    /// Archives of the streams that there are, or of the one of that name.
    fn archives(&self, only: Option<&str>) -> Result<Vec<Archive>, ApiError> {
        let snapshot = self.snapshot()?;
        let names: Vec<String> = snapshot
            .streams
            .iter()
            .map(|stream| stream.name.clone())
            .filter(|name| !is_of_single_pictures(name))
            .collect();
        let of_graph = |loaded: &LoadedGraph| archives::of_graph(&loaded.graph, &names, only);
        // The disk is read while the graph may be changed.
        let found = lock(&self.loaded).as_ref().map(of_graph).unwrap_or_default();
        archives::recorded(found).map_err(|error| unreadable(&error))
    }
}

pub(super) fn time(key: &str, text: Option<&str>) -> Result<Option<u64>, ApiError> {
    let Some(text) = text else { return Ok(None) };
    let time = times::read_time(text);
    let wrong = || invalid(format!("`{key}` is no time: {text:?}")).hint(times::FORMS);
    time.map(Some).ok_or_else(wrong)
}

fn checked((from, to): (u64, u64)) -> Result<(u64, u64), ApiError> {
    if from < to {
        return Ok((from, to));
    }
    Err(invalid("`to` is not after `from`").hint(times::FORMS))
}

/// A camera of the list whose video is not shown, with the reason.
fn withheld(stream: &str, reason: &str) -> Value {
    let mut camera = json!({ "stream": stream, "withheld": reason });
    if let Some(cause) = Cause::of_view(reason) {
        camera["cause"] = json!(cause);
    }
    camera
}

fn none_recorded(stream: &str, nearest: Option<(u64, u64)>) -> ApiError {
    let error = ApiError::new(
        Refusal::NotFound,
        format!("nothing of {stream} was recorded in the range"),
    );
    let error = error.code(ErrorCode::NothingRecorded, [("name", stream)]);
    match nearest {
        Some(nearest) => error.hint(archives::nearest(nearest)),
        None => error.hint("nothing of it is recorded at all"),
    }
}

fn unreadable(error: &io::Error) -> ApiError {
    tracing::warn!("an archive cannot be read: {error}");
    let what = format!("the archive cannot be read: {}", weir_files::io_reason(error));
    ApiError::new(Refusal::Failed, what)
}
