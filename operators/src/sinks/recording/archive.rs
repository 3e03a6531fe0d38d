//! Everything that cameras send, in segments.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use weir_flow::{Delivery, KeyKind, KeySpec, PacketObserver, Settings, Sink, SinkError, SinkFactory};

use super::super::SinkKind;
use super::archive_writer::{ArchiveMessage, ArchiveWriter};
use super::books::Books;
use super::hours;
use super::limits;
use super::places::{self, Places};
use super::recorder::Recorder;

pub(in super::super) const KIND: SinkKind = SinkKind {
    name: "archive",
    about: "all that cameras send, as it came, in segments of MP4 (docs/reference/recording.md)",
    keys: KEYS,
    file_per_stream: true,
    create,
};

const KEYS: &[KeySpec] = &[
    places::PATH,
    places::SOUND,
    KeySpec {
        name: "segment",
        kind: KeyKind::Duration,
        about: "length of a segment, which ends before the next key frame (default `\"60s\"`)",
    },
    limits::KEEP,
    limits::MAX_BYTES,
    limits::MIN_FREE,
    hours::HOURS,
    hours::DAYS,
    hours::EXCEPT,
    hours::TIMEZONE,
];

/// Keys that an open archive takes over from another text of its graph.
const LIVE_KEYS: &[&str] = &[
    "segment",
    limits::KEEP.name,
    limits::MAX_BYTES.name,
    limits::MIN_FREE.name,
    hours::HOURS.name,
    hours::DAYS.name,
    hours::EXCEPT.name,
    hours::TIMEZONE.name,
];

fn create(settings: &Settings, streams: &[String]) -> Result<Box<dyn SinkFactory>, SinkError> {
    let path = places::path(settings, "archive")?;
    Ok(Box::new(ArchiveFactory {
        places: Places::new(path, streams),
        settings: settings.clone(),
    }))
}

struct ArchiveFactory {
    places: Places,
    settings: Settings,
}

impl SinkFactory for ArchiveFactory {
    fn open(&self) -> Result<Box<dyn Sink>, SinkError> {
        let lock = self.places.open()?;
        let books = Arc::<Books>::default();
        let writer = ArchiveWriter::new(self.places.clone(), &self.settings, Arc::clone(&books), lock);
        Ok(Box::new(Archive(Recorder::start(
            writer,
            books,
            self.settings.flag(places::SOUND.name, false),
        )?)))
    }

    fn folder(&self) -> Option<PathBuf> {
        Some(self.places.base().to_owned())
    }

    fn stream_folders(&self) -> Option<PathBuf> {
        Some(self.places.pattern().to_owned())
    }

    fn live_keys(&self) -> &'static [&'static str] {
        LIVE_KEYS
    }
}

struct Archive(Recorder<ArchiveMessage>);

impl Sink for Archive {
    fn accept(&mut self, _delivery: &Delivery) -> Result<(), SinkError> {
        Ok(())
    }

    fn packet_observer(&self) -> Option<Arc<dyn PacketObserver>> {
        Some(Arc::clone(&self.0.queue) as _)
    }

    fn on_stream_removed(&mut self, stream: &str) -> Result<(), SinkError> {
        self.0.queue.push(ArchiveMessage::StreamRemoved(stream.into()));
        Ok(())
    }

    fn set_settings(&mut self, settings: &Settings) {
        self.0.queue.push(ArchiveMessage::Settings(settings.clone()));
    }

    fn counts(&self) -> BTreeMap<&'static str, u64> {
        let mut counts = self.0.books.counts();
        counts.insert("packets_lost", self.0.queue.packets_lost());
        counts
    }

    fn packets_lost(&self) -> BTreeMap<Arc<str>, u64> {
        self.0.packets_lost()
    }

    fn outage(&self) -> Option<String> {
        self.0.books.outage()
    }

    fn free_bytes(&self) -> Option<u64> {
        self.0.free_bytes()
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        self.0.finish()
    }
}
