//! Incident clips: a video of the camera around each incident, with a picture and a description.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use weir_flow::{
    Delivery, Incident, KeyKind, KeySpec, Notice, PacketObserver, Settings, Sink, SinkError, SinkFactory,
};

use super::super::SinkKind;
use super::books::Books;
use super::clips_writer::{ClipsMessage, ClipsWriter};
use super::hours;
use super::limits;
use super::places::{self, Places};
use super::recorder::Recorder;

pub(in super::super) const KIND: SinkKind = SinkKind {
    name: "clips",
    about: "clips of cameras around incidents, as the camera sent them: an MP4 each, with a JPEG and a JSON (docs/reference/recording.md)",
    keys: KEYS,
    file_per_stream: true,
    create,
};

const KEYS: &[KeySpec] = &[
    places::PATH,
    places::SOUND,
    KeySpec {
        name: "before",
        kind: KeyKind::Duration,
        about: "time that a clip begins before its incident; it begins with the key frame at or before that time (default `\"5s\"`)",
    },
    KeySpec {
        name: "after",
        kind: KeyKind::Duration,
        about: "time that a clip continues after the end of its incident (default `\"5s\"`)",
    },
    KeySpec {
        name: "max_length",
        kind: KeyKind::Duration,
        about: "maximum length of a clip; it ends then even if its incident continues (default `\"5m\"`)",
    },
    KeySpec {
        name: "memory",
        kind: KeyKind::Bytes,
        about: "memory per stream for the time before an incident; the time is shorter if the memory does not suffice (default `\"32MiB\"`)",
    },
    limits::KEEP,
    limits::KEEP_BY,
    limits::MAX_BYTES,
    limits::MIN_FREE,
    hours::HOURS,
    hours::DAYS,
    hours::EXCEPT,
    hours::TIMEZONE,
];

/// Keys that an open sink takes over from another text of its graph.
const LIVE_KEYS: &[&str] = &[
    "before",
    "after",
    "max_length",
    "memory",
    limits::KEEP.name,
    limits::KEEP_BY.name,
    limits::MAX_BYTES.name,
    limits::MIN_FREE.name,
    hours::HOURS.name,
    hours::DAYS.name,
    hours::EXCEPT.name,
    hours::TIMEZONE.name,
];

fn create(settings: &Settings, streams: &[String]) -> Result<Box<dyn SinkFactory>, SinkError> {
    let path = places::path(settings, "clips")?;
    Ok(Box::new(ClipsFactory {
        places: Places::new(path, streams),
        settings: settings.clone(),
    }))
}

struct ClipsFactory {
    places: Places,
    settings: Settings,
}

impl SinkFactory for ClipsFactory {
    fn open(&self) -> Result<Box<dyn Sink>, SinkError> {
        let lock = self.places.open()?;
        let books = Arc::<Books>::default();
        let writer = ClipsWriter::new(self.places.clone(), &self.settings, Arc::clone(&books), lock);
        Ok(Box::new(Clips(Recorder::start(
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

struct Clips(Recorder<ClipsMessage>);

impl Clips {
    fn push(&self, stream: &Arc<str>, incidents: &[Incident]) -> Result<(), SinkError> {
        for incident in incidents {
            let message = ClipsMessage::Incident(Arc::clone(stream), Box::new(incident.clone()));
            if !self.0.queue.push(message) {
                self.0.books.add("incidents_lost", 1);
                return Err(SinkError {
                    target: format!("the clip of {}", incident.id),
                    reason: "too many incidents wait to be recorded: the disk is too slow".to_owned(),
                });
            }
        }
        Ok(())
    }
}

impl Sink for Clips {
    fn accept(&mut self, delivery: &Delivery) -> Result<(), SinkError> {
        self.push(&delivery.stream, &delivery.incidents)
    }

    fn on_notice(&mut self, notice: &Notice) -> Result<(), SinkError> {
        match notice {
            Notice::Analytics {
                stream, incidents, ..
            } => self.push(stream, incidents),
            Notice::Dropped { .. }
            | Notice::Still { .. }
            | Notice::State { .. }
            | Notice::Sink { .. }
            | Notice::Described { .. } => Ok(()),
        }
    }

    fn packet_observer(&self) -> Option<Arc<dyn PacketObserver>> {
        Some(Arc::clone(&self.0.queue) as _)
    }

    fn on_stream_removed(&mut self, stream: &str) -> Result<(), SinkError> {
        self.0.queue.push(ClipsMessage::StreamRemoved(stream.into()));
        Ok(())
    }

    fn set_settings(&mut self, settings: &Settings) {
        self.0.queue.push(ClipsMessage::Settings(settings.clone()));
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
