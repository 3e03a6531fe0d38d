//! Incidents with the best picture of each: in bounded memory, and in a store that is there again after a restart.

mod filter;
mod record;
mod state;
mod store;
#[cfg(test)]
mod tests;
mod tracks;
mod writer;

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};
use weir_flow::{Description, Incident, Settings};
use weir_operators::sinks::{clip_start_ms, has_clip, open_clip, pin_clip};
use weir_serve::{Kept, KeptIn};

use super::totals::Totals;
use crate::lock::lock;
pub(crate) use filter::Filter;
use record::Record;
pub(crate) use state::PinRefused;
use state::State;
use store::{PictureFolder, Store};

/// The transform that only takes pictures, which incidents of others have.
const BEST_SHOT: &str = "best-shot";

/// Time that the end of the engine waits for the store.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

/// Different classes, zones, rules and types that a list names, of each.
const MAX_NAMES: usize = 200;

/// See the module.
#[derive(Default)]
pub(crate) struct Incidents(Arc<Shared>);

/// State that the thread of the store shares.
#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// Notified when there is something to write.
    wake: Condvar,
    /// Notified when it was written.
    written: Condvar,
    /// Settings of the sinks that record clips.
    clips: Mutex<Vec<Settings>>,
    /// The pictures of the store; `None`: there is no store, for that reason.
    pictures: OnceLock<Result<PictureFolder, String>>,
}

/// Part of a list that a client asks for.
#[derive(Debug, Clone, Default)]
pub(crate) struct Page {
    /// Number of the incident that it continues behind.
    pub(crate) before: Option<u64>,
    /// Incidents at most.
    pub(crate) limit: usize,
    /// Spans that incidents are counted in.
    pub(crate) bins: Option<Bins>,
}

/// Spans of equal length between two times, in milliseconds since 1970 (UTC).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bins {
    pub(crate) from_ms: u64,
    /// End of the last span, after `from_ms`.
    pub(crate) to_ms: u64,
    pub(crate) count: usize,
}

impl Incidents {
    /// Takes in an event of an incident. A picture of an object is no incident by itself.
    pub(super) fn add(&self, stream: &Arc<str>, incident: &Incident) {
        if incident.kind == BEST_SHOT {
            return;
        }
        // Encoded before the lock is taken.
        let _ = incident.best.as_ref().map(|best| best.jpeg().len());
        self.0.lock().add(stream, incident);
        self.0.wake.notify_one();
    }

    /// Takes in the description of an incident by the sink of that name.
    pub(super) fn describe(&self, sink: &str, description: &Description) {
        self.0.lock().describe(sink, description);
        self.0.wake.notify_one();
    }

    /// Opens the store in a folder, and takes in its incidents. Without a folder, or where it cannot be used, incidents are kept in
    /// memory, which clients learn.
    pub(crate) fn open_store(&self, folder: Result<&Path, String>) {
        let opened = folder.and_then(Store::open);
        let (store, is_untidy) = match opened {
            Ok((store, stored)) => {
                let _ = self.0.pictures.set(Ok(store.pictures().clone()));
                let is_untidy = stored.is_untidy;
                self.0.lock().restore(stored);
                (Some(store), is_untidy)
            }
            Err(why) => {
                tracing::debug!("incidents are kept in memory: {why}");
                let _ = self.0.pictures.set(Err(why));
                (None, false)
            }
        };
        let shared = Arc::clone(&self.0);
        // It ends with the program.
        let thread = std::thread::Builder::new().name("weir-incidents".to_owned());
        if let Err(error) = thread.spawn(move || writer::run(&shared, store, is_untidy)) {
            self.0.lock().trouble = Some(format!("cannot start a thread: {error}"));
        }
    }

