//! Which gear of a plan is in force (KEN 4.1): the one for the measured load.
//!
//! ```text
//! rate = requests that arrived within the window / window
//! up:    as soon as rate is in a higher range
//! down:  where rate is in a lower range, and
//!        waiting:  factor * waiting items <= rate     (the authors' code; the text has no such condition)
//!        dwell:    no shift up for so long
//! ```
//!
//! Down without a condition would flap: what waits still has to be done when the rate has fallen. Of models that generate,
//! the load is the number of running and waiting requests, which is given as such ([`GearEvent::Load`]).
//!
//! By [`ShiftScope::Stream`] all this holds for each stream by itself: its load is that of its own requests, and its gear is that of
//! its own items. Beyond the paper, whose requests are all alike: a camera with little before it keeps its accuracy while another
//! is busy.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weir_types::{StreamId, Timestamp};

use super::load::GearLoad;
use super::shift_rule::{ShiftRule, ShiftScope, ShiftSpec};

/// A fact that the gear depends on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum GearEvent {
    /// Requests arrived at a cascade.
    Arrived {
        /// Which, by a number of its own.
        #[serde(default, skip_serializing_if = "is_first")]
        cascade: u32,
        /// How many.
        requests: u32,
    },
    /// So many items wait in front of the stages.
    Waiting {
        /// How many.
        items: u64,
    },
    /// Requests of a stream arrived at a cascade, where each stream has a gear.
    StreamArrived {
        /// The stream.
        stream: StreamId,
        /// The cascade, by a number of its own.
        #[serde(default, skip_serializing_if = "is_first")]
        cascade: u32,
        /// How many.
        requests: u32,
    },
    /// So many items of a stream wait in front of the stages.
    StreamWaiting {
        /// The stream.
        stream: StreamId,
        /// How many.
        items: u64,
    },
    /// A stream was removed; its number is not used again.
    StreamRemoved {
        /// The stream.
        stream: StreamId,
    },
    /// The load is known otherwise than by arrivals, such as running and waiting requests of models that generate.
    Load {
        /// In the unit of the plan's ranges.
        load: f64,
    },
    /// Another plan is in force: the gear is the one for the load at hand.
    PlanApplied {
        /// What it is shifted by.
        spec: ShiftSpec,
    },
    /// Time passed.
    Tick,
}

/// Whether it is the number of the first cascade, which event logs need not say.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_first(cascade: &u32) -> bool {
    *cascade == 0
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "effect", rename_all = "kebab-case")]
pub enum GearEffect {
    /// Another gear is in force.
    Shift {
        /// By index in the plan.
        gear: usize,
        /// The load that it was chosen for, in requests a second.
        rate: f64,
        /// Of which stream; `None`: of all.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stream: Option<StreamId>,
    },
}

/// The gears in force, and the loads that are measured.
#[derive(Debug, Clone)]
pub struct GearShift {
    rule: ShiftRule,
    /// Upper ends of the ranges, ascending.
    bounds: Vec<f64>,
    /// Of all requests together; by [`ShiftScope::Stream`] in the lowest gear, as streams are that nothing is known of.
    all: GearLoad,
    /// Empty unless each stream has a gear.
    streams: BTreeMap<StreamId, GearLoad>,
}

impl GearShift {
    /// In the lowest gear. `bounds`: up to which load each gear is meant, ascending, as [`weir_types::Gear::up_to`].
    #[must_use]
    pub fn new(rule: ShiftRule, bounds: Vec<f64>) -> Self {
        Self {
            rule,
            bounds,
            all: GearLoad::default(),
            streams: BTreeMap::new(),
        }
    }

    /// As [`GearShift::new`].
    #[must_use]
    pub fn of(spec: ShiftSpec) -> Self {
        Self::new(spec.rule, spec.bounds)
    }

    /// The gear in force, by index: of all requests, or of streams that nothing is known of.
    #[must_use]
    pub fn gear(&self) -> usize {
        self.all.gear
    }

    /// Of what the load is measured.
    #[must_use]
    pub fn scope(&self) -> ShiftScope {
        self.rule.scope
    }

    /// The gears of streams, where each has one.
    pub fn stream_gears(&self) -> impl Iterator<Item = (StreamId, usize)> {
        self.streams.iter().map(|(stream, load)| (*stream, load.gear))
    }

