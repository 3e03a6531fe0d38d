//! Names of nodes, and the keys that belong to them.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::FabricError;

/// Bytes of a name: a certificate has no more.
pub const MAX_NAME_BYTES: usize = 64;

/// Role of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Engine that serves streams.
    Engine,
    /// Worker that holds partitions of models.
    Worker,
}

impl Kind {
    const ALL: [Self; 2] = [Self::Engine, Self::Worker];

    /// Text of the kind in keys.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Engine => "engine",
            Self::Worker => "worker",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.text() == text)
    }
}

/// A node of a fleet.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Member {
    /// Role of the node.
    pub kind: Kind,
    /// Name of the node, which is also the name in its certificate.
    pub id: String,
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.text(), self.id)
    }
}

/// True if a text may be the name of a fleet, a node or a topic, which is part of keys and certificates.
#[must_use]
pub fn is_name(text: &str) -> bool {
    let fits = (1..=MAX_NAME_BYTES).contains(&text.len());
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    fits && text.chars().all(is_allowed) && text.starts_with(|c: char| c.is_ascii_alphanumeric())
}

fn check_name(what: &'static str, text: &str) -> Result<(), FabricError> {
    if is_name(text) {
        return Ok(());
    }
    Err(FabricError::Name {
        what,
        name: text.to_owned(),
    })
}

/// Identity of a node: its fleet, kind and name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    fleet: String,
    member: Member,
}

impl Identity {
    /// A node of a fleet.
    ///
    /// # Errors
    /// [`FabricError::Name`].
    pub fn new(fleet: &str, kind: Kind, id: &str) -> Result<Self, FabricError> {
        check_name("fleet", fleet)?;
        check_name("node", id)?;
        Ok(Self {
            fleet: fleet.to_owned(),
            member: Member {
                kind,
                id: id.to_owned(),
            },
        })
    }

    /// The name of the fleet.
    #[must_use]
    pub fn fleet(&self) -> &str {
        &self.fleet
    }

    /// Kind and name of the node.
    #[must_use]
    pub fn member(&self) -> &Member {
        &self.member
    }

    /// The key of its token.
    #[must_use]
    pub fn alive_key(&self) -> String {
        let Member { kind, id } = &self.member;
        format!("{}/alive/{}/{id}", self.root(), kind.text())
    }

    /// The tokens of all nodes.
    #[must_use]
    pub fn alive_keys(&self) -> String {
        format!("{}/alive/*/*", self.root())
    }

    /// The key under which it publishes on a topic.
    ///
    /// # Errors
    /// [`FabricError::Name`].
    pub fn own_key(&self, topic: &str) -> Result<String, FabricError> {
        check_name("topic", topic)?;
        let Member { kind, id } = &self.member;
        Ok(format!("{}/{}/{id}/{topic}", self.root(), kind.text()))
    }

    /// The keys under which all nodes of a kind publish on a topic.
    ///
    /// # Errors
    /// [`FabricError::Name`].
    pub fn keys_of_all(&self, kind: Kind, topic: &str) -> Result<String, FabricError> {
        check_name("topic", topic)?;
        Ok(format!("{}/{}/*/{topic}", self.root(), kind.text()))
    }

    /// The key under which it sends to one node.
    #[must_use]
    pub fn key_to(&self, to: &Member) -> String {
        let Member { kind, id } = &self.member;
        let (root, kind) = (self.root(), kind.text());
        format!("{root}/{kind}/{id}/to/{}/{}", to.kind.text(), to.id)
    }

    /// The keys under which all nodes send to this one.
    #[must_use]
    pub fn keys_to_own(&self) -> String {
        let Member { kind, id } = &self.member;
        format!("{}/*/*/to/{}/{id}", self.root(), kind.text())
    }

    /// Keys under which the node of this name may receive: tokens, publications, and messages to this node.
    #[must_use]
    pub fn keys_for(&self, id: &str) -> Vec<String> {
        let root = self.root();
        vec![
            format!("{root}/alive/*/*"),
            format!("{root}/*/*/*"),
            format!("{root}/*/*/to/*/{id}"),
        ]
    }

    /// Pattern of all keys of the fleet.
    #[must_use]
    pub fn all_keys(&self) -> String {
        format!("{}/**", self.root())
    }

    /// The keys that belong to the node of a name: its token, and what it publishes.
    #[must_use]
    pub fn keys_of(&self, id: &str) -> Vec<String> {
        let root = self.root();
        let of_kind = |kind: Kind| {
            let kind = kind.text();
            [
                format!("{root}/alive/{kind}/{id}"),
                format!("{root}/{kind}/{id}/**"),
            ]
        };
        Kind::ALL.into_iter().flat_map(of_kind).collect()
    }

    /// Node to which a liveliness token belongs.
    #[must_use]
    pub fn member_of_token(&self, key: &str) -> Option<Member> {
        let rest = key.strip_prefix(&self.root())?.strip_prefix("/alive/")?;
        let (kind, id) = rest.split_once('/')?;
        member(kind, id)
    }

    /// The node that a key belongs to, and the topic.
    #[must_use]
    pub fn sender_of<'a>(&self, key: &'a str) -> Option<(Member, &'a str)> {
        let rest = key.strip_prefix(&self.root())?.strip_prefix('/')?;
        let (kind, rest) = rest.split_once('/')?;
        let (id, topic) = rest.split_once('/')?;
        Some((member(kind, id)?, topic))
    }

    fn root(&self) -> String {
        format!("weir/{}", self.fleet)
    }
}

fn member(kind: &str, id: &str) -> Option<Member> {
    let kind = Kind::parse(kind)?;
    is_name(id).then(|| Member {
        kind,
        id: id.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

    use super::*;

    #[test]
    fn keys_say_whose_they_are() {
        let north = Identity::new("site", Kind::Engine, "north").unwrap();
        let key = north.own_key("state").unwrap();
        assert_eq!(key, "weir/site/engine/north/state");
        assert_eq!(north.sender_of(&key), Some((north.member().clone(), "state")));
        assert_eq!(
            north.member_of_token(&north.alive_key()),
            Some(north.member().clone())
        );
        let one = Identity::new("site", Kind::Worker, "one").unwrap();
        let key = north.key_to(one.member());
        assert_eq!(key, "weir/site/engine/north/to/worker/one");
        assert_eq!(
            north.sender_of(&key),
            Some((north.member().clone(), "to/worker/one"))
        );
        for other in [
            "weir/other/engine/north/state",
            "weir/site/cook/north/state",
            "weir/site/engine/a b/state",
            "weir/site/engine/north",
            "weir/sites/engine/north/state",
        ] {
            assert_eq!(north.sender_of(other), None, "{other}");
        }
    }

    #[test]
    fn names_that_mean_more_in_keys_are_refused() {
        for bad in ["", "a/b", "*", "**", "a b", "$", "-a", &"n".repeat(65)] {
            assert!(Identity::new("site", Kind::Engine, bad).is_err(), "{bad}");
            assert!(Identity::new(bad, Kind::Engine, "a").is_err(), "{bad}");
        }
        assert!(Identity::new("site-1", Kind::Worker, "gpu_0.rack-2").is_ok());
    }
}
