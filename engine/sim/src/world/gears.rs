//! The gears of a world: the load of its cascades is looked at as often as in the live engine, and their stages are set.

use weir_graph::Gears;
use weir_policy::GearReport;
use weir_policy::gears::{GearEffect, GearEvent, GearShift};
use weir_types::{Span, Timestamp};

use super::stages::Stages;

/// How often the load is looked at.
pub(super) const INTERVAL: Span = Span::from_millis(50);

/// Another gear came into force.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shift {
    /// When.
    pub at: Timestamp,
    /// The gear, by index.
    pub gear: usize,
    /// The load that it was chosen for, in requests a second.
    pub rate: f64,
}

/// The gear in force, and which were.
#[derive(Debug)]
pub(super) struct GearState<'a> {
    gears: &'a Gears,
    machine: GearShift,
    /// Arrivals that were counted, by cascade.
    counted: Vec<u64>,
    looked_at: Timestamp,
    seconds_by_gear: Vec<f64>,
    shifts: Vec<Shift>,
}

impl<'a> GearState<'a> {
    pub(super) fn new(gears: &'a Gears) -> Self {
        Self {
            gears,
            machine: GearShift::of(gears.shift_spec()),
            counted: Vec::new(),
            looked_at: Timestamp::ZERO,
            seconds_by_gear: vec![0.0; gears.gears.len()],
            shifts: Vec::new(),
        }
    }

    /// Sets the stages to the gear in force.
    pub(super) fn set(&self, stages: &mut Stages) {
        stages.set(self.gears, self.machine.gear());
    }

    /// The load since it was looked at last: of several cascades, that of the one with the most requests.
    pub(super) fn look(&mut self, stages: &mut Stages, now: Timestamp) {
        if let Some(seconds) = self.seconds_by_gear.get_mut(self.machine.gear()) {
            *seconds += now.since(self.looked_at).as_secs_f64();
        }
        self.looked_at = now;
        let arrived: Vec<u64> = stages.arrived().collect();
        let before = self.counted.iter().copied().chain(std::iter::repeat(0));
        let most = arrived.iter().zip(before).map(|(all, before)| all - before).max();
        self.counted = arrived;
        let requests = u32::try_from(most.unwrap_or_default()).unwrap_or(u32::MAX);
        let items = stages.waiting();
        let events = [GearEvent::Arrived { requests }, GearEvent::Waiting { items }];
        let mut effects = Vec::new();
        self.machine.step(events, now, &mut effects);
        for GearEffect::Shift { gear, rate } in effects {
            self.shifts.push(Shift { at: now, gear, rate });
            self.set(stages);
        }
    }

    /// What the report says, and the shifts in order.
    pub(super) fn finish(self) -> (GearReport, Vec<Shift>) {
        let seconds = self.seconds_by_gear.iter().zip(&self.gears.gears);
        let expected = seconds.filter_map(|(seconds, gear)| Some((*seconds, gear.accuracy?)));
        let (seconds, sum) = expected.fold((0.0, 0.0), |(all, sum), (seconds, accuracy)| {
            (all + seconds, sum + seconds * accuracy)
        });
        let report = GearReport {
            plan: self.gears.number,
            shifts: self.shifts.len() as u64,
            seconds_by_gear: self.seconds_by_gear,
            accuracy_expected: (seconds > 0.0).then(|| sum / seconds),
        };
        (report, self.shifts)
    }
}
