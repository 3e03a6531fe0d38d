//! Place in which a change of the streams is kept for the next start of the engine.

use std::path::Path;

use serde::Serialize;

/// Place in which a change of the streams is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Kept {
    /// Kind of the place.
    #[serde(rename = "in")]
    pub place: KeptIn,
    /// Path of the file, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Reason why the change is not in the file of the graph.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// Kind of the place in which a change is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum KeptIn {
    /// The file of the graph.
    Graph,
    /// A file of the engine.
    State,
    /// Nowhere: the change holds until the engine ends.
    None,
}

impl Kept {
    /// In the graph's file.
    #[must_use]
    pub fn in_graph(file: &Path) -> Self {
        Self {
            place: KeptIn::Graph,
            file: Some(file.display().to_string()),
            why: None,
        }
    }

    /// In a file of the engine, since the graph's file cannot have it for the reason `why`.
    #[must_use]
    pub fn in_state(file: &Path, why: impl Into<String>) -> Self {
        Self {
            place: KeptIn::State,
            file: Some(file.display().to_string()),
            why: Some(why.into()),
        }
    }

    /// Until the engine ends, for the reason `why`.
    #[must_use]
    pub fn nowhere(why: impl Into<String>) -> Self {
        Self {
            place: KeptIn::None,
            file: None,
            why: Some(why.into()),
        }
    }
}
