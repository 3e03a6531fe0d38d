//! Groups, and an order of groups for each instance. Orders refer to groups, and groups to requests, so that
//! a lost instance loses no request (QLM, section 4).

use std::collections::{BTreeMap, BTreeSet};

use weir_types::invariant;
use weir_types::invariant::Kind;
use weir_types::{GroupId, InstanceId, ModelId, SequenceId, Timestamp};

use super::group::{Group, Groups};

/// Groups with their orders and expected ends.
#[derive(Debug, Clone)]
pub(super) struct VirtualQueues {
    pub(super) groups: Groups,
    pub(super) orders: Vec<Vec<GroupId>>,
    pub(super) instance_of: BTreeMap<GroupId, InstanceId>,
    /// Expected end of each instance's work, and the model of its last group.
    pub(super) ends: Vec<(Timestamp, Option<ModelId>)>,
    pub(super) planned: Option<Timestamp>,
    /// Requests that the last plan expected to be late.
    pub(super) known_late: f64,
    pub(super) is_violated: bool,
}

impl VirtualQueues {
    pub(super) fn new(instances: usize) -> Self {
        Self {
            groups: Groups::new(),
            orders: vec![Vec::new(); instances],
            instance_of: BTreeMap::new(),
            ends: vec![(Timestamp::ZERO, None); instances],
            planned: None,
            known_late: 0.0,
            is_violated: false,
        }
    }

    pub(super) fn orders(&self) -> impl Iterator<Item = &[GroupId]> {
        self.orders.iter().map(Vec::as_slice)
    }

    pub(super) fn instance_of(&self, group: GroupId) -> Option<InstanceId> {
        self.instance_of.get(&group).copied()
    }

    pub(super) fn head(&self, instance: InstanceId) -> Option<SequenceId> {
        let group = self.orders[instance.index()].first()?;
        self.groups.get(*group).and_then(Group::first)
    }

    pub(super) fn head_group(&self, instance: InstanceId) -> Option<&Group> {
        self.groups.get(*self.orders[instance.index()].first()?)
    }

    pub(super) fn leave(&mut self, group: GroupId, request: SequenceId) {
        self.groups.leave(group, request);
        if self.groups.get(group).is_none()
            && let Some(instance) = self.instance_of.remove(&group)
        {
            self.orders[instance.index()].retain(|other| *other != group);
        }
    }

    /// Puts a group directly behind the one that it was split off.
    pub(super) fn put_behind(&mut self, new: GroupId, from: GroupId) {
        let Some(instance) = self.instance_of(from) else {
            return;
        };
        let start = self.groups.get(from).map_or(Timestamp::ZERO, |group| group.start);
        if let Some(group) = self.groups.get_mut(new) {
            group.start = start;
        }
        let order = &mut self.orders[instance.index()];
        let at = order.iter().position(|other| *other == from);
        order.insert(at.map_or(order.len(), |at| at + 1), new);
        self.instance_of.insert(new, instance);
    }

    /// An instance is lost: removes its groups from its order and returns them, to be placed again.
    pub(super) fn clear(&mut self, instance: InstanceId) -> Vec<GroupId> {
        let groups = std::mem::take(&mut self.orders[instance.index()]);
        for group in &groups {
            self.instance_of.remove(group);
        }
        self.ends[instance.index()] = (Timestamp::ZERO, None);
        groups
    }

    pub(super) fn put(&mut self, group: GroupId, instance: InstanceId, at: usize) {
        let order = &mut self.orders[instance.index()];
        order.insert(at.min(order.len()), group);
        self.instance_of.insert(group, instance);
    }

    pub(super) fn check(&self) {
        self.groups.check();
        let mut seen = BTreeSet::new();
        for group in self.orders().flatten() {
            let once = seen.insert(*group);
            invariant!(once, Kind::Groups, "group {} is in two queues", group.0);
        }
        for (id, _) in self.groups.iter() {
            let has = seen.contains(&id);
            invariant!(has, Kind::Groups, "group {} is in no queue", id.0);
        }
    }
}
