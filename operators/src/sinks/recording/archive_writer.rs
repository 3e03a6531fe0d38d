//! Segments as they are written.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

use weir_flow::{Packet, PacketFormat, Settings};

use super::books::Books;
use super::hours::RecordingHours;
use super::limits::Limits;
use super::names::{self, Form};
use super::places::Places;
use super::recorder::Writer;
use super::retention::Retention;
use crate::media::{Naming, PacketFile, VideoPlace, WriteError};

/// Time in milliseconds after a failure before the next file of that stream is tried.
const RETRY_MS: f64 = 5_000.0;

/// Bytes that are removed at least where the disk is full.
const RECYCLE_BYTES: u64 = 1 << 20;

/// Messages from the sink to the thread that writes.
pub(super) enum ArchiveMessage {
    StreamRemoved(Arc<str>),
    Settings(Settings),
}

pub(super) struct ArchiveWriter {
    places: Places,
    segment_ms: f64,
    hours: RecordingHours,
    retention: Retention,
    streams: BTreeMap<Arc<str>, Stream>,
    books: Arc<Books>,
    /// Keeps other processes out of the folder.
    _lock: Arc<File>,
    /// Whether the log has reported that segments are removed since the disk is full.
    recycles: bool,
}

#[derive(Default)]
struct Stream {
    format: Option<Arc<PacketFormat>>,
    open: Option<Segment>,
    /// No file is tried before this media time.
    retry_at_ms: Option<f64>,
    /// True from the end of the hours of the sink until the first key frame within them.
    is_off: bool,
}

struct Segment {
    file: PacketFile,
    began_ms: f64,
}

fn segment_ms(settings: &Settings) -> f64 {
    settings.number("segment", 60.0) * 1e3
}

impl ArchiveWriter {
    pub(super) fn new(places: Places, settings: &Settings, books: Arc<Books>, lock: Arc<File>) -> Self {
        let mut retention = Retention::new(Limits::new(settings), Form::Archive);
        places
            .known()
            .for_each(|folder| retention.keep_newest(folder.to_owned()));
        let found = retention.scan(places.base(), places.pattern());
        books.add("completed", found.completed);
        Self {
            places,
            segment_ms: segment_ms(settings),
            hours: RecordingHours::new(settings),
            retention,
            streams: BTreeMap::new(),
            books,
            _lock: lock,
            recycles: false,
        }
    }

    /// Completes the segment of a stream.
    fn close(&mut self, stream: &Arc<str>) {
        let segment = self.streams.get_mut(stream).and_then(|stream| stream.open.take());
        let Some(segment) = segment else { return };
        let written = segment.file.written();
        let (path, closed) = segment.file.finish();
        let kept = match (&path, &closed) {
            (Some(_), Ok(())) => written.packets,
            (Some(_), Err(_)) => written.whole_packets,
            (None, _) => 0,
        };
        if let Some(path) = &path {
            self.retention.add(path);
            self.books.add("segments", 1);
        }
        self.books.add("packets", kept);
        self.on_packets_failed(stream, written.packets - kept);
        match closed {
            Ok(()) => self.books.on_success(),
            Err(failure) if failure.is_disk_full && self.recycle(written.bytes) => {}
            Err(failure) => self.books.on_failure(failure),
        }
    }

    fn on_packets_failed(&self, stream: &Arc<str>, count: u64) {
        self.books.add("packets_failed", count);
        self.books.on_packets_failed(stream, count);
    }

    fn retain(&mut self) {
        let open = self.streams.values().filter_map(|stream| stream.open.as_ref());
        let open_bytes = open.map(|segment| segment.file.written().bytes).sum();
        let removed = self.retention.step(open_bytes);
        self.books.add("files_removed", removed);
    }

    /// Removes the oldest segments because the disk is full; false if there are none.
    fn recycle(&mut self, bytes: u64) -> bool {
        let removed = self.retention.recycle(bytes.saturating_mul(2).max(RECYCLE_BYTES));
        self.books.add("files_removed", removed);
        if removed > 0 && !std::mem::replace(&mut self.recycles, true) {
            tracing::warn!(
                "{}: the disk is full before `max_bytes` is reached: the oldest segments are removed; lower `max_bytes`",
                self.places.base().display()
            );
        }
        removed > 0
    }

