//! The bound against the true optimum, and how it moves.

mod cases;
mod exhaustive;

use proptest::prelude::*;
use weir_types::{ModuleId, Profile, Span, Timestamp, Topology};

use super::*;
use exhaustive::{beats, optimum};

fn at(micros: &[u64]) -> Vec<Timestamp> {
    micros
        .iter()
        .map(|&micros| Timestamp::from_micros(micros))
        .collect()
}

fn module_input<'a>(profile: &'a Profile, batches: &'a [u32], workers: u32) -> BoundModule<'a> {
    BoundModule {
        items: Items::One,
        profile,
        batches,
        workers: Capacity::constant(workers),
    }
}

fn input<'a>(
    arrivals: &'a [Timestamp],
    slo: u64,
    topology: &'a Topology,
    modules: Vec<BoundModule<'a>>,
) -> BoundInput<'a> {
    BoundInput {
        arrivals,
        slo: Span::from_micros(slo),
        topology,
        hops: HopTimes::default(),
        unvisited: Unvisited::default(),
        modules,
        shared: Vec::new(),
    }
}

/// A scene that owns what it is made of.
#[derive(Debug, Clone)]
struct World {
    arrivals: Vec<Timestamp>,
    slo: u64,
    topology: Topology,
    profiles: Vec<Profile>,
    batches: Vec<Vec<u32>>,
    items: Vec<Vec<u32>>,
    workers: Vec<Capacity>,
    hops: [u64; 3],
    unvisited: Unvisited,
    slots: Option<u32>,
}

impl World {
    fn input(&self) -> BoundInput<'_> {
        let modules = (0..self.topology.len()).map(|module| BoundModule {
            items: Items::PerRequest(&self.items[module]),
            profile: &self.profiles[module],
            batches: &self.batches[module],
            workers: self.workers[module].clone(),
        });
        let mut input = input(&self.arrivals, self.slo, &self.topology, modules.collect());
        let [entry, between, exit] = self.hops.map(Span::from_micros);
        input.hops = HopTimes { entry, between, exit };
        input.unvisited = self.unvisited;
        if let Some(slots) = self.slots {
            let modules = (0..self.topology.len() as u32).map(ModuleId).collect();
            input.shared.push(SharedSlots {
                modules,
                slots: Capacity::constant(slots),
            });
        }
        input
    }
}

/// Chains and forks of 1 to 3 modules.
fn topologies() -> impl Strategy<Value = Topology> {
    let shapes: Vec<Vec<Vec<u32>>> = vec![
        vec![vec![]],
        vec![vec![1], vec![]],
        vec![vec![], vec![]],
        vec![vec![1, 2], vec![], vec![]],
        vec![vec![1], vec![2], vec![]],
        vec![vec![1, 2], vec![2], vec![]],
    ];
    prop::sample::select(shapes).prop_map(|shape| {
        let edges = shape
            .into_iter()
            .map(|after| after.into_iter().map(ModuleId).collect());
        Topology::new(edges.collect())
    })
}

fn worlds(requests: usize) -> impl Strategy<Value = World> {
    (topologies(), 1..=requests).prop_flat_map(|(topology, requests)| {
        let modules = topology.len();
        let profile = (1_u64..3, 0_u64..2).prop_map(|(one, more)| {
            let points = vec![(1, Span::from_micros(one)), (2, Span::from_micros(one + more))];
            Profile::new(points).unwrap()
        });
        let workers = prop::collection::vec((0_u64..4, 0_u32..3), 0..2).prop_map(|steps| {
            let mut moment = 0;
            let mut all = vec![(Timestamp::ZERO, 1)];
            for (wait, workers) in steps {
                moment += wait + 1;
                all.push((Timestamp::from_micros(moment), workers));
            }
            Capacity(all)
        });
        (
            prop::collection::vec(0_u64..4, requests),
            2_u64..7,
            prop::collection::vec(profile, modules),
            prop::collection::vec(prop::sample::select(vec![vec![1], vec![1, 2]]), modules),
            prop::collection::vec(prop::collection::vec(0_u32..3, requests), modules),
            prop::collection::vec(workers, modules),
            prop::array::uniform3(prop::sample::select(vec![0_u64, 0, 0, 1])),
            prop::sample::select(vec![Unvisited::NotTaken, Unvisited::PassedThrough]),
            prop::sample::select(vec![None, Some(1), Some(2)]),
        )
            .prop_map(
                move |(mut sent, slo, profiles, batches, items, workers, hops, unvisited, slots)| {
                    sent.sort_unstable();
                    World {
                        arrivals: at(&sent),
                        slo,
                        topology: topology.clone(),
                        profiles,
                        batches,
                        items,
                        workers,
                        hops,
                        unvisited,
                        slots,
                    }
                },
            )
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn no_schedule_beats_the_bound(world in worlds(3)) {
        // The search is exponential in the items.
        let mut world = world;
        let mut yet = 7;
        for items in world.items.iter_mut().flatten() {
            *items = yet.min(*items);
            yet -= *items;
        }
        let input = world.input();
        let bound = bound(&input).unwrap();
        prop_assert!(!beats(&input, bound.max_delivered), "beaten: {bound:?}");
    }

    /// For one worker without batches, the problem is not relaxed, so the bound is exact.
    #[test]
    fn one_worker_without_batches_is_exact(
        mut sent in prop::collection::vec(0_u64..9, 1..6),
        items in prop::collection::vec(1_u32..4, 6),
        slo in 1_u64..9,
    ) {
        sent.sort_unstable();
        let arrivals = at(&sent);
        let topology = Topology::new(vec![vec![]]);
        let profile = Profile::new(vec![(1, Span::from_micros(1))]).unwrap();
        let mut input = input(&arrivals, slo, &topology, vec![module_input(&profile, &[1], 1)]);
        input.modules[0].items = Items::PerRequest(&items[..arrivals.len()]);
        prop_assert_eq!(bound(&input).unwrap().max_delivered, optimum(&input));
    }

    /// More time and more workers never make it worse on any one resource (which sums are tried is a rule of thumb);
    /// totals agree.
    #[test]
    fn the_bound_is_monotone(world in worlds(40), more in 1_u64..5) {
        let lost = |world: &World| {
            let bound = bound(&world.input()).unwrap();
            let modules = bound.per_module.iter().map(|module| module.min_lost);
            modules.chain(bound.per_shared).map(|lost| lost + bound.hopeless).collect::<Vec<u64>>()
        };
        let (before, mut patient, mut rich) = (lost(&world), world.clone(), world.clone());
        patient.slo += more;
        for step in rich.workers.iter_mut().flat_map(|workers| &mut workers.0) {
            step.1 += more as u32;
        }
        rich.slots = world.slots.map(|slots| slots + more as u32);
        for ((before, patient), rich) in before.iter().zip(lost(&patient)).zip(lost(&rich)) {
            prop_assert!(patient <= *before, "a longer SLO lost more");
            prop_assert!(rich <= *before, "more workers lost more");
        }
        let bound = bound(&world.input()).unwrap();
        prop_assert_eq!(bound.lost_at.iter().sum::<u64>(), bound.min_lost);
        prop_assert_eq!(bound.max_delivered + bound.min_lost, bound.arrived);
        let alone = bound.per_module.iter().map(|module| module.min_lost).max().unwrap();
        prop_assert!(bound.min_lost >= alone + bound.hopeless);
    }
}
