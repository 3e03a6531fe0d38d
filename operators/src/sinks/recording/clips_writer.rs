//! Writer of clips. Packets before an incident are taken from memory; packets after its start are written as
//! they arrive.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

use weir_flow::{Incident, Packet, PacketFormat, Phase, Settings};

use super::books::Books;
use super::clip::{Clip, ClipEnd, Span};
use super::descriptions;
use super::hours::RecordingHours;
use super::limits::Limits;
use super::names::{self, Form};
use super::places::Places;
use super::recorder::Writer;
use super::retention::Retention;
use super::ring::Ring;
use crate::media::{Naming, VideoPlace, WriteError};

/// Clips that may be written at a time, of all streams: each is an open file.
const MAX_OPEN: usize = 256;

/// Incidents whose clips ended before them, of all streams.
const MAX_ENDED_EARLY: usize = 4_096;

/// Incidents are known after their frames: as long before `before` is kept in memory.
const DETECTION_MS: f64 = 15_000.0;

/// Ticks, a second each, without a packet of a stream after which clips of incidents that are over are completed: a camera that was cut
/// off may never send the rest, and one without a codec that is recorded sends none.
const MAX_SILENT_TICKS: u32 = 30;

/// Messages from the sink to the thread that writes.
pub(super) enum ClipsMessage {
    Incident(Arc<str>, Box<Incident>),
    StreamRemoved(Arc<str>),
    Settings(Settings),
}

/// Extent of clips, by the keys of the sink.
struct Extent {
    before_ms: f64,
    after_ms: f64,
    max_length_ms: f64,
    memory: usize,
}

impl Extent {
    fn new(settings: &Settings) -> Self {
        let ms = |key: &str, default: f64| settings.number(key, default) * 1e3;
        Self {
            before_ms: ms("before", 5.0),
            after_ms: ms("after", 5.0),
            max_length_ms: ms("max_length", 300.0),
            memory: settings.number("memory", f64::from(32 << 20)) as usize,
        }
    }

    /// Milliseconds of packets that are kept in memory, and their maximum bytes.
    fn kept(&self) -> (f64, usize) {
        (self.before_ms + DETECTION_MS, self.memory)
    }
}

pub(super) struct ClipsWriter {
    places: Places,
    extent: Extent,
    hours: RecordingHours,
    retention: Retention,
    streams: BTreeMap<Arc<str>, Stream>,
    /// Incidents that go on while their clips have ended.
    ended_early: BTreeSet<Arc<str>>,
    books: Arc<Books>,
    /// Keeps other processes out of the folder.
    _lock: Arc<File>,
}

struct Stream {
    format: Option<Arc<PacketFormat>>,
    ring: Ring,
    open: Vec<Clip>,
    /// Ticks since the last packet.
    silent_ticks: u32,
}

impl ClipsWriter {
    pub(super) fn new(places: Places, settings: &Settings, books: Arc<Books>, lock: Arc<File>) -> Self {
        let mut retention = Retention::new(Limits::new(settings), Form::Clips);
        places
            .known()
            .for_each(|folder| retention.keep_newest(folder.to_owned()));
        let found = retention.scan(places.base(), places.pattern());
        books.add("completed", found.completed);
        let adopted = descriptions::adopt(places.base());
        for path in &adopted.described {
            retention.add(path);
        }
        if adopted.undescribed > 0 {
            books.add("undescribed", adopted.undescribed);
        }
        Self {
            places,
            extent: Extent::new(settings),
            hours: RecordingHours::new(settings),
            retention,
            streams: BTreeMap::new(),
            ended_early: BTreeSet::new(),
            books,
            _lock: lock,
        }
    }

    fn stream(&mut self, name: &Arc<str>) -> &mut Stream {
        let (keep_ms, memory) = self.extent.kept();
        self.streams.entry(Arc::clone(name)).or_insert_with(|| Stream {
            format: None,
            ring: Ring::new(keep_ms, memory),
            open: Vec::new(),
            silent_ticks: 0,
        })
    }

    fn on_incident(&mut self, name: &Arc<str>, incident: Incident) {
        let after_ms = self.extent.after_ms;
        let is_over = incident.phase == Phase::Ended;
        let stream = self.stream(name);
        if let Some(index) = stream.open.iter().position(|clip| *clip.id() == *incident.id) {
            stream.open[index].update(incident, after_ms);
            // What is to be its end may have passed.
            return;
        }
        if self.ended_early.contains(&incident.id) {
            if is_over {
                self.ended_early.remove(&incident.id);
            }
            return;
        }
        if !self.hours.contains(name, incident.began_ms) {
            // An incident without duration, such as a crossing, has a single event.
            let is_first = incident.phase == Phase::Began || incident.began_ms == incident.time_ms;
            self.books.add("outside_hours", u64::from(is_first));
            return;
        }
        self.books.add("incidents", 1);
        if self
            .streams
            .values()
            .map(|stream| stream.open.len())
            .sum::<usize>()
            >= MAX_OPEN
        {
            self.books.add("skipped", 1);
            self.on_ended_early(incident);
            return;
        }
        if let Err(failure) = self.begin(name, &incident) {
            self.books.add("failed", 1);
            self.books.on_failure(failure);
            self.on_ended_early(incident);
        }
    }

