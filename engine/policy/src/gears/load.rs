//! Measured load of one scope, all requests or those of a stream, and the gear for it.

use std::collections::{BTreeMap, VecDeque};

use weir_types::{Span, Timestamp};

use super::shift_rule::{BacklogRule, ShiftBy, ShiftDown, ShiftRule};

/// Number of buckets of the window, in which arrivals are counted.
const BUCKETS: u64 = 10;

/// A gear, and the measurements that it is chosen by.
#[derive(Debug, Clone, Default)]
pub(super) struct GearLoad {
    pub(super) gear: usize,
    shifted_at: Timestamp,
    /// Arrivals by cascade and bucket number, oldest first.
    cascades: BTreeMap<u32, VecDeque<(u64, u64)>>,
    /// Number of waiting items.
    pub(super) waiting: u64,
    /// Load that was given directly, instead of measured arrivals.
    pub(super) given: Option<f64>,
    /// Queued work, as a part of the time that requests can wait.
    pub(super) backlog: f64,
    /// Requests that were dropped for lack of time, by bucket number, oldest first.
    lost: VecDeque<(u64, u64)>,
}

impl GearLoad {
    /// Requests arrived at a cascade.
    pub(super) fn on_arrived(&mut self, cascade: u32, requests: u32, rule: &ShiftRule, now: Timestamp) {
        let bucket = now.micros() / bucket_time(rule);
        count(self.cascades.entry(cascade).or_default(), bucket, requests);
        self.forget(bucket);
    }

    /// Requests were dropped for lack of time.
    pub(super) fn on_lost(&mut self, requests: u32, rule: &ShiftRule, now: Timestamp) {
        let bucket = now.micros() / bucket_time(rule);
        count(&mut self.lost, bucket, requests);
        self.forget(bucket);
    }

    /// Sets the gear for the present load, regardless of waiting items; returns that load.
    pub(super) fn restart(&mut self, rule: &ShiftRule, bounds: &[f64], now: Timestamp) -> f64 {
        if let ShiftBy::Backlog(by) = rule.by {
            let backlog = self.pressure(by, rule, now);
            self.gear = by.gear_for(0, backlog, bounds.len());
            self.shifted_at = now;
            return backlog;
        }
        let rate = self.rate(rule, now);
        (self.gear, self.shifted_at) = (gear_for(bounds, rate), now);
        rate
    }

    /// Shifts if the load requires it; returns the load in that case.
    pub(super) fn shift(&mut self, rule: &ShiftRule, bounds: &[f64], now: Timestamp) -> Option<f64> {
        if let ShiftBy::Backlog(by) = rule.by {
            let backlog = self.pressure(by, rule, now);
            let wanted = by.gear_for(self.gear, backlog, bounds.len());
            if wanted == self.gear {
                return None;
            }
            (self.gear, self.shifted_at) = (wanted, now);
            return Some(backlog);
        }
        let rate = self.rate(rule, now);
        let wanted = gear_for(bounds, rate);
        if wanted > self.gear || wanted < self.gear && self.may_shift_down(rule, rate, now) {
            (self.gear, self.shifted_at) = (wanted, now);
            return Some(rate);
        }
        None
    }

    /// The backlog, or what the losses of the window amount to: a drop rule that keeps queues short hides the load
    /// from them.
    fn pressure(&mut self, by: BacklogRule, rule: &ShiftRule, now: Timestamp) -> f64 {
        self.forget(now.micros() / bucket_time(rule));
        let sum = |buckets: &VecDeque<(u64, u64)>| buckets.iter().map(|(_, count)| count).sum::<u64>();
        let lost = sum(&self.lost);
        let arrived = self.cascades.values().map(sum).max().unwrap_or_default();
        let share = lost as f64 / arrived.max(lost).max(1) as f64;
        self.backlog.max(by.full * (share / by.losses).min(1.0))
    }

    /// Drops buckets that are older than the window.
    fn forget(&mut self, bucket: u64) {
        for buckets in self.cascades.values_mut().chain([&mut self.lost]) {
            while buckets
                .front()
                .is_some_and(|(first, _)| first + BUCKETS <= bucket)
            {
                buckets.pop_front();
            }
        }
        self.cascades.retain(|_, buckets| !buckets.is_empty());
    }

    /// The load in requests a second: of several cascades, that of the one with the most requests in the
    /// window. Before a whole window has passed, the arrivals so far are divided by the whole window, so that
    /// a single first request is no high load.
    fn rate(&mut self, rule: &ShiftRule, now: Timestamp) -> f64 {
        if self.given.is_some() || rule.by == ShiftBy::InFlight {
            return self.given.unwrap_or_default();
        }
        let bucket = bucket_time(rule);
        self.forget(now.micros() / bucket);
        let of = |buckets: &VecDeque<(u64, u64)>| buckets.iter().map(|(_, count)| count).sum::<u64>();
        let requests = self.cascades.values().map(of).max().unwrap_or_default();
        // The current bucket is incomplete: the measured time is that of the full buckets and its elapsed
        // part.
        let window = bucket * (BUCKETS - 1) + now.micros() % bucket;
        requests as f64 / Span::from_micros(window.max(1)).as_secs_f64()
    }

    fn may_shift_down(&self, rule: &ShiftRule, rate: f64, now: Timestamp) -> bool {
        match rule.down {
            ShiftDown::Waiting { factor } => factor * self.waiting as f64 <= rate,
            ShiftDown::Dwell(time) => now.since(self.shifted_at) >= time,
        }
    }
}

/// Adds requests to the bucket of the present time.
fn count(buckets: &mut VecDeque<(u64, u64)>, bucket: u64, requests: u32) {
    match buckets.back_mut() {
        Some((last, count)) if *last == bucket => *count += u64::from(requests),
        _ => buckets.push_back((bucket, u64::from(requests))),
    }
}

fn bucket_time(rule: &ShiftRule) -> u64 {
    (rule.window.micros() / BUCKETS).max(1)
}

/// Index of the gear for a load; `bounds` are the upper ends of the gears' ranges.
pub(super) fn gear_for(bounds: &[f64], rate: f64) -> usize {
    let within = bounds.partition_point(|bound| *bound < rate);
    within.min(bounds.len().saturating_sub(1))
}
