//! The three loads of the evaluation of PARD (section 5.1), `wiki`, `tweet` and `azure`: recorded traces if
//! the asset pack is available, else from seeded generators. Also readers of the formats of such recordings.
//! Requests with their tokens are read from files (`t_s,in,out`) or from a recording; there is no generator
//! for them.
//!
//! What is known of the originals is their kind (periodic, bursty, very bursty) and the coefficient of variation of
//! their rates: about 0.47, 1.0 and 1.3 (section 5.4). A trace of either origin is brought to that coefficient by a
//! power of its rates, see [`with_cv`].

mod build;
mod calibrate;
mod generate;
mod read;
mod requests;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use weir_graph::TraceError;
use weir_types::Span;

pub use build::build;
pub use calibrate::with_cv;
pub use generate::generate;
pub use read::{
    Functions, bin_events, counts_per_second, events_azure_2021, events_azure_llm, functions_azure_2019,
    lengths_azure_llm,
};
pub use requests::{TokenRequest, TokenTrace};

/// Below this a trace has no room for a burst and for what is between bursts.
const MIN_SECONDS: u64 = 60;

/// Load of the evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TraceKind {
    /// Periodic: page views of an encyclopedia, days and weeks.
    Wiki,
    /// Moderately bursty: posts of a social network.
    Tweet,
    /// Very bursty: invocations of functions in a cloud.
    Azure,
}

impl TraceKind {
    /// All loads, the steadiest first.
    pub const ALL: [Self; 3] = [Self::Wiki, Self::Tweet, Self::Azure];

    /// Name of the load in experiments.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Wiki => "wiki",
            Self::Tweet => "tweet",
            Self::Azure => "azure",
        }
    }

    /// Coefficient of variation of its rates, in slots of a second (PARD, section 5.4).
    #[must_use]
    pub fn cv(self) -> f64 {
        match self {
            Self::Wiki => 0.47,
            Self::Tweet => 1.0,
            Self::Azure => 1.3,
        }
    }
}

impl std::str::FromStr for TraceKind {
    type Err = RecordingError;

    fn from_str(name: &str) -> Result<Self, RecordingError> {
        let kind = Self::ALL.into_iter().find(|kind| kind.name() == name);
        kind.ok_or_else(|| RecordingError::Unknown(name.to_owned()))
    }
}

/// Requests that were recorded with their tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RequestRecording {
    /// Conversations with language models in a cloud, an hour of 2023.
    AzureLlm,
}

impl RequestRecording {
    /// All recordings of requests.
    pub const ALL: [Self; 1] = [Self::AzureLlm];

    /// Name of the recording in experiments.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::AzureLlm => "azure-llm",
        }
    }

    /// Path within the asset pack.
    fn file(self) -> &'static str {
        match self {
            Self::AzureLlm => "traces/azure_llm2023_conv.csv.gz",
        }
    }
}

/// Reason why a load cannot be built.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum RecordingError {
    /// No load has this name.
    #[error("there is no trace \"{0}\"; there are wiki, tweet and azure")]
    Unknown(String),
    /// A recording cannot be read at all.
    #[error("cannot read the recording {}: {reason}", path.display())]
    Unreadable {
        /// File of the recording.
        path: PathBuf,
        /// Reason why it cannot be read.
        reason: String,
    },
    /// A line of a recording does not have the expected format.
    #[error("{}:{line}: this is not a {expected}; fetch the recording again", path.display())]
    Line {
        /// File of the recording.
        path: PathBuf,
        /// Line number, from 1.
        line: usize,
        /// Format that was expected.
        expected: &'static str,
    },
    /// A load that exists only as a recording, and the recording is not available.
    #[error("{0} is a recording, which is not there: set WEIR_ASSETS to the folder of the asset pack")]
    NotThere(&'static str),
    /// No request arrives within the length of the run.
    #[error("no request comes within {} s: give a longer `length`", length.as_secs_f64())]
    NoRequests {
        /// Length of the run.
        length: Span,
    },
    /// The trace is too short to have the shape of the load.
    #[error(
        "a trace of {seconds} s has no room for its shape; give at least {} s",
        MIN_SECONDS
    )]
    TooShort {
        /// Requested length in seconds.
        seconds: u64,
    },
    /// No power of the rates has the requested coefficient of variation.
    #[error(
        "no power of these rates varies by {target}, only by {least:.3} to {most:.3}; choose a longer stretch"
    )]
    Unreachable {
        /// Requested coefficient of variation.
        target: f64,
        /// Least coefficient that can be reached.
        least: f64,
        /// Greatest coefficient that can be reached.
        most: f64,
    },
    /// The rates do not form a valid trace.
    #[error(transparent)]
    Trace(#[from] TraceError),
}

#[cfg(test)]
mod tests;
