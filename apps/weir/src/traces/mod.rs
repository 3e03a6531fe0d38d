//! Traces of sampled requests for a collector of OpenTelemetry, where settings name one (docs/explain/traces.md).

#[cfg(feature = "otlp")]
mod exporter;
#[cfg(feature = "otlp")]
mod spans;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use weir_runtime::TraceOptions;

use crate::output;
use crate::settings::Settings;

/// Spans by what became of them.
#[derive(Debug, Default)]
pub(crate) struct SpanCounts {
    exported: AtomicU64,
    lost: AtomicU64,
}

impl SpanCounts {
    /// Those that the collector took.
    pub(crate) fn exported(&self) -> u64 {
        self.exported.load(Ordering::Relaxed)
    }

    /// Those that it did not take, or for which there was no room.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

/// Traces of a run.
pub(crate) struct Traces {
    /// Options that select the requests to trace.
    pub(crate) options: TraceOptions,
    /// Counts of their spans, exported and lost.
    pub(crate) counts: Arc<SpanCounts>,
    #[cfg(feature = "otlp")]
    exporter: Arc<exporter::Exporter>,
}

/// Starts to export where `settings` name a collector.
///
/// # Errors
/// This build cannot, or the address is none.
#[cfg(not(feature = "otlp"))]
pub(crate) fn start(settings: &Settings) -> anyhow::Result<Option<Traces>> {
    if settings.trace_endpoint.is_none() {
        return Ok(None);
    }
    let message =
        "settings: trace_endpoint is set, and this build has no traces: build weir with `--features otlp`";
    Err(crate::error::UserError::new(message).into())
}

/// Starts to export where `settings` name a collector.
///
/// # Errors
/// The address is none, or the machine gives no thread.
#[cfg(feature = "otlp")]
pub(crate) fn start(settings: &Settings) -> anyhow::Result<Option<Traces>> {
    let Some(endpoint) = &settings.trace_endpoint else {
        return Ok(None);
    };
    let counts = Arc::<SpanCounts>::default();
    let exporter = Arc::new(exporter::Exporter::start(endpoint, Arc::clone(&counts))?);
    Ok(Some(Traces {
        options: TraceOptions {
            rate: settings.trace_rate.0,
            exporter: Arc::clone(&exporter) as _,
        },
        counts,
        exporter,
    }))
}

impl Traces {
    /// Exports what waits within some seconds, and says what was lost.
    pub(crate) fn finish(self) {
        #[cfg(feature = "otlp")]
        self.exporter.finish();
        let (exported, lost) = (self.counts.exported(), self.counts.lost());
        if lost > 0 {
            let all = exported + lost;
            output::remark(&format!("{lost} of {all} spans of traces were not exported"));
        }
    }
}
