//! Groups, and an order of groups for each instance. Orders refer to groups, and groups to requests, so that
//! a lost instance loses no request (QLM, section 4).
//!
//! Neither the start of a group nor the end of an order is stored: both follow from the work of the groups
//! before, so that they are never stale when these groups grow or are served.

use std::collections::{BTreeMap, BTreeSet};

use weir_types::invariant;
use weir_types::invariant::Kind;
use weir_types::{GroupId, InstanceId, ModelId, SequenceId, Timestamp};

use super::estimator::ServiceRates;
use super::group::{Group, GroupKey, Groups};

/// A group at its place in an order.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Queued {
    pub(super) group: GroupId,
    pub(super) model: ModelId,
    /// Work of the group's requests on the instance, in seconds.
    pub(super) work_s: f64,
}

/// Groups with their orders.
#[derive(Debug, Clone)]
pub(super) struct VirtualQueues {
    pub(super) groups: Groups,
    pub(super) orders: Vec<Vec<Queued>>,
    instance_of: BTreeMap<GroupId, InstanceId>,
    /// Latest group of each key on each instance: further requests of the key join it there while it has
    /// room.
    latest: BTreeMap<(GroupKey, InstanceId), GroupId>,
    pub(super) planned: Option<Timestamp>,
    /// Requests that the last plan expected to be late.
    pub(super) known_late: f64,
    pub(super) is_violated: bool,
    /// Time at which a switch for an urgent request was last considered.
    pub(super) considered: Option<Timestamp>,
}

impl VirtualQueues {
    pub(super) fn new(instances: usize) -> Self {
        Self {
            groups: Groups::new(),
            orders: vec![Vec::new(); instances],
            instance_of: BTreeMap::new(),
            latest: BTreeMap::new(),
            planned: None,
            known_late: 0.0,
            is_violated: false,
            considered: None,
        }
    }

    pub(super) fn instance_of(&self, group: GroupId) -> Option<InstanceId> {
        self.instance_of.get(&group).copied()
    }

    /// Latest group of that key on an instance.
    pub(super) fn latest(&self, key: GroupKey, instance: InstanceId) -> Option<GroupId> {
        self.latest.get(&(key, instance)).copied()
    }

    /// Latest group of that key on any instance.
    pub(super) fn latest_anywhere(&self, key: GroupKey) -> Option<GroupId> {
        let all = self
            .latest
            .range((key, InstanceId(0))..=(key, InstanceId(u32::MAX)));
        all.map(|(_, group)| *group).max()
    }

    /// Place of a group in the order of its instance.
    pub(super) fn place_of(&self, group: GroupId) -> Option<(InstanceId, usize)> {
        let instance = self.instance_of(group)?;
        let mut order = self.orders[instance.index()].iter();
        Some((instance, order.position(|queued| queued.group == group)?))
    }

    pub(super) fn head(&self, instance: InstanceId) -> Option<SequenceId> {
        let queued = self.orders[instance.index()].first()?;
        self.groups.get(queued.group).and_then(Group::first)
    }

    /// Recomputes the work of a group at its place, after requests joined or left it.
    pub(super) fn update_work(&mut self, group: GroupId, rates: &[Vec<ServiceRates>]) {
        if let (Some((instance, at)), Some(found)) = (self.place_of(group), self.groups.get(group)) {
            let rates = &rates[instance.index()][found.key.model.index()];
            self.orders[instance.index()][at].work_s = rates.work_s(found.prompt, found.output);
        }
    }

    /// A request leaves its group; a group without requests leaves its order.
    pub(super) fn leave(&mut self, group: GroupId, request: SequenceId, rates: &[Vec<ServiceRates>]) {
        let place = self.place_of(group);
        let key = self.groups.get(group).map(|group| group.key);
        self.groups.leave(group, request);
        if self.groups.get(group).is_some() {
            self.update_work(group, rates);
        } else if let (Some((instance, at)), Some(key)) = (place, key) {
            self.orders[instance.index()].remove(at);
            self.instance_of.remove(&group);
            if self.latest(key, instance) == Some(group) {
                self.latest.remove(&(key, instance));
            }
        }
    }

    /// Counts a request that joined a group on an instance, in the latest group of each tier there.
    pub(super) fn count_arrival(&mut self, key: GroupKey, instance: InstanceId) {
        let first = (GroupKey { tier: 0, ..key }, InstanceId(0));
        let above = GroupKey {
            tier: u32::MAX,
            ..key
        };
        for ((_, on), group) in self.latest.range(first..(above, InstanceId(0))) {
            if *on == instance {
                self.groups.count_arrival(*group);
            }
        }
    }

    /// An instance is lost: removes its groups from its order and returns them, to be placed again.
    pub(super) fn clear(&mut self, instance: InstanceId) -> Vec<GroupId> {
        let order = std::mem::take(&mut self.orders[instance.index()]);
        for queued in &order {
            self.instance_of.remove(&queued.group);
        }
        self.latest.retain(|(_, on), _| *on != instance);
        order.into_iter().map(|queued| queued.group).collect()
    }

    /// Puts a group into the order of an instance.
    pub(super) fn put(
        &mut self,
        group: GroupId,
        (instance, at): (InstanceId, usize),
        rates: &[Vec<ServiceRates>],
    ) {
        let Some(found) = self.groups.get(group) else {
            return;
        };
        let (key, model) = (found.key, found.key.model);
        let queued = Queued {
            group,
            model,
            work_s: rates[instance.index()][model.index()].work_s(found.prompt, found.output),
        };
        let order = &mut self.orders[instance.index()];
        order.insert(at.min(order.len()), queued);
        self.instance_of.insert(group, instance);
        let latest = self.latest.entry((key, instance)).or_insert(group);
        *latest = group.max(*latest);
    }

    /// Moves a group to the front of the order of an instance.
    pub(super) fn put_first(&mut self, group: GroupId, instance: InstanceId, rates: &[Vec<ServiceRates>]) {
        if let Some((from, at)) = self.place_of(group) {
            self.orders[from.index()].remove(at);
            self.latest
                .retain(|(_, on), latest| *on != from || *latest != group);
        }
        self.put(group, (instance, 0), rates);
    }

    /// Replaces all orders by those of a plan.
    pub(super) fn replace(&mut self, orders: &[Vec<GroupId>], rates: &[Vec<ServiceRates>]) {
        for instance in (0..self.orders.len() as u32).map(InstanceId) {
            self.clear(instance);
        }
        for (instance, order) in (0..).map(InstanceId).zip(orders) {
            for (at, group) in order.iter().enumerate() {
                self.put(*group, (instance, at), rates);
            }
        }
    }

    pub(super) fn check(&self) {
        self.groups.check();
        let mut seen = BTreeSet::new();
        for queued in self.orders.iter().flatten() {
            let once = seen.insert(queued.group);
            invariant!(once, Kind::Groups, "group {} is in two queues", queued.group.0);
        }
        for (id, _) in self.groups.iter() {
            let has = seen.contains(&id);
            invariant!(has, Kind::Groups, "group {} is in no queue", id.0);
        }
        for (&(key, instance), id) in &self.latest {
            let group = self.groups.get(*id);
            let is_there =
                group.is_some_and(|group| group.key == key) && self.instance_of(*id) == Some(instance);
            invariant!(
                is_there,
                Kind::Groups,
                "requests join group {}, which is elsewhere",
                id.0
            );
        }
    }
}