    /// Another plan is in force: gears are those for the loads at hand.
    fn apply_plan(&mut self, spec: ShiftSpec, now: Timestamp, effects: &mut Vec<GearEffect>) {
        (self.rule, self.bounds) = (spec.rule, spec.bounds);
        match self.rule.scope {
            ShiftScope::Graph => {
                self.streams.clear();
                let rate = self.all.restart(&self.rule, &self.bounds, now);
                effects.push(GearEffect::Shift {
                    gear: self.all.gear,
                    rate,
                    stream: None,
                });
            }
            ShiftScope::Stream => {
                self.all = GearLoad::default();
                for (stream, load) in &mut self.streams {
                    let rate = load.restart(&self.rule, &self.bounds, now);
                    effects.push(GearEffect::Shift {
                        gear: load.gear,
                        rate,
                        stream: Some(*stream),
                    });
                }
            }
        }
    }

    /// Takes facts, and decides once.
    pub fn step(
        &mut self,
        events: impl IntoIterator<Item = GearEvent>,
        now: Timestamp,
        effects: &mut Vec<GearEffect>,
    ) {
        for event in events {
            match event {
                GearEvent::Arrived { cascade, requests } => {
                    self.all.on_arrived(cascade, requests, &self.rule, now);
                }
                GearEvent::Waiting { items } => self.all.waiting = items,
                GearEvent::StreamArrived {
                    stream,
                    cascade,
                    requests,
                } => {
                    let load = self.streams.entry(stream).or_default();
                    load.on_arrived(cascade, requests, &self.rule, now);
                }
                GearEvent::StreamWaiting { stream, items } => {
                    self.streams.entry(stream).or_default().waiting = items;
                }
                GearEvent::StreamRemoved { stream } => {
                    self.streams.remove(&stream);
                }
                GearEvent::Load { load } => self.all.given = Some(load),
                GearEvent::PlanApplied { spec } => self.apply_plan(spec, now, effects),
                GearEvent::Tick => {}
            }
        }
        let (rule, bounds) = (&self.rule, &self.bounds);
        let mut decide = |stream: Option<StreamId>, load: &mut GearLoad| {
            if let Some(rate) = load.shift(rule, bounds, now) {
                effects.push(GearEffect::Shift {
                    gear: load.gear,
                    rate,
                    stream,
                });
            }
        };
        match rule.scope {
            ShiftScope::Graph => decide(None, &mut self.all),
            ShiftScope::Stream => {
                for (stream, load) in &mut self.streams {
                    decide(Some(*stream), load);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use weir_types::Span;

    use super::*;
    use crate::gears::ShiftDown;
    use crate::gears::load::gear_for;

    fn shifts(rule: ShiftRule, steps: impl IntoIterator<Item = (u64, GearEvent)>) -> Vec<(u64, usize)> {
        let mut shift = GearShift::new(rule, vec![10.0, 20.0, 40.0]);
        let mut out = Vec::new();
        for (at_ms, event) in steps {
            let mut effects = Vec::new();
            shift.step([event], Timestamp::from_micros(at_ms * 1_000), &mut effects);
            for GearEffect::Shift { gear, .. } in effects {
                out.push((at_ms, gear));
            }
        }
        out
    }

    /// A request every `interval` milliseconds from `begin` to `end`.
    fn arrivals(begin: u64, end: u64, interval: usize) -> impl Iterator<Item = (u64, GearEvent)> {
        (begin..end).step_by(interval).map(|at| {
            (
                at,
                GearEvent::Arrived {
                    cascade: 0,
                    requests: 1,
                },
            )
        })
    }

    #[test]
    fn up_at_once_and_down_only_when_little_waits() {
        let busy = arrivals(0, 2_000, 33);
        let quiet = (2_000..6_000).step_by(200).map(|at| {
            let items = if at < 4_000 { 5 } else { 0 };
            (at, GearEvent::Waiting { items })
        });
        let seen = shifts(ShiftRule::default(), busy.chain(quiet));
        assert!(
            seen.iter().any(|(at, gear)| *gear == 2 && *at < 1_000),
            "{seen:?}"
        );
        let down = seen.iter().find(|(at, _)| *at >= 2_000);
        assert_eq!(down, Some(&(4_000, 0)), "{seen:?}");
    }

    #[test]
    fn after_a_dwell_down_whatever_waits() {
        let rule = ShiftRule {
            down: ShiftDown::Dwell(Span::from_secs(3)),
            ..ShiftRule::default()
        };
        let waiting = (1_000..8_000)
            .step_by(100)
            .map(|at| (at, GearEvent::Waiting { items: 1_000 }));
        let seen = shifts(rule, arrivals(0, 1_000, 33).chain(waiting));
        let (up, down) = (
            seen.iter().rfind(|(_, gear)| *gear > 0),
            seen.iter().rfind(|(_, gear)| *gear == 0),
        );
        let (Some((up, _)), Some((down, _))) = (up, down) else {
            panic!("{seen:?}")
        };
        assert!(down - up >= 3_000 && down - up < 4_200, "{seen:?}");
    }

    #[test]
    fn of_several_cascades_the_load_is_that_of_the_busiest_over_the_window() {
        // Eight a second come to each, in turn: together they are not more.
        let turns = (0..100_u64).map(|turn| {
            let event = GearEvent::Arrived {
                cascade: (turn % 2) as u32,
                requests: 1,
            };
            (turn * 62, event)
        });
        assert_eq!(
            shifts(ShiftRule::default(), turns),
            [],
            "the first gear is meant up to ten"
        );
    }

    #[test]
    fn a_load_that_is_given_counts_instead_of_arrivals() {
        let load = |load| GearEvent::Load { load };
        assert_eq!(
            shifts(
                ShiftRule::default(),
                [(0, load(15.0)), (10, load(100.0)), (20, load(0.0))]
            ),
            [(0, 1), (10, 2), (20, 0)]
        );
    }

    #[test]
    fn each_stream_has_the_gear_of_its_own_load() {
        let rule = ShiftRule {
            scope: ShiftScope::Stream,
            ..ShiftRule::default()
        };
        let mut shift = GearShift::new(rule, vec![10.0, 20.0, 40.0]);
        let mut step = |at: u64, events: &[GearEvent]| {
            let mut effects = Vec::new();
            shift.step(
                events.iter().cloned(),
                Timestamp::from_micros(at * 1_000),
                &mut effects,
            );
            let of = |GearEffect::Shift { gear, stream, .. }: GearEffect| (stream.unwrap().0, gear);
            effects.into_iter().map(of).collect::<Vec<_>>()
        };
        let arrived = |stream, requests| GearEvent::StreamArrived {
            cascade: 0,
            stream: StreamId(stream),
            requests,
        };
        let mut seen = Vec::new();
        // The first has five a second, the second thirty.
        for at in (0..3_000).step_by(200) {
            seen.extend(step(at, &[arrived(0, 1), arrived(1, 6)]));
        }
        assert_eq!(seen, [(1, 1), (1, 2)], "the first stays in the lowest");
        // Of the second items wait, and there is no lower gear until they are done.
        let waiting = |items| GearEvent::StreamWaiting {
            stream: StreamId(1),
            items,
        };
        assert_eq!(step(3_000, &[waiting(9)]), []);
        assert_eq!(step(5_000, &[GearEvent::Tick]), []);
        assert_eq!(step(5_050, &[waiting(0)]), [(1, 0)]);
        let removed = GearEvent::StreamRemoved { stream: StreamId(1) };
        assert_eq!(step(5_100, &[removed]), []);
        assert_eq!(shift.stream_gears().collect::<Vec<_>>(), [(StreamId(0), 0)]);
        assert_eq!(shift.gear(), 0, "that of streams of which nothing is known");
    }

    #[test]
    fn another_scope_begins_with_the_load_that_is_measured_from_then_on() {
        let mut shift = GearShift::new(ShiftRule::default(), vec![10.0, 20.0, 40.0]);
        for (at, event) in arrivals(0, 2_000, 33) {
            shift.step([event], Timestamp::from_micros(at * 1_000), &mut Vec::new());
        }
        assert_eq!(shift.gear(), 2);
        let rule = ShiftRule {
            scope: ShiftScope::Stream,
            ..ShiftRule::default()
        };
        let spec = ShiftSpec {
            rule,
            bounds: vec![10.0, 20.0],
        };
        let (now, mut effects) = (Timestamp::from_micros(2_000_000), Vec::new());
        shift.step([GearEvent::PlanApplied { spec }], now, &mut effects);
        assert_eq!((shift.gear(), effects.len()), (0, 0));
    }

    proptest! {
        /// In a lasting load the gear is the one that the plan has for it.
        #[test]
        fn a_lasting_load_has_its_gear(interval in 15_usize..300) {
            let mut shift = GearShift::new(ShiftRule::default(), vec![10.0, 20.0, 40.0]);
            for (at, event) in arrivals(0, 5_000, interval) {
                shift.step([event], Timestamp::from_micros(at * 1_000), &mut Vec::new());
            }
            let rate = 1_000.0 / interval as f64;
            let near = [rate * 0.8, rate, rate * 1.25].map(|rate| gear_for(&shift.bounds, rate));
            prop_assert!(near.contains(&shift.gear()), "{rate} {}", shift.gear());
        }
    }
}
