//! Incidents in memory, with their bounds: the oldest that are not pinned go first.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use weir_flow::{BestShot, Description, Incident, Phase};

use super::record::Record;
use super::store::{PictureFolder, Stored, line};
use crate::live::totals::Totals;

/// Incidents that are kept.
pub(crate) const MAX_INCIDENTS: usize = 10_000;

/// Bytes of all incidents as lines of the store.
const MAX_RECORD_BYTES: usize = 16 << 20;

/// Pinned incidents, which are never left out for newer ones. With the bounds of a record and of a picture they fit into all other
/// bounds.
pub(super) const MAX_PINNED: usize = 200;

/// Bytes of pictures in memory.
const MAX_PICTURE_BYTES: usize = 64 << 20;

/// Bytes of pictures in the store.
const MAX_STORED_PICTURE_BYTES: u64 = 256 << 20;

/// Looks for the clip of a pinned incident that is over; they are five seconds apart.
const PIN_TRIES: u32 = 360;

/// See the module.
#[derive(Default)]
pub(super) struct State {
    pub(super) totals: Totals,
    /// By the number of the incident: the oldest first.
    pub(super) kept: BTreeMap<u64, Kept>,
    numbers: BTreeMap<Arc<str>, u64>,
    next: u64,
    record_bytes: usize,
    picture_bytes: usize,
    stored_picture_bytes: u64,
    pinned: usize,
    /// Incidents that began since the start.
    pub(super) count: u64,
    /// Number of changes since the start.
    pub(super) changes: u64,
    pub(super) work: Work,
    /// Reason why the store cannot be written now.
    pub(super) trouble: Option<String>,
}

/// Changes that are still to be written.
#[derive(Debug, Default)]
pub(super) struct Work {
    /// Whether there is a store to write to.
    pub(super) is_stored: bool,
    changed: BTreeSet<u64>,
    /// True while changes are written.
    pub(super) is_writing: bool,
    /// Names of pictures of incidents that were left out.
    pub(super) removed: Vec<String>,
    /// Pinned incidents whose clip has no mark yet, and how often it is still looked for.
    pub(super) to_pin: BTreeMap<u64, u32>,
}

/// An incident with its picture.
pub(super) struct Kept {
    pub(super) record: Record,
    /// The picture, unless it was left out of memory.
    pub(super) best: Option<Arc<BestShot>>,
    /// Whether `best` is newer than the picture in the store.
    pub(super) is_new_picture: bool,
    /// Bytes of the picture in the store; 0: none.
    pub(super) stored_picture: u64,
    bytes: usize,
}

impl Kept {
    pub(super) fn has_picture(&self) -> bool {
        self.best.is_some() || self.stored_picture > 0
    }
}

fn picture_bytes(best: Option<&BestShot>) -> usize {
    best.map_or(0, |best| best.jpeg().len())
}

/// Reason why an incident is not pinned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PinRefused {
    /// There is no such incident any more.
    Unknown,
    /// So many are pinned already.
    TooMany(usize),
}

impl State {
    /// Takes in an event of an incident. Its picture is encoded already.
    pub(super) fn add(&mut self, stream: &Arc<str>, incident: &Incident) {
        self.changes += 1;
        let known = self.numbers.get(&incident.id).copied();
        self.totals.add(stream, incident, known.is_none());
        let number = known.unwrap_or(self.next);
        let mut record = Record::new(number, stream, incident);
        let mut kept = match known.and_then(|number| self.take(number)) {
            Some(kept) => {
                record.seen = kept.record.seen;
                record.pinned = kept.record.pinned;
                record.descriptions.clone_from(&kept.record.descriptions);
                Kept { record, ..kept }
            }
            None => {
                self.next += 1;
                self.count += 1;
                Kept::new(record)
            }
        };
        if let Some(best) = incident.best.as_ref().filter(|best| !best.jpeg().is_empty())
            && kept.best.as_ref() != Some(best)
        {
            kept.best = Some(Arc::clone(best));
            kept.is_new_picture = true;
        }
        // Updates come every few seconds; the end has all that they say.
        if known.is_none() || incident.phase == Phase::Ended {
            self.work.mark(number);
        }
        self.put(kept);
        self.shrink();
    }

