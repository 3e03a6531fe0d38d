//! Membership of the fleet, by liveliness tokens that disappear with their nodes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use zenoh::pubsub::Subscriber;

use crate::identity::Member;

/// Maximum number of members. Further nodes are ignored, whatever their names.
const MAX_MEMBERS: usize = 4_096;

/// Change of membership.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemberChange {
    /// The node joined.
    Joined(Member),
    /// The node left; all that it published is void.
    Left(Member),
}

/// Nodes by the number of their token: one that left and is back has another.
pub(crate) type Tokens = BTreeMap<Member, u64>;

/// Tokens as they come and go.
#[derive(Debug, Default)]
pub(crate) struct Present {
    tokens: Tokens,
    next: u64,
}

impl Present {
    pub(crate) fn on_token(&mut self, member: Member) {
        if self.tokens.len() < MAX_MEMBERS || self.tokens.contains_key(&member) {
            self.next += 1;
            self.tokens.insert(member, self.next);
        }
    }

    pub(crate) fn on_gone(&mut self, member: &Member) {
        self.tokens.remove(member);
    }
}

/// Subscription to membership, until it is dropped.
pub struct Members {
    present: Arc<Mutex<Present>>,
    seen: Tokens,
    _subscriber: Subscriber<()>,
}

impl Members {
    pub(crate) fn new(present: Arc<Mutex<Present>>, subscriber: Subscriber<()>) -> Self {
        Self {
            present,
            seen: Tokens::new(),
            _subscriber: subscriber,
        }
    }

    /// Changes since the last call; the first call reports every present node as joined. A node that left and
    /// came back in between is reported as left and joined.
    pub fn changes(&mut self) -> Vec<MemberChange> {
        let now = {
            let present = self.present.lock().unwrap_or_else(PoisonError::into_inner);
            present.tokens.clone()
        };
        let changes = changes(&self.seen, &now);
        self.seen = now;
        changes
    }

    /// True if a node is present now, independent of the last call of `changes`.
    #[must_use]
    pub fn is_there(&self, member: &Member) -> bool {
        let present = self.present.lock().unwrap_or_else(PoisonError::into_inner);
        present.tokens.contains_key(member)
    }

    /// Members as of the last call of `changes`.
    pub fn current(&self) -> impl Iterator<Item = &Member> {
        self.seen.keys()
    }
}

fn changes(before: &Tokens, now: &Tokens) -> Vec<MemberChange> {
    let is_new = |(member, token): &(&Member, &u64)| before.get(member) != Some(token);
    let is_gone = |(member, token): &(&Member, &u64)| now.get(member) != Some(token);
    let left = before.iter().filter(is_gone);
    let joined = now.iter().filter(is_new);
    left.map(|(member, _)| MemberChange::Left(member.clone()))
        .chain(joined.map(|(member, _)| MemberChange::Joined(member.clone())))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::Kind;

    #[test]
    fn one_that_was_away_for_a_moment_has_left_and_joined() {
        let member = |id: &str| Member {
            kind: Kind::Engine,
            id: id.to_owned(),
        };
        let (north, south) = (member("north"), member("south"));
        let mut present = Present::default();
        present.on_token(north.clone());
        present.on_token(south.clone());
        let before = present.tokens.clone();
        assert_eq!(
            changes(&Tokens::new(), &before),
            [
                MemberChange::Joined(north.clone()),
                MemberChange::Joined(south.clone())
            ]
        );
        present.on_gone(&north);
        present.on_token(north.clone());
        assert_eq!(
            changes(&before, &present.tokens),
            [MemberChange::Left(north.clone()), MemberChange::Joined(north)]
        );
        let before = present.tokens.clone();
        present.on_gone(&south);
        assert_eq!(changes(&before, &present.tokens), [MemberChange::Left(south)]);
    }
}
