//! Streams that a graph is read for: its own, or others in their place.

/// Streams that a graph is read for, which decides if its own must be usable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sources {
    /// The sources of the graph itself: their files must exist.
    #[default]
    Own,
    /// Others replace them (see [`Graph::with_streams`](crate::Graph::with_streams)): files of its own need not exist,
    /// and variables that name them need not be set.
    Replaced,
}

impl Sources {
    /// [`Sources::Replaced`] if there are others.
    #[must_use]
    pub fn replaced_if(others: bool) -> Self {
        if others { Self::Replaced } else { Self::Own }
    }
}
