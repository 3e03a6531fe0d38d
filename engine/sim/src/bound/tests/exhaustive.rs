//! The true optimum of tiny scenes: every batch schedule in whole microseconds is tried.

use std::collections::BTreeSet;

use weir_types::{ModuleId, Span};

use crate::bound::input::{BoundInput, Capacity, Unvisited};

/// Items of each request in one batch, and when it ends.
type Running = (u64, Vec<u8>);

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct State {
    now: u64,
    /// Items that have not started, by module and request.
    left: Vec<Vec<u8>>,
    /// Running batches by module, sorted.
    running: Vec<Vec<Running>>,
    /// End of the last batch with items of a request, by module and request.
    ended: Vec<Vec<u64>>,
}

struct Search<'a> {
    input: &'a BoundInput<'a>,
    wanted: Vec<bool>,
    seen: BTreeSet<(usize, State)>,
}

/// The most requests that some schedule delivers in time.
pub(super) fn optimum(input: &BoundInput<'_>) -> u64 {
    let requests = input.arrivals.len() as u64;
    (0..requests)
        .rev()
        .find(|&less| beats(input, less))
        .map_or(0, |less| less + 1)
}

/// True if some schedule delivers more requests than this.
pub(super) fn beats(input: &BoundInput<'_>, delivered: u64) -> bool {
    (0..1_u32 << input.arrivals.len())
        .any(|subset| u64::from(subset.count_ones()) == delivered + 1 && feasible(input, subset))
}

fn feasible(input: &BoundInput<'_>, subset: u32) -> bool {
    let requests = input.arrivals.len();
    let wanted: Vec<bool> = (0..requests).map(|request| subset >> request & 1 == 1).collect();
    let left = input.modules.iter().map(|module_input| {
        let items =
            (0..requests).map(|request| u8::from(wanted[request]) * module_input.items.count(request) as u8);
        items.collect()
    });
    let state = State {
        now: 0,
        left: left.collect(),
        running: vec![Vec::new(); input.modules.len()],
        ended: vec![vec![0; requests]; input.modules.len()],
    };
    let mut search = Search {
        input,
        wanted,
        seen: BTreeSet::new(),
    };
    search.from(0, state)
}

