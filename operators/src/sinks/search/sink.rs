//! The sink: it follows tracks, and stores each when it ends, or after a minute so that what stands for long can be found.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use weir_flow::{
    Attribute, BestShot, DeliveredObject, Delivery, Incident, Notice, Settings, Sink, SinkError, SinkFactory,
    TrackEnd,
};

use super::row::TrackRecord;
use super::segment::{RowPlace, VectorModel};
use super::store::{Limits, NewTrack, Store};
use super::{EMBED_ATTRIBUTE, EMBED_DIGEST, EMBED_MODEL, KEEP, MAX_BYTES};
use crate::sinks::target::io_failed;

/// Type of the transform that takes the pictures.
const BEST_SHOT: &str = "best-shot";

/// Age at which a track is stored that has not ended, in milliseconds.
const FIRST_STORED_MS: u64 = 60_000;

/// Open tracks at most; beyond it, the one that was seen longest ago is stored as it is.
const MAX_OPEN: usize = 2_048;

/// Time in milliseconds after a failure of the disk in which nothing is tried.
const RETRY_MS: u64 = 5_000;

const DAY_S: f64 = 86_400.0;

#[derive(Debug, Clone)]
pub(super) struct SearchFactory {
    folder: PathBuf,
    limits: Limits,
    attribute: Option<String>,
    model: Option<VectorModel>,
}

impl SearchFactory {
    pub(super) fn new(path: &str, settings: &Settings) -> Self {
        let text = |key: &str| settings.text(key).map(str::to_owned);
        Self {
            folder: PathBuf::from(path),
            limits: Limits {
                max_bytes: settings.number(MAX_BYTES, (10_u64 << 30) as f64) as u64,
                keep_ms: (settings.number(KEEP, 30.0 * DAY_S) * 1e3) as u64,
            },
            attribute: text(EMBED_ATTRIBUTE),
            model: text(EMBED_MODEL)
                .zip(text(EMBED_DIGEST))
                .map(|(name, digest)| VectorModel { name, digest }),
        }
    }
}

impl SinkFactory for SearchFactory {
    fn open(&self) -> Result<Box<dyn Sink>, SinkError> {
        let store = Store::open(&self.folder, self.limits, self.model.clone())?;
        Ok(Box::new(SearchSink {
            folder: self.folder.clone(),
            store,
            attribute: self.attribute.clone(),
            tracks: BTreeMap::new(),
            counts: Counts::default(),
            outage: None,
            retry_at_ms: 0,
        }))
    }

    fn folder(&self) -> Option<PathBuf> {
        Some(self.folder.clone())
    }
}

/// Tracks that were stored, with what each had, and tracks that the disk did not take.
#[derive(Debug, Default)]
struct Counts {
    tracks: u64,
    vectors: u64,
    pictures: u64,
    lost: u64,
}

/// A track that has not ended.
#[derive(Default)]
struct OpenTrack {
    record: TrackRecord,
    /// Best picture so far.
    picture: Option<Arc<BestShot>>,
    /// Vector of the frame in which the object was seen best, and how well.
    vector: Option<(Vec<f32>, f32)>,
    /// Row of the track, if it was stored before its end.
    stored: Option<RowPlace>,
}

/// See the module.
struct SearchSink {
    folder: PathBuf,
    store: Store,
    /// Attribute with the embedding; `None`: tracks have none.
    attribute: Option<String>,
    tracks: BTreeMap<(Arc<str>, u64), OpenTrack>,
    counts: Counts,
    outage: Option<String>,
    /// Time before which the disk is not tried again.
    retry_at_ms: u64,
}

