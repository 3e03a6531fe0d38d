//! A world drawn from a seed: its shape, what its modules run on, what requests bring, what goes wrong.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use weir_graph::{Escalate, OnLate, StageNode};
use weir_planner::{ModelPlan, PipelinePlan, PipelineSlots};
use weir_policy::gears::{GearNode, Gears, StageSetting};
use weir_policy::gears::{InvocationSize, Settle, ShiftRule};
use weir_policy::reservations::BookingTable;
use weir_policy::{AutoscaleRule, OverlapSpec, Policy, SlotProfiles};
use weir_sim::{
    Branches, CascadeSpec, Crops, Demand, Edge, Link, Scaling, WorkerFailure, WorldCluster, WorldMemory,
    WorldModule, WorldPool, WorldSpec, experiment,
};
use weir_types::{
    ClusterSpec, ModuleId, PipelineSpec, Profile, ServerId, ServerSpec, ShareId, ShareSpec, SlotId, Span,
    StageSpec, Timestamp,
};

/// Time over which requests are sent.
const SENT_OVER: Span = Span::from_secs(4);

fn ms(ms: u64) -> Span {
    Span::from_millis(ms)
}

/// A world and when its requests are sent.
#[derive(Debug, Clone)]
pub struct Drawn {
    pub spec: WorldSpec,
    pub arrivals: Vec<Timestamp>,
}

impl Drawn {
    /// The world of `seed`; the shape goes round with the seeds, so that a few of them see all.
    pub fn new(policy: Policy, seed: u64) -> Self {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let (next, demand) = shape(seed, &mut random);
        let mut spec = WorldSpec {
            slo: ms(random.random_range(60..600)),
            policy,
            modules: Vec::new(),
            shared_slots: random.random_range(1..4),
            memory: WorldMemory::default(),
            cluster: None,
            hop: Span::from_micros([0, 0, 200, 3_000][random.random_range(0..4)]),
            handover: Span::ZERO,
            timer_delay: Span::ZERO,
            links: Vec::new(),
            streams: random.random_range(1..6),
            own: Vec::new(),
            max_in_flight: [None, Some(20)][random.random_range(0..2)],
            stops_at: None,
            demand,
            cascades: CascadeSpec::default(),
            decoding: None,
            noise: [0.0, 0.0, 0.3][random.random_range(0..3)],
            interference: None,
            changes: Vec::new(),
            failures: Vec::new(),
            faults: Vec::new(),
            max_workers: None,
            seed,
        };
        if random.random_bool(0.3) {
            spec.links.push(Link {
                latency: ms(random.random_range(0..5)),
                bandwidth_bps: 1e8,
                bytes: random.random_range(1e3..1e5),
            });
        }
        for (id, next) in next.into_iter().enumerate() {
            let edge = |to| Edge {
                to,
                link: (random.random_bool(0.5) && !spec.links.is_empty()).then_some(0),
            };
            let next = next.into_iter().map(edge).collect();
            let shared_slots = spec.shared_slots;
            spec.modules.push(module(id, next, shared_slots, &mut random));
        }
        let mut random = Pcg64Mcg::seed_from_u64(seed ^ 0x656e_6473);
        unequal(&mut spec, &mut random);
        // A separate generator, so that worlds without pipelines stay the same.
        let mut random = Pcg64Mcg::seed_from_u64(seed ^ 0x7069_7065);
        if random.random_bool(0.4) {
            partition(&mut spec, &mut random);
        }
        let mut random = Pcg64Mcg::seed_from_u64(seed ^ 0x6361_7363);
        if random.random_bool(0.4) {
            cascade(&mut spec, &mut random);
        }
        let mut random = Pcg64Mcg::seed_from_u64(seed ^ 0x7365_6e74);
        if random.random_bool(0.4) {
            spec.failures = failures(&spec, &mut random);
        }
        let mut own = Pcg64Mcg::seed_from_u64(seed ^ 0x6f76_6572);
        overlap(&mut spec, &mut own);
        let load = random.random_range(0.3..2.5);
        let rate = (experiment::capacity(&spec) * load).clamp(5.0, 250.0);
        let arrivals = arrivals(rate, &mut random);
        Self { spec, arrivals }
    }

