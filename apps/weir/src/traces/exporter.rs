//! The thread that sends traces: OTLP over HTTP, as protobuf. What a collector does not take is counted and never tried again, so
//! that one that is slow or gone costs the engine nothing.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ureq::Agent;
use weir_flow::mask_credentials;
use weir_runtime::{RequestTrace, TraceExporter};

use super::SpanCounts;
use super::spans::{Identity, encode, span_count};
use crate::error::UserError;
use crate::lock::lock;

/// Traces that may wait.
const MAX_WAITING: usize = 1_024;

/// Traces of one export.
const MAX_BATCH: usize = 256;

/// Longest time for which traces are collected into one export.
const INTERVAL: Duration = Duration::from_secs(1);

/// Timeout of an export.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Path of a collector's endpoint for traces, below its address.
const PATH: &str = "/v1/traces";

pub(super) struct Exporter {
    traces: Mutex<Option<SyncSender<RequestTrace>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    counts: Arc<SpanCounts>,
    /// Set when the exporter shuts down, so that no more traces follow.
    is_closing: Arc<AtomicBool>,
}

impl Exporter {
    /// Starts the thread.
    ///
    /// # Errors
    /// The address is none of a collector, or the machine gives no thread.
    pub(super) fn start(endpoint: &str, counts: Arc<SpanCounts>) -> anyhow::Result<Self> {
        let url = traces_url(endpoint)?;
        let is_closing = Arc::<AtomicBool>::default();
        let (traces, waiting) = sync_channel(MAX_WAITING);
        let agent = Agent::config_builder()
            .timeout_global(Some(TIMEOUT))
            .max_redirects(0)
            .max_redirects_will_error(false)
            .http_status_as_error(false)
            .user_agent(concat!("weir/", env!("CARGO_PKG_VERSION")))
            .build();
        let mut sender = Sender {
            agent: agent.into(),
            url,
            identity: Identity::new(),
            counts: Arc::clone(&counts),
            is_closing: Arc::clone(&is_closing),
            is_down: false,
        };
        let thread = std::thread::Builder::new().name("weir-traces".to_owned());
        let thread = thread.spawn(move || sender.run(&waiting))?;
        Ok(Self {
            traces: Mutex::new(Some(traces)),
            thread: Mutex::new(Some(thread)),
            counts,
            is_closing,
        })
    }

    /// Exports what waits; from an export that fails on, the rest is counted as lost. Nothing is taken afterwards.
    pub(super) fn finish(&self) {
        self.is_closing.store(true, Ordering::Relaxed);
        drop(lock(&self.traces).take());
        if let Some(thread) = lock(&self.thread).take() {
            // A thread that panicked has exported nothing more: what it did is counted.
            let _ = thread.join();
        }
    }
}

impl TraceExporter for Exporter {
    fn export(&self, trace: RequestTrace) {
        let spans = span_count(&trace);
        let taken = lock(&self.traces)
            .as_ref()
            .is_some_and(|traces| traces.try_send(trace).is_ok());
        if !taken {
            self.counts.lost.fetch_add(spans, Ordering::Relaxed);
        }
    }
}

struct Sender {
    agent: Agent,
    url: String,
    identity: Identity,
    counts: Arc<SpanCounts>,
    is_closing: Arc<AtomicBool>,
    /// True if the last export failed.
    is_down: bool,
}

impl Sender {
    fn run(&mut self, waiting: &Receiver<RequestTrace>) {
        while let Ok(first) = waiting.recv() {
            let batch = collect(first, waiting);
            let spans: u64 = batch.iter().map(span_count).sum();
            // At the end a collector that is gone is not asked for each batch that waits.
            if self.is_down && self.is_closing.load(Ordering::Relaxed) {
                self.counts.lost.fetch_add(spans, Ordering::Relaxed);
                continue;
            }
            let sent = self.send(&encode(&batch, &self.identity));
            let count = if sent.is_ok() {
                &self.counts.exported
            } else {
                &self.counts.lost
            };
            count.fetch_add(spans, Ordering::Relaxed);
            match sent {
                Ok(()) if std::mem::take(&mut self.is_down) => {
                    tracing::warn!("the collector accepts traces again");
                }
                Err(reason) if !std::mem::replace(&mut self.is_down, true) => {
                    let shown = mask_credentials(&self.url);
                    let reason = reason.replace(&self.url, &shown);
                    tracing::error!(
                        "{shown} does not accept traces: {reason}; their spans are counted as lost"
                    );
                }
                _ => {}
            }
        }
    }

    fn send(&self, body: &[u8]) -> Result<(), String> {
        let request = self
            .agent
            .post(&self.url)
            .header("Content-Type", "application/x-protobuf");
        let answer = request.send(body).map_err(|error| error.to_string())?;
        match answer.status().as_u16() {
            200..=299 => Ok(()),
            status => Err(format!("it answers {status}")),
        }
    }
}

/// Collects traces into a batch, until the interval ends or the batch is full.
#[expect(
    clippy::disallowed_methods,
    reason = "what is beyond the engine has no time but the clock's"
)]
fn collect(first: RequestTrace, waiting: &Receiver<RequestTrace>) -> Vec<RequestTrace> {
    let until = Instant::now() + INTERVAL;
    let mut batch = vec![first];
    while batch.len() < MAX_BATCH {
        match waiting.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(trace) => batch.push(trace),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
        }
    }
    batch
}

/// URL for traces at a collector; an address with a path of its own stays as it is.
///
/// # Errors
/// The address is not an HTTP address.
fn traces_url(endpoint: &str) -> Result<String, UserError> {
    let parsed = endpoint.parse::<ureq::http::Uri>().ok();
    let parsed =
        parsed.filter(|uri| matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some());
    match parsed {
        Some(uri) if matches!(uri.path(), "" | "/") => Ok(endpoint.trim_end_matches('/').to_owned() + PATH),
        Some(_) => Ok(endpoint.to_owned()),
        None => Err(UserError::new(
            "settings: trace_endpoint is no address of a collector: write one as \"http://127.0.0.1:4318\"",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traces_go_below_the_address_of_the_collector() {
        let check = |endpoint: &str, expected: Option<&str>| {
            assert_eq!(traces_url(endpoint).ok().as_deref(), expected, "{endpoint}");
        };
        check("http://a:4318", Some("http://a:4318/v1/traces"));
        check("http://a:4318/", Some("http://a:4318/v1/traces"));
        check("https://a/otlp/v1/traces", Some("https://a/otlp/v1/traces"));
        check("a:4318", None);
        check("grpc://a:4317", None);
    }
}