impl SearchSink {
    fn on_object(&mut self, delivery: &Delivery, object: &DeliveredObject) {
        let Some(track) = &object.track else { return };
        let key = (Arc::clone(&delivery.stream), track.id);
        let open = self.tracks.entry(key).or_insert_with(|| OpenTrack {
            record: TrackRecord {
                stream: delivery.stream.to_string(),
                track: track.id,
                began_ms: delivery.time_ms.saturating_sub(track.age_ms.max(0.0) as u64),
                ..TrackRecord::default()
            },
            ..OpenTrack::default()
        });
        let record = &mut open.record;
        record.time_ms = delivery.time_ms;
        record.score = record.score.max(finite(object.object.score));
        if *record.class != *track.class {
            record.class = track.class.to_string();
        }
        if let Some(vector) = self.attribute.as_deref().and_then(|name| vector(object, name)) {
            let rect = &object.object.rect;
            let quality = finite(object.object.score * rect.width().max(rect.height()));
            if open.vector.as_ref().is_none_or(|(_, before)| quality > *before) {
                open.vector = Some((vector.to_vec(), quality));
            }
        }
        // The value that is settled over the track replaces that of one frame.
        add_words(record, object.attributes.iter().chain(&track.attributes[..]));
    }

    fn on_incident(&mut self, stream: &Arc<str>, incident: &Incident) {
        let best = incident.best.as_ref().filter(|_| incident.kind == BEST_SHOT);
        let Some((best, track)) = best.zip(incident.track) else {
            return;
        };
        let Some(open) = self.tracks.get_mut(&(Arc::clone(stream), track)) else {
            return;
        };
        let since_ms = (incident.pts_ms - best.pts_ms).max(0.0) as u64;
        open.record.picture_ms = Some(incident.time_ms.saturating_sub(since_ms));
        open.record.zones = incident.zones.iter().map(ToString::to_string).collect();
        open.picture = Some(Arc::clone(best));
    }

    fn on_ended(&mut self, stream: &Arc<str>, ended: &[TrackEnd]) -> Result<(), SinkError> {
        let mut outcome = Ok(());
        for end in ended {
            let key = (Arc::clone(stream), end.id);
            let mut open = self.tracks.remove(&key).unwrap_or_default();
            let record = &mut open.record;
            (record.stream, record.track) = (stream.to_string(), end.id);
            (record.began_ms, record.time_ms) = (end.began_ms, end.last_seen_ms);
            record.class = end.class.to_string();
            add_words(record, end.attributes.iter());
            outcome = outcome.and(self.store(open, end.last_seen_ms).map(|_| ()));
        }
        outcome
    }

    /// Stores tracks of a stream that have been seen for a while, and those of all streams beyond the bound.
    fn store_open(&mut self, stream: &Arc<str>, now_ms: u64) -> Result<(), SinkError> {
        let is_tried = !self.waits(now_ms);
        let is_due = |open: &OpenTrack| {
            let is_old = now_ms.saturating_sub(open.record.began_ms) >= FIRST_STORED_MS;
            is_tried && open.stored.is_none() && is_old
        };
        let of_stream = (Arc::clone(stream), 0)..=(Arc::clone(stream), u64::MAX);
        let due: Vec<(Arc<str>, u64)> = self
            .tracks
            .range(of_stream)
            .filter(|(_, open)| is_due(open))
            .map(|(key, _)| key.clone())
            .collect();
        for key in due {
            let Some(open) = self.tracks.get(&key) else {
                continue;
            };
            let copy = OpenTrack {
                record: open.record.clone(),
                picture: open.picture.clone(),
                vector: open.vector.clone(),
                stored: None,
            };
            let place = self.store(copy, now_ms)?;
            if let Some(open) = self.tracks.get_mut(&key) {
                open.stored = place;
            }
        }
        while self.tracks.len() > MAX_OPEN {
            let oldest = self.tracks.iter().min_by_key(|(_, open)| open.record.time_ms);
            let Some(oldest) = oldest.map(|(key, _)| key.clone()) else {
                break;
            };
            if let Some(open) = self.tracks.remove(&oldest) {
                self.store(open, now_ms)?;
            }
        }
        Ok(())
    }

    /// True if the disk failed a moment ago, so that it is not tried again yet.
    fn waits(&self, now_ms: u64) -> bool {
        // A wall clock that was set back does not make it wait longer.
        let is_early = now_ms < self.retry_at_ms && self.retry_at_ms - now_ms <= RETRY_MS;
        self.outage.is_some() && is_early
    }

