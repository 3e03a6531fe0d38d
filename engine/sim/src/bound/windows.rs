//! When each request can be in each module at all: from its least way there to its deadline less its least way out.
//! Requests that bring the same to every module have the same ways, which are worked out once.

use weir_types::{ModuleId, Span};

use super::cost::Costs;
use super::input::{Scene, Unvisited};
use super::joint::{self, Path, Visit};
use super::kinds::Kinds;
use super::resource::Member;

/// The ways of all requests.
#[derive(Debug)]
pub(super) struct Ways<'a> {
    scene: &'a Scene<'a>,
    costs: &'a [Costs],
    kinds: Kinds,
    /// By kind; `None` where not even one that is alone could be in time.
    all: Vec<Option<Way>>,
    /// From a first module to a last one.
    paths: Vec<Vec<usize>>,
}

/// The least way in and out of each module, for requests of one kind.
#[derive(Debug)]
struct Way {
    least: Vec<Span>,
    head: Vec<Span>,
    tail: Vec<Span>,
}

/// How a request passes modules that run short together.
#[derive(Debug, Clone, Copy)]
pub(super) struct Passage {
    /// The least way to the first of them that it visits.
    pub(super) head: Span,
    /// The least way on from the last.
    pub(super) tail: Span,
    /// The least slot time in all of them, each weighted.
    pub(super) work: u128,
}

impl<'a> Ways<'a> {
    pub(super) fn new(scene: &'a Scene<'a>, costs: &'a [Costs]) -> Self {
        let modules = scene.modules.len();
        let mut ways = Self {
            scene,
            costs,
            kinds: Kinds::of(scene),
            all: Vec::new(),
            paths: paths(scene),
        };
        let mut predecessors = vec![Vec::new(); modules];
        let mut successors = vec![Vec::new(); modules];
        for (module, after) in successors.iter_mut().enumerate() {
            for successor in scene.topology.successors(ModuleId(module as u32)) {
                predecessors[successor.index()].push(module);
                after.push(successor.index());
            }
        }
        for kind in 0..ways.kinds.len() {
            let way = ways.work_out(kind, &predecessors, &successors);
            ways.all.push(way);
        }
        ways
    }

    fn work_out(&self, kind: usize, predecessors: &[Vec<usize>], successors: &[Vec<usize>]) -> Option<Way> {
        let hops = self.scene.hops;
        let modules = self.scene.modules.len();
        let least: Vec<Span> = (0..modules)
            .map(|module| match self.brings(kind, module) {
                0 => Span::ZERO,
                items => self.costs[module].least(items),
            })
            .collect();
        let head = self.sweep(kind, &least, 0..modules, predecessors, hops.entry);
        let tail = self.sweep(kind, &least, (0..modules).rev(), successors, hops.exit);
        let way = Way { least, head, tail };
        self.visited(kind)
            .all(|module| self.fits(&way, module))
            .then_some(way)
    }

    /// The longest way through what it visits, from one end of the graph. Modules it does not visit cost nothing.
    fn sweep(
        &self,
        kind: usize,
        least: &[Span],
        order: impl Iterator<Item = usize>,
        nearer: &[Vec<usize>],
        end: Span,
    ) -> Vec<Span> {
        let between = self.scene.hops.between;
        let through = self.scene.unvisited == Unvisited::PassedThrough;
        let mut ways = vec![Span::ZERO; least.len()];
        let mut passed: Vec<Option<Span>> = vec![None; least.len()];
        for module in order {
            let reached = nearer[module].iter().filter_map(|&near| passed[near]).max();
            let way = reached.map_or(end, |reached| (reached + between).max(end));
            passed[module] = match self.brings(kind, module) > 0 {
                true => Some(way + least[module]),
                false if through => reached,
                false => None,
            };
            ways[module] = way;
        }
        ways
    }

    /// How many kinds of requests there are.
    pub(super) fn kinds(&self) -> usize {
        self.all.len()
    }

