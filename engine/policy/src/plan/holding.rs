//! With which devices one model reaches a rate: every set of pipelines with whole pools that wastes little, less those that
//! others beat in every class.
//!
//! A set of pipelines takes at most one of each kind (PPipe A.2). Kinds that share no devices with others have whole
//! devices in every stage, and so few choices; only where kinds share a class at one position are there many. What has
//! been chosen has wasted something for certain, and what is still to be chosen wastes at least its least: a set is left
//! as soon as that is too much.

use super::column::Column;
use super::menu::{Choice, Menu, STAGES_MAX};

/// Devices that do for one model.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Holding {
    /// By class.
    pub(super) devices: Vec<u32>,
    /// What they are worth more than the fares of what is needed.
    pub(super) waste: f64,
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
    pub(super) menu: &'a Menu,
    pub(super) columns: &'a [Column],
    /// Items a second that are needed.
    pub(super) rate: f64,
    /// Devices by class that there are at most.
    pub(super) limit: &'a [u32],
    pub(super) sought: Sought,
    pub(super) waste_max: f64,
    found: Vec<Holding>,
}

/// A set of kinds under search.
struct Set<'a> {
    kinds: Vec<Member<'a>>,
    /// By level, what the kinds from there on waste at least, and the rate that they reach at most.
    rest: Vec<(f64, f64)>,
}

struct Member<'a> {
    choices: &'a [Choice],
    /// By stage: the devices that it shares with other kinds, as a slot; `None` where it shares none.
    slots: [Option<usize>; STAGES_MAX],
    /// Slots, with their classes, that no later kind of the set shares.
    closing: Vec<(usize, usize)>,
}

impl<'a> Search<'a> {
    pub(super) fn new(
        menu: &'a Menu,
        columns: &'a [Column],
        rate: f64,
        limit: &'a [u32],
        sought: Sought,
        waste_max: f64,
    ) -> Self {
        Self { menu, columns, rate, limit, sought, waste_max, found: Vec::new() }
    }

    /// The holdings that are sought, and whether there was time to look at everything.
    pub(super) fn run(mut self, steps: &mut Steps) -> (Vec<Holding>, bool) {
        let mut sets = Vec::new();
        let mut complete = self.sets(0, &mut Vec::new(), 0.0, &mut sets, steps);
        let mut ranked = Vec::new();
        for kinds in &sets {
            let set = self.set(kinds);
            let least = set.rest[0].0;
            if least <= self.waste_max && set.rest[0].1 >= self.rate * (1.0 - 1e-9) {
                ranked.push((least, set));
            }
        }
        ranked.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        let slots = self.limit.len() * STAGES_MAX;
        for (least, set) in &ranked {
            if *least <= self.waste_max {
                let mut open = Open { rate: self.rate, waste: 0.0, parts: vec![0; slots], chosen: Vec::new() };
                complete &= self.descend(set, &mut open, steps);
            }
        }
        self.found.sort_by(|a, b| a.waste.total_cmp(&b.waste).then(a.devices.cmp(&b.devices)));
        (self.found, complete)
    }

    /// All sets of kinds from `next` on, added to `taken`, that could waste little enough.
    fn sets(&self, next: usize, taken: &mut Vec<usize>, waste: f64, sets: &mut Vec<Vec<usize>>, steps: &mut Steps) -> bool {
        for kind in next..self.menu.kinds.len() {
            let least = least_waste(self.menu.choices(kind, 0));
            if waste + least > self.waste_max {
                continue;
            }
            if !steps.take(1_000) {
                return false;
            }
            taken.push(kind);
            sets.push(taken.clone());
            let complete = self.sets(kind + 1, taken, waste + least, sets, steps);
            taken.pop();
            if !complete {
                return false;
            }
        }
        true
    }

    fn slot(&self, stage: usize, class: usize) -> usize {
        stage * self.limit.len() + class
    }

