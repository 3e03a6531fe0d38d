//! Replicas of models (KEN 4.3.3): which of them takes an item, and when it runs. Each replica has a queue
//! and gets the share of the items that the plan gives it. It runs as soon as its slot is free and as many
//! items wait as the plan says.
//!
//! Items are assigned by accumulated shares, so that every sequence of items is divided as planned. If
//! several replicas on a slot may run, the one whose first item has waited longest runs. A replica that the
//! gear does not use any more runs its remaining items at once.

use std::collections::VecDeque;

use weir_types::{Gear, GearPlan, Span, Timestamp};

/// A replica of a model on a slot.
#[derive(Debug, Clone)]
struct Replica<T> {
    model: usize,
    slot: usize,
    share: f64,
    size: usize,
    wait: Span,
    /// Number of items that the replica is behind its share.
    credit: f64,
    queue: VecDeque<(Timestamp, T)>,
}

impl<T> Replica<T> {
    /// Time at which the replica may run if no further items arrive; `None` if none wait.
    fn ready_at(&self) -> Option<Timestamp> {
        let (came_at, _) = self.queue.front()?;
        if self.queue.len() >= self.size {
            return Some(*came_at);
        }
        Some(*came_at + self.wait)
    }
}

/// A batch that a slot is to run now.
#[derive(Debug, Clone, PartialEq)]
pub struct Invocation<T> {
    /// The model, by index in the plan.
    pub model: usize,
    /// Items of the batch, the longest waiting first.
    pub items: Vec<T>,
}

/// Replicas of a plan, with the items that wait for them.
#[derive(Debug, Clone)]
pub struct Replicas<T> {
    replicas: Vec<Replica<T>>,
    /// Replicas of each model.
    by_model: Vec<Vec<usize>>,
    /// Largest batch of each model.
    max_batch: Vec<usize>,
    waiting: usize,
}

impl<T> Replicas<T> {
    /// In the first gear of `plan`. `max_batch`: the largest batch of each model.
    #[must_use]
    pub fn new(plan: &GearPlan, max_batch: &[u32]) -> Self {
        let mut replicas = Vec::new();
        let mut by_model = vec![Vec::new(); plan.models.len()];
        for (slot, placed) in plan.placement.iter().enumerate() {
            for &model in placed {
                if let Some(of_model) = by_model.get_mut(model) {
                    of_model.push(replicas.len());
                    replicas.push(Replica {
                        model,
                        slot,
                        share: 0.0,
                        size: 1,
                        wait: Span::ZERO,
                        credit: 0.0,
                        queue: VecDeque::new(),
                    });
                }
            }
        }
        let max_batch = max_batch.iter().map(|size| (*size).max(1) as usize).collect();
        let mut all = Self {
            replicas,
            by_model,
            max_batch,
            waiting: 0,
        };
        if let Some(gear) = plan.gears.first() {
            all.shift(gear);
        }
        all
    }

    /// Another gear of the same plan is in force. Waiting items stay with their replicas.
    pub fn shift(&mut self, gear: &Gear) {
        for replica in &mut self.replicas {
            let planned = gear
                .replicas
                .iter()
                .find(|planned| planned.model == replica.model && planned.slot == replica.slot);
            (replica.share, replica.size, replica.wait, replica.credit) = match planned {
                Some(planned) => (planned.share, planned.size.max(1) as usize, planned.wait, 0.0),
                None => (0.0, 1, Span::ZERO, 0.0),
            };
        }
    }

    /// Items that wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// Assigns an item to a replica of `model`; returns the slot of that replica.
    ///
    /// # Errors
    /// The item, if no slot has the model.
    pub fn push(&mut self, model: usize, item: T, now: Timestamp) -> Result<usize, T> {
        let mut best: Option<usize> = None;
        for &index in self.by_model.get(model).into_iter().flatten() {
            let replica = &mut self.replicas[index];
            replica.credit += replica.share;
            if best.is_none_or(|best| self.replicas[index].credit > self.replicas[best].credit) {
                best = Some(index);
            }
        }
        let Some(best) = best else { return Err(item) };
        let replica = &mut self.replicas[best];
        replica.credit -= 1.0;
        replica.queue.push_back((now, item));
        self.waiting += 1;
        Ok(replica.slot)
    }