    /// Of which kind a request is.
    pub(super) fn kind_of(&self, request: usize) -> usize {
        self.kinds.of_request(request)
    }

    /// Whether a request of this kind could be in time, even alone.
    pub(super) fn in_time(&self, kind: usize) -> bool {
        self.all[kind].is_some()
    }

    /// Modules to which it brings items.
    pub(super) fn visited(&self, kind: usize) -> impl Iterator<Item = usize> {
        (0..self.scene.modules.len()).filter(move |&module| self.brings(kind, module) > 0)
    }

    fn brings(&self, kind: usize, module: usize) -> u32 {
        self.kinds.brings(kind)[module]
    }

    /// The least way to each module, of all these requests; zero where none visits it.
    pub(super) fn least_heads(&self) -> Vec<Span> {
        let to = |module: usize| {
            let kinds = (0..self.kinds()).filter(|&kind| self.brings(kind, module) > 0);
            kinds
                .filter_map(|kind| Some(self.all[kind].as_ref()?.head[module]))
                .min()
        };
        (0..self.scene.modules.len())
            .map(|module| to(module).unwrap_or_default())
            .collect()
    }

    fn fits(&self, way: &Way, module: usize) -> bool {
        let whole = way.head[module] + way.least[module] + way.tail[module];
        whole <= self.scene.slo && self.costs[module].share(self.window(way, module)) < u64::MAX
    }

    fn window(&self, way: &Way, module: usize) -> Span {
        self.scene.slo.saturating_sub(way.head[module] + way.tail[module])
    }

    /// How a request of this kind passes these modules, each as if it began its shift earlier; `None` where it visits
    /// none, or cannot be in time.
    pub(super) fn through(&self, kind: usize, members: &[Member]) -> Option<Passage> {
        let way = self.all[kind].as_ref()?;
        let mut found: Option<Passage> = None;
        let mut visited = 0;
        for &Member {
            module,
            weight,
            shift,
        } in members
        {
            let items = self.brings(kind, module);
            if items == 0 {
                continue;
            }
            visited += 1;
            let share = u128::from(self.costs[module].share(self.window(way, module)));
            let passage = Passage {
                head: way.head[module].saturating_sub(shift),
                tail: way.tail[module] + shift,
                work: share * u128::from(items) * u128::from(weight),
            };
            found = Some(found.map_or(passage, |before| before.and(passage)));
        }
        if visited > 1
            && let Some(passage) = &mut found
        {
            passage.work = passage.work.max(self.jointly(kind, way, members));
        }
        found
    }

    /// The least slot time in these modules, each weighted, where the SLO is spent once.
    fn jointly(&self, kind: usize, way: &Way, members: &[Member]) -> u128 {
        let visits = self.visited(kind).map(|module| {
            let of = members.iter().filter(|member| member.module == module);
            let weight: u64 = of.map(|member| member.weight).sum();
            Visit {
                module,
                weight: weight as f64 * f64::from(self.brings(kind, module)),
                least: way.least[module].micros(),
                costs: &self.costs[module],
            }
        });
        let visits: Vec<Visit<'_>> = visits.collect();
        joint::least(&visits, &self.visited_paths(kind))
    }

    /// The paths of what it visits, with the time that they have.
    fn visited_paths(&self, kind: usize) -> Vec<Path> {
        let visits = |module: usize| self.brings(kind, module) > 0;
        let through = self.scene.unvisited == Unvisited::PassedThrough;
        let hops = self.scene.hops;
        let mut found: Vec<Path> = Vec::new();
        for path in &self.paths {
            // What is not visited is passed, or nothing is known beyond it.
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
                let room = self.scene.slo.saturating_sub(spent).micros();
                found.push(Path { modules, room });
            }
        }
        found
    }
}

impl Passage {
    /// Through other modules as well.
    fn and(self, other: Self) -> Self {
        Self {
            head: self.head.min(other.head),
            tail: self.tail.min(other.tail),
            work: self.work + other.work,
        }
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
