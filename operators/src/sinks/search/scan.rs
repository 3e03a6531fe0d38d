//! The reader of a folder: an exact scan over all rows, whether an engine writes them or not.
//!
//! Files are read in blocks through the page cache, so that memory does not grow with the number of tracks: a query holds one block of
//! rows, one of texts and one of vectors, and the tracks that it returns. Vectors are compared by their cosine, in half precision
//! against single precision; no index leaves any out.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use half::f16;

use super::best::{Best, Key, Ranked};
use super::blocks::{Window, each_row, exact, last_row};
use super::cosine::Cosine;
use super::row::{MAX_DIMENSIONS, MAX_PICTURE_BYTES, MAX_TEXT_BYTES, Row, Span, TrackRecord, hash};
use super::segment::{self, Parts};

/// Words of a query at most.
const MAX_WORDS: usize = 32;

/// Different streams and classes that are returned as names of filters, of each.
const MAX_NAMES: usize = 200;

/// Conditions on tracks, all of which hold. The default has none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SearchFilter {
    /// Streams that the client may see; `None`: all. Tracks of others do not even count.
    pub visible: Option<BTreeSet<String>>,
    /// Streams that no client may see.
    pub hidden: BTreeSet<String>,
    /// Streams that the client asks for; empty: all.
    pub streams: BTreeSet<String>,
    /// Class that the client asks for.
    pub class: Option<String>,
    /// Tracks that ended before are left out, in milliseconds since 1970 (UTC).
    pub from_ms: Option<u64>,
    /// Tracks that began at that time or later are left out.
    pub to_ms: Option<u64>,
}

/// A filter with names as rows have them.
struct Names {
    visible: Option<BTreeSet<u64>>,
    hidden: BTreeSet<u64>,
    streams: BTreeSet<u64>,
    class: Option<u64>,
}

impl SearchFilter {
    fn names(&self) -> Names {
        let hashes = |names: &BTreeSet<String>| names.iter().map(|name| hash(name)).collect();
        Names {
            visible: self.visible.as_ref().map(hashes),
            hidden: hashes(&self.hidden),
            streams: hashes(&self.streams),
            class: self.class.as_deref().map(hash),
        }
    }

    /// True if a client may see tracks of the stream of that name.
    #[must_use]
    pub fn shows(&self, stream: &str) -> bool {
        let visible = self.visible.as_ref();
        visible.is_none_or(|visible| visible.contains(stream)) && !self.hidden.contains(stream)
    }

    /// The same decision by names instead of their hashes, which two names might share.
    fn matches_names(&self, record: &TrackRecord) -> bool {
        self.shows(&record.stream)
            && (self.streams.is_empty() || self.streams.contains(&record.stream))
            && self.class.as_ref().is_none_or(|class| *class == record.class)
    }
}

impl Names {
    fn shows(&self, row: &Row) -> bool {
        let visible = self.visible.as_ref();
        visible.is_none_or(|visible| visible.contains(&row.stream)) && !self.hidden.contains(&row.stream)
    }

    fn matches(&self, row: &Row, filter: &SearchFilter) -> bool {
        (self.streams.is_empty() || self.streams.contains(&row.stream))
            && self.class.is_none_or(|class| class == row.class)
            && filter.from_ms.is_none_or(|from| row.time_ms >= from)
            && filter.to_ms.is_none_or(|to| row.began_ms < to)
    }
}

/// Vector of a track with the model that made it.
#[derive(Debug, Clone, PartialEq)]
pub struct QueryVector {
    /// L2-normalised.
    pub numbers: Vec<f32>,
    /// Digest of the model: only vectors of the same model are compared.
    pub model: String,
}

/// Words that tracks are searched by.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SearchWords {
    /// Words in lower case: a track has all of them.
    pub words: Vec<String>,
    /// Tracks whose words are known from elsewhere, such as an incident, by stream and number.
    pub tracks: BTreeSet<(String, u64)>,
}

impl SearchWords {
    /// The words of a text, at most 32.
    #[must_use]
    pub fn of(text: &str) -> Self {
        let words = text.split_whitespace().take(MAX_WORDS);
        Self {
            words: words.map(str::to_lowercase).collect(),
            tracks: BTreeSet::new(),
        }
    }

    fn are_of(&self, record: &TrackRecord) -> bool {
        let named = || self.tracks.contains(&(record.stream.clone(), record.track));
        record.has_words(&self.words) || (!self.tracks.is_empty() && named())
    }
}

