//! States of a stream.

use serde::{Deserialize, Serialize};

/// State of a stream, and why it is in it.
///
/// ```text
/// Connecting --> Live --> Gone            a recording: it has an end
///     ^  |        |
///     |  |        +--> Stalled --+        a camera: every end is a loss
///     |  v        v              |
///     Waiting <------------------+
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum StreamState {
    /// The source is being opened, or its first picture has not arrived yet.
    #[default]
    Connecting,
    /// Pictures arrive and can be decoded.
    Live,
    /// The source is connected, but no picture arrives, or none that can be decoded. It is closed and
    /// reopened.
    Stalled {
        /// Cause, as shown to the user.
        reason: String,
    },
    /// It was lost, or could not be reached, and is opened again after a wait.
    Waiting {
        /// Cause, as shown to the user.
        reason: String,
    },
    /// No more frames will arrive.
    Gone {
        /// Cause, unless the source ended regularly.
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// It is kept, but not read.
    Paused,
}

impl StreamState {
    /// Every name, in the order of the states.
    pub const NAMES: [&'static str; 6] = ["connecting", "live", "stalled", "waiting", "gone", "paused"];

    /// The name in reports and metrics.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Connecting => "connecting",
            Self::Live => "live",
            Self::Stalled { .. } => "stalled",
            Self::Waiting { .. } => "waiting",
            Self::Gone { .. } => "gone",
            Self::Paused => "paused",
        }
    }

    /// Cause of this state, if there is one.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Stalled { reason } | Self::Waiting { reason } => Some(reason),
            Self::Gone { reason } => reason.as_deref(),
            Self::Connecting | Self::Live | Self::Paused => None,
        }
    }

    /// Whether frames should arrive and do not.
    #[must_use]
    pub const fn is_down(&self) -> bool {
        matches!(self, Self::Stalled { .. } | Self::Waiting { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_json_and_metrics_are_the_same() {
        let reason = "the connection ended".to_owned();
        let states = [
            StreamState::Connecting,
            StreamState::Live,
            StreamState::Stalled {
                reason: reason.clone(),
            },
            StreamState::Waiting {
                reason: reason.clone(),
            },
            StreamState::Gone { reason: Some(reason) },
            StreamState::Paused,
        ];
        for (state, name) in states.iter().zip(StreamState::NAMES) {
            let json = serde_json::to_value(state).unwrap();
            assert_eq!((json["state"].as_str(), state.name()), (Some(name), name));
            assert_eq!(json["reason"].as_str(), state.reason());
            assert_eq!(&serde_json::from_value::<StreamState>(json).unwrap(), state);
        }
    }
}
