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

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use weir_types::{Span, Timestamp};

/// When a lower gear may follow.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ShiftDown {
    /// Where `factor` times the waiting items are at most the rate.
    Waiting {
        /// 8 in the code of KEN's authors.
        factor: f64,
    },
    /// After this time without a shift.
    Dwell(Span),
}

/// How gears are shifted.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ShiftRule {
    /// Time over which arrivals are counted.
    pub window: Span,
    /// When a lower gear may follow.
    pub down: ShiftDown,
}

impl Default for ShiftRule {
    /// One second, and the authors' factor.
    fn default() -> Self {
        Self {
            window: Span::from_secs(1),
            down: ShiftDown::Waiting { factor: 8.0 },
        }
    }
}

/// What gears are shifted by.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ShiftSpec {
    /// How they are shifted.
    pub rule: ShiftRule,
    /// Up to which load each gear is meant, ascending; none where no plan is in force.
    pub bounds: Vec<f64>,
}

/// A fact that the gear depends on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum GearEvent {
    /// Requests arrived at the operators.
    Arrived {
        /// How many.
        requests: u32,
    },
    /// So many items wait in front of the stages.
    Waiting {
        /// How many.
        items: u64,
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
    },
}

/// Slots of the window: arrivals are counted in tenths of it.
const BUCKETS: u64 = 10;

/// The gear in force, and the load that is measured.
#[derive(Debug, Clone)]
pub struct GearShift {
    rule: ShiftRule,
    /// Upper ends of the ranges, ascending.
    bounds: Vec<f64>,
    gear: usize,
    shifted_at: Timestamp,
    began: Option<Timestamp>,
    /// Arrivals by bucket number, oldest first.
    buckets: VecDeque<(u64, u64)>,
    waiting: u64,
    load: Option<f64>,
}

impl GearShift {
    /// In the lowest gear. `bounds`: up to which load each gear is meant, ascending, as [`weir_types::Gear::up_to`].
    #[must_use]
    pub fn new(rule: ShiftRule, bounds: Vec<f64>) -> Self {
        Self {
            rule,
            bounds,
            gear: 0,
            shifted_at: Timestamp::ZERO,
            began: None,
            buckets: VecDeque::new(),
            waiting: 0,
            load: None,
        }
    }

    /// As [`GearShift::new`].
    #[must_use]
    pub fn of(spec: ShiftSpec) -> Self {
        Self::new(spec.rule, spec.bounds)
    }

    /// The gear in force, by index.
    #[must_use]
    pub fn gear(&self) -> usize {
        self.gear
    }

    /// Another plan is in force: the gear is the one for the load at hand.
    pub fn replace(&mut self, bounds: Vec<f64>, now: Timestamp) -> GearEffect {
        self.bounds = bounds;
        let rate = self.rate(now);
        self.gear = self.gear_for(rate);
        self.shifted_at = now;
        GearEffect::Shift {
            gear: self.gear,
            rate,
        }
    }

    /// Takes facts, and decides once.
    pub fn step(
        &mut self,
        events: impl IntoIterator<Item = GearEvent>,
        now: Timestamp,
        effects: &mut Vec<GearEffect>,
    ) {
        self.began.get_or_insert(now);
        for event in events {
            match event {
                GearEvent::Arrived { requests } => self.count(requests, now),
                GearEvent::Waiting { items } => self.waiting = items,
                GearEvent::Load { load } => self.load = Some(load),
                GearEvent::PlanApplied { spec } => {
                    self.rule = spec.rule;
                    effects.push(self.replace(spec.bounds, now));
                }
                GearEvent::Tick => {}
            }
        }
        let rate = self.rate(now);
        let wanted = self.gear_for(rate);
        if wanted > self.gear || wanted < self.gear && self.may_shift_down(rate, now) {
            self.gear = wanted;
            self.shifted_at = now;
            effects.push(GearEffect::Shift { gear: wanted, rate });
        }
    }

    fn count(&mut self, requests: u32, now: Timestamp) {
        let bucket = now.micros() / self.bucket_time();
        match self.buckets.back_mut() {
            Some((last, count)) if *last == bucket => *count += u64::from(requests),
            _ => self.buckets.push_back((bucket, u64::from(requests))),
        }
        self.forget(bucket);
    }

    /// Leaves out what is older than the window.
    fn forget(&mut self, bucket: u64) {
        while self
            .buckets
            .front()
            .is_some_and(|(first, _)| first + BUCKETS <= bucket)
        {
            self.buckets.pop_front();
        }
    }

    fn bucket_time(&self) -> u64 {
        (self.rule.window.micros() / BUCKETS).max(1)
    }

    /// The load. In the beginning, before a window has passed, it is what has come so far over the whole window, so that a
    /// first request alone is no high load.
    fn rate(&mut self, now: Timestamp) -> f64 {
        if let Some(load) = self.load {
            return load;
        }
        self.forget(now.micros() / self.bucket_time());
        let requests: u64 = self.buckets.iter().map(|(_, count)| count).sum();
        // The last bucket is not over yet: the whole ones and the part of it are what was measured.
        let window = self.bucket_time() * (BUCKETS - 1) + now.micros() % self.bucket_time();
        requests as f64 / Span::from_micros(window.max(1)).as_secs_f64()
    }

    fn gear_for(&self, rate: f64) -> usize {
        let within = self.bounds.partition_point(|bound| *bound < rate);
        within.min(self.bounds.len().saturating_sub(1))
    }

    fn may_shift_down(&self, rate: f64, now: Timestamp) -> bool {
        match self.rule.down {
            ShiftDown::Waiting { factor } => factor * self.waiting as f64 <= rate,
            ShiftDown::Dwell(time) => now.since(self.shifted_at) >= time,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

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
        (begin..end)
            .step_by(interval)
            .map(|at| (at, GearEvent::Arrived { requests: 1 }))
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

    proptest! {
        /// In a lasting load the gear is the one that the plan has for it.
        #[test]
        fn a_lasting_load_has_its_gear(interval in 15_usize..300) {
            let mut shift = GearShift::new(ShiftRule::default(), vec![10.0, 20.0, 40.0]);
            for (at, event) in arrivals(0, 5_000, interval) {
                shift.step([event], Timestamp::from_micros(at * 1_000), &mut Vec::new());
            }
            let rate = 1_000.0 / interval as f64;
            let near = [rate * 0.8, rate, rate * 1.25].map(|rate| shift.gear_for(rate));
            prop_assert!(near.contains(&shift.gear()), "{rate} {}", shift.gear());
        }
    }
}
