//! Gear in force from a plan (KEN 4.1): the one for the measured load.
//!
//! ```text
//! rate = requests that arrived within the window / window
//! up:    as soon as rate is in a higher range
//! down:  when rate is in a lower range, and
//!        waiting:  factor * waiting items <= rate     (the authors' code; the text has no such condition)
//!        dwell:    no shift up for that time
//! ```
//!
//! Without a condition for shifting down, the gear would oscillate: waiting items must still be served when
//! the rate has fallen. For generative models the load is the number of running and waiting requests, which
//! comes with the event [`GearEvent::Load`].
//!
//! [`ShiftBy::Backlog`] goes beyond the paper. It asks no rates, so a machine that is slower than planned, or has
//! other work, needs no other ranges:
//!
//! ```text
//! backlog = queued work / slots that are left, as a part of the time that requests can wait
//!           or full * min(1, lost requests / requests of the window / losses), if that is more
//! up:       backlog >= first + (full - first) * (gear - 1) / (gears - 2)
//! down:     backlog <  release * the backlog at which the gear came into force
//! ```
//!
//! Between two gears it shares the time: the lower one is in force until the queue is at its bound, the higher one until
//! half of the queue has gone, and slots are never idle for a higher gear.
//!
//! With [`ShiftScope::Stream`], all this holds for each stream separately: a gear for its own items, by the
//! load of its own requests. This goes beyond the paper, whose requests are all alike: a quiet camera keeps
//! its accuracy while another is busy.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weir_types::{StreamId, Timestamp};

use super::load::GearLoad;
use super::shift_rule::{ShiftBy, ShiftRule, ShiftScope, ShiftSpec};

/// A fact that the gear depends on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum GearEvent {
    /// Requests arrived at a cascade.
    Arrived {
        /// Index of the cascade; cascades are numbered from 0.
        #[serde(default, skip_serializing_if = "is_first")]
        cascade: u32,
        /// Number of requests that arrived.
        requests: u32,
    },
    /// Number of items that wait for the stages now.
    Waiting {
        /// Items waiting for any stage.
        items: u64,
    },
    /// Requests of a stream arrived at a cascade, if each stream has a gear.
    StreamArrived {
        /// Stream of the requests.
        stream: StreamId,
        /// Index of the cascade; cascades are numbered from 0.
        #[serde(default, skip_serializing_if = "is_first")]
        cascade: u32,
        /// Number of requests that arrived.
        requests: u32,
    },
    /// Number of items of a stream that wait for the stages now.
    StreamWaiting {
        /// Stream of the items.
        stream: StreamId,
        /// Items of the stream waiting for any stage.
        items: u64,
    },
    /// A stream was removed; its id is not used again.
    StreamRemoved {
        /// Stream that was removed.
        stream: StreamId,
    },
    /// The load is given directly, not by arrivals: for example running and waiting requests of generative
    /// models.
    Load {
        /// Load in the unit of the plan's ranges.
        load: f64,
    },
    /// The load of a stream is given directly, if each stream has a gear.
    StreamLoad {
        /// Stream of the load.
        stream: StreamId,
        /// Load in the unit of the plan's ranges.
        load: f64,
    },
    /// Work that is queued for the slots of the stages now.
    Queued {
        /// Time until the slots have done it, as a part of the time that requests can wait.
        backlog: f64,
    },
    /// Requests were dropped for lack of time.
    Lost {
        /// Number of requests that were dropped.
        requests: u32,
    },
    /// Another plan is in force; its gear for the present load is chosen.
    PlanApplied {
        /// Rule and ranges of the new plan.
        spec: ShiftSpec,
    },
    /// Time has passed: the load is measured again.
    Tick,
}

/// Whether this is the first cascade, whose index event logs leave out.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_first(cascade: &u32) -> bool {
    *cascade == 0
}

