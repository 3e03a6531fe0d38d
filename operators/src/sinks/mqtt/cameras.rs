//! State of each stream beyond its counts: connection, motion, rules with their open incidents, and pictures.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Map, Value};
use weir_flow::{Incident, Overlay, Phase};

/// Rules of a stream, and open incidents of a rule.
const MAX_RULES: usize = 256;
const MAX_OPEN: usize = 1_024;

/// Deliveries in a row without a rule after which it is removed. Frames of the graph before a reload arrive after frames of the
/// new graph.
const MAX_ABSENT: u32 = 50;

/// Time without motion after which there is none, in milliseconds; that of Frigate.
const MOTION_HOLD_MS: u64 = 30_000;

/// Longest time for which a frame may be late, in milliseconds. An older one comes after the wall clock was set back.
const MAX_LATE_MS: u64 = 60_000;

/// Milliseconds since a time, 0 if a frame is late; without end if the wall clock was set back since then.
pub(super) fn elapsed_ms(since_ms: u64, now_ms: u64) -> u64 {
    match since_ms.saturating_sub(now_ms) {
        ..MAX_LATE_MS => now_ms.saturating_sub(since_ms),
        MAX_LATE_MS.. => u64::MAX,
    }
}

/// Connection of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    Online,
    Offline,
    /// It is paused.
    Disabled,
}

impl Status {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Online => "online",
            Self::Offline => "offline",
            Self::Disabled => "disabled",
        }
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Camera {
    /// `None` until this engine runs the stream.
    pub(super) status: Option<Status>,
    /// Time from which it shows nothing, in milliseconds since 1970.
    pub(super) dark_ms: Option<u64>,
    pub(super) motion: Motion,
    pub(super) rules: BTreeMap<Arc<str>, Rule>,
    /// Whether `rules` are all of them: a delivery has named them.
    pub(super) has_rules: bool,
    /// Classes of which there is a picture.
    pub(super) pictures: BTreeSet<String>,
    /// Entities that the broker has of an earlier run, by their ids.
    pub(super) earlier: Map<String, Value>,
}

/// A rule of a stream: one of its transforms.
#[derive(Debug)]
pub(super) struct Rule {
    pub(super) kind: &'static str,
    /// Classes of objects of open incidents, by incident.
    open: BTreeMap<Arc<str>, Arc<str>>,
    absent: u32,
}

impl Rule {
    const fn new(kind: &'static str) -> Self {
        Self {
            kind,
            open: BTreeMap::new(),
            absent: 0,
        }
    }

    /// Whether incidents of this kind last. Others are over when they are reported.
    pub(super) fn lasts(kind: &str) -> bool {
        kind != "line"
    }

    pub(super) fn is_zone(kind: &str) -> bool {
        kind == "zone"
    }

    pub(super) fn is_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// Number of open incidents.
    pub(super) fn open(&self) -> usize {
        self.open.len()
    }

    /// Number of open incidents by class of their object.
    pub(super) fn classes(&self) -> BTreeMap<&str, u64> {
        let mut classes = BTreeMap::new();
        for class in self.open.values() {
            *classes.entry(&**class).or_default() += 1;
        }
        classes
    }
}

/// Rules of a stream that changed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct RulesChanged {
    pub(super) added: Vec<Arc<str>>,
    pub(super) removed: Vec<Arc<str>>,
    /// Whether it is known from now on which rules there are.
    pub(super) is_first: bool,
}

impl Camera {
    /// Takes in the rules that a delivery names.
    pub(super) fn on_overlays(&mut self, overlays: &[Overlay]) -> RulesChanged {
        let mut changed = RulesChanged {
            is_first: !std::mem::replace(&mut self.has_rules, true),
            ..RulesChanged::default()
        };
        for rule in self.rules.values_mut() {
            rule.absent += 1;
        }
        for overlay in overlays.iter().filter(|overlay| overlay.kind != Overlay::MASK) {
            if let Some(rule) = self.rules.get_mut(&overlay.transform) {
                rule.absent = 0;
            } else if self.rules.len() < MAX_RULES {
                self.rules
                    .insert(Arc::clone(&overlay.transform), Rule::new(overlay.kind));
                changed.added.push(Arc::clone(&overlay.transform));
            }
        }
        let gone = self.rules.iter().filter(|(_, rule)| rule.absent > MAX_ABSENT);
        changed.removed = gone.map(|(name, _)| Arc::clone(name)).collect();
        self.rules.retain(|_, rule| rule.absent <= MAX_ABSENT);
        changed
    }