    /// Takes in the description of an incident, or of all incidents of its track, by the sink of that name.
    pub(super) fn describe(&mut self, sink: &str, description: &Description) {
        let incident = &*description.incident;
        let track = incident.track.filter(|_| description.of_track);
        let is_meant = |record: &Record| match track {
            Some(track) => record.track == Some(track) && record.stream == description.stream,
            None => record.id == incident.id,
        };
        let meant = self.kept.iter().filter(|(_, kept)| is_meant(&kept.record));
        let numbers: Vec<u64> = meant.map(|(number, _)| *number).collect();
        for number in numbers {
            if let Some(mut kept) = self.take(number) {
                kept.record.describe(sink, &description.text);
                self.put(kept);
                self.work.mark(number);
                self.changes += 1;
            }
        }
        self.shrink();
    }

    /// Takes in the incidents of a store, which began before all others.
    pub(super) fn restore(&mut self, stored: Stored) {
        let numbers: Vec<u64> = self.kept.keys().copied().collect();
        let own: Vec<Kept> = numbers
            .into_iter()
            .filter_map(|number| self.take(number))
            .collect();
        self.next = 0;
        self.work.is_stored = true;
        let mut pictures = stored.pictures;
        for (number, mut record) in stored.records {
            self.next = number + 1;
            // Of an incident that was left out while it continued, the newer record is whole.
            if let Some(older) = self.numbers.get(&record.id).copied() {
                self.take(older);
            }
            if !record.is_over() {
                record.end();
            }
            if record.pinned {
                self.work.to_pin.insert(number, PIN_TRIES);
            }
            let picture = pictures.remove(&PictureFolder::name(&record.id));
            self.put(Kept {
                stored_picture: picture.unwrap_or(0),
                ..Kept::new(record)
            });
            self.shrink();
        }
        self.work.removed.extend(pictures.into_keys());
        for mut kept in own {
            kept.record.number = self.next;
            self.next += 1;
            self.work.mark(kept.record.number);
            self.put(kept);
        }
        self.changes += 1;
        self.shrink();
    }

    pub(super) fn get(&self, id: &str) -> Option<&Kept> {
        self.kept.get(self.numbers.get(id)?)
    }

    /// Marks an incident as seen or pinned, or as neither.
    ///
    /// # Errors
    /// [`PinRefused`]; nothing is changed then.
    pub(super) fn mark(
        &mut self,
        id: &str,
        seen: Option<bool>,
        pinned: Option<bool>,
    ) -> Result<(), PinRefused> {
        let number = self.numbers.get(id).copied().ok_or(PinRefused::Unknown)?;
        let is_pinned = self.kept.get(&number).is_some_and(|kept| kept.record.pinned);
        if pinned == Some(true) && !is_pinned && self.pinned >= MAX_PINNED {
            return Err(PinRefused::TooMany(MAX_PINNED));
        }
        let mut kept = self.take(number).ok_or(PinRefused::Unknown)?;
        kept.record.seen = seen.unwrap_or(kept.record.seen);
        kept.record.pinned = pinned.unwrap_or(is_pinned);
        match pinned {
            Some(true) => _ = self.work.to_pin.insert(number, PIN_TRIES),
            Some(false) => _ = self.work.to_pin.remove(&number),
            None => {}
        }
        self.put(kept);
        self.work.mark(number);
        self.changes += 1;
        Ok(())
    }

    /// The picture of an incident was stored.
    pub(super) fn on_picture_stored(&mut self, number: u64, id: &str, bytes: u64) {
        let Some(kept) = self.kept.get_mut(&number) else {
            self.work.removed.push(PictureFolder::name(id));
            return;
        };
        self.stored_picture_bytes = self.stored_picture_bytes - kept.stored_picture + bytes;
        kept.stored_picture = bytes;
        self.shrink();
    }

