//! The live engine: actors that carry control, threads that decode, infer and write, and the one real clock.
//!
//! It decides nothing: every decision is `weir-policy`'s, and everything that knows codecs or models comes in behind the
//! traits of `weir-flow`.

mod actors;
mod assembly;
mod attend;
mod clock;
mod decoding;
mod emulated;
mod engine;
mod fleet;
mod gate;
mod label;
mod layout;
mod probe;
mod progress;
mod record;
mod request;
mod run;
mod sink;
mod source;
mod telemetry;
mod timer;
mod worker;

pub use assembly::{Assembly, Pace, RunError, RunOptions, Spread};
pub use clock::Clock;
pub use layout::{Measured, measure};
pub use probe::hop;
pub use progress::{Preparation, Progress, Reading};
pub use record::{Verified, VerifyError, verify};
pub use run::run;
