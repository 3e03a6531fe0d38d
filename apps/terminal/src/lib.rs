//! Code that the programs of this project share towards the user: terminal output, errors and exit codes,
//! signals, progress, and the check that no output replaces an input.
//!
//! Only programs depend on it, libraries do not. It knows neither graphs nor engines: `weir` and `render` (in
//! `videos/`) bring the content and share the way it is shown.

mod error;
pub mod interrupt;
mod log;
pub mod output;
pub mod outputs;
pub mod progress;
mod usage;

pub use error::{UserError, error_line, finish, is_mendable};
pub use log::{LogFormat, LogLayer, log_to_stderr, log_to_stderr_beside};
pub use usage::refuse;
pub use weir_flow::printable;
