//! Recorded metrics of the program, as scrapers get them.

use std::convert::Infallible;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use metrics_util::MetricKindMask;
use weir_types::Span;

use crate::cached::Cached;
use crate::exposition;
use crate::traces::SpanCounts;

/// Bounds of the buckets that durations are counted in, in seconds.
const BUCKETS: [f64; 14] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
];

/// Interval at which measured values are moved to their buckets; until then, each value takes memory.
const UPKEEP_INTERVAL: Duration = Duration::from_secs(5);

/// Time without a recorded value after which a series is dropped: streams come and go, and their names with
/// them. Series of existing streams and modules are recorded more often.
const SERIES_TIMEOUT: Duration = Duration::from_secs(600);

/// Upkeeps between two at which such series are dropped, whether anyone reads metrics or not.
const UPKEEPS_PER_PURGE: u32 = 12;

/// The recorder of metrics, and their latest text.
pub(super) struct RecordedMetrics {
    recorder: PrometheusHandle,
    /// Counts of exported and lost spans, if requests are traced.
    spans: OnceLock<Arc<SpanCounts>>,
    text: Cached<Arc<str>>,
}

impl RecordedMetrics {
    /// Records metrics from now on. Their text may be as old as `max_age`.
    ///
    /// # Errors
    /// If metrics are collected already, or the machine gives no thread.
    pub(super) fn start(max_age: Span) -> anyhow::Result<Self> {
        let recorder = PrometheusBuilder::new()
            .set_buckets(&BUCKETS)?
            .idle_timeout(MetricKindMask::ALL, Some(SERIES_TIMEOUT))
            .install_recorder()?;
        weir_runtime::describe_metrics();
        let upkeep = recorder.clone();
        // It ends with the program.
        std::thread::Builder::new()
            .name("weir-metrics".to_owned())
            .spawn(move || {
                for number in (0..UPKEEPS_PER_PURGE).cycle() {
                    std::thread::sleep(UPKEEP_INTERVAL);
                    upkeep.run_upkeep();
                    if number == 0 {
                        drop(upkeep.render());
                    }
                }
            })?;
        Ok(Self {
            recorder,
            spans: OnceLock::new(),
            text: Cached::new(max_age),
        })
    }

    /// Adds the counts of exported and lost spans.
    pub(super) fn count_spans(&self, counts: Arc<SpanCounts>) {
        // There is one run.
        let _ = self.spans.set(counts);
    }

    /// Text of the counts of spans, if requests are traced.
    pub(super) fn spans_text(&self) -> Option<String> {
        self.spans.get().map(|spans| exposition::spans_text(spans))
    }

    /// Text of the recorded metrics, followed by that of `others`.
    pub(super) fn text(&self, others: impl FnOnce() -> String) -> String {
        let render = || {
            self.recorder.run_upkeep();
            let others = others();
            let text = self.recorder.render() + &others;
            Ok::<Arc<str>, Infallible>(text.into())
        };
        let Ok(text) = self.text.get(render);
        text.to_string()
    }
}
