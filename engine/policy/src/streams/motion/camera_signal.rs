//! Reports of a camera by which a gate goes.

use serde::{Deserialize, Serialize};

/// Report of a camera about motion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CameraSignal {
    /// No report: its events do not arrive, or none is of motion.
    #[default]
    Unknown,
    /// The camera reports that nothing moves.
    Still,
    /// The camera reports that something moves.
    Moves,
    /// Something happened that has no duration, such as a crossed line.
    Moment,
}
