//! Roles of clients and the identity that a request is made under.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Rights of a client; each role has those of the roles before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Reads: streams, live video, incidents, pictures and clips.
    View,
    /// Also pauses and resumes streams, marks incidents, applies policies and sends pictures.
    Operate,
    /// Everything, such as adding streams and replacing the graph.
    Edit,
}

impl Role {
    const ALL: [Self; 3] = [Self::View, Self::Operate, Self::Edit];

    /// Returns the name of the role in files and options.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::View => "view",
            Self::Operate => "operate",
            Self::Edit => "edit",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Role {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|role| role.name() == text);
        known.ok_or_else(|| format!("\"{text}\" is no role: write view, operate or edit"))
    }
}

/// Name, role and cameras of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    /// Name of the token, or of the user at a proxy.
    pub(crate) name: Arc<str>,
    pub(crate) role: Role,
    /// Streams that the client sees; `None`: all of them.
    pub(crate) cameras: Option<BTreeSet<String>>,
}

impl Identity {
    /// An identity that sees all cameras.
    pub(crate) fn new(name: &str, role: Role) -> Self {
        Self {
            name: name.into(),
            role,
            cameras: None,
        }
    }

    /// True if the client sees the stream with this name.
    pub(crate) fn sees(&self, stream: &str) -> bool {
        self.cameras
            .as_ref()
            .is_none_or(|cameras| cameras.contains(stream))
    }
}