    /// No run may last longer: all work that was sent, one batch after the other on one worker, after everything that
    /// keeps workers away.
    pub fn over_by(&self, items: &[u8]) -> Span {
        let spec = &self.spec;
        let sent = self.arrivals.last().copied().unwrap_or_default();
        let work = items.chunks_exact(spec.modules.len()).flat_map(|row| {
            let parts = row.iter().zip(&spec.modules);
            parts.map(|(&items, plan)| {
                let slots = plan.ends.iter().chain([&plan.profile]);
                let slowest = slots.map(|slot| slot.duration(1)).max();
                slowest.unwrap_or_default().scale(f64::from(items))
            })
        });
        let work: Span = work.sum();
        // Noise has a mean of one and a long tail; a batch of one may have to fill a larger size.
        let work = work.scale(if spec.noise > 0.0 { 4.0 } else { 2.0 });
        let away: Span = spec
            .failures
            .iter()
            .map(|failure| failure.at + failure.lasts)
            .sum();
        let cold = spec.modules.iter().map(|plan| match &plan.pool {
            WorldPool::Scaled(scaling) => scaling.cold_start,
            _ => Span::ZERO,
        });
        let links = spec.links.iter().map(|link| {
            let transfers = (self.arrivals.len() * spec.modules.len().pow(2)) as f64;
            link.latency.scale(spec.modules.len() as f64)
                + Span::from_secs_f64(transfers * link.bytes * 8.0 / link.bandwidth_bps)
        });
        let hops = spec.hop.scale(20.0 * spec.modules.len() as f64);
        // Batches over pipelines wait for more items while there is time, and bookings that are missed move others.
        let booked = spec.cluster.as_ref().map_or(Span::ZERO, |_| spec.slo * 4);
        sent.since(Timestamp::ZERO)
            + work
            + away
            + cold.sum::<Span>()
            + links.sum::<Span>()
            + hops
            + booked
            + Span::from_secs(2)
    }
}

/// Makes a cascade of the first two modules of which the second follows only the first, perhaps with gears.
fn cascade(spec: &mut WorldSpec, random: &mut Pcg64Mcg) {
    let inputs = |to: usize| {
        spec.modules
            .iter()
            .flat_map(|plan| &plan.next)
            .filter(move |edge| edge.to == to)
    };
    let pair = spec
        .modules
        .iter()
        .enumerate()
        .find_map(|(first, plan)| match plan.next[..] {
            [Edge { to, .. }] if inputs(to).count() == 1 => Some([first, to]),
            _ => None,
        });
    let Some(pair) = pair else { return };
    let stage = |index: u32, random: &mut Pcg64Mcg| StageNode {
        cascade: "cascade".to_owned(),
        index,
        count: 2,
        certainty: random.random_range(0.0..1.0),
        settle: [Settle::Last, Settle::Surest][random.random_range(0..2)],
        on_late: [OnLate::Drop, OnLate::Accept][random.random_range(0..2)],
        escalate: [Escalate::Frames, Escalate::Regions][random.random_range(0..2)],
    };
    for (index, module) in (0..).zip(pair) {
        spec.cascades.stages.insert(module, stage(index, random));
        spec.cascades
            .accuracy
            .insert(module, random.random_range(0.5..1.0));
    }
    let gear = |up_to: f64, random: &mut Pcg64Mcg| GearNode {
        up_to,
        accuracy: None,
        stages: pair
            .map(|module| {
                let setting = StageSetting {
                    is_used: random.random_bool(0.8),
                    certainty: random.random_range(0.0..1.0),
                    invocation: InvocationSize {
                        items: random.random_range(1..6),
                        wait: Span::from_millis(random.random_range(0..40)),
                    },
                    tiles: None,
                };
                (module, setting)
            })
            .into(),
        // In some gears the first slot of a stage does a random share of its work, and the second does the
        // rest.
        shares: pair
            .into_iter()
            .filter_map(|module| {
                let first: f64 = random.random_range(0.0..1.0);
                random
                    .random_bool(0.4)
                    .then(|| (module, vec![first, 1.0 - first]))
            })
            .collect(),
        triggers: std::collections::BTreeMap::new(),
    };
    // Some stages have a queue for each slot: the first waits for three items, and the second for none.
    let gear = |up_to: f64, random: &mut Pcg64Mcg| {
        let mut gear = gear(up_to, random);
        let waits = InvocationSize {
            items: 3,
            wait: ms(20),
        };
        let with_queues = gear.shares.iter().filter(|(_, shares)| shares[0] > 0.5);
        let with_queues = with_queues.map(|(module, _)| (*module, vec![waits, InvocationSize::default()]));
        gear.triggers = with_queues.collect();
        gear
    };
    spec.cascades.gears = random.random_bool(0.6).then(|| Gears {
        file: "gears.toml".into(),
        number: 1,
        rule: ShiftRule::default(),
        gears: [20.0, 60.0, 100.0].map(|up_to| gear(up_to, random)).into(),
    });
}

