//! The live engine: actors that carry control, threads that decode, infer and write, and the one real clock.
//!
//! It decides nothing: every decision is `weir-policy`'s, and everything that knows codecs or models is behind the traits
//! of `weir-flow`.

mod actors;
mod admission;
mod analytics;
mod assembly;
mod batch;
mod bounded_wait;
mod cascades;
mod clock;
mod command;
mod decoding;
mod emulated;
mod emulated_generator;
mod emulated_partitions;
mod engine;
mod fleet;
mod handle;
mod instance;
mod instance_spec;
mod message_latency;
mod objects;
mod overlapped;
mod panic_message;
mod policy_specs;
mod prepare;
mod processor_time;
mod profiles;
mod progress;
mod record;
mod request;
mod request_traces;
mod routes;
mod run;
mod sampling;
mod sink;
mod slot_layout;
mod snapshot;
mod source;
mod state_machine;
mod stream_setup;
mod subscription;
mod telemetry;
mod timeline;
mod timer;
mod verify;
mod violations;
mod worker;

pub use assembly::{Assembly, NextGears, Pace, Partitioning, RunError, RunOptions};
pub use clock::Clock;
pub use command::{MAX_STREAMS, NewStream, StreamChange, StreamError};
pub use handle::{Control, Engine, Handle};
pub use message_latency::measure_message_latency;
pub use profiles::{MeasuredProfile, measure_profile, measure_profile_and_memory};
pub use progress::{Preparation, Progress, ProgressSnapshot};
pub use request_traces::{Phase, PhaseKind, RequestTrace, TraceExporter, TraceOptions};
pub use run::run;
pub use sampling::{Sampler, StageAnswer};
pub use snapshot::{ModuleSnapshot, SinkSnapshot, Snapshot, StreamPhase, StreamSnapshot};
pub use subscription::Update;
pub use telemetry::describe_metrics;
pub use timeline::{LaneSnapshot, TimelineSnapshot};
pub use verify::{VerifyError, VerifyReport, verify};