    /// Puts an incident in its place, and counts it.
    fn put(&mut self, mut kept: Kept) {
        let number = kept.record.number;
        kept.bytes = line(&kept.record).len();
        self.record_bytes += kept.bytes;
        self.picture_bytes += picture_bytes(kept.best.as_deref());
        self.stored_picture_bytes += kept.stored_picture;
        self.pinned += usize::from(kept.record.pinned);
        self.numbers.insert(Arc::clone(&kept.record.id), number);
        self.kept.insert(number, kept);
    }

    /// Takes an incident out.
    fn take(&mut self, number: u64) -> Option<Kept> {
        let kept = self.kept.remove(&number)?;
        self.record_bytes -= kept.bytes;
        self.picture_bytes -= picture_bytes(kept.best.as_deref());
        self.stored_picture_bytes -= kept.stored_picture;
        self.pinned -= usize::from(kept.record.pinned);
        self.numbers.remove(&kept.record.id);
        Some(kept)
    }

    fn shrink(&mut self) {
        while self.kept.len() > MAX_INCIDENTS || self.record_bytes > MAX_RECORD_BYTES {
            let mut oldest = self.kept.iter().filter(|(_, kept)| !kept.record.pinned);
            let Some(kept) = oldest
                .next()
                .map(|(number, _)| *number)
                .and_then(|number| self.take(number))
            else {
                break;
            };
            self.work.changed.remove(&kept.record.number);
            if kept.stored_picture > 0 {
                self.work.removed.push(PictureFolder::name(&kept.record.id));
            }
        }
        if self.picture_bytes > MAX_PICTURE_BYTES {
            self.shrink_pictures();
        }
        if self.stored_picture_bytes > MAX_STORED_PICTURE_BYTES {
            self.shrink_stored_pictures();
        }
    }

    /// Leaves pictures out of memory: those that the store has as well, then those of the oldest.
    fn shrink_pictures(&mut self) {
        for may_be_lost in [false, true] {
            for kept in self.kept.values_mut() {
                if self.picture_bytes <= MAX_PICTURE_BYTES {
                    return;
                }
                let is_stored = kept.stored_picture > 0 && !kept.is_new_picture;
                if is_stored || (may_be_lost && !kept.record.pinned) {
                    self.picture_bytes -= picture_bytes(kept.best.take().as_deref());
                }
            }
        }
    }

    fn shrink_stored_pictures(&mut self) {
        for kept in self.kept.values_mut().filter(|kept| !kept.record.pinned) {
            if self.stored_picture_bytes <= MAX_STORED_PICTURE_BYTES {
                return;
            }
            if kept.stored_picture > 0 {
                self.stored_picture_bytes -= kept.stored_picture;
                kept.stored_picture = 0;
                self.work.removed.push(PictureFolder::name(&kept.record.id));
            }
        }
    }
}

impl Kept {
    fn new(record: Record) -> Self {
        Self {
            record,
            best: None,
            is_new_picture: false,
            stored_picture: 0,
            bytes: 0,
        }
    }
}

impl Work {
    pub(super) fn mark(&mut self, number: u64) {
        if self.is_stored {
            self.changed.insert(number);
        }
    }

    pub(super) fn has_changes(&self) -> bool {
        !self.changed.is_empty() || !self.removed.is_empty()
    }

    /// Takes so many changed incidents, the oldest first.
    pub(super) fn take_changed(&mut self, max: usize) -> Vec<u64> {
        let numbers: Vec<u64> = self.changed.iter().take(max).copied().collect();
        for number in &numbers {
            self.changed.remove(number);
        }
        numbers
    }

    /// A look for the clip of a pinned incident. `is_done` where it is marked; while it is written, the number of looks is bounded.
    pub(super) fn on_pin_tried(&mut self, number: u64, is_done: bool, is_over: bool) {
        let Some(tries) = self.to_pin.get_mut(&number) else {
            return;
        };
        *tries = tries.saturating_sub(u32::from(is_over));
        if is_done || *tries == 0 {
            self.to_pin.remove(&number);
        }
    }
}
