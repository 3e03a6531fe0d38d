//! Times of day at which a sink records, by its keys.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_analytics::transforms::{Schedule, ScheduleKeys, TimeZone, time_zone};
use weir_flow::{KeyFault, KeyKind, KeySpec, Settings};

use super::books::MAX_STREAMS;

pub(super) const HOURS: KeySpec = KeySpec {
    name: ScheduleKeys::PLAIN.hours,
    kind: KeyKind::Text,
    about: "time of day at which it records, such as `\"20:00-06:00\"` (default always)",
};

pub(super) const DAYS: KeySpec = KeySpec {
    name: ScheduleKeys::PLAIN.days,
    kind: KeyKind::Texts,
    about: "weekdays on which `hours` begin, such as `[\"mon-fri\", \"sun\"]`; without `hours` it records from midnight to midnight (default all)",
};

pub(super) const EXCEPT: KeySpec = KeySpec {
    name: ScheduleKeys::PLAIN.except,
    kind: KeyKind::Texts,
    about: "dates on which they do not begin, such as `[\"2026-12-24\", \"2027-07-26..2027-09-03\", \"12-25\"]`",
};

pub(super) const TIMEZONE: KeySpec = KeySpec {
    name: ScheduleKeys::PLAIN.timezone,
    kind: KeyKind::Text,
    about: "time zone of `hours`, `days` and `except`, such as `\"Europe/Berlin\"` (default that of the stream, else UTC)",
};

/// Times at which a sink records.
pub(super) struct RecordingHours {
    schedule: Schedule,
    /// Time zones of streams.
    zones: BTreeMap<Arc<str>, TimeZone>,
}

/// Faults in the keys above.
pub(in super::super) fn faults(settings: &Settings) -> Vec<KeyFault> {
    let mut faults = Vec::new();
    let schedule = ScheduleKeys::PLAIN.read(settings, &mut faults);
    if faults.is_empty() && schedule.is_always() && schedule.zone.is_some() {
        faults.push(KeyFault {
            key: TIMEZONE.name,
            message: "`timezone` is without `hours`, `days` and `except`".to_owned(),
            hint: Some("it is the zone whose clock they are of: add one of them, or leave it out".to_owned()),
        });
    }
    faults
}

impl RecordingHours {
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            schedule: schedule(settings),
            zones: BTreeMap::new(),
        }
    }

    pub(super) fn set_settings(&mut self, settings: &Settings) {
        self.schedule = schedule(settings);
    }

    /// Sets the time zone of a stream, by its name in the IANA database.
    pub(super) fn set_zone(&mut self, stream: &Arc<str>, zone: &str) {
        let is_known = self.zones.contains_key(stream);
        if let Ok(zone) = time_zone(zone)
            && (is_known || self.zones.len() < MAX_STREAMS)
        {
            self.zones.insert(Arc::clone(stream), zone);
        }
    }

    pub(super) fn on_stream_removed(&mut self, stream: &str) {
        self.zones.remove(stream);
    }

    /// Whether a time of a stream, in milliseconds since 1970 (UTC), is recorded.
    pub(super) fn contains(&self, stream: &str, time_ms: u64) -> bool {
        self.schedule.contains_in(time_ms, self.zones.get(stream))
    }
}

/// The schedule of these keys. Keys with faults are refused before a sink is opened.
fn schedule(settings: &Settings) -> Schedule {
    ScheduleKeys::PLAIN.read(settings, &mut Vec::new())
}

#[cfg(test)]
mod tests {
    use weir_flow::Value;

    use super::*;

    /// 21:30:05 on 23 November 2026, UTC.
    const TIME_MS: u64 = 1_795_469_405_000;

    fn settings(keys: &[(&str, &str)]) -> Settings {
        let keys = keys
            .iter()
            .map(|(key, text)| ((*key).to_owned(), Value::Text((*text).to_owned())));
        Settings(keys.collect())
    }

    #[test]
    fn hours_are_those_of_the_sink_else_of_the_stream_else_utc() {
        let (north, south): (Arc<str>, Arc<str>) = ("north".into(), "south".into());
        let mut hours = RecordingHours::new(&settings(&[("hours", "22:00-23:00")]));
        assert!(!hours.contains(&north, TIME_MS), "21:30 in UTC");
        hours.set_zone(&north, "Europe/Berlin");
        assert!(hours.contains(&north, TIME_MS), "22:30 in Berlin");
        assert!(!hours.contains(&south, TIME_MS));
        hours.set_settings(&settings(&[("hours", "22:00-23:00"), ("timezone", "Asia/Tokyo")]));
        assert!(!hours.contains(&north, TIME_MS), "06:30 in Tokyo");
        hours.set_settings(&settings(&[]));
        assert!(hours.contains(&south, TIME_MS));
        hours.on_stream_removed(&north);
        assert!(hours.zones.is_empty());
    }

    #[test]
    fn keys_that_are_no_times_are_reported() {
        for (keys, key) in [
            (&[("hours", "22")][..], "hours"),
            (
                &[("hours", "22:00-06:00"), ("timezone", "Berlin")][..],
                "timezone",
            ),
            (&[("timezone", "Europe/Berlin")][..], "timezone"),
        ] {
            let faults = faults(&settings(keys));
            assert_eq!(faults.iter().map(|fault| fault.key).collect::<Vec<_>>(), [key]);
        }
        assert!(faults(&settings(&[("hours", "22:00-06:00")])).is_empty());
    }
}