/// A change of gear that the driver carries out.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "effect", rename_all = "kebab-case")]
pub enum GearEffect {
    /// Another gear is in force.
    Shift {
        /// Index of the gear in the plan.
        gear: usize,
        /// Load that the gear was chosen for, in the unit of the rule: requests a second, requests, or a part of the time
        /// that requests can wait.
        rate: f64,
        /// Stream whose gear changes; `None`: all requests.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stream: Option<StreamId>,
    },
}

/// The gears in force, and the loads that are measured.
#[derive(Debug, Clone)]
pub struct GearShift {
    rule: ShiftRule,
    /// Upper ends of the load ranges, ascending.
    bounds: Vec<f64>,
    /// Load of all requests together. With [`ShiftScope::Stream`] it stays in the lowest gear, which applies
    /// to streams without measurements.
    all: GearLoad,
    /// Load of each stream; empty unless each stream has a gear.
    streams: BTreeMap<StreamId, GearLoad>,
}

impl GearShift {
    /// Starts in the lowest gear. `bounds` are the upper ends of the gears' load ranges, ascending, as
    /// [`weir_types::Gear::up_to`].
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

    /// Index of the gear in force for all requests, or for streams without measurements.
    #[must_use]
    pub fn gear(&self) -> usize {
        self.all.gear
    }

    /// Scope over which the load is measured.
    #[must_use]
    pub fn scope(&self) -> ShiftScope {
        self.rule.scope
    }

    /// Measure of the load, for which events are wanted.
    #[must_use]
    pub fn by(&self) -> ShiftBy {
        self.rule.by
    }

    /// Gears of streams, if each stream has one.
    pub fn stream_gears(&self) -> impl Iterator<Item = (StreamId, usize)> {
        self.streams.iter().map(|(stream, load)| (*stream, load.gear))
    }

