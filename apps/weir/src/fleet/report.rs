//! Reports of an engine to the others. Each report is complete, so the next one makes up for a lost one.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The topic that engines report on.
pub(super) const TOPIC: &str = "state";

/// Bytes of a report at most: five thousand streams take a third of it.
pub(super) const MAX_BYTES: usize = 1 << 20;

/// Devices of a report at most, and bytes of the name of one: an engine leaves out those beyond.
pub(super) const MAX_DEVICES: usize = 64;
pub(super) const MAX_DEVICE_BYTES: usize = 64;

/// State of an engine as it reports it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct EngineReport {
    /// Start of the engine, in milliseconds since 1970; a restarted engine has a later one.
    pub(super) life: u64,
    /// One more with each report of a life.
    pub(super) number: u64,
    /// Frames a second that it can serve in time.
    pub(super) capacity: f64,
    /// Frames a second that its streams bring, as a part of that.
    pub(super) load: f64,
    /// Part of its frames that it did not serve in time.
    pub(super) missed: f64,
    /// Slots of this machine that run its models, by device; of an engine before this was said, none.
    #[serde(default)]
    pub(super) devices: BTreeMap<String, u32>,
    /// Streams of which it has frames, with the frames a second that they bring.
    pub(super) streams: BTreeMap<String, f64>,
    /// Streams of which it is the home and which it sends to another engine.
    pub(super) redirects: BTreeMap<String, String>,
}

impl EngineReport {
    /// Reads a report; `None` where it is none.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let report: Self = serde_json::from_slice(bytes).ok()?;
        let is_amount = |number: f64| number.is_finite() && number >= 0.0;
        let amounts = [report.load, report.missed];
        let mut works = report.streams.values();
        let is_sound = report.capacity > 0.0
            && report.capacity.is_finite()
            && amounts.into_iter().all(is_amount)
            && works.all(|work| is_amount(*work))
            && report.devices.len() <= MAX_DEVICES
            && report.devices.keys().all(|name| name.len() <= MAX_DEVICE_BYTES);
        is_sound.then_some(report)
    }

    /// The report as it is sent.
    pub(super) fn bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

    use super::*;

    #[test]
    fn reports_that_are_none_are_refused() {
        let report = EngineReport {
            capacity: 10.0,
            devices: [("cpu".to_owned(), 2)].into(),
            streams: [("north".to_owned(), 5.0)].into(),
            ..EngineReport::default()
        };
        assert_eq!(EngineReport::read(&report.bytes()), Some(report.clone()));
        for bad in [
            EngineReport {
                capacity: 0.0,
                ..report.clone()
            },
            EngineReport {
                load: -1.0,
                ..report.clone()
            },
            EngineReport {
                streams: [("north".to_owned(), -5.0)].into(),
                ..report.clone()
            },
            EngineReport {
                devices: (0..=MAX_DEVICES)
                    .map(|number| (format!("cuda:{number}"), 1))
                    .collect(),
                ..report
            },
        ] {
            assert_eq!(EngineReport::read(&bad.bytes()), None);
        }
        for garbage in [&b""[..], b"{", b"[]", b"{\"life\": 1}", &[0xa5; 100]] {
            assert_eq!(EngineReport::read(garbage), None);
        }
    }
}