fn shape(seed: u64, random: &mut Pcg64Mcg) -> (Vec<Vec<usize>>, Demand) {
    let chain = |modules: usize| {
        let next = |id: usize| if id + 1 < modules { vec![id + 1] } else { vec![] };
        (0..modules).map(next).collect::<Vec<_>>()
    };
    let diamond = vec![vec![1, 2], vec![3], vec![3], vec![]];
    let mut demand = Demand::default();
    let next = match seed % 5 {
        0 => chain(random.random_range(1..6)),
        1 => diamond,
        2 => {
            // Exclusive branches: the second is longer and has a module that both take behind it.
            let share = random.random_range(0.2..0.8);
            demand.branches.push(Branches {
                branches: vec![(vec![1], share), (vec![2, 3], 1.0 - share)],
                persistence: random.random_range(0.0..1.0),
            });
            vec![vec![1, 2], vec![4], vec![3], vec![4], vec![]]
        }
        3 => {
            demand.crops.push(Crops {
                module: 1,
                mean: random.random_range(0.5..4.0),
                spread: 0.6,
                persistence: 0.9,
                max: 12,
            });
            chain(3)
        }
        _ => dag(random),
    };
    (next, demand)
}

/// A random graph: each module after the first follows at least one earlier module.
fn dag(random: &mut Pcg64Mcg) -> Vec<Vec<usize>> {
    let modules = random.random_range(3..7);
    let mut next = vec![Vec::new(); modules];
    for to in 1..modules {
        let sure = random.random_range(0..to);
        for (from, followers) in next.iter_mut().enumerate().take(to) {
            if from == sure || random.random_bool(0.3) {
                followers.push(to);
            }
        }
    }
    next
}

fn module(id: usize, next: Vec<Edge>, shared_slots: u32, random: &mut Pcg64Mcg) -> WorldModule {
    let one = random.random_range(4..30);
    let profile = Profile::new(vec![(1, ms(one)), (8, ms(one * random.random_range(2..8)))]);
    WorldModule {
        ends: Vec::new(),
        name: format!("module-{id}"),
        profile: profile.expect("two points, ascending"),
        batch: [vec![1], vec![1, 2, 4, 8], vec![3], vec![2, 8]][random.random_range(0..4)].clone(),
        pool: pool(shared_slots, random),
        next,
        weight: random.random_range(0.5..2.0),
        overlap: None,
        model: None,
    }
}

fn pool(shared_slots: u32, random: &mut Pcg64Mcg) -> WorldPool {
    match random.random_range(0..3) {
        0 => WorldPool::Fixed(random.random_range(1..4)),
        1 => WorldPool::Scaled(Scaling {
            is_foretold: shared_slots.is_multiple_of(2),
            initial: random.random_range(1..3),
            rule: AutoscaleRule {
                min_workers: 1,
                max_workers: random.random_range(2..6),
                headroom: 1.2,
                scale_down_delay: ms(random.random_range(200..2_000)),
            },
            cold_start: ms(random.random_range(100..1_500)),
        }),
        _ => {
            let mut slots: Vec<u32> = (0..shared_slots).filter(|_| random.random_bool(0.7)).collect();
            if slots.is_empty() {
                slots.push(0);
            }
            WorldPool::Shared(slots)
        }
    }
}

/// Lets some modules take longer on some of their shared slots than on others.
fn unequal(spec: &mut WorldSpec, random: &mut Pcg64Mcg) {
    for module in &mut spec.modules {
        let WorldPool::Shared(slots) = &module.pool else {
            continue;
        };
        if random.random_bool(0.6) {
            continue;
        }
        let slower = |_: &u32| {
            let slower = random.random_range(1.0..4.0);
            let points = module.profile.points().iter();
            let points = points.map(|(size, span)| (*size, span.scale(slower)));
            Profile::new(points.collect()).expect("as many, ascending")
        };
        let slots: Vec<Profile> = slots.iter().map(slower).collect();
        let together = SlotProfiles::new(slots, &module.batch).expect("a slot");
        (module.profile, module.ends) = (together.profile, together.ends);
    }
}

/// Lets some pools, and all shared slots or every other one, prepare the next batch while one runs.
fn overlap(spec: &mut WorldSpec, random: &mut Pcg64Mcg) {
    let shared = random.random_bool(0.4);
    let every = 1 + (spec.seed % 2) as u32;
    for module in &mut spec.modules {
        let mut ahead = Vec::new();
        let overlaps = match &module.pool {
            WorldPool::Shared(slots) => {
                let prepares = slots.iter().filter(|slot| shared && slot.is_multiple_of(every));
                ahead.extend(prepares.copied().map(SlotId));
                !ahead.is_empty()
            }
            WorldPool::Fixed(_) | WorldPool::Scaled(_) => random.random_bool(0.3),
            WorldPool::Pipelines(_) | WorldPool::Generating(_) => false,
        };
        let preparation = Profile::new(vec![(1, ms(1)), (8, ms(random.random_range(1..6)))]);
        module.overlap = overlaps.then_some(OverlapSpec {
            preparation,
            slots: ahead,
        });
    }
}