    /// Begins the clip of an incident, with what is in memory.
    fn begin(&mut self, name: &Arc<str>, incident: &Incident) -> Result<(), WriteError> {
        let begin_ms = incident.began_pts_ms - self.extent.before_ms;
        let span = Span {
            end_ms: (incident.phase == Phase::Ended).then_some(incident.pts_ms + self.extent.after_ms),
            limit_ms: begin_ms + self.extent.max_length_ms,
        };
        let number = incident.id.rsplit('/').next().unwrap_or_default();
        let stem = names::stem(incident.began_ms, &[&incident.transform, number]);
        let path = self.places.folder_of(name).join(format!("{stem}.mp4"));
        let place = VideoPlace::claim(&path, Naming::Free).map_err(WriteError::of_place)?;
        let mut clip = Clip::new(name, incident.clone(), span, place);
        let books = Arc::clone(&self.books);
        let stream = self.stream(name);
        let mut end = None;
        if let Some(format) = &stream.format {
            for packet in stream.ring.since(begin_ms) {
                match clip.offer(packet, format) {
                    Ok(None) => {}
                    Ok(ended) => {
                        end = ended;
                        break;
                    }
                    Err(failure) => books.on_failure(failure),
                }
            }
        }
        match end {
            Some(end) => self.close(clip, end),
            None => stream.open.push(clip),
        }
        Ok(())
    }

    fn close(&mut self, clip: Clip, end: ClipEnd) {
        let goes_on = clip.span.end_ms.is_none();
        let id: Arc<str> = clip.id().into();
        let broken = clip.is_broken();
        let closed = clip.close(end);
        for file in &closed.files {
            self.retention.add(file);
        }
        self.books.add(
            match (closed.has_video, broken || closed.failure.is_some()) {
                (true, false) => "clips",
                (true, true) => "clips_cut",
                (false, false) => "without_video",
                (false, true) => "failed",
            },
            1,
        );
        match closed.failure {
            Some(failure) => self.books.on_failure(failure),
            None if !broken => self.books.on_success(),
            None => {}
        }
        if goes_on && end == ClipEnd::TooLong {
            self.remember_ended_early(id);
        }
        self.retain();
    }

    fn retain(&mut self) {
        let open = self.streams.values().flat_map(|stream| &stream.open);
        let open_bytes = open.map(Clip::bytes).sum();
        let removed = self.retention.step(open_bytes);
        self.books.add("files_removed", removed);
    }

    fn on_ended_early(&mut self, incident: Incident) {
        if incident.phase != Phase::Ended {
            self.remember_ended_early(incident.id);
        }
    }

    fn remember_ended_early(&mut self, id: Arc<str>) {
        if self.ended_early.len() >= MAX_ENDED_EARLY {
            self.ended_early.pop_first();
        }
        self.ended_early.insert(id);
    }

    /// Completes the clips of streams without packets whose incidents are over.
    fn close_silent(&mut self) {
        let mut silent = Vec::new();
        for stream in self.streams.values_mut() {
            stream.silent_ticks = stream.silent_ticks.saturating_add(1);
            if stream.silent_ticks >= MAX_SILENT_TICKS {
                silent.extend(stream.open.extract_if(.., |clip| clip.span.end_ms.is_some()));
            }
        }
        for clip in silent {
            self.close(clip, ClipEnd::StreamEnded);
        }
    }

    fn close_all(&mut self, name: &Arc<str>) {
        let open = self
            .streams
            .get_mut(name)
            .map(|stream| std::mem::take(&mut stream.open));
        for clip in open.into_iter().flatten() {
            self.close(clip, ClipEnd::StreamEnded);
        }
    }
}

impl Writer for ClipsWriter {
    type Other = ClipsMessage;

    fn on_format(&mut self, name: &Arc<str>, format: &Arc<PacketFormat>) {
        let folder = self.places.folder_of(name);
        self.retention.keep_newest(folder);
        let stream = self.stream(name);
        // A camera that was gone for a moment goes on in the same clip.
        if stream.format.as_ref() == Some(format) {
            return;
        }
        stream.format = Some(Arc::clone(format));
        stream.ring.clear();
        self.close_all(name);
    }

    fn on_packet(&mut self, name: &Arc<str>, packet: &Packet) {
        let stream = self.stream(name);
        stream.silent_ticks = 0;
        stream.ring.push(packet);
        let Some(format) = stream.format.clone() else {
            return;
        };
        let mut failures = Vec::new();
        let mut ended = Vec::new();
        for (index, clip) in stream.open.iter_mut().enumerate() {
            match clip.offer(packet, &format) {
                Ok(None) => {}
                Ok(Some(end)) => ended.push((index, end)),
                Err(failure) => failures.push(failure),
            }
        }
        let ended = ended.into_iter().rev();
        let ended: Vec<(Clip, ClipEnd)> = ended
            .map(|(index, end)| (stream.open.remove(index), end))
            .collect();
        if !failures.is_empty() {
            self.books.on_packets_failed(name, 1);
        }
        for failure in failures {
            self.books.on_failure(failure);
        }
        for (clip, end) in ended.into_iter().rev() {
            self.close(clip, end);
        }
    }

