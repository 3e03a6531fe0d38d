//! With which devices one model reaches a rate: every set of pipelines with whole pools that wastes little, less those that
//! others beat in every class.
//!
//! A set of pipelines takes at most one of each kind (PPipe A.2). Kinds that share no devices with others have whole
//! devices in every stage, and so few choices; only where kinds share a class at one position are there many. What has
//! been chosen has wasted something for certain, and what is still to be chosen wastes at least its least: a set is left
//! as soon as that is too much.

use crate::column::Column;
use crate::pool_options::{PoolOption, PoolOptions, STAGES_MAX};

/// So many sets of kinds are looked at, the smaller ones.
const SETS_MAX: usize = 6_000;
/// What a set costs before anything is chosen, in steps.
const STEPS_A_SET: u64 = 100;
/// Steps for one set of kinds.
const STEPS_MAX_A_SET: u64 = 2_000_000;

/// Devices that do for one model.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct DeviceBundle {
    /// By class.
    pub(super) devices: Vec<u32>,
    /// What they are worth more than the fares of what is needed.
    pub(super) reduced_cost: f64,
    /// Column and pools by stage, a pipeline each.
    pub(super) pipelines: Vec<(usize, [u32; STAGES_MAX])>,
}

/// What a search may still do; it counts, so that it ends at the same place everywhere.
#[derive(Debug)]
pub(super) struct Steps {
    pub(super) left: u64,
}

impl Steps {
    /// Whether so many more may be done.
    pub(super) fn take(&mut self, steps: u64) -> bool {
        let enough = self.left >= steps;
        self.left = self.left.saturating_sub(steps);
        enough
    }
}

/// How much a search wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sought {
    /// The holding that wastes least.
    Least,
    /// All that waste little enough and are not beaten.
    All,
}

/// A search over one model's menu.
pub(super) struct Search<'a> {
    pub(super) options: &'a PoolOptions,
    pub(super) columns: &'a [Column],
    /// Items a second that are needed.
    pub(super) rate: f64,
    /// Devices by class that there are at most.
    pub(super) limit: &'a [u32],
    pub(super) sought: Sought,
    pub(super) waste_max: f64,
    found: Vec<DeviceBundle>,
}

/// A set of kinds under search.
struct Set<'a> {
    kinds: Vec<Member<'a>>,
    /// By level, of the kinds from there on.
    rest: Vec<Rest>,
}

/// What the kinds that are still to be chosen for can do.
#[derive(Debug, Clone, Copy)]
struct Rest {
    /// What they waste at least.
    reduced_cost: f64,
    /// What they waste at least for an item a second.
    by_rate: f64,
    /// The items a second that they reach at most.
    rate: f64,
}

impl Rest {
    const NONE: Self = Self {
        reduced_cost: 0.0,
        by_rate: f64::INFINITY,
        rate: 0.0,
    };

    fn with(self, choices: &[PoolOption]) -> Self {
        let by_rate = choices.iter().map(|choice| choice.reduced_cost / choice.rate);
        Self {
            reduced_cost: self.reduced_cost + least_waste(choices),
            by_rate: by_rate.fold(self.by_rate, f64::min),
            rate: self.rate + choices.last().map_or(0.0, |choice| choice.rate),
        }
    }

    /// What they waste at least when they have to reach a rate.
    fn least(&self, rate: f64) -> f64 {
        if rate > 0.0 && self.by_rate.is_finite() {
            self.reduced_cost.max(self.by_rate * rate)
        } else {
            self.reduced_cost
        }
    }
}

struct Member<'a> {
    choices: &'a [PoolOption],
    /// By stage: the devices that it shares with other kinds, as a slot; `None` where it shares none.
    slots: [Option<usize>; STAGES_MAX],
    /// Slots, with their classes, that no later kind of the set shares.
    closing: Vec<(usize, usize)>,
}

impl<'a> Search<'a> {
    pub(super) fn new(
        options: &'a PoolOptions,
        columns: &'a [Column],
        rate: f64,
        limit: &'a [u32],
        sought: Sought,
        waste_max: f64,
    ) -> Self {
        Self {
            options,
            columns,
            rate,
            limit,
            sought,
            waste_max,
            found: Vec::new(),
        }
    }

