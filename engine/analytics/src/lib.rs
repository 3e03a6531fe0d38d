//! Analytics over time: objects followed through the frames of a stream, and incidents derived from their
//! tracks ([`transforms`]).
//!
//! Everything here is a pure function of its inputs: there is no clock and no I/O. The time of a frame is an
//! argument: its media time for motion, its arrival (UTC) for display.

mod alarms;
mod assignment;
mod ids;
mod motion;
mod picture_size;
mod privacy;
mod program_incidents;
mod reading;
mod scene;
mod settle;
mod standing;
mod stream;
mod track;
mod tracker;
pub mod transforms;

pub use alarms::{AlarmGate, AlarmLimits, AlarmVerdict, HeldBy};
pub use ids::{TrackIdBlocks, TrackIds};
pub use privacy::{HOLD_MS, Privacy, PrivacyMemory};
pub use program_incidents::ProgramIncidents;
pub use reading::PerTrack;
pub use scene::{close_transforms, run_transforms};
pub use stream::{AnalyticsPlan, FrameAnalytics, NewTrack, StreamAnalytics, TrackerPlan};
pub use track::FrameTime;
pub use tracker::{Detection, KEYS as TRACKER_KEYS, Tracker, TrackerSettings};
pub use weir_flow::Parts;
