//! Time window in which each request can be in each module: from the least time to reach it, to the deadline
//! less the least time to leave. The times are computed once for all requests with the same numbers of items.

use weir_types::{ModuleId, Span};

use super::cost::Costs;
use super::input::{BoundInput, Unvisited};
use super::joint::{self, Path, Visit};
use super::kinds::Kinds;
use super::resource::Member;

/// The ways of all requests.
#[derive(Debug)]
pub(super) struct PathTimes<'a> {
    input: &'a BoundInput<'a>,
    costs: &'a [Costs],
    kinds: Kinds,
    /// Times by kind; `None` if a request of the kind is late even on an idle system.
    all: Vec<Option<KindTimes>>,
    /// Paths from a first module to a last one.
    paths: Vec<Vec<usize>>,
}

/// The least way in and out of each module, for requests of one kind.
#[derive(Debug)]
struct KindTimes {
    least: Vec<Span>,
    head: Vec<Span>,
    tail: Vec<Span>,
}

/// Least time and work of a request in a set of modules that run short together.
#[derive(Debug, Clone, Copy)]
pub(super) struct Passage {
    /// Least time from sending to the first module of the set that it visits.
    pub(super) head: Span,
    /// Least time from the last module of the set to the exit.
    pub(super) tail: Span,
    /// Least slot time in all of them, each weighted.
    pub(super) work: u128,
}

impl<'a> PathTimes<'a> {
    pub(super) fn new(input: &'a BoundInput<'a>, costs: &'a [Costs]) -> Self {
        let modules = input.modules.len();
        let mut path_times = Self {
            input,
            costs,
            kinds: Kinds::new(input),
            all: Vec::new(),
            paths: paths(input),
        };
        let mut predecessors = vec![Vec::new(); modules];
        let mut successors = vec![Vec::new(); modules];
        for (module, after) in successors.iter_mut().enumerate() {
            for successor in input.topology.successors(ModuleId(module as u32)) {
                predecessors[successor.index()].push(module);
                after.push(successor.index());
            }
        }
        for kind in 0..path_times.kinds.len() {
            let times = path_times.kind_times(kind, &predecessors, &successors);
            path_times.all.push(times);
        }
        path_times
    }

    fn kind_times(
        &self,
        kind: usize,
        predecessors: &[Vec<usize>],
        successors: &[Vec<usize>],
    ) -> Option<KindTimes> {
        let hops = self.input.hops;
        let modules = self.input.modules.len();
        let least: Vec<Span> = (0..modules)
            .map(|module| match self.items(kind, module) {
                0 => Span::ZERO,
                items => self.costs[module].min_span(items),
            })
            .collect();
        let head = self.longest_paths(kind, &least, 0..modules, predecessors, hops.entry);
        let tail = self.longest_paths(kind, &least, (0..modules).rev(), successors, hops.exit);
        let times = KindTimes { least, head, tail };
        self.visited(kind)
            .all(|module| self.fits(&times, module))
            .then_some(times)
    }

    /// Longest path through the visited modules, from one end of the graph. Modules that are not visited take
    /// no time.
    fn longest_paths(
        &self,
        kind: usize,
        least: &[Span],
        order: impl Iterator<Item = usize>,
        nearer: &[Vec<usize>],
        end: Span,
    ) -> Vec<Span> {
        let between = self.input.hops.between;
        let through = self.input.unvisited == Unvisited::PassedThrough;
        let mut path_times = vec![Span::ZERO; least.len()];
        let mut passed: Vec<Option<Span>> = vec![None; least.len()];
        for module in order {
            let reached = nearer[module].iter().filter_map(|&near| passed[near]).max();
            let times = reached.map_or(end, |reached| (reached + between).max(end));
            passed[module] = match self.items(kind, module) > 0 {
                true => Some(times + least[module]),
                false if through => reached,
                false => None,
            };
            path_times[module] = times;
        }
        path_times
    }

    /// Number of kinds of requests, see `Kinds`.
    pub(super) fn kinds(&self) -> usize {
        self.all.len()
    }

    /// Kind of the request.
    pub(super) fn kind_of(&self, request: usize) -> usize {
        self.kinds.kind_of(request)
    }

    /// True if a request of this kind can meet its SLO on an idle system.
    pub(super) fn in_time(&self, kind: usize) -> bool {
        self.all[kind].is_some()
    }

    /// Modules to which it brings items.
    pub(super) fn visited(&self, kind: usize) -> impl Iterator<Item = usize> {
        (0..self.input.modules.len()).filter(move |&module| self.items(kind, module) > 0)
    }

