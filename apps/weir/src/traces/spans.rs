//! Traces as OpenTelemetry's protobuf has them: a span for the request, and below it one for each phase in each module.

use std::hash::{BuildHasher, Hasher, RandomState};

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, Status};
use prost::Message;
use weir_runtime::{Phase, PhaseKind, RequestTrace};
use weir_types::Span as TimeSpan;

/// Random identity of a run, so that trace ids of different runs do not collide.
pub(super) struct Identity {
    run: u64,
    /// Random hash that makes ids of spans from the request and the phase.
    hasher: RandomState,
}

impl Identity {
    /// One that no other run has.
    pub(super) fn new() -> Self {
        let hasher = RandomState::new();
        Self {
            run: hasher.hash_one("run"),
            hasher,
        }
    }

    fn trace_id(&self, request: u64) -> Vec<u8> {
        [self.run.to_be_bytes(), request.to_be_bytes()].concat()
    }

    /// Of the request itself, or of a phase by its place; never of zeros alone.
    fn span_id(&self, request: u64, phase: Option<usize>) -> Vec<u8> {
        let mut hasher = self.hasher.build_hasher();
        hasher.write_u64(request);
        hasher.write_usize(phase.map_or(0, |phase| phase + 1));
        (hasher.finish() | 1).to_be_bytes().to_vec()
    }
}

/// Spans of a trace.
pub(super) fn span_count(trace: &RequestTrace) -> u64 {
    trace.phases.len() as u64 + 1
}

/// The body of an export.
pub(super) fn encode(traces: &[RequestTrace], identity: &Identity) -> Vec<u8> {
    let spans = traces.iter().flat_map(|trace| spans(trace, identity)).collect();
    let resource = Resource {
        attributes: vec![
            text("service.name", "weir"),
            text("service.version", env!("CARGO_PKG_VERSION")),
            text("service.instance.id", &format!("{:016x}", identity.run)),
        ],
        ..Resource::default()
    };
    let scope = InstrumentationScope {
        name: "weir".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..InstrumentationScope::default()
    };
    let export = ExportTraceServiceRequest {
        resource_spans: vec![ResourceSpans {
            resource: Some(resource),
            scope_spans: vec![ScopeSpans {
                scope: Some(scope),
                spans,
                ..ScopeSpans::default()
            }],
            ..ResourceSpans::default()
        }],
    };
    export.encode_to_vec()
}

fn spans(trace: &RequestTrace, identity: &Identity) -> Vec<Span> {
    let trace_id = identity.trace_id(trace.request);
    let root = identity.span_id(trace.request, None);
    let is_delivered = trace.outcome == "delivered";
    let mut attributes = vec![
        text("weir.stream", &trace.stream),
        number("weir.frame", trace.frame),
        text("weir.outcome", trace.outcome),
    ];
    attributes.extend(
        trace
            .dropped_by
            .as_ref()
            .map(|module| text("weir.dropped_by", module)),
    );
    let request = Span {
        trace_id: trace_id.clone(),
        span_id: root.clone(),
        name: "request".to_owned(),
        kind: SpanKind::Internal.into(),
        start_time_unix_nano: unix_nanos(trace, TimeSpan::ZERO),
        end_time_unix_nano: unix_nanos(trace, trace.took),
        attributes,
        status: Some(status((!is_delivered).then_some(trace.outcome))),
        ..Span::default()
    };
    let of_phase = |(place, phase): (usize, &Phase)| Span {
        trace_id: trace_id.clone(),
        span_id: identity.span_id(trace.request, Some(place)),
        parent_span_id: root.clone(),
        name: format!("{} {}", phase.module, phase_name(phase.kind)),
        kind: SpanKind::Internal.into(),
        start_time_unix_nano: unix_nanos(trace, phase.began),
        end_time_unix_nano: unix_nanos(trace, phase.began + phase.took),
        attributes: phase_attributes(phase),
        status: Some(status(phase.failed.then_some("failed"))),
        ..Span::default()
    };
    let phases = trace.phases.iter().enumerate().map(of_phase);
    std::iter::once(request).chain(phases).collect()
}

fn phase_attributes(phase: &Phase) -> Vec<KeyValue> {
    let mut attributes = vec![
        text("weir.module", &phase.module),
        text("weir.phase", phase_name(phase.kind)),
    ];
    if let Some((items, of_batch)) = phase.items {
        attributes.push(number("weir.items", items.into()));
        attributes.push(number("weir.batch_items", of_batch.into()));
    }
    attributes
}

fn phase_name(kind: PhaseKind) -> &'static str {
    match kind {
        PhaseKind::Queue => "queue",
        PhaseKind::BatchWait => "batch wait",
        PhaseKind::Execution => "execution",
    }
}

/// An error with its reason, or nothing said.
fn status(error: Option<&str>) -> Status {
    match error {
        Some(reason) => Status {
            message: reason.to_owned(),
            code: StatusCode::Error.into(),
        },
        None => Status::default(),
    }
}

/// A moment of a trace in nanoseconds since 1970.
fn unix_nanos(trace: &RequestTrace, since: TimeSpan) -> u64 {
    let nanos = trace.time_ms.saturating_mul(1_000_000);
    nanos.saturating_add(since.micros().saturating_mul(1_000))
}

fn text(key: &str, value: &str) -> KeyValue {
    attribute(key, Value::StringValue(value.to_owned()))
}

fn number(key: &str, value: u64) -> KeyValue {
    attribute(key, Value::IntValue(i64::try_from(value).unwrap_or(i64::MAX)))
}

fn attribute(key: &str, value: Value) -> KeyValue {
    KeyValue {
        key: key.to_owned(),
        value: Some(AnyValue { value: Some(value) }),
        ..KeyValue::default()
    }
}
