//! Tracks of incidents, for the search of tracks.

use std::collections::{BTreeMap, BTreeSet};

use super::{Filter, Incidents};

/// Tracks of incidents that are returned.
const MAX_TRACKS: usize = 1_000;

/// Incidents of one track that are returned, the newest.
const MAX_OF_TRACK: usize = 8;

/// A track by its stream and number.
type Track = (String, u64);

impl Incidents {
    /// Returns the tracks of the newest incidents of a filter.
    pub(crate) fn tracks(&self, filter: &Filter) -> BTreeSet<Track> {
        let state = self.0.lock();
        let records = state.kept.values().rev().map(|kept| &kept.record);
        let matching = records.filter(|record| filter.matches(record));
        let tracks = matching.filter_map(|record| Some((record.stream.to_string(), record.track?)));
        tracks.take(MAX_TRACKS).collect()
    }

    /// Returns the ids of the incidents of some tracks, the newest first.
    pub(crate) fn of_tracks(&self, tracks: &BTreeSet<Track>) -> BTreeMap<Track, Vec<String>> {
        let wanted: BTreeSet<(&str, u64)> =
            tracks.iter().map(|(stream, track)| (&**stream, *track)).collect();
        let mut found: BTreeMap<Track, Vec<String>> = BTreeMap::new();
        let state = self.0.lock();
        for kept in state.kept.values().rev() {
            let record = &kept.record;
            let Some(track) = record.track else { continue };
            if wanted.contains(&(&*record.stream, track)) {
                let ids = found.entry((record.stream.to_string(), track)).or_default();
                if ids.len() < MAX_OF_TRACK {
                    ids.push(record.id.to_string());
                }
            }
        }
        found
    }

    /// Returns the track of an incident; `None` if there is no such incident, or it has no track.
    pub(crate) fn track(&self, id: &str) -> Option<Track> {
        let state = self.0.lock();
        let record = &state.get(id)?.record;
        Some((record.stream.to_string(), record.track?))
    }
}