impl Search<'_> {
    /// True if all can still be in time, when modules from `module` on may start batches now.
    fn from(&mut self, module: usize, state: State) -> bool {
        if !self.seen.insert((module, state.clone())) {
            return false;
        }
        if module == self.input.modules.len() {
            return self.later(state);
        }
        let free: Vec<u8> = (0..self.wanted.len())
            .map(|request| self.ready(&state, module, request))
            .collect();
        let largest = self.input.modules[module].batches.iter().copied().max().unwrap();
        for batch in batches(&free, largest as u8) {
            let size = batch.iter().map(|&items| u32::from(items)).sum();
            let end = state.now + self.input.modules[module].profile.duration(size).micros();
            if !self.has_room(&state, module, end) {
                continue;
            }
            let mut next = state.clone();
            for (left, items) in next.left[module].iter_mut().zip(&batch) {
                *left -= items;
            }
            next.running[module].push((end, batch));
            next.running[module].sort();
            if self.from(module, next) {
                return true;
            }
        }
        self.from(module + 1, state)
    }

    /// Advances time by one microsecond.
    fn later(&mut self, mut state: State) -> bool {
        state.now += 1;
        let State {
            now, running, ended, ..
        } = &mut state;
        for (running, ended) in running.iter_mut().zip(ended) {
            running.retain(|(end, batch)| {
                for (ended, items) in ended.iter_mut().zip(batch) {
                    if *items > 0 && end == now {
                        *ended = *now;
                    }
                }
                end > now
            });
        }
        let open: Vec<usize> = (0..self.wanted.len())
            .filter(|&request| self.open(&state, request))
            .collect();
        let late = |request: usize| {
            let yet = (0..state.left.len()).filter(|&module| state.left[module][request] > 0);
            let yet = yet
                .map(|module| self.input.modules[module].profile.duration(1).micros())
                .max();
            let deadline = self.input.arrivals[request].micros() + self.input.slo.micros();
            deadline < state.now + yet.unwrap_or(0)
        };
        if open.iter().any(|&request| late(request)) {
            return false;
        }
        open.is_empty() || self.from(0, state)
    }

    /// True if the request may still miss its deadline. It arrives `exit` after its last batch.
    fn open(&self, state: &State, request: usize) -> bool {
        let sent = self.input.arrivals[request].micros();
        let visits = |module: usize| self.input.modules[module].items.count(request) > 0;
        self.wanted[request]
            && (0..state.left.len())
                .filter(|&module| visits(module))
                .any(|module| {
                    let done = self.done(state, module, request);
                    let out = done.map(|end| end + self.input.hops.exit.micros());
                    out.is_none_or(|out| out > sent + self.input.slo.micros())
                })
    }

    fn done(&self, state: &State, module: usize, request: usize) -> Option<u64> {
        let busy = state.running[module].iter().any(|(_, batch)| batch[request] > 0);
        let done = state.left[module][request] == 0 && !busy;
        done.then_some(state.ended[module][request])
    }

    /// Items of it that could be started now.
    fn ready(&self, state: &State, module: usize, request: usize) -> u8 {
        let sent = self.input.arrivals[request];
        let begins = sent.micros() + self.input.hops.entry.micros();
        let left = state.left[module][request];
        if left == 0 || state.now < begins {
            return 0;
        }
        let between = self.input.hops.between.micros();
        let before = self.before(module, request);
        let come = before.into_iter().all(|earlier| {
            self.done(state, earlier, request)
                .is_some_and(|end| end + between <= state.now)
        });
        if come { left } else { 0 }
    }

    /// Modules that it visits and has to leave before it comes to this one.
    fn before(&self, module: usize, request: usize) -> Vec<usize> {
        let input = self.input;
        let follows = |earlier: usize, later: usize| {
            input
                .topology
                .successors(ModuleId(earlier as u32))
                .contains(&ModuleId(later as u32))
        };
        let mut before = Vec::new();
        for earlier in (0..module).filter(|&earlier| follows(earlier, module)) {
            if input.modules[earlier].items.count(request) > 0 {
                before.push(earlier);
            } else if input.unvisited == Unvisited::PassedThrough {
                before.extend(self.before(earlier, request));
            }
        }
        before
    }

    fn has_room(&self, state: &State, module: usize, end: u64) -> bool {
        let fits = |members: &[usize], capacity: &Capacity| {
            (state.now..end).all(|moment| {
                let running = members.iter().flat_map(|&member| &state.running[member]);
                let busy = running.filter(|(end, _)| *end > moment).count();
                busy < workers(capacity, moment) as usize
            })
        };
        let shared = self
            .input
            .shared
            .iter()
            .filter(|shared| shared.modules.contains(&ModuleId(module as u32)));
        let mut shared = shared.map(|shared| {
            let members: Vec<usize> = shared.modules.iter().map(|module| module.index()).collect();
            fits(&members, &shared.slots)
        });
        fits(&[module], &self.input.modules[module].workers) && shared.all(|fits| fits)
    }
}

fn workers(capacity: &Capacity, moment: u64) -> u32 {
    let step = capacity.0.iter().rev().find(|step| step.0.micros() <= moment);
    step.map_or(0, |step| step.1)
}

/// Every batch of 1 to `largest` items out of these.
fn batches(free: &[u8], largest: u8) -> Vec<Vec<u8>> {
    let mut open = vec![Vec::new()];
    for &items in free {
        open = open
            .into_iter()
            .flat_map(|begun: Vec<u8>| {
                (0..=items).map(move |taken| {
                    let mut batch = begun.clone();
                    batch.push(taken);
                    batch
                })
            })
            .filter(|batch| batch.iter().sum::<u8>() <= largest)
            .collect();
    }
    open.retain(|batch| batch.iter().any(|&items| items > 0));
    open
}

#[test]
fn the_search_counts_right() {
    use weir_types::{Profile, Timestamp, Topology};
    let arrivals = [Timestamp::ZERO; 3];
    let topology = Topology::new(vec![vec![]]);
    let profile = Profile::new(vec![(1, Span::from_micros(2)), (2, Span::from_micros(3))]).unwrap();
    let check = |slo, batch: &[u32], delivered| {
        let input = super::input(
            &arrivals,
            slo,
            &topology,
            vec![super::module_input(&profile, batch, 1)],
        );
        assert_eq!(optimum(&input), delivered, "slo {slo}, batches {batch:?}");
    };
    check(1, &[1], 0);
    check(4, &[1], 2);
    check(4, &[2], 2);
    check(5, &[2], 3);
    check(6, &[1], 3);
}
