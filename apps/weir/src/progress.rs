//! The progress of a run: one line on a terminal, silent in a pipe.

use std::io::IsTerminal;
use std::sync::Arc;
use std::time::Duration;

use indicatif::ProgressBar;
use weir_flow::StopFlag;
use weir_runtime::{Clock, Progress, ProgressSnapshot};
use weir_types::{Span, Timestamp};

use crate::{output, printable};

/// Interval at which the line of a run is redrawn.
const REDRAW_INTERVAL: Duration = Duration::from_millis(120);
/// Period over which the rate is averaged.
const RATE_WINDOW: Span = Span::from_secs(3);
/// Shortest run before the remaining time is estimated.
const MIN_ELAPSED: Span = Span::from_secs(2);

/// The line of a run on a terminal; nothing in a pipe. It goes when it is dropped.
pub(crate) struct RunLine {
    drawn: Option<(ProgressBar, StopFlag, std::thread::JoinHandle<()>)>,
}

impl RunLine {
    /// Begins to show a run that ends after `duration`, where it has one.
    ///
    /// # Errors
    /// Where the machine gives no thread.
    pub(crate) fn start(
        progress: Arc<Progress>,
        duration: Option<Span>,
        lines_on_output: bool,
    ) -> anyhow::Result<Self> {
        // Event lines on the same terminal are what the user wants to see there.
        let taken = lines_on_output && std::io::stdout().is_terminal();
        if !std::io::stderr().is_terminal() || taken {
            return Ok(Self { drawn: None });
        }
        let bar = weir_terminal::progress::line();
        bar.enable_steady_tick(REDRAW_INTERVAL);
        output::set_bar(Some(bar.clone()));
        let (shown, stop) = (bar.clone(), StopFlag::default());
        let stopped = stop.clone();
        let thread = std::thread::Builder::new().name("weir-progress".to_owned());
        let thread = thread.spawn(move || {
            let clock = Clock::start();
            let mut pace = RateEstimator::new(duration);
            while !stopped.is_raised() {
                let now = progress.snapshot();
                shown.set_message(line(&now, &pace.update(&now, clock.now())));
                std::thread::sleep(REDRAW_INTERVAL);
            }
        })?;
        Ok(Self {
            drawn: Some((bar, stop, thread)),
        })
    }
}

impl Drop for RunLine {
    fn drop(&mut self) {
        if let Some((bar, stop, thread)) = self.drawn.take() {
            stop.raise();
            // A line that cannot be shown is no reason to fail.
            let _ = thread.join();
            output::set_bar(None);
            bar.finish_and_clear();
        }
    }
}

/// Estimates the rate and the remaining time of a run.
struct RateEstimator {
    duration: Option<Span>,
    began: Option<Timestamp>,
    /// Delivered frames by time, over the last [`RATE_WINDOW`].
    seen: std::collections::VecDeque<(Timestamp, u64)>,
}

/// Rate and remaining time, from several readings.
#[derive(Debug, Default, PartialEq)]
struct Estimate {
    delivered_per_s: f64,
    left: Option<Span>,
}

impl RateEstimator {
    fn new(duration: Option<Span>) -> Self {
        Self {
            duration,
            began: None,
            seen: std::collections::VecDeque::new(),
        }
    }

    fn update(&mut self, reading: &ProgressSnapshot, now: Timestamp) -> Estimate {
        if reading.streams == 0 {
            return Estimate::default();
        }
        let elapsed = now.since(*self.began.get_or_insert(now));
        self.seen.push_back((now, reading.delivered));
        while self
            .seen
            .get(1)
            .is_some_and(|(at, _)| now.since(*at) >= RATE_WINDOW)
        {
            self.seen.pop_front();
        }
        let (first, delivered) = self.seen.front().copied().unwrap_or((now, reading.delivered));
        let window = now.since(first).as_secs_f64();
        let rate = (reading.delivered - delivered) as f64 / window;
        // What is paced by its media and what goes as fast as it can both need as long for the rest as they did so far
        // for their share.
        let share = reading.done.filter(|done| *done > 0.0 && elapsed >= MIN_ELAPSED);
        let of_streams = share.map(|done| elapsed.scale((1.0 - done) / done));
        let of_duration = self.duration.map(|duration| duration.saturating_sub(elapsed));
        Estimate {
            delivered_per_s: if window > 0.0 { rate } else { 0.0 },
            left: of_streams.into_iter().chain(of_duration).min(),
        }
    }
}

fn line(now: &ProgressSnapshot, estimate: &Estimate) -> String {
    if let Some(step) = &now.preparing {
        let name = printable::line(&step.name);
        return format!("{} {}/{}: {name}", step.step, step.number, step.total);
    }
    if now.streams == 0 {
        return "preparing".to_owned();
    }
    let lost = (now.late + now.dropped) as f64 / now.arrived.max(1) as f64;
    let left = estimate.left.map_or_else(String::new, |left| {
        let seconds = left.as_secs_f64().ceil() as u64;
        format!("{}:{:02} left, ", seconds / 60, seconds % 60)
    });
    // Short, so that a terminal of 80 columns shows it whole.
    format!(
        "{left}streams {}/{}, {} frames, {:.1}/s delivered, drop rate {:.1} %",
        now.running,
        now.streams,
        now.arrived,
        estimate.delivered_per_s,
        lost * 100.0
    )
}

#[cfg(test)]
mod tests {
    use weir_runtime::Preparation;

    use super::*;

    #[test]
    fn the_line_says_streams_rate_what_is_dropped_and_the_time_left() {
        let mut pacing = RateEstimator::new(None);
        let at = |seconds: u64| Timestamp::ZERO + Span::from_secs(seconds);
        let reading = |delivered: u64, done: Option<f64>| ProgressSnapshot {
            arrived: delivered + 10,
            delivered,
            late: 4,
            dropped: 6,
            streams: 3,
            running: 2,
            done,
            ..ProgressSnapshot::default()
        };
        pacing.update(&reading(0, Some(0.0)), at(0));
        let estimate = pacing.update(&reading(90, Some(0.25)), at(30));
        assert_eq!(
            line(&reading(90, Some(0.25)), &estimate),
            "1:30 left, streams 2/3, 100 frames, 3.0/s delivered, drop rate 10.0 %"
        );
        // A camera has no end, a run by the clock has.
        assert_eq!(pacing.update(&reading(90, None), at(31)).left, None);
        let mut timed = RateEstimator::new(Some(Span::from_secs(60)));
        timed.update(&reading(0, None), at(0));
        assert_eq!(
            timed.update(&reading(0, None), at(50)).left,
            Some(Span::from_secs(10))
        );
    }

    #[test]
    fn what_is_prepared_is_said() {
        let preparing = Some(Preparation {
            step: "opening models",
            number: 2,
            total: 5,
            name: "det\u{1b}[31mector".to_owned(),
        });
        let now = ProgressSnapshot {
            preparing,
            ..ProgressSnapshot::default()
        };
        assert_eq!(
            line(&now, &Estimate::default()),
            "opening models 2/5: det\\u{1b}[31mector"
        );
    }
}