    fn on_time_zone(&mut self, name: &Arc<str>, zone: &str) {
        self.hours.set_zone(name, zone);
    }

    fn on_other(&mut self, message: ClipsMessage) {
        match message {
            ClipsMessage::Incident(stream, incident) => self.on_incident(&stream, *incident),
            ClipsMessage::StreamRemoved(stream) => {
                self.close_all(&stream);
                self.streams.remove(&stream);
                self.hours.on_stream_removed(&stream);
                let folder = self.places.folder_of(&stream);
                self.retention.release(&folder);
            }
            ClipsMessage::Settings(settings) => {
                self.extent = Extent::new(&settings);
                self.hours.set_settings(&settings);
                let (keep_ms, memory) = self.extent.kept();
                for stream in self.streams.values_mut() {
                    stream.ring.set_bounds(keep_ms, memory);
                }
                self.retention.set_limits(Limits::new(&settings));
            }
        }
    }

    fn on_tick(&mut self) {
        self.close_silent();
        self.retain();
    }

    fn finish(&mut self) {
        let streams: Vec<Arc<str>> = self.streams.keys().cloned().collect();
        streams.iter().for_each(|stream| self.close_all(stream));
    }

    fn folder(&self) -> PathBuf {
        self.places.base().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use weir_flow::PacketCodec;

    use super::*;

    fn incident(number: u64, phase: Phase) -> Incident {
        Incident {
            id: format!("north/gate/{number}").into(),
            transform: "gate".into(),
            kind: "zone",
            phase,
            track: Some(7),
            class: Some("person".into()),
            score: 0.9,
            rect: None,
            began_ms: 1_795_469_405_000 + number,
            time_ms: 1_795_469_405_000 + number,
            began_pts_ms: 0.0,
            pts_ms: 0.0,
            zones: Vec::new(),
            values: Vec::new(),
            attributes: Vec::new(),
            best: None,
        }
    }

    fn writer(folder: &Path, books: &Arc<Books>) -> ClipsWriter {
        let places = Places::new(&folder.display().to_string(), &[]);
        let lock = places.open().unwrap();
        ClipsWriter::new(places, &Settings::default(), Arc::clone(books), lock)
    }

    fn descriptions(folder: &Path) -> usize {
        let files = std::fs::read_dir(folder.join("north")).unwrap();
        let names = files.map(|file| file.unwrap().file_name());
        names
            .filter(|name| name.as_encoded_bytes().ends_with(b".json"))
            .count()
    }

    #[test]
    fn clips_of_a_camera_that_was_cut_off_are_completed() {
        let folder = tempfile::tempdir().unwrap();
        let books = Arc::<Books>::default();
        let mut writer = writer(folder.path(), &books);
        let north: Arc<str> = "north".into();
        let format = PacketFormat {
            codec: PacketCodec::H264,
            extradata: Arc::new([]),
            width: 64,
            height: 48,
            turn: None,
            sample_aspect: None,
            sound: None,
        };
        let packet = Packet {
            data: Arc::from([0_u8; 4]),
            pts_ms: 0.0,
            dts_ms: 0.0,
            duration_ms: 40.0,
            key: false,
            sound: false,
            time_ms: 0,
        };
        writer.on_format(&north, &Arc::new(format));
        writer.on_incident(&north, incident(1, Phase::Ended));
        writer.on_incident(&north, incident(2, Phase::Began));
        for _ in 0..2 {
            (1..MAX_SILENT_TICKS).for_each(|_| writer.on_tick());
            assert_eq!(descriptions(folder.path()), 0, "the camera may go on");
            writer.on_packet(&north, &packet);
        }
        (0..MAX_SILENT_TICKS).for_each(|_| writer.on_tick());
        assert_eq!(descriptions(folder.path()), 1, "an incident goes on");
        writer.on_incident(&north, incident(2, Phase::Ended));
        writer.on_tick();
        assert_eq!(descriptions(folder.path()), 2);
        assert_eq!(books.counts()["without_video"], 2);
    }

    #[test]
    fn incidents_of_a_camera_without_packets_leave_no_clip_open() {
        let folder = tempfile::tempdir().unwrap();
        let books = Arc::<Books>::default();
        let mut writer = writer(folder.path(), &books);
        let north: Arc<str> = "north".into();
        for number in 0..3 {
            writer.on_incident(&north, incident(number, Phase::Began));
            (0..MAX_SILENT_TICKS).for_each(|_| writer.on_tick());
            assert_eq!(writer.streams[&north].open.len(), 1);
            writer.on_incident(&north, incident(number, Phase::Ended));
            writer.on_tick();
            assert!(writer.streams[&north].open.is_empty());
        }
        assert_eq!(books.counts()["without_video"], 3);
    }
}
