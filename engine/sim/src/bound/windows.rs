//! When each request can be in each module at all: from its least way there to its deadline less its least way out.

use weir_policy::{ModuleId, Span};

use super::cost::Costs;
use super::input::{Scene, Unvisited};

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
        }
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

    /// Least way to the first of these modules that it visits, least way on from the last, and the least slot time in
    /// all of them, each weighted; `None` where it visits none.
    pub(super) fn through(&self, members: &[(usize, u64)]) -> Option<(Span, Span, u128)> {
        let mut found: Option<(Span, Span, u128)> = None;
        for &(module, weight) in members {
            let items = match self.items[module] {
                None | Some(0) => continue,
                Some(items) => items,
            };
            let share = u128::from(self.costs[module].share(self.window(module)));
            let work = share * u128::from(items) * u128::from(weight);
            let (head, tail) = (self.head[module], self.tail[module]);
            found = Some(found.map_or((head, tail, work), |(least_head, least_tail, sum)| {
                (least_head.min(head), least_tail.min(tail), sum + work)
            }));
        }
        found
    }
}