    fn items(&self, kind: usize, module: usize) -> u32 {
        self.kinds.items(kind)[module]
    }

    /// Least time to reach each module over all requests; zero for modules without visits.
    pub(super) fn min_heads(&self) -> Vec<Span> {
        let to = |module: usize| {
            let kinds = (0..self.kinds()).filter(|&kind| self.items(kind, module) > 0);
            kinds
                .filter_map(|kind| Some(self.all[kind].as_ref()?.head[module]))
                .min()
        };
        (0..self.input.modules.len())
            .map(|module| to(module).unwrap_or_default())
            .collect()
    }

    fn fits(&self, times: &KindTimes, module: usize) -> bool {
        let whole = times.head[module] + times.least[module] + times.tail[module];
        whole <= self.input.slo && self.costs[module].item_cost(self.window(times, module)) < u64::MAX
    }

    fn window(&self, times: &KindTimes, module: usize) -> Span {
        self.input
            .slo
            .saturating_sub(times.head[module] + times.tail[module])
    }

    /// Passage of a request of this kind through the modules, where each window starts earlier by the
    /// module's shift. `None` if the request visits none of them or cannot be delivered within the SLO.
    pub(super) fn passage(&self, kind: usize, members: &[Member]) -> Option<Passage> {
        let times = self.all[kind].as_ref()?;
        let mut found: Option<Passage> = None;
        let mut visited = 0;
        for &Member {
            module,
            weight,
            shift,
        } in members
        {
            let items = self.items(kind, module);
            if items == 0 {
                continue;
            }
            visited += 1;
            let share = u128::from(self.costs[module].item_cost(self.window(times, module)));
            let passage = Passage {
                head: times.head[module].saturating_sub(shift),
                tail: times.tail[module] + shift,
                work: share * u128::from(items) * u128::from(weight),
            };
            found = Some(found.map_or(passage, |before| before.merged(passage)));
        }
        if visited > 1
            && let Some(passage) = &mut found
        {
            passage.work = passage.work.max(self.joint_work(kind, times, members));
        }
        found
    }

    /// Least weighted slot time in these modules, given that they share the SLO.
    fn joint_work(&self, kind: usize, times: &KindTimes, members: &[Member]) -> u128 {
        let visits = self.visited(kind).map(|module| {
            let of = members.iter().filter(|member| member.module == module);
            let weight: u64 = of.map(|member| member.weight).sum();
            Visit {
                module,
                weight: weight as f64 * f64::from(self.items(kind, module)),
                least: times.least[module].micros(),
                costs: &self.costs[module],
            }
        });
        let visits: Vec<Visit<'_>> = visits.collect();
        joint::min_work(&visits, &self.visited_paths(kind))
    }

    /// The paths of what it visits, with the time that they have.
    fn visited_paths(&self, kind: usize) -> Vec<Path> {
        let visits = |module: usize| self.items(kind, module) > 0;
        let through = self.input.unvisited == Unvisited::PassedThrough;
        let hops = self.input.hops;
        let mut found: Vec<Path> = Vec::new();
        for path in &self.paths {
            // A module that is not visited is passed through, or nothing is known about the modules after it.
            let stretches: Vec<Vec<usize>> = if through {
                vec![path.iter().copied().filter(|&module| visits(module)).collect()]
            } else {
                path.split(|&module| !visits(module))
                    .map(<[usize]>::to_vec)
                    .collect()
            };
            for modules in stretches {
                if modules.is_empty() || found.iter().any(|path| path.modules == modules) {
                    continue;
                }
                let spent = hops.entry + hops.exit + hops.between * (modules.len() as u64 - 1);
                let room = self.input.slo.saturating_sub(spent).micros();
                found.push(Path { modules, room });
            }
        }
        found
    }
}

impl Passage {
    /// Through other modules as well.
    fn merged(self, other: Self) -> Self {
        Self {
            head: self.head.min(other.head),
            tail: self.tail.min(other.tail),
            work: self.work + other.work,
        }
    }
}

/// Paths from a first module to a last one; only some of them if there are very many.
fn paths(input: &BoundInput<'_>) -> Vec<Vec<usize>> {
    const MAX_PATHS: usize = 64;
    let modules = input.modules.len();
    let mut first = vec![true; modules];
    for module in 0..modules {
        for next in input.topology.successors(ModuleId(module as u32)) {
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
        let next = input.topology.successors(ModuleId(last as u32));
        if next.is_empty() || open.len() + whole.len() >= MAX_PATHS {
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
