//! Metrics: every name in one place.

use weir_policy::{BatchSlice, ModuleState};
use weir_types::invariant::Kind;
use weir_types::{Span, StreamState};

use crate::batch::StepTimes;

/// Time between two ticks of the machines of a graph.
pub(crate) const TICK_INTERVAL: Span = Span::from_millis(200);

/// Interval at which all metrics of streams and modules are recorded again, since an exporter may expire
/// metrics that do not change.
pub(crate) const KEEP_INTERVAL: Span = Span::from_secs(60);

/// Target of log lines that warn of implausible outputs of a model: programs show them by default.
pub(crate) const OUTPUTS_TARGET: &str = "weir::outputs";

const BATCH_SECONDS: &str = "weir_batch_seconds";
const STEP_SECONDS: &str = "weir_batch_step_seconds";
/// Of requests whose batch starts: from entering the mailbox to joining the batch, and from then to its start.
const WAIT_SECONDS: &str = "weir_module_wait_seconds";
const QUEUE_SECONDS: &str = "weir_module_queue_seconds";
const INPUT_ITEMS: &str = "weir_module_input_items_per_second";
const THROUGHPUT_ITEMS: &str = "weir_module_throughput_items_per_second";
const REQUESTS: &str = "weir_requests_total";
const LATENCY_SECONDS: &str = "weir_request_seconds";
const BATCHES_LOST: &str = "weir_batches_lost_total";
const BATCHES_OVERDUE: &str = "weir_batches_overdue_total";
/// 1 for the state that a stream is in, 0 for all others.
const STREAM_STATE: &str = "weir_stream_state";
const STREAM_STATE_CHANGES: &str = "weir_stream_state_changes_total";
const FRAME_BYTES: &str = "weir_frame_bytes";
const GEAR: &str = "weir_gear";
const INVARIANT_VIOLATIONS: &str = "weir_invariant_violations_total";

/// Says to the recorder of metrics what each is; it has to be installed before.
pub fn describe_metrics() {
    metrics::describe_histogram!(BATCH_SECONDS, "Batches of a module on their slots.");
    metrics::describe_histogram!(
        STEP_SECONDS,
        "Steps of batches of a module: prepare, infer, decode."
    );
    metrics::describe_histogram!(
        WAIT_SECONDS,
        "Waits of requests of a module: queue, until they join a batch; batch, from then to its start."
    );
    metrics::describe_histogram!(LATENCY_SECONDS, "Latencies from arrival to delivery.");
    metrics::describe_gauge!(
        QUEUE_SECONDS,
        "Recent queueing delay of a module, as policies see it."
    );
    metrics::describe_gauge!(INPUT_ITEMS, "Items per second that arrive at a module.");
    metrics::describe_gauge!(THROUGHPUT_ITEMS, "Capacity of a module in items per second.");
    metrics::describe_counter!(REQUESTS, "Frames by outcome.");
    metrics::describe_counter!(BATCHES_LOST, "Batches of a module that failed.");
    metrics::describe_counter!(
        BATCHES_OVERDUE,
        "Batches of a module that ran for many times their expected time."
    );
    metrics::describe_gauge!(STREAM_STATE, "1 for the current state of a stream, else 0.");
    metrics::describe_counter!(
        STREAM_STATE_CHANGES,
        "Number of times that a stream entered a state."
    );
    metrics::describe_gauge!(FRAME_BYTES, "Bytes of decoded frames in flight.");
    metrics::describe_gauge!(
        GEAR,
        "Index of the active gear; 0 is the gear for the lowest load."
    );
    metrics::describe_counter!(
        INVARIANT_VIOLATIONS,
        "Broken invariants; any is a defect of the engine."
    );
}

pub(crate) fn record_batch(module: &str, took: Span, steps: &StepTimes) {
    metrics::histogram!(BATCH_SECONDS, "module" => module.to_owned()).record(took.as_secs_f64());
    let steps = [
        ("prepare", steps.prepared),
        ("infer", steps.inferred),
        ("decode", steps.decoded),
    ];
    for (step, span) in steps {
        metrics::histogram!(STEP_SECONDS, "module" => module.to_owned(), "step" => step)
            .record(span.as_secs_f64());
    }
}

/// A batch of these slices starts.
pub(crate) fn record_waits(module: &str, slices: &[BatchSlice]) {
    // A request is in the batch where its first item ran.
    for slice in slices.iter().filter(|slice| slice.first == 0) {
        for (part, span) in [("queue", slice.queued), ("batch", slice.waited)] {
            metrics::histogram!(WAIT_SECONDS, "module" => module.to_owned(), "part" => part)
                .record(span.as_secs_f64());
        }
    }
}

pub(crate) fn record_module_state(module: &str, state: &ModuleState) {
    metrics::gauge!(QUEUE_SECONDS, "module" => module.to_owned()).set(state.queueing_delay.as_secs_f64());
    metrics::gauge!(INPUT_ITEMS, "module" => module.to_owned()).set(state.input_rate);
    metrics::gauge!(THROUGHPUT_ITEMS, "module" => module.to_owned()).set(state.throughput);
}

pub(crate) fn record_latency(stream: &str, latency: Span) {
    metrics::histogram!(LATENCY_SECONDS, "stream" => stream.to_owned()).record(latency.as_secs_f64());
}

/// So many requests, or frames that none is made of, ended.
pub(crate) fn record_outcomes(stream: &str, outcome: &'static str, count: u64) {
    metrics::counter!(REQUESTS, "stream" => stream.to_owned(), "outcome" => outcome).increment(count);
}

pub(crate) fn record_batches_lost(module: &str, count: u64) {
    metrics::counter!(BATCHES_LOST, "module" => module.to_owned()).increment(count);
}

pub(crate) fn record_batch_overdue(module: &str) {
    metrics::counter!(BATCHES_OVERDUE, "module" => module.to_owned()).increment(1);
}

pub(crate) fn record_frame_bytes(stream: &str, bytes: u64) {
    metrics::gauge!(FRAME_BYTES, "stream" => stream.to_owned()).set(bytes as f64);
}

pub(crate) fn record_stream_state(stream: &str, state: &StreamState) {
    keep_stream_state(stream, state);
    metrics::counter!(STREAM_STATE_CHANGES, "stream" => stream.to_owned(), "state" => state.name())
        .increment(1);
}

/// A stream is in the state that was recorded.
pub(crate) fn keep_stream_state(stream: &str, state: &StreamState) {
    for name in StreamState::NAMES {
        let value = f64::from(u8::from(name == state.name()));
        metrics::gauge!(STREAM_STATE, "stream" => stream.to_owned(), "state" => name).set(value);
        metrics::counter!(STREAM_STATE_CHANGES, "stream" => stream.to_owned(), "state" => name).increment(0);
    }
}

/// A removed stream is in no state, and holds no frames.
pub(crate) fn record_stream_removed(stream: &str) {
    for name in StreamState::NAMES {
        metrics::gauge!(STREAM_STATE, "stream" => stream.to_owned(), "state" => name).set(0.0);
    }
    record_frame_bytes(stream, 0);
}

/// Index of the active gear; 0 is the gear for the lowest load.
pub(crate) fn record_gear(gear: usize) {
    metrics::gauge!(GEAR).set(gear as f64);
}

pub(crate) fn record_violations(kind: Kind, count: u64) {
    metrics::counter!(INVARIANT_VIOLATIONS, "kind" => kind.name()).increment(count);
}
