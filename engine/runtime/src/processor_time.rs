//! Processor time of the threads of a run, by what they do.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::time::ClockId;
use weir_policy::ProcessorReport;
use weir_types::Span;

use crate::clock::processor_time;

/// Kind of work of a thread, by which processor time is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ThreadKind {
    /// Reads and decodes a source.
    Decoding,
    /// Runs batches, or prepares them.
    Workers,
    /// Takes in what ended, follows tracks, and gives results to sinks.
    Delivery,
    /// Writes a sink.
    Sinks,
    /// Writes a sink that encodes video.
    Encoding,
}

/// Processor time of the threads of a run so far, in microseconds: also of those that have ended, and of no more memory
/// for that.
#[derive(Debug)]
pub(crate) struct ProcessorTimes {
    decoding: AtomicU64,
    workers: AtomicU64,
    delivery: AtomicU64,
    sinks: AtomicU64,
    encoding: AtomicU64,
    /// Of the process, and of the thread that carries control, when the run began.
    process_before: Span,
    control_before: Span,
}

impl ProcessorTimes {
    /// Of a run that begins now, on the calling thread, which carries control.
    pub(crate) fn start() -> Arc<Self> {
        Arc::new(Self {
            decoding: AtomicU64::new(0),
            workers: AtomicU64::new(0),
            delivery: AtomicU64::new(0),
            sinks: AtomicU64::new(0),
            encoding: AtomicU64::new(0),
            process_before: processor_time(ClockId::ProcessCPUTime),
            control_before: processor_time(ClockId::ThreadCPUTime),
        })
    }

    fn sum(&self, kind: ThreadKind) -> &AtomicU64 {
        match kind {
            ThreadKind::Decoding => &self.decoding,
            ThreadKind::Workers => &self.workers,
            ThreadKind::Delivery => &self.delivery,
            ThreadKind::Sinks => &self.sinks,
            ThreadKind::Encoding => &self.encoding,
        }
    }

    /// Counts the calling thread from now on, until the timer is dropped.
    pub(crate) fn timer(self: &Arc<Self>, kind: ThreadKind) -> ThreadTimer {
        ThreadTimer {
            times: Arc::clone(self),
            kind,
            counted: processor_time(ClockId::ThreadCPUTime),
        }
    }

    /// Processor times in seconds since the start. Only the control thread may call this, since it reads its
    /// own clock.
    pub(crate) fn report(&self) -> ProcessorReport {
        let seconds = |kind| Span::from_micros(self.sum(kind).load(Ordering::Relaxed)).as_secs_f64();
        let since = |clock, before: Span| processor_time(clock).saturating_sub(before).as_secs_f64();
        let mut report = ProcessorReport {
            decoding_s: seconds(ThreadKind::Decoding),
            workers_s: seconds(ThreadKind::Workers),
            control_s: since(ClockId::ThreadCPUTime, self.control_before),
            delivery_s: seconds(ThreadKind::Delivery),
            sinks_s: seconds(ThreadKind::Sinks),
            encoding_s: seconds(ThreadKind::Encoding),
            other_s: 0.0,
        };
        let all = since(ClockId::ProcessCPUTime, self.process_before);
        report.other_s = (all - report.total_s()).max(0.0);
        report
    }
}

/// Counts the thread that it was made on.
#[derive(Debug)]
pub(crate) struct ThreadTimer {
    times: Arc<ProcessorTimes>,
    kind: ThreadKind,
    /// Processor time of the thread that is counted already.
    counted: Span,
}

impl ThreadTimer {
    /// Counts what the thread took since the last time.
    pub(crate) fn update(&mut self) {
        let now = processor_time(ClockId::ThreadCPUTime);
        let took = now.saturating_sub(self.counted);
        self.times
            .sum(self.kind)
            .fetch_add(took.micros(), Ordering::Relaxed);
        self.counted = now;
    }
}

impl Drop for ThreadTimer {
    fn drop(&mut self) {
        self.update();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compute() {
        let before = processor_time(ClockId::ThreadCPUTime);
        while processor_time(ClockId::ThreadCPUTime).saturating_sub(before) < Span::from_millis(20) {}
    }

    #[test]
    fn threads_that_have_ended_are_counted_by_kind_and_all_others_together() {
        let times = ProcessorTimes::start();
        for kind in [ThreadKind::Decoding, ThreadKind::Decoding, ThreadKind::Encoding] {
            let times = Arc::clone(&times);
            let thread = std::thread::spawn(move || {
                let _timer = times.timer(kind);
                compute();
            });
            thread.join().unwrap();
        }
        std::thread::spawn(compute).join().unwrap();
        compute();
        let report = times.report();
        assert!(report.decoding_s >= 0.04, "{report:?}");
        assert!(report.encoding_s >= 0.02, "{report:?}");
        assert!(report.control_s >= 0.02, "{report:?}");
        assert!(report.other_s >= 0.02, "{report:?}");
        assert_eq!((report.workers_s, report.sinks_s), (0.0, 0.0));
    }

    #[test]
    fn a_thread_that_goes_on_is_counted_when_it_says_so() {
        let times = ProcessorTimes::start();
        let mut timer = times.timer(ThreadKind::Workers);
        compute();
        assert_eq!(times.report().workers_s, 0.0);
        timer.update();
        let before = times.report().workers_s;
        assert!(before >= 0.02);
        compute();
        timer.update();
        assert!(times.report().workers_s >= before + 0.02);
    }
}