    fn store(&mut self, open: OpenTrack, now_ms: u64) -> Result<Option<RowPlace>, SinkError> {
        if self.waits(now_ms) {
            self.counts.lost += 1;
            return Ok(None);
        }
        let picture = open.picture.as_ref().map_or(&[][..], |best| best.jpeg());
        let has_vector = open.vector.is_some();
        let appended = self.store.append(
            NewTrack {
                record: open.record,
                vector: open.vector.as_ref().map(|(vector, _)| vector.as_slice()),
                picture,
                before: open.stored.clone(),
            },
            now_ms,
        );
        match appended {
            Ok(place) => {
                // A track that is stored again has been counted.
                if open.stored.is_none() {
                    self.counts.tracks += 1;
                    self.counts.vectors += u64::from(has_vector);
                    self.counts.pictures += u64::from(!picture.is_empty());
                }
                self.outage = None;
                Ok(Some(place))
            }
            Err(error) => {
                self.counts.lost += 1;
                self.retry_at_ms = now_ms + RETRY_MS;
                self.outage = Some(weir_files::io_reason(&error));
                Err(io_failed(&self.folder, &error))
            }
        }
    }

    /// Stores all open tracks of a stream, or of all streams.
    fn store_all(&mut self, stream: Option<&str>) -> Result<(), SinkError> {
        let is_of = |of: &Arc<str>| stream.is_none_or(|stream| **of == *stream);
        let (ended, kept): (BTreeMap<_, _>, BTreeMap<_, _>) = std::mem::take(&mut self.tracks)
            .into_iter()
            .partition(|((of, _), _)| is_of(of));
        self.tracks = kept;
        let mut outcome = Ok(());
        for open in ended.into_values() {
            let now_ms = open.record.time_ms;
            outcome = outcome.and(self.store(open, now_ms).map(|_| ()));
        }
        outcome
    }
}

impl Sink for SearchSink {
    fn accept(&mut self, delivery: &Delivery) -> Result<(), SinkError> {
        for object in &delivery.objects {
            self.on_object(delivery, object);
        }
        for incident in &delivery.incidents {
            self.on_incident(&delivery.stream, incident);
        }
        let ended = self.on_ended(&delivery.stream, &delivery.ended_tracks);
        ended.and(self.store_open(&delivery.stream, delivery.time_ms))
    }

    fn on_notice(&mut self, notice: &Notice) -> Result<(), SinkError> {
        let Notice::Analytics {
            stream,
            ended_tracks,
            incidents,
        } = notice
        else {
            return Ok(());
        };
        for incident in incidents {
            self.on_incident(stream, incident);
        }
        self.on_ended(stream, ended_tracks)
    }

    fn on_stream_removed(&mut self, stream: &str) -> Result<(), SinkError> {
        self.store_all(Some(stream))
    }

    fn counts(&self) -> BTreeMap<&'static str, u64> {
        let Counts {
            tracks,
            vectors,
            pictures,
            lost,
        } = self.counts;
        [
            ("tracks", tracks),
            ("vectors", vectors),
            ("pictures", pictures),
            ("lost", lost),
            ("bytes", self.store.bytes()),
        ]
        .into()
    }

    fn outage(&self) -> Option<String> {
        self.outage.clone()
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        let stored = self.store_all(None);
        let synced = self.store.sync();
        stored.and(synced.map_err(|error| io_failed(&self.folder, &error)))
    }
}

/// A number that JSON has.
fn finite(number: f32) -> f32 {
    if number.is_finite() { number } else { 0.0 }
}

/// The embedding of an object by the name of its attribute.
fn vector<'a>(object: &'a DeliveredObject, name: &str) -> Option<&'a [f32]> {
    let named = object.attributes.iter().filter(|(of, _)| **of == *name);
    let mut vectors = named.filter_map(|(_, attribute)| match attribute {
        Attribute::Match {
            vector: Some(vector), ..
        } => Some(vector.as_slice()),
        _ => None,
    });
    vectors.next()
}

fn add_words<'a>(record: &mut TrackRecord, attributes: impl Iterator<Item = &'a (Arc<str>, Attribute)>) {
    for (name, attribute) in attributes {
        if let Some(word) = attribute.word() {
            record.attributes.insert(name.to_string(), word.to_owned());
        }
    }
}