    fn open(&mut self, stream: &Arc<str>, packet: &Packet) -> Result<(), WriteError> {
        self.retain();
        let known = self.streams.entry(Arc::clone(stream)).or_default();
        let Some(format) = &known.format else {
            return Ok(());
        };
        let name = format!("{}.mp4", names::stem(packet.time_ms, &[]));
        let path = self.places.folder_of(stream).join(name);
        let place = VideoPlace::claim(&path, Naming::Free).map_err(WriteError::of_place)?;
        known.open = Some(Segment {
            file: PacketFile::begin(place, format)?,
            began_ms: packet.dts_ms,
        });
        Ok(())
    }

    /// Whether a packet is recorded by the hours of the sink: outside them the segment ends, and the next one begins with the first
    /// key frame within them.
    fn is_scheduled(&mut self, stream: &Arc<str>, packet: &Packet) -> bool {
        if self.hours.contains(stream, packet.time_ms) {
            return self.streams.get_mut(stream).is_none_or(|known| {
                known.is_off &= !packet.key;
                !known.is_off
            });
        }
        let known = self.streams.entry(Arc::clone(stream)).or_default();
        if !std::mem::replace(&mut known.is_off, true) {
            self.close(stream);
        }
        false
    }

    fn record(&mut self, stream: &Arc<str>, packet: &Packet) -> Result<bool, WriteError> {
        let known = self.streams.entry(Arc::clone(stream)).or_default();
        if packet.key {
            let is_full = |segment: &Segment| packet.dts_ms - segment.began_ms >= self.segment_ms;
            if known.open.as_ref().is_some_and(is_full) {
                self.close(stream);
            }
            let known = self.streams.entry(Arc::clone(stream)).or_default();
            let waits = known.retry_at_ms.is_some_and(|at| packet.dts_ms < at);
            if known.open.is_none() && !waits {
                known.retry_at_ms = None;
                self.open(stream, packet)?;
            }
        }
        let open = self.streams.get_mut(stream).and_then(|known| known.open.as_mut());
        match open {
            Some(segment) => segment.file.write(packet).map(|()| true),
            None => Ok(false),
        }
    }
}

impl Writer for ArchiveWriter {
    type Other = ArchiveMessage;

    fn on_format(&mut self, stream: &Arc<str>, format: &Arc<PacketFormat>) {
        // What comes next continues nothing.
        self.close(stream);
        let known = self.streams.entry(Arc::clone(stream)).or_default();
        known.format = Some(Arc::clone(format));
        known.retry_at_ms = None;
        let folder = self.places.folder_of(stream);
        self.retention.keep_newest(folder);
    }

    fn on_packet(&mut self, stream: &Arc<str>, packet: &Packet) {
        if !self.is_scheduled(stream, packet) {
            self.books.add("outside_hours", 1);
            return;
        }
        match self.record(stream, packet) {
            Ok(true) => {}
            Ok(false) => self.on_packets_failed(stream, 1),
            Err(failure) => {
                self.on_packets_failed(stream, 1);
                self.close(stream);
                // There is room again: the next key frame begins a segment.
                if failure.is_disk_full && self.recycle(0) {
                    return;
                }
                self.books.on_failure(failure);
                if let Some(known) = self.streams.get_mut(stream) {
                    known.retry_at_ms = Some(packet.dts_ms + RETRY_MS);
                }
            }
        }
    }

    fn on_time_zone(&mut self, stream: &Arc<str>, zone: &str) {
        self.hours.set_zone(stream, zone);
    }

    fn on_jump(&mut self, stream: &Arc<str>) {
        // The name of a segment is the time of its first packet: the next one has the time after the jump.
        self.close(stream);
    }

    fn on_other(&mut self, message: ArchiveMessage) {
        match message {
            ArchiveMessage::StreamRemoved(removed) => {
                self.close(&removed);
                self.streams.remove(&removed);
                self.hours.on_stream_removed(&removed);
                let folder = self.places.folder_of(&removed);
                self.retention.release(&folder);
            }
            ArchiveMessage::Settings(settings) => {
                self.segment_ms = segment_ms(&settings);
                self.hours.set_settings(&settings);
                self.retention.set_limits(Limits::new(&settings));
            }
        }
    }

    fn on_tick(&mut self) {
        self.retain();
    }

    fn finish(&mut self) {
        let streams: Vec<Arc<str>> = self.streams.keys().cloned().collect();
        streams.iter().for_each(|stream| self.close(stream));
    }

    fn folder(&self) -> PathBuf {
        self.places.base().to_owned()
    }
}
