//! Request groups (QLM, section 4, Algorithm 1). A group holds requests of one model, one class of objectives
//! and one tier of expected work. Within a group, requests are served in order of arrival.
//!
//! Algorithm 1 halves a group above `delta` mean batches. Here a group takes no further requests once
//! `delta` mean batches for its model and class came to its instance, and the next request begins a new group
//! with a place of its own. Requests of another tier that wait behind the group are thus overtaken by a
//! limited number of later ones. A limit of the requests that wait in the group would not do: the first group
//! of a busy instance is served while it grows, and would hardly ever reach that.

use std::collections::{BTreeMap, BTreeSet};

use weir_types::invariant;
use weir_types::invariant::Kind;
use weir_types::{GroupId, ModelId, SequenceId, Timestamp};

/// Properties that all requests of a group share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct GroupKey {
    /// Model of the requests.
    pub(super) model: ModelId,
    /// Class of their objectives.
    pub(super) class: u32,
    /// Tier of their expected work.
    pub(super) tier: u32,
}

/// Prompt length in tokens at which the second tier begins; each further tier begins at four times that of
/// the one before.
const TIER_TOKENS: u32 = 1_024;

/// Tier of a prompt; the work of a request depends mostly on the length of its prompt.
#[must_use]
pub fn tier(prompt: u32) -> u32 {
    (prompt / TIER_TOKENS * 4).max(1).ilog(4)
}

/// Contribution of one request to its group.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Share {
    /// Number of tokens to compute before the request generates.
    pub(super) prompt: f64,
    /// Number of tokens that it is expected to generate.
    pub(super) output: f64,
    pub(super) deadline: Timestamp,
}

/// Requests that are planned together.
#[derive(Debug, Clone)]
pub(super) struct Group {
    pub(super) key: GroupKey,
    /// Requests by id, which is the order of arrival.
    pub(super) requests: BTreeMap<SequenceId, Share>,
    pub(super) prompt: f64,
    pub(super) output: f64,
    /// Number of requests for the group's model and class that came to its instance since the group began, its
    /// own and those of other tiers. A request that returned to the queue counts again.
    arrivals: usize,
}

impl Group {
    /// Whether a further request of its key may join, if a group has at most `max` requests.
    pub(super) fn has_room(&self, max: usize) -> bool {
        self.arrivals < max
    }

    /// Tokens of prompts and of outputs of the requests that are served before this one.
    pub(super) fn before(&self, request: SequenceId) -> [f64; 2] {
        // A request that arrives is the last one.
        if let Some((last, own)) = self.requests.last_key_value()
            && *last == request
        {
            return [self.prompt - own.prompt, self.output - own.output];
        }
        let before = self.requests.range(..request);
        before.fold([0.0; 2], |[prompt, output], (_, share)| {
            [prompt + share.prompt, output + share.output]
        })
    }

    pub(super) fn first(&self) -> Option<SequenceId> {
        self.requests.keys().next().copied()
    }

    /// Deadlines of the first and the last request.
    pub(super) fn deadlines(&self) -> [Timestamp; 2] {
        let ends = [self.requests.values().next(), self.requests.values().next_back()];
        ends.map(|share| share.map_or(Timestamp::ZERO, |share| share.deadline))
    }

    fn add(&mut self, request: SequenceId, share: Share) {
        self.prompt += share.prompt;
        self.output += share.output;
        self.requests.insert(request, share);
    }
}

/// Group that a request joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Joined {
    pub(super) group: GroupId,
    pub(super) is_new: bool,
}

/// All groups that have requests.
#[derive(Debug, Clone)]
pub(super) struct Groups {
    all: BTreeMap<GroupId, Group>,
    next: u64,
    requests: usize,
}

impl Groups {
    pub(super) fn new() -> Self {
        Self {
            all: BTreeMap::new(),
            next: 0,
            requests: 0,
        }
    }

    pub(super) fn get(&self, id: GroupId) -> Option<&Group> {
        self.all.get(&id)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (GroupId, &Group)> {
        self.all.iter().map(|(id, group)| (*id, group))
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn requests(&self) -> usize {
        self.requests
    }

    fn create(&mut self, key: GroupKey) -> GroupId {
        let id = GroupId(self.next);
        self.next += 1;
        let group = Group {
            key,
            requests: BTreeMap::new(),
            prompt: 0.0,
            output: 0.0,
            arrivals: 0,
        };
        self.all.insert(id, group);
        id
    }

    /// Number of the next new group.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Adds a request to a group of its key, or to a new one. A group has at most `max` requests.
    pub(super) fn join(
        &mut self,
        into: Option<GroupId>,
        key: GroupKey,
        (request, share): (SequenceId, Share),
        max: usize,
    ) -> Joined {
        self.requests += 1;
        let into = into.filter(|id| self.all.contains_key(id));
        let group = into.unwrap_or_else(|| self.create(key));
        if let Some(group) = self.all.get_mut(&group) {
            group.add(request, share);
            let fits = group.requests.len() <= max.max(1);
            invariant!(fits, Kind::Groups, "a group has more than {max} requests");
        }
        Joined {
            group,
            is_new: into.is_none(),
        }
    }

    /// Counts a request that came to the group's instance for its model and class.
    pub(super) fn count_arrival(&mut self, id: GroupId) {
        if let Some(group) = self.all.get_mut(&id) {
            group.arrivals += 1;
        }
    }

    /// Removes a request from its group; an empty group is removed.
    pub(super) fn leave(&mut self, id: GroupId, request: SequenceId) {
        let Some(group) = self.all.get_mut(&id) else {
            invariant!(
                false,
                Kind::Groups,
                "request {} leaves a group that is none",
                request.0
            );
            return;
        };
        let share = group.requests.remove(&request);
        invariant!(
            share.is_some(),
            Kind::Groups,
            "request {} is not in its group",
            request.0
        );
        if let Some(share) = share {
            self.requests -= 1;
            group.prompt -= share.prompt;
            group.output -= share.output;
        }
        if group.requests.is_empty() {
            self.all.remove(&id);
        }
    }

    /// Checks that each request is in exactly one group.
    pub(super) fn check(&self) {
        let mut seen = BTreeSet::new();
        for (id, group) in &self.all {
            invariant!(
                !group.requests.is_empty(),
                Kind::Groups,
                "group {} is empty",
                id.0
            );
            for request in group.requests.keys() {
                let once = seen.insert(*request);
                invariant!(once, Kind::Groups, "request {} is in two groups", request.0);
            }
        }
        invariant!(seen.len() == self.requests, Kind::Groups, "requests were lost");
    }
}

/// Requests that need a place: one request that arrived, or a group whose instance was lost.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted {
    pub(super) key: GroupKey,
    pub(super) prompt: f64,
    pub(super) output: f64,
    pub(super) requests: f64,
    pub(super) deadline: Timestamp,
    /// Whether they may join a group of their key.
    pub(super) may_join: bool,
    /// Number of the group: without balance, instances get groups in turn.
    pub(super) turn: u64,
}
