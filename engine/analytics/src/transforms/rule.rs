//! A filter over tracks that makes incidents: class, confidence, zone, time of day, attributes.

use std::sync::Arc;

use super::episodes::{Change, Delays, Episodes, Observed};
use super::finding::{Drawing, Finding, number};
use super::spec::{RuleSpec, Wanted};
use super::subject::{Subject, View};

pub(crate) struct Rule {
    spec: RuleSpec,
    incidents: Episodes<u64>,
}

impl Rule {
    pub(crate) fn new(spec: RuleSpec, every_ms: f64) -> Self {
        let delays = Delays {
            after_ms: spec.after_ms,
            pending_ms: spec.end_after_ms,
            end_after_ms: spec.end_after_ms,
            every_ms,
        };
        Self {
            spec,
            incidents: Episodes::new(delays),
        }
    }

    fn holds(&self, subject: &Subject) -> bool {
        let spec = &self.spec;
        let is_in_zone = spec.zones.is_empty() || spec.zones.iter().any(|zone| subject.zones.contains(zone));
        let has = |(name, wanted): &(Arc<str>, Wanted)| {
            let attributes = subject.attributes.iter();
            attributes
                .filter(|(known, _)| known == name)
                .any(|(_, attribute)| wanted.is_met_by(attribute))
        };
        subject.score >= spec.min_score
            && !(spec.skips_stationary && subject.is_stationary)
            && is_in_zone
            && spec.schedule.contains(subject.at.time_ms)
            && spec.attributes.iter().all(has)
    }

    pub(crate) fn on_subject(&mut self, subject: &Subject) -> Option<Finding> {
        let observed = Observed {
            holds: self.holds(subject),
            is_clear: false,
            changed: subject.at,
            now: subject.at,
        };
        let change = self.incidents.on_observed(subject.track, observed)?;
        Some(finding(subject, change))
    }

    pub(crate) fn on_track_end(&mut self, subject: &Subject) -> Option<Finding> {
        let change = self.incidents.close(subject.track, subject.at)?;
        Some(finding(subject, change))
    }

    /// Its name beside the tracks that it holds of.
    pub(crate) fn drawing(&self, name: &str, view: &View<'_>) -> Drawing {
        let holds = |subject: &&Subject| self.incidents.is_open(subject.track);
        let subjects = view.seen().filter(holds);
        Drawing {
            tags: subjects.map(|subject| (subject.track, name.into())).collect(),
            ..Drawing::default()
        }
    }
}

fn finding(subject: &Subject, change: Change) -> Finding {
    Finding {
        number: change.number,
        phase: change.phase,
        track: Some(subject.track),
        began: change.began,
        at: change.at,
        values: vec![("lasted_s", number(change.began.until(change.at) / 1e3, 3))],
        ghost: None,
    }
}
