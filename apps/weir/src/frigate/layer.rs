//! A section of a camera over the section of that name for all cameras: a value of the camera takes the place of the other.

use super::yaml::Node;

/// The two places that a value may stand at.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layer<'a> {
    own: Option<&'a Node>,
    shared: Option<&'a Node>,
}

impl<'a> Layer<'a> {
    pub(super) fn new(own: Option<&'a Node>, shared: Option<&'a Node>) -> Self {
        Self { own, shared }
    }

    /// The sections of a name.
    pub(super) fn section(self, name: &str) -> Self {
        Self {
            own: self.own.and_then(|node| node.get(name)),
            shared: self.shared.and_then(|node| node.get(name)),
        }
    }

    /// True if the section is at one of the places.
    pub(super) fn is_there(self) -> bool {
        self.own.or(self.shared).is_some()
    }

    /// The value of a key as `read` has it. A value for all cameras that a camera replaces is read as well: it has done its part.
    fn pick<T>(self, name: &str, read: impl Fn(&'a Node) -> Option<T>) -> Option<(&'a Node, T)> {
        let [own, shared] = [self.own, self.shared].map(|place| {
            let node = place?.get(name)?;
            read(node).map(|value| (node, value))
        });
        own.or(shared)
    }

    pub(super) fn number(self, name: &str) -> Option<(&'a Node, f64)> {
        self.pick(name, Node::number)
    }

    pub(super) fn flag(self, name: &str) -> Option<bool> {
        self.pick(name, Node::flag).map(|(_, flag)| flag)
    }

    pub(super) fn text(self, name: &str) -> Option<(&'a Node, &'a str)> {
        self.pick(name, Node::text)
    }

    /// Texts of a list, not taken over yet; a list that a camera replaces is.
    pub(super) fn texts(self, name: &str) -> Option<Vec<&'a Node>> {
        let [own, shared] = [self.own, self.shared].map(|place| place.and_then(|node| node.get(name)));
        if let (Some(_), Some(shared)) = (own, shared) {
            shared.take();
        }
        own.or(shared).map(Node::texts)
    }

    /// Names of the tables of a section, each once.
    pub(super) fn names(self) -> Vec<&'a str> {
        let places = self.own.into_iter().chain(self.shared);
        let mut names: Vec<&str> = places
            .flat_map(Node::entries)
            .map(|entry| entry.name.as_str())
            .collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}