    fn set(&self, kinds: &[usize]) -> Set<'a> {
        let mut users = vec![0_u32; self.limit.len() * STAGES_MAX];
        for &kind in kinds {
            for (stage, &class) in self.menu.kinds[kind].classes.iter().enumerate() {
                users[self.slot(stage, class)] += 1;
            }
        }
        let member = |&kind: &usize| {
            let classes = &self.menu.kinds[kind].classes;
            let (mut alone, mut slots) = (0, [None; STAGES_MAX]);
            for (stage, &class) in classes.iter().enumerate() {
                let slot = self.slot(stage, class);
                if users[slot] == 1 {
                    alone |= 1 << stage;
                } else {
                    slots[stage] = Some(slot);
                }
            }
            Member { choices: self.menu.choices(kind, alone), slots, closing: Vec::new() }
        };
        let mut members: Vec<Member> = kinds.iter().map(member).collect();
        // The last kind is looked up by what is still needed, so it had better be the one with most choices.
        members.sort_by_key(|member| member.choices.len());
        for level in 0..members.len() {
            let later: Vec<usize> = members[level + 1..].iter().flat_map(|member| member.slots).flatten().collect();
            let own = members[level].slots.into_iter().flatten().filter(|slot| !later.contains(slot));
            members[level].closing = own.map(|slot| (slot, slot % self.limit.len())).collect();
        }
        let mut rest = vec![(0.0, 0.0); members.len() + 1];
        for (level, member) in members.iter().enumerate().rev() {
            let most = member.choices.last().map_or(0.0, |choice| choice.rate);
            rest[level] = (rest[level + 1].0 + least_waste(member.choices), rest[level + 1].1 + most);
        }
        Set { kinds: members, rest }
    }

    /// Chooses for the next kind of the set in every way. `false`: the steps were used up.
    fn descend(&mut self, set: &Set, open: &mut Open, steps: &mut Steps) -> bool {
        let level = open.chosen.len();
        let member = &set.kinds[level];
        let (rest_waste, rest_rate) = set.rest[level + 1];
        let last = level + 1 == set.kinds.len();
        let needed = (open.rate - rest_rate) - 1e-9 * self.rate;
        let from = member.choices.partition_point(|choice| choice.rate < needed);
        let (rate, waste) = (open.rate, open.waste);
        for (at, choice) in member.choices.iter().enumerate().skip(from) {
            let over = (choice.rate - rate).max(0.0);
            let room = self.waste_max - waste - rest_waste;
            if over * self.menu.fare > room || (!last && choice.rate >= rate * (1.0 - 1e-9)) {
                break;
            }
            if !steps.take(1) {
                return false;
            }
            let mut wasted = choice.waste + over * self.menu.fare;
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
                .map(|&(slot, class)| self.menu.completed(open.parts[slot], class).1)
                .sum::<f64>();
            let mut go_on = true;
            if wasted <= room {
                open.chosen.push(at);
                open.waste = waste + wasted;
                open.rate = rate - choice.rate;
                if last {
                    self.record(set, open);
                } else {
                    go_on = self.descend(set, open, steps);
                }
                open.chosen.pop();
                (open.rate, open.waste) = (rate, waste);
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
                    devices[leg.class] += (choice.parts[stage] / self.menu.unit) as u32;
                }
            }
        }
        for (slot, &parts) in open.parts.iter().enumerate() {
            devices[slot % classes] += parts.div_ceil(self.menu.unit) as u32;
        }
        if devices.iter().zip(self.limit).any(|(have, limit)| have > limit) {
            return;
        }
        let holding = Holding { devices, waste: open.waste, pipelines };
        match self.sought {
            Sought::Least => {
                // From here on only what is better by more than nothing counts.
                self.waste_max = holding.waste - 1e-9 * self.rate * self.menu.fare;
                self.found = vec![holding];
            }
            Sought::All => {
                let beats = |a: &Holding, b: &Holding| a.devices.iter().zip(&b.devices).all(|(a, b)| a <= b);
                if !self.found.iter().any(|kept| beats(kept, &holding)) {
                    self.found.retain(|kept| !beats(&holding, kept));
                    self.found.push(holding);
                }
            }
        }
    }
}

/// What has been chosen of a set so far.
struct Open {
    /// Items a second still needed.
    rate: f64,
    waste: f64,
    /// By slot, the parts of devices that several kinds share.
    parts: Vec<u64>,
    /// By level, the index of the choice.
    chosen: Vec<usize>,
}

fn least_waste(choices: &[Choice]) -> f64 {
    choices.iter().map(|choice| choice.waste).fold(f64::INFINITY, f64::min)
}