/// Order in which tracks are returned.
#[derive(Debug, Clone, Copy)]
pub enum SearchBy<'a> {
    /// The newest first.
    Time,
    /// Those with all of these words, and those that are named; the newest first.
    Words(&'a SearchWords),
    /// The most similar first.
    Vector(&'a QueryVector),
}

/// A track that was found.
#[derive(Debug, Clone, PartialEq)]
pub struct FoundTrack {
    /// Facts about the track.
    pub record: TrackRecord,
    /// Whether it has a picture.
    pub has_picture: bool,
    /// Cosine to the vector of the query, -1 to 1.
    pub similarity: Option<f32>,
}

/// Result of a scan.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Findings {
    /// The tracks in their order.
    pub tracks: Vec<FoundTrack>,
    /// Tracks that met the filter and were compared.
    pub compared: u64,
    /// Tracks that met the filter, and whose vector is of another model.
    pub other_model: u64,
    /// All tracks that the client may see.
    pub visible: u64,
    /// Begin of the first and end of the last of them.
    pub extent_ms: Option<(u64, u64)>,
    /// Bytes of all files.
    pub bytes: u64,
    /// Names of the streams of these tracks.
    pub streams: BTreeSet<String>,
    /// Names of the classes of these tracks.
    pub classes: BTreeSet<String>,
}

/// Vector of a track that others are compared with.
#[derive(Debug, Clone, PartialEq)]
pub enum TrackVector {
    /// There is no such track.
    NoTrack,
    /// The track has no vector.
    NoVector,
    /// The vector of the track and its model.
    Found(QueryVector),
}

/// Reads the folder of a sink.
#[derive(Debug, Clone)]
pub struct SearchReader {
    folder: PathBuf,
}

/// Segment and place of the text of a row, by the digest of a name that the row has.
type NamedIn = BTreeMap<u64, (usize, Span)>;

/// A scan in progress.
struct Scan<'a> {
    filter: &'a SearchFilter,
    names: Names,
    by: SearchBy<'a>,
    best: Best,
    findings: Findings,
    /// A row of each stream and class that was seen, to read the name of.
    named: (NamedIn, NamedIn),
    cosine: Option<Cosine>,
}

impl SearchReader {
    /// The reader of a folder, which need not be there yet.
    #[must_use]
    pub fn new(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
        }
    }

    /// Stems of the segments, the newest first.
    fn stems(&self) -> io::Result<impl Iterator<Item = String>> {
        Ok(segment::stems(&self.folder)?.into_iter().rev())
    }

    /// Returns the best tracks of a filter, at most `limit`.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn search(&self, filter: &SearchFilter, by: SearchBy<'_>, limit: usize) -> io::Result<Findings> {
        let mut scan = Scan {
            filter,
            names: filter.names(),
            by,
            best: Best::new(limit),
            findings: Findings::default(),
            named: Default::default(),
            cosine: match by {
                SearchBy::Vector(query) => Some(Cosine::new(&query.numbers)),
                _ => None,
            },
        };
        // Texts of the best tracks are read at the end, so one file of each segment stays open.
        let mut texts = Vec::new();
        for stem in self.stems()? {
            if let Some(parts) = Parts::open(&self.folder, &stem)? {
                scan.findings.bytes += segment::bytes(&self.folder, &stem);
                scan.segment(texts.len(), &parts)?;
                texts.push(parts.texts);
            }
        }
        scan.finish(&texts)
    }

    /// Returns the vector of a track.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn vector_of(&self, stream: &str, track: u64) -> io::Result<TrackVector> {
        let Some((parts, row)) = self.row_of(stream, track)? else {
            return Ok(TrackVector::NoTrack);
        };
        let Some(model) = parts.model.as_ref().filter(|_| row.dimensions > 0) else {
            return Ok(TrackVector::NoVector);
        };
        let place = (row.vector_at, row.vector_bytes());
        let Some(bytes) = exact(&parts.vectors, place, 2 * MAX_DIMENSIONS)? else {
            return Ok(TrackVector::NoVector);
        };
        let halves = bytes.as_chunks::<2>().0.iter();
        Ok(TrackVector::Found(QueryVector {
            numbers: halves.map(|half| f16::from_le_bytes(*half).to_f32()).collect(),
            model: model.digest.clone(),
        }))
    }

    /// Returns the picture of a track, a JPEG.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn picture(&self, stream: &str, track: u64) -> io::Result<Option<Vec<u8>>> {
        let Some((parts, row)) = self.row_of(stream, track)? else {
            return Ok(None);
        };
        let place = (row.picture.at, row.picture.length as usize);
        let picture = exact(&parts.pictures, place, MAX_PICTURE_BYTES as usize)?;
        Ok(picture.filter(|picture| !picture.is_empty()))
    }

    /// Digest of the model that made the newest vectors; `None` if there are none.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn newest_model(&self) -> io::Result<Option<String>> {
        for stem in self.stems()? {
            let parts = Parts::open(&self.folder, &stem)?;
            if let Some(model) = parts.and_then(|parts| parts.model) {
                return Ok(Some(model.digest));
            }
        }
        Ok(None)
    }

    /// The current row of a track. Newer rows are read first, and none that are older than the track.
    fn row_of(&self, stream: &str, track: u64) -> io::Result<Option<(Parts, Row)>> {
        let wanted = hash(stream);
        for stem in self.stems()? {
            let Some(parts) = Parts::open(&self.folder, &stem)? else {
                continue;
            };
            let row = last_row(&parts, |row| row.track == track && row.stream == wanted)?;
            if let Some(row) = row {
                return Ok(Some((parts, row)));
            }
        }
        Ok(None)
    }
}

