//! Capacity of this engine and rates of its streams, in frames per second.
//!
//! ```text
//! while all is in time:  capacity = offered / max over modules (input rate / throughput)
//! while frames miss:     capacity = frames that came out in time a second
//! ```
//!
//! Streams move when capacities change: a new capacity is published only after the measured one has been off
//! by a quarter for ten seconds.

use std::collections::BTreeMap;

use weir_policy::Counts;
use weir_types::{Span, Timestamp};

/// Weight of the last second in what is smoothed.
const RECENT: f64 = 0.3;
/// From this part on, frames that miss say that the engine is full.
const FULL: f64 = 0.02;
/// Below this the load says nothing of the capacity.
const MIN_LOAD: f64 = 0.05;
/// A measured capacity that is off by this part.
const CAPACITY_STEP: f64 = 0.25;
/// For how many readings it must be.
const STEP_READINGS: u32 = 10;
/// Of a stream that nothing is known of, in frames a second.
pub(super) const DEFAULT_WORK: f64 = 10.0;
/// Two samples closer than this give no rate.
const MIN_INTERVAL: Span = Span::from_millis(500);

/// The engine at one moment.
#[derive(Debug, Clone, Default)]
pub(super) struct Sample {
    pub(super) at: Timestamp,
    /// Streams by name.
    pub(super) streams: BTreeMap<String, Counts>,
    pub(super) modules: Vec<ModuleSample>,
}

/// A module at one moment.
#[derive(Debug, Clone, Copy)]
pub(super) struct ModuleSample {
    /// Items a second that arrive.
    pub(super) input_rate: f64,
    /// Items a second that it can do.
    pub(super) throughput: f64,
    /// True if the module takes whole frames of streams.
    pub(super) is_first: bool,
}

/// Smoothed measurements of the capacity, the rates of streams, and the frames in time and missed.
#[derive(Debug)]
pub(super) struct Meter {
    declared: Option<f64>,
    last: Option<Sample>,
    capacity: Option<f64>,
    off_for: u32,
    works: BTreeMap<String, f64>,
    in_time: f64,
    missed: f64,
}

impl Meter {
    /// With a capacity that is declared instead of measured, where there is one.
    pub(super) fn new(declared: Option<f64>) -> Self {
        Self {
            declared,
            last: None,
            capacity: None,
            off_for: 0,
            works: BTreeMap::new(),
            in_time: 0.0,
            missed: 0.0,
        }
    }

    /// Frames a second that the engine can serve in time; above zero.
    pub(super) fn capacity(&self) -> f64 {
        self.declared.or(self.capacity).unwrap_or(1.0)
    }

    /// Frames a second that a stream brings.
    pub(super) fn work(&self, stream: &str) -> f64 {
        self.works.get(stream).copied().unwrap_or(DEFAULT_WORK)
    }

    /// Frames a second that all streams bring, as a part of the capacity.
    pub(super) fn load(&self) -> f64 {
        self.works.values().sum::<f64>() / self.capacity()
    }

    /// Part of the frames that did not come out in time.
    pub(super) fn missed(&self) -> f64 {
        self.missed
    }

    /// Takes the engine as it is now, about every second.
    pub(super) fn on_sample(&mut self, sample: Sample) {
        let Some(last) = &self.last else {
            self.capacity = idle_capacity(&sample);
            self.last = Some(sample);
            return;
        };
        let lasted = sample.at.since(last.at);
        if lasted < MIN_INTERVAL {
            return;
        }
        let seconds = lasted.as_secs_f64();
        let (mut delivered, mut lost) = (0, 0);
        self.works.retain(|name, _| sample.streams.contains_key(name));
        for (name, now) in &sample.streams {
            // Counts of a stream that was added again begin again.
            let before = last
                .streams
                .get(name)
                .filter(|before| before.arrived <= now.arrived);
            let Some(before) = before else { continue };
            delivered += now.delivered.saturating_sub(before.delivered);
            lost += (now.late + now.dropped).saturating_sub(before.late + before.dropped);
            let rate = (now.arrived - before.arrived) as f64 / seconds;
            let work = self.works.entry(name.clone()).or_insert(rate);
            *work += RECENT * (rate - *work);
        }
        self.in_time += RECENT * (delivered as f64 / seconds - self.in_time);
        if delivered + lost > 0 {
            let missed = lost as f64 / (delivered + lost) as f64;
            self.missed += RECENT * (missed - self.missed);
        } else {
            self.missed *= 1.0 - RECENT;
        }
        if let Some(measured) = self.measured(&sample) {
            self.settle(measured);
        }
        self.last = Some(sample);
    }

