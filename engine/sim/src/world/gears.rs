//! The gears of a world: the load of its cascades is looked at as often as in the live engine, and their stages are set.

use std::collections::BTreeMap;

use weir_graph::Gears;
use weir_policy::GearReport;
use weir_policy::gears::{GearEffect, GearEvent, GearShift, ShiftScope};
use weir_types::{Span, StreamId, Timestamp};

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
    /// Of which stream; `None`: of all.
    pub stream: Option<StreamId>,
}

/// The gear in force, and which were.
#[derive(Debug)]
pub(super) struct GearState<'a> {
    gears: &'a Gears,
    machine: GearShift,
    /// Arrivals of streams that were counted, by cascade.
    counted: Vec<Vec<u64>>,
    /// Items of streams that waited, as they were last seen.
    waiting: Vec<u64>,
    looked_at: Timestamp,
    seconds_by_gear: Vec<f64>,
    shifts: Vec<Shift>,
    /// By module and place among its slots: the share that was set last.
    shares: BTreeMap<(usize, usize), f64>,
}

impl<'a> GearState<'a> {
    pub(super) fn new(gears: &'a Gears) -> Self {
        Self {
            gears,
            machine: GearShift::of(gears.shift_spec()),
            counted: Vec::new(),
            waiting: Vec::new(),
            looked_at: Timestamp::ZERO,
            seconds_by_gear: vec![0.0; gears.gears.len()],
            shifts: Vec::new(),
            shares: BTreeMap::new(),
        }
    }

    /// The gear that what all streams share is set to: the highest of any.
    fn highest(&self) -> usize {
        let of_streams = self.machine.stream_gears().map(|(_, gear)| gear).max();
        of_streams.unwrap_or_default().max(self.machine.gear())
    }

    /// Shares of slots that are others than when this was asked last: module, place among its slots, share.
    pub(super) fn take_shares(&mut self, slots_of: &[usize]) -> Vec<(usize, usize, Option<f64>)> {
        let gear = self.highest();
        let mut changed = Vec::new();
        for (module, &slots) in slots_of.iter().enumerate() {
            for place in 0..slots {
                let share = self.gears.share(gear, module, place);
                let before = match share {
                    Some(share) => self.shares.insert((module, place), share),
                    None => self.shares.remove(&(module, place)),
                };
                if before != share {
                    changed.push((module, place, share));
                }
            }
        }
        changed
    }

    /// Sets the stages to the gear in force.
    pub(super) fn set(&self, stages: &mut Stages) {
        stages.set(self.gears, self.machine.gear(), None);
        stages.wait_by(self.gears, self.machine.gear());
    }

    /// The load since it was looked at last, by cascade.
    pub(super) fn look(&mut self, stages: &mut Stages, now: Timestamp) {
        let time = now.since(self.looked_at).as_secs_f64();
        self.looked_at = now;
        let arrived: Vec<Vec<u64>> = stages.arrived().map(<[u64]>::to_vec).collect();
        let waiting = stages.waiting();
        let mut events = Vec::new();
        match self.machine.scope() {
            ShiftScope::Graph => {
                self.count_time(self.machine.gear(), time);
                let come = |(cascade, all): (usize, &Vec<u64>)| {
                    let before: u64 = self.counted.get(cascade).into_iter().flatten().sum();
                    all.iter().sum::<u64>() - before
                };
                let come = arrived.iter().enumerate().map(come);
                events.extend((0..).zip(come).map(|(cascade, come)| GearEvent::Arrived {
                    cascade,
                    requests: u32::try_from(come).unwrap_or(u32::MAX),
                }));
                let items = waiting.iter().sum();
                events.push(GearEvent::Waiting { items });
            }
            ShiftScope::Stream => {
                let gears: Vec<usize> = self.machine.stream_gears().map(|(_, gear)| gear).collect();
                gears.into_iter().for_each(|gear| self.count_time(gear, time));
                for (place, items) in waiting.iter().enumerate() {
                    let stream = StreamId(place as u32);
                    let come = |(cascade, all): (usize, &Vec<u64>)| {
                        all[place] - self.counted.get(cascade).map_or(0, |counted| counted[place])
                    };
                    let come = arrived.iter().enumerate().map(come);
                    let come = (0..).zip(come).filter(|(_, come)| *come > 0);
                    events.extend(come.map(|(cascade, come)| GearEvent::StreamArrived {
                        stream,
                        cascade,
                        requests: u32::try_from(come).unwrap_or(u32::MAX),
                    }));
                    if self.waiting.get(place).copied().unwrap_or_default() != *items {
                        let items = *items;
                        events.push(GearEvent::StreamWaiting { stream, items });
                    }
                }
                events.push(GearEvent::Tick);
            }
        }
        (self.counted, self.waiting) = (arrived, waiting);
        let mut effects = Vec::new();
        self.machine.step(events, now, &mut effects);
        for GearEffect::Shift { gear, rate, stream } in effects {
            self.shifts.push(Shift {
                at: now,
                gear,
                rate,
                stream,
            });
            stages.set(self.gears, gear, stream);
        }
        // Batches are of all streams: what they wait for is that of the highest gear.
        stages.wait_by(self.gears, self.highest());
    }

    fn count_time(&mut self, gear: usize, seconds: f64) {
        if let Some(spent) = self.seconds_by_gear.get_mut(gear) {
            *spent += seconds;
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