impl Scan<'_> {
    fn segment(&mut self, index: usize, parts: &Parts) -> io::Result<()> {
        let mut texts = Window::new(&parts.texts);
        let mut vectors = Window::new(&parts.vectors);
        let model = parts.model.as_ref().map(|model| &*model.digest);
        each_row(parts, |number, row| {
            if !self.names.shows(row) {
                return Ok(());
            }
            self.note(index, row);
            if !self.names.matches(row, self.filter) {
                return Ok(());
            }
            let mut key = Key {
                similarity: 0.0,
                time_ms: row.time_ms,
                segment: index,
                number,
            };
            match self.by {
                SearchBy::Time => self.findings.compared += 1,
                SearchBy::Words(words) => {
                    self.findings.compared += 1;
                    // The texts of older tracks need not be read.
                    if !self.best.takes(&key) {
                        return Ok(());
                    }
                    let record = match row.text.length {
                        ..=MAX_TEXT_BYTES => {
                            texts.get(row.text.at, row.text.length as usize)?.and_then(record)
                        }
                        _ => None,
                    };
                    if !record.is_some_and(|record| words.are_of(&record)) {
                        return Ok(());
                    }
                }
                SearchBy::Vector(query) => {
                    if row.dimensions == 0 {
                        return Ok(());
                    }
                    if model != Some(&*query.model) || row.dimensions as usize != query.numbers.len() {
                        self.findings.other_model += 1;
                        return Ok(());
                    }
                    self.findings.compared += 1;
                    let vector = vectors.get(row.vector_at, row.vector_bytes())?;
                    let Some((vector, cosine)) = vector.zip(self.cosine.as_mut()) else {
                        return Ok(());
                    };
                    key.similarity = cosine.to(vector);
                }
            }
            self.best.add(key, *row);
            Ok(())
        })
    }

    /// Takes in the extent and the names of a track.
    fn note(&mut self, segment: usize, row: &Row) {
        self.findings.visible += 1;
        let (from, to) = self.findings.extent_ms.unwrap_or((row.began_ms, row.time_ms));
        self.findings.extent_ms = Some((from.min(row.began_ms), to.max(row.time_ms)));
        let (streams, classes) = &mut self.named;
        for (names, hash) in [(streams, row.stream), (classes, row.class)] {
            if names.len() < MAX_NAMES {
                names.entry(hash).or_insert((segment, row.text));
            }
        }
    }

    /// Reads the texts of the best, and of the tracks that have the names.
    fn finish(self, texts: &[File]) -> io::Result<Findings> {
        let mut findings = self.findings;
        let read = |segment: usize, text: Span| -> io::Result<Option<TrackRecord>> {
            let Some(file) = texts.get(segment) else {
                return Ok(None);
            };
            let place = (text.at, text.length as usize);
            let text = exact(file, place, MAX_TEXT_BYTES as usize)?;
            Ok(text.and_then(|text| record(&text)))
        };
        for (segment, text) in self.named.0.values().chain(self.named.1.values()) {
            let record = read(*segment, *text)?;
            if let Some(record) = record.filter(|record| self.filter.shows(&record.stream)) {
                findings.streams.insert(record.stream);
                findings.classes.insert(record.class);
            }
        }
        let is_by_vector = self.cosine.is_some();
        for Ranked { key, row } in self.best.into_sorted() {
            let record = read(key.segment, row.text)?;
            if let Some(record) = record.filter(|record| self.filter.matches_names(record)) {
                findings.tracks.push(FoundTrack {
                    record,
                    has_picture: row.picture.length > 0,
                    similarity: is_by_vector.then_some(key.similarity),
                });
            }
        }
        Ok(findings)
    }
}

/// The text of a track; `None` if it is damaged.
fn record(text: &[u8]) -> Option<TrackRecord> {
    serde_json::from_slice(text).ok()
}