    fn measured(&self, sample: &Sample) -> Option<f64> {
        let offered: f64 = self.works.values().sum();
        if self.missed > FULL && self.in_time > 0.0 {
            return Some(self.in_time);
        }
        let loads = sample
            .modules
            .iter()
            .filter(|module| module.throughput > 0.0)
            .map(|module| module.input_rate / module.throughput);
        let load = loads.fold(0.0, f64::max);
        if load > MIN_LOAD && offered > 0.0 {
            return Some(offered / load);
        }
        idle_capacity(sample)
    }

    /// Publishes another capacity where it is another one for long.
    fn settle(&mut self, measured: f64) {
        let Some(capacity) = self.capacity else {
            self.capacity = Some(measured);
            return;
        };
        let is_off = (measured - capacity).abs() > CAPACITY_STEP * capacity;
        self.off_for = if is_off { self.off_for + 1 } else { 0 };
        if self.off_for >= STEP_READINGS {
            self.capacity = Some(measured);
            self.off_for = 0;
        }
    }
}

/// Capacity while no frames arrive: the throughput of the slowest module that takes frames directly.
fn idle_capacity(sample: &Sample) -> Option<f64> {
    let first = sample.modules.iter().filter(|module| module.is_first);
    let least = first
        .map(|module| module.throughput)
        .fold(f64::INFINITY, f64::min);
    (least.is_finite() && least > 0.0).then_some(least)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(second: u64, delivered: u64, late: u64, module: (f64, f64)) -> Sample {
        let counts = Counts {
            arrived: delivered + late,
            delivered,
            late,
            ..Counts::default()
        };
        Sample {
            at: Timestamp::from_micros(second * 1_000_000),
            streams: [("a".to_owned(), counts)].into(),
            modules: vec![ModuleSample {
                input_rate: module.0,
                throughput: module.1,
                is_first: true,
            }],
        }
    }

    #[test]
    fn the_capacity_is_that_of_its_modules_while_all_is_in_time() {
        let mut meter = Meter::new(None);
        meter.on_sample(sample(0, 0, 0, (0.0, 80.0)));
        assert!((meter.capacity() - 80.0).abs() < 1e-9);
        for second in 1..30 {
            // Two items a frame: the modules take 40 frames a second.
            meter.on_sample(sample(second, 20 * second, 0, (40.0, 80.0)));
        }
        assert!((meter.capacity() - 40.0).abs() < 1.0, "{}", meter.capacity());
        assert!((meter.load() - 0.5).abs() < 0.05 && meter.missed() < 1e-9);
        assert!((meter.work("a") - 20.0).abs() < 0.1);
        assert!((meter.work("b") - DEFAULT_WORK).abs() < 1e-9);
    }

    #[test]
    fn the_capacity_is_what_comes_out_in_time_while_frames_miss() {
        let mut meter = Meter::new(None);
        for second in 0..40 {
            meter.on_sample(sample(second, 30 * second, 30 * second, (60.0, 80.0)));
        }
        assert!((meter.capacity() - 30.0).abs() < 1.0, "{}", meter.capacity());
        assert!((meter.missed() - 0.5).abs() < 0.01 && meter.load() > 1.9);
    }

    #[test]
    fn a_capacity_that_is_off_for_a_moment_stays() {
        let mut meter = Meter::new(None);
        for second in 0..20 {
            meter.on_sample(sample(second, 20 * second, 0, (20.0, 80.0)));
        }
        for second in 20..25 {
            meter.on_sample(sample(second, 20 * second, 0, (20.0, 20.0)));
        }
        assert!((meter.capacity() - 80.0).abs() < 1.0, "{}", meter.capacity());
        let mut declared = Meter::new(Some(7.0));
        declared.on_sample(sample(0, 0, 0, (0.0, 80.0)));
        assert!((declared.capacity() - 7.0).abs() < 1e-9);
    }

    #[test]
    fn a_stream_that_was_added_again_is_not_counted_backwards() {
        let mut meter = Meter::new(None);
        meter.on_sample(sample(0, 1_000, 0, (10.0, 80.0)));
        meter.on_sample(sample(1, 10, 0, (10.0, 80.0)));
        assert!(meter.load().abs() < 1e-9);
        meter.on_sample(sample(2, 20, 0, (10.0, 80.0)));
        assert!((meter.work("a") - 10.0).abs() < 1e-9);
    }
}
