//! What programs of this project share at their edge to the user: words to the terminal, errors and
//! exit codes, signals, progress, and that no output takes the place of an input.
//!
//! It is the edge of a program, so libraries do not depend on it. It knows neither a graph nor an engine: `weir` and
//! `render` (in `videos/`) bring what they do, and share how it is said.

mod error;
pub mod interrupt;
mod log;
pub mod output;
pub mod outputs;
pub mod printable;
pub mod progress;
mod usage;

pub use error::{UserError, error_line, finish, is_mendable};
pub use log::{LogLayer, log_to_stderr, log_to_stderr_beside};
pub use usage::refuse;