    /// Waits until all incidents are stored, for a bounded time.
    pub(super) fn flush(&self) {
        let state = self.0.lock();
        let is_busy = |state: &mut State| {
            state.trouble.is_none() && (state.work.has_changes() || state.work.is_writing)
        };
        let waited = self.0.written.wait_timeout_while(state, FLUSH_TIMEOUT, is_busy);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// Sets the settings of the sinks that record clips.
    pub(crate) fn set_clips(&self, settings: Vec<Settings>) {
        *lock(&self.0.clips) = settings;
    }

    /// Returns incidents of a filter, the newest first, with the names that filters can have.
    pub(crate) fn list(&self, filter: &Filter, page: &Page) -> Value {
        let (mut list, listed) = self.select(filter, page);
        // Files are looked for while incidents may be added.
        let clips = lock(&self.0.clips).clone();
        let incidents = listed
            .iter()
            .map(|(record, has_picture)| record.shown(*has_picture, has_clip_of(&clips, record)));
        list["incidents"] = incidents.collect();
        list
    }

    /// Returns all of a list but its incidents, and these, each with whether it has a picture.
    fn select(&self, filter: &Filter, page: &Page) -> (Value, Vec<(Record, bool)>) {
        let state = self.0.lock();
        let shown = || {
            let all = state.kept.values().rev();
            all.filter(|kept| filter.shows(&kept.record))
        };
        let matching = shown().filter(|kept| filter.matches(&kept.record));
        let mut behind = matching.filter(|kept| page.before.is_none_or(|before| kept.record.number < before));
        let listed = behind.by_ref().take(page.limit);
        let listed: Vec<(Record, bool)> = listed
            .map(|kept| (kept.record.clone(), kept.has_picture()))
            .collect();
        let count = match &filter.cameras {
            None => state.count,
            Some(_) => shown().count() as u64,
        };
        let names = Names::of(shown().map(|kept| &kept.record));
        let mut list = json!({ "count": count, "names": names, "kept": self.kept(&state) });
        if let (Some((last, _)), Some(_)) = (listed.last(), behind.next()) {
            list["next"] = last.number.to_string().into();
        }
        if let Some(bins) = page.bins {
            list["bins"] = bins.counted(shown(), filter);
            list["to_ms"] = bins.to_ms.into();
        }
        (list, listed)
    }

    /// Place in which incidents are kept.
    fn kept(&self, state: &State) -> Kept {
        let (place, why) = match self.0.pictures.get() {
            Some(Ok(_)) => (KeptIn::State, state.trouble.clone()),
            Some(Err(why)) => (KeptIn::None, Some(why.clone())),
            None => (KeptIn::None, Some("the engine is starting".to_owned())),
        };
        Kept {
            place,
            file: None,
            why,
        }
    }

    /// Returns the numbers of all rules.
    pub(crate) fn totals(&self) -> Totals {
        self.0.lock().totals.clone()
    }

    /// Drops the numbers of a stream that was removed.
    pub(super) fn remove_stream(&self, stream: &str) {
        self.0.lock().totals.remove(stream);
    }

    /// Grows with whatever is new in the list.
    pub(crate) fn changes(&self) -> u64 {
        self.0.lock().changes
    }

    /// Returns the best picture of an incident, a JPEG.
    pub(crate) fn picture(&self, id: &str) -> Option<Vec<u8>> {
        let state = self.0.lock();
        let kept = state.get(id)?;
        if let Some(best) = &kept.best {
            return Some(best.jpeg().to_vec());
        }
        let is_stored = kept.stored_picture > 0;
        drop(state);
        let folder = self.0.pictures.get()?.as_ref().ok()?;
        is_stored.then(|| folder.read(id))?
    }

    /// Returns the stream of an incident.
    pub(crate) fn stream(&self, id: &str) -> Option<Arc<str>> {
        Some(Arc::clone(&self.0.lock().get(id)?.record.stream))
    }

    /// Returns an incident, with `clip_start_ms` if it has a clip that is described.
    pub(crate) fn get(&self, id: &str) -> Option<Value> {
        let (record, has_picture) = self.record(id)?;
        let clips = lock(&self.0.clips).clone();
        let mut shown = record.shown(has_picture, has_clip_of(&clips, &record));
        let starts = clips
            .iter()
            .find_map(|settings| clip_start_ms(settings, &record.clip()));
        if let Some(start) = starts.filter(|_| shown["has_clip"] == true) {
            shown["clip_start_ms"] = start.into();
        }
        Some(shown)
    }

    /// Opens the clip of an incident; `None` if there is no such incident, or no clip of it yet.
    ///
    /// # Errors
    /// The clip is there, and cannot be opened.
    pub(crate) fn clip(&self, id: &str) -> io::Result<Option<File>> {
        let Some((record, _)) = self.record(id) else {
            return Ok(None);
        };
        let clips = lock(&self.0.clips).clone();
        let mut failed = None;
        for settings in &clips {
            match open_clip(settings, &record.clip()) {
                Ok(Some(clip)) => return Ok(Some(clip)),
                Ok(None) => {}
                Err(error) => failed = Some(error),
            }
        }
        failed.map_or(Ok(None), Err)
    }

    /// Marks an incident as seen or pinned, or as neither, and its clip with it.
    ///
    /// # Errors
    /// [`PinRefused`].
    pub(crate) fn mark(&self, id: &str, seen: Option<bool>, pinned: Option<bool>) -> Result<(), PinRefused> {
        self.0.lock().mark(id, seen, pinned)?;
        self.0.wake.notify_one();
        if let (Some(is_pinned), Some((record, _))) = (pinned, self.record(id)) {
            let is_marked = self.0.pin_clip(&record, is_pinned);
            self.0.lock().work.on_pin_tried(record.number, is_marked, false);
        }
        Ok(())
    }

    fn record(&self, id: &str) -> Option<(Record, bool)> {
        let state = self.0.lock();
        let kept = state.get(id)?;
        Some((kept.record.clone(), kept.has_picture()))
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Changes were written, or could not be for that reason.
    fn on_written(&self, trouble: Option<String>) {
        let mut state = self.lock();
        state.work.is_writing = false;
        if let (None, Some(why)) = (&state.trouble, &trouble) {
            tracing::warn!(target: "weir::incidents", "incidents cannot be stored: {why}; they are kept in memory meanwhile");
        }
        if state.trouble != trouble {
            state.trouble = trouble;
            state.changes += 1;
        }
        drop(state);
        self.written.notify_all();
    }

    /// Marks the clips of pinned incidents that have none yet.
    fn pin_clips(&self) {
        let state = self.lock();
        let numbers = state.work.to_pin.keys();
        let kept = numbers.filter_map(|number| state.kept.get(number));
        let records: Vec<Record> = kept.map(|kept| kept.record.clone()).collect();
        drop(state);
        for record in records {
            let is_marked = self.pin_clip(&record, true);
            let mut state = self.lock();
            state
                .work
                .on_pin_tried(record.number, is_marked, record.is_over());
            let is_pinned = state.get(&record.id).is_some_and(|kept| kept.record.pinned);
            drop(state);
            // A client may have changed its mind meanwhile.
            if !is_pinned {
                self.pin_clip(&record, false);
            }
        }
    }

    /// Marks the clip of an incident, or removes its mark. False if there is no clip.
    fn pin_clip(&self, record: &Record, is_pinned: bool) -> bool {
        let clips = lock(&self.clips).clone();
        let mut is_marked = false;
        for settings in &clips {
            match pin_clip(settings, &record.clip(), is_pinned) {
                Ok(found) => is_marked |= found,
                Err(error) => {
                    let id = &record.id;
                    tracing::warn!(target: "weir::incidents", "the clip of {id} cannot be marked as pinned: {error}");
                }
            }
        }
        is_marked
    }
}

/// True if one of the sinks has written the clip of an incident.
fn has_clip_of(clips: &[Settings], record: &Record) -> bool {
    let mut clips = clips.iter();
    record.is_over() && clips.any(|settings| has_clip(settings, &record.clip()))
}

/// Names of incidents, as choices of filters.
#[derive(Default, Serialize)]
struct Names<'a> {
    streams: BTreeSet<&'a str>,
    classes: BTreeSet<&'a str>,
    zones: BTreeSet<&'a str>,
    rules: BTreeSet<&'a str>,
    types: BTreeSet<&'a str>,
}

impl<'a> Names<'a> {
    fn of(records: impl Iterator<Item = &'a Record>) -> Self {
        let mut names = Self::default();
        for record in records {
            add(&mut names.streams, &record.stream);
            add(&mut names.rules, &record.transform);
            add(&mut names.types, &record.kind);
            if let Some(class) = &record.class {
                add(&mut names.classes, class);
            }
            for zone in &record.zones {
                add(&mut names.zones, zone);
            }
        }
        names
    }
}

fn add<'a>(names: &mut BTreeSet<&'a str>, name: &'a str) {
    if names.len() < MAX_NAMES {
        names.insert(name);
    }
}

/// Incidents in a span of time.
#[derive(Debug, Default, Clone, Serialize)]
struct Bin<'a> {
    count: u64,
    /// Id of the newest one with a picture.
    #[serde(skip_serializing_if = "Option::is_none")]
    picture: Option<&'a str>,
}

impl Bins {
    /// Incidents of a filter by the span in which they began; those that began before are in the first one.
    fn counted<'a>(self, incidents: impl Iterator<Item = &'a state::Kept>, filter: &Filter) -> Value {
        let mut bins = vec![Bin::default(); self.count];
        let length = u128::from(self.to_ms.saturating_sub(self.from_ms).max(1));
        for kept in incidents.filter(|kept| filter.matches(&kept.record)) {
            let since = u128::from(kept.record.began_ms.saturating_sub(self.from_ms));
            let at = since * self.count as u128 / length;
            if let Some(bin) = usize::try_from(at).ok().and_then(|at| bins.get_mut(at)) {
                bin.count += 1;
                bin.picture = bin.picture.or(kept.has_picture().then_some(&*kept.record.id));
            }
        }
        json!(bins)
    }
}
