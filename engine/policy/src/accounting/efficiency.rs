//! Efficiency of a live run: the goodput that an ideal split of the processor between decoding and models would have had, beside its
//! own, and the time in which the processor was idle while frames were dropped.
//!
//! ```text
//! bound = min(frames to look at a second, free cores / (picture + models + results))
//! ```
//!
//! `picture`, `models` and `results` are processor seconds that one delivered frame cost in this run: to decode it, in the threads that
//! run models, and in those that follow tracks and write sinks. Time of models that went into frames which were not delivered does not
//! count. `free cores` are those of the machine without the ones that control and libraries took. Models on other devices are in the bound
//! by the time that their threads need on the processor only.

use serde::{Deserialize, Serialize};
use weir_types::Span;

use super::ledger::Counts;
use super::processor::ProcessorReport;

/// See the module.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct EfficiencyReport {
    /// Frames in time a second that an ideal split of the processor could have had.
    pub bound_rps: f64,
    /// Goodput over that, 0 to 1.
    pub of_bound: f64,
    /// Seconds in which frames were dropped or late.
    pub dropping_s: f64,
    /// Share of the processor, 0 to 1, that no thread of the engine used in those seconds; other programs may have.
    pub idle: f64,
}

/// The counts that a bound is made from.
#[derive(Debug, Clone, Copy, Default)]
pub struct RunCosts {
    /// Duration of the run in seconds.
    pub seconds: f64,
    /// Cores of the machine.
    pub cores: u32,
    /// Frames by outcome.
    pub requests: Counts,
    /// Pictures that were decoded.
    pub pictures: u64,
    /// Processor time by kind of thread.
    pub processor: ProcessorReport,
    /// Share of the models' time, 0 to 1, that went into frames which were not delivered.
    pub invalid_rate: f64,
}

impl RunCosts {
    /// Frames in time a second that an ideal split could have had; `None` where too little ran to tell.
    #[must_use]
    pub fn bound_rps(&self) -> Option<f64> {
        let delivered = self.requests.delivered as f64;
        if self.seconds <= 0.0 || delivered == 0.0 || self.pictures == 0 {
            return None;
        }
        let offered = self.requests.arrived.saturating_sub(self.requests.still) as f64 / self.seconds;
        let processor = &self.processor;
        let free = f64::from(self.cores) - (processor.control_s + processor.other_s) / self.seconds;
        let picture = processor.decoding_s / self.pictures as f64;
        let models = processor.workers_s * (1.0 - self.invalid_rate) / delivered;
        let results = (processor.delivery_s + processor.sinks_s + processor.encoding_s) / delivered;
        let cost = picture + models + results;
        Some(if cost > 0.0 {
            offered.min(free.max(0.0) / cost)
        } else {
            offered
        })
    }
}

/// Watches the processor while frames are dropped.
#[derive(Debug, Clone, Copy, Default)]
pub struct IdleWatch {
    last: Option<(Span, Span, u64)>,
    dropping: Span,
    used: Span,
}

impl IdleWatch {
    /// At `at`, threads had used so much processor time, and so many frames had been dropped or late.
    pub fn observe(&mut self, at: Span, used: Span, lost: u64) {
        if let Some((before, used_before, lost_before)) = self.last.replace((at, used, lost))
            && lost > lost_before
        {
            self.dropping += at.saturating_sub(before);
            self.used += used.saturating_sub(used_before);
        }
    }

    /// Seconds in which frames were dropped or late, and the share of `cores` that was idle then.
    #[must_use]
    pub fn idle(&self, cores: u32) -> (f64, f64) {
        let dropping = self.dropping.as_secs_f64();
        let all = dropping * f64::from(cores.max(1));
        let idle = if all > 0.0 {
            (1.0 - self.used.as_secs_f64() / all).clamp(0.0, 1.0)
        } else {
            0.0
        };
        (dropping, idle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_is_what_a_delivered_frame_costs_or_what_arrives() {
        // Twice as many pictures are decoded as are delivered, and a fifth of the models' time is lost.
        let costs = RunCosts {
            seconds: 10.0,
            cores: 2,
            requests: Counts {
                arrived: 3_000,
                delivered: 1_000,
                dropped: 2_000,
                ..Counts::default()
            },
            pictures: 2_000,
            processor: ProcessorReport {
                decoding_s: 4.0,
                workers_s: 12.5,
                control_s: 1.0,
                ..ProcessorReport::default()
            },
            invalid_rate: 0.2,
        };
        // 1.9 cores, 2 ms of decoding and 10 ms of models.
        let bound = costs.bound_rps().unwrap();
        assert!((bound - 1.9 / 0.012).abs() < 1e-6, "{bound}");
        let few = RunCosts {
            requests: Counts {
                arrived: 1_200,
                delivered: 1_000,
                still: 200,
                ..Counts::default()
            },
            ..costs
        };
        assert_eq!(few.bound_rps(), Some(100.0));
        let nothing = RunCosts {
            requests: Counts::default(),
            ..costs
        };
        assert_eq!(nothing.bound_rps(), None);
    }

    #[test]
    fn idle_is_counted_only_while_frames_are_dropped() {
        let mut watch = IdleWatch::default();
        let steps = [(0, 0, 0), (1_000, 500, 0), (2_000, 2_000, 7), (3_000, 3_500, 9)];
        for (at, used, lost) in steps {
            watch.observe(Span::from_millis(at), Span::from_millis(used), lost);
        }
        assert_eq!(watch.idle(2), (2.0, 0.25));
        assert_eq!(IdleWatch::default().idle(2), (0.0, 0.0));
    }
}
