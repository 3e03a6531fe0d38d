//! Pure decisions: `(event, now) -> effects`.
//!
//! Nothing here does I/O, reads a clock, spawns, or iterates in hash order; randomness comes from a seeded generator
//! whose seed is handed in. The live engine and the simulator are two drivers around what is here.
//!
//! [`Module`] decides on requests, [`Slots`] on who runs next, [`Gate`] on who comes in; [`Join`] and [`Release`] keep
//! branches and frames together and in order; [`Ledger`] keeps the books, and [`Report`] shows them.
//! [`MediaClock`], [`SilenceWatch`], [`Backoff`] and [`HealthTracker`] are what a source's thread goes by.

mod batching;
mod broker;
mod dear;
mod decode_load;
mod depq;
mod fair;
mod fan_out;
mod frame_sampler;
mod gate;
mod histogram;
mod id;
mod join;
mod ledger;
mod media_clock;
mod module;
mod order;
mod outlook;
mod owed;
pub mod plan;
mod profile;
mod reconnect;
mod release;
mod report;
pub mod reserve;
mod scaling;
mod silence;
mod slots;
mod spare;
mod stream_health;
mod time;
mod topology;
mod under_way;
mod vain;
mod values;
mod waits;
mod window;

pub use batching::Peer;
pub use broker::{Candidate, DropReason, foresees, judge, nexus_passes};
pub use decode_load::{DecodeLoad, DecodingReport};
pub use depq::{Depq, End};
pub use fair::{STRIDE, scattered};
pub use fan_out::FanOut;
pub use frame_sampler::FrameSampler;
pub use gate::{Admission, Gate, GateSpec, Overflow};
pub use histogram::{Histogram, Quantiles};
pub use id::{BatchId, ModuleId, RequestId, SlotId, StreamId};
pub use join::Join;
pub use ledger::{Counts, Ledger, Outcome};
pub use media_clock::{AGE_WINDOW, FrameTime, MAX_FALL, MAX_JUMP, MAX_LEAD, MediaClock, MediaFacts};
pub use module::{Module, ModuleEffect, ModuleEvent, ModuleSpec, Part, Pool};
pub use order::Priority;
pub use outlook::{ModuleState, Outlook, Planner};
pub use owed::Owed;
pub use profile::{Correction, Profile};
pub use reconnect::{Backoff, ReconnectSpec};
pub use release::Release;
pub use report::{DropCount, ModuleReport, ModuleTally, Report, RunInfo, SinkReport, StreamReport, Tally};
pub use scaling::{Scaler, ScalingRule};
pub use silence::{OPEN_TIMEOUT, Silence, SilenceWatch, UNDECODED_TIMEOUT, WaitFor, silence_limit};
pub use slots::{Bid, Placement, SlotEffect, SlotEvent, Slots, SlotsSpec};
pub use stream_health::{HealthTracker, StreamHealth, StreamStanding};
pub use time::{BadSpan, Span, Timestamp};
pub use topology::Topology;
pub use values::{
    Arbitration, Budget, DropRule, Forming, Lookahead, Mailboxes, Order, Over, OverloadControl, Policy,
    Queueing, Scan, ScanBy, Sizing, Split,
};
pub use waits::{Sketch, Waits, summed_wait};
pub use window::Window;