    /// The holdings that are sought, and whether there was time to look at everything.
    pub(super) fn run(mut self, steps: &mut Steps) -> (Vec<DeviceBundle>, bool) {
        let (sets, mut complete) = self.sets(steps);
        let mut ranked = Vec::new();
        for kinds in &sets {
            let set = self.set(kinds);
            let least = set.rest[0].least(self.rate);
            if least <= self.waste_max && set.rest[0].rate >= self.rate * (1.0 - 1e-9) {
                ranked.push((least, set));
            }
        }
        ranked.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        let slots = self.limit.len() * STAGES_MAX;
        for (least, set) in &ranked {
            if *least <= self.waste_max {
                let mut open = Open {
                    rate: self.rate,
                    reduced_cost: 0.0,
                    parts: vec![0; slots],
                    chosen: Vec::new(),
                };
                let mut once = Steps {
                    left: steps.left.min(STEPS_MAX_A_SET),
                };
                let given = once.left;
                complete &= self.descend(set, &mut open, &mut once);
                steps.left -= given - once.left;
            }
        }
        self.found.sort_by(|a, b| {
            a.reduced_cost
                .total_cmp(&b.reduced_cost)
                .then(a.devices.cmp(&b.devices))
        });
        (self.found, complete)
    }

    /// All sets of kinds that could waste little enough, smaller ones first, and whether these are all.
    fn sets(&self, steps: &mut Steps) -> (Vec<Vec<usize>>, bool) {
        let least: Vec<f64> = (0..self.options.kinds.len())
            .map(|kind| least_waste(self.options.choices(kind, 0)))
            .collect();
        let mut sets: Vec<Vec<usize>> = vec![Vec::new()];
        let mut at = 0;
        while let Some(set) = sets.get(at).cloned() {
            at += 1;
            let reduced_cost: f64 = set.iter().map(|&kind| least[kind]).sum();
            let next = set.last().map_or(0, |kind| kind + 1);
            for kind in (next..least.len()).filter(|&kind| reduced_cost + least[kind] <= self.waste_max) {
                if sets.len() > SETS_MAX || !steps.take(STEPS_A_SET) {
                    return (sets.split_off(1), false);
                }
                sets.push(set.iter().copied().chain([kind]).collect());
            }
        }
        (sets.split_off(1), true)
    }

    fn slot(&self, stage: usize, class: usize) -> usize {
        stage * self.limit.len() + class
    }

