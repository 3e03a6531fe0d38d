//! When each request can be in each module at all: from its least way there to its deadline less its least way out.

use std::collections::BTreeMap;

use weir_policy::{ModuleId, Span};

use super::cost::Costs;
use super::input::{Scene, Unvisited};
use super::joint::{self, Path, Visit};
use super::resource::Member;

/// The least way in and out of each module, for one request.
#[derive(Debug)]
pub(super) struct Ways<'a> {
    scene: &'a Scene<'a>,
    costs: &'a [Costs],
    predecessors: Vec<Vec<usize>>,
    successors: Vec<Vec<usize>>,
    /// Of the request followed last; none yet at first.
    items: Vec<Option<u32>>,
    least: Vec<Span>,
    head: Vec<Span>,
    tail: Vec<Span>,
    passed: Vec<Option<Span>>,
    /// From a first module to a last one.
    paths: Vec<Vec<usize>>,
    /// What was worked out for these items and modules.
    joint: BTreeMap<(Vec<Option<u32>>, Vec<Member>), u128>,
}

impl<'a> Ways<'a> {
    pub(super) fn new(scene: &'a Scene<'a>, costs: &'a [Costs]) -> Self {
        let modules = scene.modules.len();
        let mut predecessors = vec![Vec::new(); modules];
        let mut successors = vec![Vec::new(); modules];
        for (module, after) in successors.iter_mut().enumerate() {
            for successor in scene.topology.successors(ModuleId(module as u32)) {
                predecessors[successor.index()].push(module);
                after.push(successor.index());
            }
        }
        Self {
            scene,
            costs,
            predecessors,
            successors,
            items: vec![None; modules],
            least: vec![Span::ZERO; modules],
            head: vec![Span::ZERO; modules],
            tail: vec![Span::ZERO; modules],
            passed: vec![None; modules],
            paths: paths(scene),
            joint: BTreeMap::new(),
        }
    }

    /// The least way to each module, of all these requests; zero where none visits it.
    pub(super) fn least_heads(&mut self) -> Vec<Span> {
        let mut least: Vec<Option<Span>> = vec![None; self.items.len()];
        for request in 0..self.scene.arrivals.len() {
            if self.follow(request) {
                for (module, least) in least
                    .iter_mut()
                    .enumerate()
                    .filter(|(module, _)| self.visits(*module))
                {
                    let head = self.head[module];
                    *least = Some(least.map_or(head, |least| least.min(head)));
                }
            }
        }
        least.into_iter().map(Option::unwrap_or_default).collect()
    }

    /// Items that the request followed last brings, by module.
    pub(super) fn brings(&self) -> &[Option<u32>] {
        &self.items
    }

    /// Works out the ways of this request; false where even alone it could not be in time.
    pub(super) fn follow(&mut self, request: usize) -> bool {
        let mut same = true;
        for (module, station) in self.scene.modules.iter().enumerate() {
            let items = station.items.of(request);
            if self.items[module] != Some(items) {
                same = false;
                self.items[module] = Some(items);
                self.least[module] = if items == 0 {
                    Span::ZERO
                } else {
                    self.costs[module].least(items)
                };
            }
        }
        if !same {
            let hops = self.scene.hops;
            let modules = self.items.len();
            self.sweep(0..modules, hops.entry, true);
            self.sweep((0..modules).rev(), hops.exit, false);
        }
        (0..self.items.len()).all(|module| !self.visits(module) || self.fits(module))
    }

    /// The longest way through what it visits, from one end of the graph. Modules it does not visit cost nothing.
    fn sweep(&mut self, order: impl Iterator<Item = usize>, end: Span, forward: bool) {
        let between = self.scene.hops.between;
        let through = self.scene.unvisited == Unvisited::PassedThrough;
        for module in order {
            let nearer = if forward {
                &self.predecessors[module]
            } else {
                &self.successors[module]
            };
            let reached = nearer.iter().filter_map(|&near| self.passed[near]).max();
            let way = reached.map_or(end, |reached| (reached + between).max(end));
            self.passed[module] = match self.visits(module) {
                true => Some(way + self.least[module]),
                false if through => reached,
                false => None,
            };
            let side = if forward { &mut self.head } else { &mut self.tail };
            side[module] = way;
        }
    }

    fn visits(&self, module: usize) -> bool {
        self.items[module].is_some_and(|items| items > 0)
    }