    /// Takes in an event of an incident; whether the open incidents of its rule changed.
    pub(super) fn on_incident(&mut self, incident: &Incident) -> bool {
        let Some(rule) = self.rules.get_mut(&incident.transform) else {
            return false;
        };
        if incident.phase == Phase::Ended {
            return rule.open.remove(&incident.id).is_some();
        }
        let has_room = rule.open.len() < MAX_OPEN || rule.open.contains_key(&incident.id);
        let class = incident.class.clone().unwrap_or_default();
        has_room && rule.open.insert(Arc::clone(&incident.id), Arc::clone(&class)) != Some(class)
    }
}

/// Motion in a stream with a motion gate; of others nothing is known.
#[derive(Debug, Default)]
pub(super) struct Motion {
    /// Whether frames without motion are recognised.
    is_gated: bool,
    moved_ms: Option<u64>,
    pub(super) is_on: Option<bool>,
}

impl Motion {
    /// Takes in a frame; returns whether there is motion, if that changed.
    pub(super) fn on_frame(&mut self, time_ms: u64, is_still: bool) -> Option<bool> {
        if is_still {
            self.is_gated = true;
        } else {
            self.moved_ms = Some(time_ms);
        }
        let since_ms = self.moved_ms.map(|moved_ms| elapsed_ms(moved_ms, time_ms));
        self.set(since_ms.is_some_and(|since_ms| since_ms < MOTION_HOLD_MS))
    }

    /// The stream shows nothing.
    pub(super) fn on_dark(&mut self) -> Option<bool> {
        self.moved_ms = None;
        self.set(false)
    }

    fn set(&mut self, is_on: bool) -> Option<bool> {
        let is_news = self.is_gated && self.is_on != Some(is_on);
        is_news.then(|| *self.is_on.insert(is_on))
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples::overlay;
    use super::*;

    #[test]
    fn rule_is_removed_once_deliveries_name_it_no_more() {
        let mut camera = Camera::default();
        let both = [overlay("gate", "zone"), overlay("stay", "loitering")];
        let first = camera.on_overlays(&both);
        assert_eq!((first.added.len(), first.is_first), (2, true));
        assert_eq!(camera.on_overlays(&both), RulesChanged::default());
        // Frames of two graphs, in turn.
        for _ in 0..MAX_ABSENT {
            assert_eq!(camera.on_overlays(&both[..1]), RulesChanged::default());
            assert_eq!(camera.on_overlays(&both), RulesChanged::default());
        }
        let removed = (0..=MAX_ABSENT).map(|_| camera.on_overlays(&both[..1]).removed);
        let removed: Vec<Arc<str>> = removed.flatten().collect();
        assert_eq!(removed, ["stay".into()]);
    }

    #[test]
    fn frame_after_the_clock_was_set_back_is_not_late() {
        assert_eq!(elapsed_ms(70_000, 70_000), 0);
        assert_eq!(elapsed_ms(70_000, 10_001), 0);
        assert_eq!(elapsed_ms(70_000, 10_000), u64::MAX);
        assert_eq!(elapsed_ms(10_000, 70_000), 60_000);
    }

    #[test]
    fn motion_is_known_of_gated_streams_and_is_held() {
        let mut motion = Motion::default();
        assert_eq!(motion.on_frame(1_000, false), None);
        assert_eq!(motion.on_frame(2_000, true), Some(true));
        assert_eq!(motion.on_frame(30_999, true), None);
        assert_eq!(motion.on_frame(31_000, true), Some(false));
        assert_eq!(motion.on_frame(7_200_000, false), Some(true));
        assert_eq!(motion.on_frame(7_199_000, true), None, "a frame that is late");
        assert_eq!(
            motion.on_frame(3_600_000, true),
            Some(false),
            "the clock was set back"
        );
        assert_eq!(motion.on_frame(3_600_040, false), Some(true));
        assert_eq!(motion.on_dark(), Some(false));
        assert_eq!(motion.on_dark(), None);
    }
}