    fn set(&self, kinds: &[usize]) -> Set<'a> {
        let mut users = vec![0_u32; self.limit.len() * STAGES_MAX];
        for &kind in kinds {
            for (stage, &class) in self.options.kinds[kind].classes.iter().enumerate() {
                users[self.slot(stage, class)] += 1;
            }
        }
        let member = |&kind: &usize| {
            let classes = &self.options.kinds[kind].classes;
            let (mut alone, mut slots) = (0, [None; STAGES_MAX]);
            for (stage, &class) in classes.iter().enumerate() {
                let slot = self.slot(stage, class);
                if users[slot] == 1 {
                    alone |= 1 << stage;
                } else {
                    slots[stage] = Some(slot);
                }
            }
            Member {
                choices: self.options.choices(kind, alone),
                slots,
                closing: Vec::new(),
            }
        };
        let mut members: Vec<Member> = kinds.iter().map(member).collect();
        // The last kind is looked up by what is still needed, so it had better be the one with most choices.
        members.sort_by_key(|member| member.choices.len());
        for level in 0..members.len() {
            let later: Vec<usize> = members[level + 1..]
                .iter()
                .flat_map(|member| member.slots)
                .flatten()
                .collect();
            let own = members[level]
                .slots
                .into_iter()
                .flatten()
                .filter(|slot| !later.contains(slot));
            members[level].closing = own.map(|slot| (slot, slot % self.limit.len())).collect();
        }
        let mut rest = vec![Rest::NONE; members.len() + 1];
        for (level, member) in members.iter().enumerate().rev() {
            rest[level] = rest[level + 1].with(member.choices);
        }
        Set { kinds: members, rest }
    }

    /// Chooses for the next kind of the set in every way. `false`: the steps were used up.
    fn descend(&mut self, set: &Set, open: &mut Open, steps: &mut Steps) -> bool {
        let level = open.chosen.len();
        let member = &set.kinds[level];
        let rest = &set.rest[level + 1];
        let last = level + 1 == set.kinds.len();
        let needed = (open.rate - rest.rate) - 1e-9 * self.rate;
        let from = member.choices.partition_point(|choice| choice.rate < needed);
        let (rate, reduced_cost) = (open.rate, open.reduced_cost);
        for (at, choice) in member.choices.iter().enumerate().skip(from) {
            let over = (choice.rate - rate).max(0.0);
            let room = self.waste_max - reduced_cost - rest.least(rate - choice.rate);
            if over * self.options.unit_cost > self.waste_max - reduced_cost
                || (!last && choice.rate >= rate * (1.0 - 1e-9))
            {
                break;
            }
            if !steps.take(1) {
                return false;
            }
            let mut wasted = choice.reduced_cost + over * self.options.unit_cost;
            if wasted > room {
                continue;
            }
            for (slot, parts) in member.slots.iter().zip(choice.parts) {
                if let Some(slot) = slot {
                    open.parts[*slot] += parts;
                }
            }
            wasted += member
                .closing
                .iter()
                .map(|&(slot, class)| self.options.completed(open.parts[slot], class).1)
                .sum::<f64>();
            let mut go_on = true;
            if wasted <= room {
                open.chosen.push(at);
                open.reduced_cost = reduced_cost + wasted;
                open.rate = rate - choice.rate;
                if last {
                    self.record(set, open);
                } else {
                    go_on = self.descend(set, open, steps);
                }
                open.chosen.pop();
                (open.rate, open.reduced_cost) = (rate, reduced_cost);
            }
            for (slot, parts) in member.slots.iter().zip(choice.parts) {
                if let Some(slot) = slot {
                    open.parts[*slot] -= parts;
                }
            }
            if !go_on {
                return false;
            }
        }
        true
    }

    /// Keeps what has been chosen, unless something is as good.
    fn record(&mut self, set: &Set, open: &Open) {
        let classes = self.limit.len();
        let mut devices = vec![0_u32; classes];
        let mut pipelines = Vec::new();
        for (member, &at) in set.kinds.iter().zip(&open.chosen) {
            let choice = &member.choices[at];
            pipelines.push((choice.column, choice.pools));
            for (stage, leg) in self.columns[choice.column].legs.iter().enumerate() {
                if member.slots[stage].is_none() {
                    devices[leg.class] += (choice.parts[stage] / self.options.unit) as u32;
                }
            }
        }
        for (slot, &parts) in open.parts.iter().enumerate() {
            devices[slot % classes] += parts.div_ceil(self.options.unit) as u32;
        }
        if devices.iter().zip(self.limit).any(|(have, limit)| have > limit) {
            return;
        }
        let bundle = DeviceBundle {
            devices,
            reduced_cost: open.reduced_cost,
            pipelines,
        };
        match self.sought {
            Sought::Least => {
                // From here on only what is better by more than nothing counts.
                self.waste_max = bundle.reduced_cost - 1e-9 * self.rate * self.options.unit_cost;
                self.found = vec![bundle];
            }
            Sought::All => {
                let beats = |a: &DeviceBundle, b: &DeviceBundle| {
                    a.devices.iter().zip(&b.devices).all(|(a, b)| a <= b)
                };
                if !self.found.iter().any(|kept| beats(kept, &bundle)) {
                    self.found.retain(|kept| !beats(&bundle, kept));
                    self.found.push(bundle);
                }
            }
        }
    }
}

/// What has been chosen of a set so far.
struct Open {
    /// Items a second still needed.
    rate: f64,
    reduced_cost: f64,
    /// By slot, the parts of devices that several kinds share.
    parts: Vec<u64>,
    /// By level, the index of the choice.
    chosen: Vec<usize>,
}

fn least_waste(choices: &[PoolOption]) -> f64 {
    choices
        .iter()
        .map(|choice| choice.reduced_cost)
        .fold(f64::INFINITY, f64::min)
}