    fn fits(&self, module: usize) -> bool {
        let way = self.head[module] + self.least[module] + self.tail[module];
        way <= self.scene.slo && self.costs[module].share(self.window(module)) < u64::MAX
    }

    fn window(&self, module: usize) -> Span {
        self.scene
            .slo
            .saturating_sub(self.head[module] + self.tail[module])
    }

    /// Least way to the first of these modules that it visits, least way on from the last, each as if the modules began
    /// their shifts earlier, and the least slot time in all of them, each weighted; `None` where it visits none.
    pub(super) fn through(&mut self, members: &[Member]) -> Option<(Span, Span, u128)> {
        let mut found: Option<(Span, Span, u128)> = None;
        let mut visited = 0;
        for &Member {
            module,
            weight,
            shift,
        } in members
        {
            let items = match self.items[module] {
                None | Some(0) => continue,
                Some(items) => items,
            };
            let share = u128::from(self.costs[module].share(self.window(module)));
            let work = share * u128::from(items) * u128::from(weight);
            visited += 1;
            let (head, tail) = (self.head[module].saturating_sub(shift), self.tail[module] + shift);
            found = Some(found.map_or((head, tail, work), |(least_head, least_tail, sum)| {
                (least_head.min(head), least_tail.min(tail), sum + work)
            }));
        }
        if let Some((_, _, work)) = found.as_mut().filter(|_| visited > 1) {
            *work = (*work).max(self.jointly(members));
        }
        found
    }

    /// The least slot time in these modules, each weighted, where the SLO is spent once.
    fn jointly(&mut self, members: &[Member]) -> u128 {
        let key = (self.items.clone(), members.to_vec());
        if let Some(&known) = self.joint.get(&key) {
            return known;
        }
        let work = self.work_out(members);
        self.joint.insert(key, work);
        work
    }

    fn work_out(&self, members: &[Member]) -> u128 {
        let visits = (0..self.items.len())
            .filter(|&module| self.visits(module))
            .map(|module| {
                let of = members.iter().filter(|member| member.module == module);
                let weight: u64 = of.map(|member| member.weight).sum();
                Visit {
                    module,
                    weight: weight as f64 * f64::from(self.items[module].unwrap_or(0)),
                    least: self.least[module].micros(),
                    costs: &self.costs[module],
                }
            });
        let visits: Vec<Visit<'_>> = visits.collect();
        joint::least(&visits, &self.visited_paths())
    }

    /// The paths of what it visits, with the time that they have.
    fn visited_paths(&self) -> Vec<Path> {
        let through = self.scene.unvisited == Unvisited::PassedThrough;
        let hops = self.scene.hops;
        let mut found: Vec<Path> = Vec::new();
        for path in &self.paths {
            // What is not visited is passed, or nothing is known beyond it.
            let stretches: Vec<Vec<usize>> = if through {
                vec![
                    path.iter()
                        .copied()
                        .filter(|&module| self.visits(module))
                        .collect(),
                ]
            } else {
                path.split(|&module| !self.visits(module))
                    .map(<[usize]>::to_vec)
                    .collect()
            };
            for modules in stretches {
                if modules.is_empty() || found.iter().any(|path| path.modules == modules) {
                    continue;
                }
                let spent = hops.entry + hops.exit + hops.between * (modules.len() as u64 - 1);
                let room = self.scene.slo.saturating_sub(spent).micros();
                found.push(Path { modules, room });
            }
        }
        found
    }
}

/// Ways from a first module to a last one, some of them where there are very many.
fn paths(scene: &Scene<'_>) -> Vec<Vec<usize>> {
    const MOST: usize = 64;
    let modules = scene.modules.len();
    let mut first = vec![true; modules];
    for module in 0..modules {
        for next in scene.topology.successors(ModuleId(module as u32)) {
            first[next.index()] = false;
        }
    }
    let mut open: Vec<Vec<usize>> = (0..modules)
        .filter(|&module| first[module])
        .map(|module| vec![module])
        .collect();
    let mut whole = Vec::new();
    while let Some(path) = open.pop() {
        let Some(&last) = path.last() else { continue };
        let next = scene.topology.successors(ModuleId(last as u32));
        if next.is_empty() || open.len() + whole.len() >= MOST {
            whole.push(path);
            continue;
        }
        open.extend(
            next.iter()
                .map(|next| path.iter().copied().chain([next.index()]).collect()),
        );
    }
    whole
}