    /// The batch that a free slot runs now, if any.
    pub fn next(&mut self, slot: usize, now: Timestamp) -> Option<Invocation<T>> {
        let ready = |replica: &&mut Replica<T>| {
            replica.slot == slot && replica.ready_at().is_some_and(|at| at <= now)
        };
        let came_at = |replica: &Replica<T>| replica.queue.front().map(|(came_at, _)| *came_at);
        let replica = (self.replicas.iter_mut().filter(ready)).min_by_key(|replica| came_at(replica))?;
        let most = self.max_batch.get(replica.model).copied().unwrap_or(1);
        let count = replica.queue.len().min(most.max(replica.size));
        self.waiting -= count;
        Some(Invocation {
            model: replica.model,
            items: replica.queue.drain(..count).map(|(_, item)| item).collect(),
        })
    }

    /// Time at which a free slot may run a batch if no further items arrive; `None` if no items wait for it.
    #[must_use]
    pub fn ready_at(&self, slot: usize) -> Option<Timestamp> {
        let on_slot = self.replicas.iter().filter(|replica| replica.slot == slot);
        on_slot.filter_map(Replica::ready_at).min()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use weir_types::{CascadeGear, ReplicaGear, StageGear};

    use super::*;

    /// One model on three slots.
    fn plan(shares: [f64; 3], size: u32, wait: Span) -> GearPlan {
        let replica = |(slot, share)| ReplicaGear {
            model: 0,
            slot,
            share,
            size,
            wait,
        };
        let stage = StageGear {
            model: 0,
            certainty: 0.0,
        };
        GearPlan {
            number: 1,
            models: vec!["one".to_owned()],
            operators: vec!["read".to_owned()],
            placement: vec![vec![0]; 3],
            gears: vec![Gear {
                up_to: 100.0,
                cascades: vec![CascadeGear { stages: vec![stage] }],
                replicas: (0..).zip(shares).map(replica).collect(),
            }],
        }
    }

    #[test]
    fn a_replica_runs_when_enough_items_wait_or_the_first_has_waited_long_enough() {
        let mut replicas = Replicas::new(&plan([1.0, 0.0, 0.0], 2, Span::from_millis(10)), &[4]);
        let at = |ms: u64| Timestamp::from_micros(ms * 1_000);
        assert_eq!(replicas.push(0, 'a', at(0)), Ok(0));
        assert_eq!(replicas.next(0, at(9)), None);
        assert_eq!(replicas.ready_at(0), Some(at(10)));
        let alone = Invocation {
            model: 0,
            items: vec!['a'],
        };
        assert_eq!(replicas.next(0, at(10)), Some(alone));
        for item in ['b', 'c', 'd', 'e', 'f'] {
            assert_eq!(replicas.push(0, item, at(20)), Ok(0));
        }
        let items = replicas.next(0, at(20)).map(|invocation| invocation.items);
        assert_eq!(
            items,
            Some(vec!['b', 'c', 'd', 'e']),
            "all that wait, up to the largest batch"
        );
        assert_eq!((replicas.waiting(), replicas.next(0, at(20))), (1, None));
        assert_eq!(replicas.push(7, 'x', at(20)), Err('x'), "a model that is nowhere");
    }

    #[test]
    fn what_waits_for_a_replica_that_is_not_used_any_more_runs_at_once() {
        let first = plan([1.0, 0.0, 0.0], 8, Span::from_secs(10));
        let mut replicas = Replicas::new(&first, &[8]);
        assert_eq!(replicas.push(0, 1, Timestamp::ZERO), Ok(0));
        let mut other = first.gears[0].clone();
        other.replicas.remove(0);
        replicas.shift(&other);
        assert!(replicas.next(0, Timestamp::ZERO).is_some());
    }

    proptest! {
        /// Every run of items is divided by the shares, to within an item, and each item runs once.
        #[test]
        fn items_are_dealt_by_shares_and_run_once(a in 0_u32..10, b in 0_u32..10, c in 1_u32..10, items in 1_usize..200) {
            let sum = f64::from(a + b + c);
            let shares = [a, b, c].map(|part| f64::from(part) / sum);
            let mut replicas = Replicas::new(&plan(shares, 1, Span::ZERO), &[3]);
            let mut dealt = [0_usize; 3];
            for item in 0..items {
                let slot = replicas.push(0, item, Timestamp::ZERO).unwrap();
                dealt[slot] += 1;
            }
            for (dealt, share) in dealt.iter().zip(shares) {
                prop_assert!((*dealt as f64 - share * items as f64).abs() <= 2.0, "{dealt:?} {share}");
            }
            let mut seen = Vec::new();
            for slot in 0..3 {
                while let Some(invocation) = replicas.next(slot, Timestamp::ZERO) {
                    prop_assert!(invocation.items.len() <= 3);
                    seen.extend(invocation.items);
                }
            }
            seen.sort_unstable();
            prop_assert_eq!(seen, (0..items).collect::<Vec<_>>());
            prop_assert_eq!(replicas.waiting(), 0);
        }
    }
}