/// Spreads some modules over pipelines of one or two stages, on shares of their own.
fn partition(spec: &mut WorldSpec, random: &mut Pcg64Mcg) {
    let mut cluster = ClusterSpec {
        servers: Vec::new(),
        shares: Vec::new(),
        pipelines: Vec::new(),
    };
    for (id, module) in (0..).map(ModuleId).zip(&mut spec.modules) {
        if random.random_bool(0.4) {
            continue;
        }
        let batch = [1, 2, 4][random.random_range(0..3)];
        let pipelines = random.random_range(1..3);
        let first = cluster.pipelines.len();
        for _ in 0..pipelines {
            let stages = random.random_range(1..3);
            let stages = (0..stages)
                .map(|number| stage(number, &mut cluster, random))
                .collect();
            cluster.pipelines.push(PipelineSpec {
                module: id,
                batch,
                stages,
            });
        }
        let slots = slots(&cluster, &cluster.pipelines[first..]);
        module.profile = slots.profile.clone();
        module.batch = vec![slots.batch];
        module.pool = WorldPool::Pipelines(slots);
        module.ends.clear();
    }
    if cluster.pipelines.is_empty() {
        return;
    }
    let mut reserve = spec.policy.reserve_spec(cluster);
    reserve.tables = [BookingTable::Intervals, BookingTable::BusyUntil][random.random_range(0..2)];
    spec.cluster = Some(WorldCluster {
        trace: true,
        ..WorldCluster::new(reserve)
    });
}

/// A stage on one to three shares, each on a server of its own.
fn stage(number: u32, cluster: &mut ClusterSpec, random: &mut Pcg64Mcg) -> StageSpec {
    let per_item = random.random_range(3..15);
    let pool = random.random_range(1..4);
    let first = cluster.shares.len() as u32;
    for share in first..first + pool {
        cluster.servers.push(ServerSpec {
            bandwidth_bps: 10_000_000_000,
        });
        cluster.shares.push(ShareSpec {
            server: ServerId(share),
            device: share,
            class: format!("class-{number}"),
        });
    }
    let profile = Profile::new(vec![(1, ms(per_item)), (4, ms(per_item * 2))]);
    StageSpec {
        blocks: (number, number + 1),
        shares: (first..first + pool).map(ShareId).collect(),
        profile: profile.expect("two points, ascending"),
        received_bytes: u64::from(number) * random.random_range(1_000..2_500_000),
    }
}

/// Slots as a planner would report them for these pipelines.
fn slots(cluster: &ClusterSpec, pipelines: &[PipelineSpec]) -> PipelineSlots {
    let rate = |pipeline: &PipelineSpec| {
        let stages = pipeline.stages.iter();
        let rates = stages.map(|stage| stage.profile.throughput(pipeline.batch) * stage.shares.len() as f64);
        rates.fold(f64::INFINITY, f64::min)
    };
    let plans = pipelines.iter().map(|pipeline| PipelinePlan {
        batch: pipeline.batch,
        stages: Vec::new(),
        throughput: rate(pipeline),
        latency: Span::ZERO,
    });
    let plan = ModelPlan {
        model: "drawn".to_owned(),
        pipelines: plans.collect(),
        throughput: pipelines.iter().map(rate).sum(),
    };
    PipelineSlots::new(cluster, pipelines[0].module, &plan).expect("pipelines of the module")
}

fn failures(spec: &WorldSpec, random: &mut Pcg64Mcg) -> Vec<WorkerFailure> {
    let failure = |_| WorkerFailure {
        module: random.random_range(0..spec.modules.len()),
        worker: random.random_range(0..3),
        at: ms(random.random_range(0..4_000)),
        lasts: ms(random.random_range(1..1_500)),
    };
    (0..3).map(failure).collect()
}

/// Poisson arrivals, some of them at one instant.
fn arrivals(rate: f64, random: &mut Pcg64Mcg) -> Vec<Timestamp> {
    let (mut at, mut arrivals) = (Span::ZERO, Vec::new());
    while at < SENT_OVER {
        arrivals.push(Timestamp::ZERO + at);
        if random.random_bool(0.95) {
            at += Span::from_secs_f64(-(1.0 - random.random::<f64>()).ln() / rate);
        }
    }
    arrivals
}