    /// Switches to another plan, with the gears for the present loads.
    fn apply_plan(&mut self, spec: ShiftSpec, now: Timestamp, effects: &mut Vec<GearEffect>) {
        if self.rule.by != spec.rule.by {
            // What another rule was given is in another unit.
            for load in self.streams.values_mut().chain([&mut self.all]) {
                (load.given, load.waiting) = (None, 0);
            }
        }
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

    /// Takes in a burst of events, decides once, and appends the shifts.
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
                GearEvent::StreamLoad { stream, load } => {
                    self.streams.entry(stream).or_default().given = Some(load);
                }
                GearEvent::Queued { backlog } => self.all.backlog = backlog,
                GearEvent::Lost { requests } => self.all.on_lost(requests, &self.rule, now),
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
    use crate::gears::load::gear_for;
    use crate::gears::{BacklogRule, ShiftDown};

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
        // Each gets eight a second in turn; the load of both together does not count.
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
        // The first stream has five a second, the second thirty.
        for at in (0..3_000).step_by(200) {
            seen.extend(step(at, &[arrived(0, 1), arrived(1, 6)]));
        }
        assert_eq!(seen, [(1, 1), (1, 2)], "the first stays in the lowest");
        // Items of the second stream wait, which prevents a lower gear until they are done.
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

    fn by_backlog() -> ShiftRule {
        ShiftRule {
            by: ShiftBy::Backlog(BacklogRule::default()),
            ..ShiftRule::default()
        }
    }

    #[test]
    fn backlog_shifts_up_at_its_bounds_and_down_at_half_of_them() {
        let backlogs = [0.3, 0.45, 0.25, 0.75, 0.36, 0.3, 0.19];
        let steps = (0..).zip(backlogs);
        let steps = steps.map(|(at, backlog)| (at * 50, GearEvent::Queued { backlog }));
        assert_eq!(
            shifts(by_backlog(), steps),
            [(50, 1), (150, 2), (250, 1), (300, 0)]
        );
    }

    #[test]
    fn rate_far_above_the_ranges_keeps_the_gear_where_nothing_queues() {
        let queued = GearEvent::Queued { backlog: 0.1 };
        let busy = arrivals(0, 3_000, 5).chain([(3_000, queued)]);
        assert_eq!(shifts(by_backlog(), busy), []);
    }

    #[test]
    fn losses_shift_up_where_drops_keep_the_queue_short() {
        let arrived = GearEvent::Arrived {
            cascade: 0,
            requests: 100,
        };
        let empty = GearEvent::Queued { backlog: 0.0 };
        let steps = [
            (0, arrived),
            (50, GearEvent::Lost { requests: 1 }),
            (100, GearEvent::Lost { requests: 2 }),
            (150, empty.clone()),
            (2_000, empty),
        ];
        // 1 % is half of the losses at which the last gear comes into force, 0.35 of the time that requests can wait.
        assert_eq!(shifts(by_backlog(), steps), [(100, 2), (2_000, 0)]);
    }

    #[test]
    fn requests_in_flight_of_a_stream_set_its_gear() {
        let rule = ShiftRule {
            scope: ShiftScope::Stream,
            by: ShiftBy::InFlight,
            down: ShiftDown::Dwell(Span::from_secs(1)),
            ..ShiftRule::default()
        };
        let mut shift = GearShift::new(rule, vec![4.0, 8.0]);
        let mut step = |at: u64, stream, load| {
            let event = GearEvent::StreamLoad {
                stream: StreamId(stream),
                load,
            };
            let mut effects = Vec::new();
            shift.step([event], Timestamp::from_micros(at * 1_000), &mut effects);
            let of = |GearEffect::Shift { gear, stream, .. }: GearEffect| (stream.unwrap().0, gear);
            effects.into_iter().map(of).collect::<Vec<_>>()
        };
        assert_eq!(step(0, 3, 6.0), [(3, 1)]);
        assert_eq!(step(0, 4, 2.0), []);
        assert_eq!(step(500, 3, 1.0), [], "it dwells");
        assert_eq!(step(1_000, 3, 1.0), [(3, 0)]);
    }

    #[test]
    fn load_of_another_measure_ends_with_its_plan() {
        let rule = ShiftRule {
            by: ShiftBy::InFlight,
            ..ShiftRule::default()
        };
        let mut shift = GearShift::new(rule, vec![10.0, 20.0]);
        let mut step = |at: u64, event| {
            shift.step([event], Timestamp::from_micros(at * 1_000), &mut Vec::new());
            shift.gear()
        };
        assert_eq!(step(0, GearEvent::Load { load: 15.0 }), 1);
        let spec = ShiftSpec {
            rule: ShiftRule::default(),
            bounds: vec![10.0, 20.0],
        };
        assert_eq!(step(50, GearEvent::PlanApplied { spec }), 0);
        assert_eq!(step(100, GearEvent::Tick), 0);
    }

    #[test]
    fn rule_by_rate_is_written_as_before_there_were_other_measures() {
        let text = serde_json::to_string(&ShiftRule::default()).unwrap();
        assert!(!text.contains("\"by\""), "{text}");
        assert_eq!(
            serde_json::from_str::<ShiftRule>(&text).unwrap(),
            ShiftRule::default()
        );
        let text = serde_json::to_string(&by_backlog()).unwrap();
        assert_eq!(serde_json::from_str::<ShiftRule>(&text).unwrap(), by_backlog());
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
        /// After any backlogs, the gear is at least the one that the last backlog enters, and at most the one that it holds.
        #[test]
        fn gear_lies_between_what_its_backlog_enters_and_what_it_holds(
            backlogs in proptest::collection::vec(0.0_f64..1.5, 1..40),
            gears in 1_usize..6,
        ) {
            let (by, bounds) = (BacklogRule::default(), (1..=gears).map(|gear| gear as f64).collect());
            let mut shift = GearShift::new(by_backlog(), bounds);
            for (at, backlog) in (0..).zip(backlogs) {
                let now = Timestamp::from_micros(at * 50_000);
                shift.step([GearEvent::Queued { backlog }], now, &mut Vec::new());
                let enters = (1..gears).filter(|gear| by.enters_at(*gear, gears) <= backlog).count();
                let holds = (1..gears).filter(|gear| by.enters_at(*gear, gears) * by.release <= backlog).count();
                prop_assert!((enters..=holds).contains(&shift.gear()), "{backlog} {}", shift.gear());
            }
        }

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
