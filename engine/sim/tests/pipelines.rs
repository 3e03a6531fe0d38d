//! Modules over pipelines: what is booked happens, what happens is booked, and no resource is used twice at once.

use std::collections::BTreeMap;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use weir_planner::{ModelPlan, PipelinePlan, PipelineSlots};
use weir_policy::reservations::{BookingTable, ReserveSpec, ResourceUse};
use weir_policy::{DropRule, Order, Policy};
use weir_sim::{
    ClusterUsage, LaterPlan, SimulationResult, SlotFault, WorkerFailure, WorldCluster, WorldModule,
    WorldPool, WorldSpec, poisson, simulate,
};
use weir_types::{
    ClusterSpec, DropReason, ModuleId, PipelineSpec, Profile, ServerId, ServerSpec, ShareId, ShareSpec, Span,
    StageSpec, Timestamp, WorkerId,
};

/// Two stages on a few servers each, one or two items a batch, under PPipe's rules, at a load of about one.
fn world(seed: u64, feedback: bool, noise: f64) -> (WorldSpec, Vec<Timestamp>) {
    let random = &mut Pcg64Mcg::seed_from_u64(seed);
    let pools = [random.random_range(1..4_u32), random.random_range(1..4_u32)];
    let shares = (0..pools[0] + pools[1]).map(|share| ShareSpec {
        server: ServerId(share),
        device: share,
        class: if share < pools[0] { "low" } else { "high" }.to_owned(),
    });
    let stage = |stage: u32, first: u32, pool: u32, per_item: u64| StageSpec {
        blocks: (stage, stage + 1),
        shares: (first..first + pool).map(ShareId).collect(),
        profile: Profile::new(vec![
            (1, Span::from_millis(per_item)),
            (2, Span::from_millis(per_item + 3)),
        ])
        .expect("two points, ascending"),
        received_bytes: u64::from(stage) * 2_500_000,
    };
    let batch = random.random_range(1..3_u32);
    let cluster = ClusterSpec {
        servers: vec![
            ServerSpec {
                bandwidth_bps: 10_000_000_000
            };
            (pools[0] + pools[1]) as usize
        ],
        shares: shares.collect(),
        pipelines: vec![PipelineSpec {
            module: ModuleId(0),
            batch,
            stages: vec![stage(0, 0, pools[0], 8), stage(1, pools[0], pools[1], 6)],
        }],
    };
    let rate = 100.0 * f64::from(pools[0].min(pools[1]));
    let slots = slots(&cluster, rate);
    let spec = WorldSpec {
        cluster: Some(WorldCluster {
            trace: true,
            ..WorldCluster::new(ReserveSpec {
                cluster,
                tables: if seed.is_multiple_of(2) {
                    BookingTable::BusyUntil
                } else {
                    BookingTable::Intervals
                },
                feedback,
                corrected: false,
                head_min_fraction: 0.95,
            })
        }),
        noise,
        seed,
        ..WorldSpec::new(
            Span::from_millis(60),
            Policy {
                drop: DropRule::by_name("back").expect("a rule"),
                order: Some(Order::Fcfs),
                sweep: Some(false),
                booking_margin: 0.0,
                ..Policy::default()
            },
            vec![WorldModule {
                ends: Vec::new(),
                name: "two stages".to_owned(),
                profile: slots.profile.clone(),
                batch: vec![batch],
                pool: WorldPool::Pipelines(slots),
                next: Vec::new(),
                weight: 1.0,
                overlap: None,
                model: None,
            }],
        )
    };
    (spec, poisson(rate, Span::from_secs(3), seed))
}

/// Slots as a planner would report them for a single pipeline.
fn slots(cluster: &ClusterSpec, rate: f64) -> PipelineSlots {
    let plan = ModelPlan {
        model: "two stages".to_owned(),
        pipelines: vec![PipelinePlan {
            batch: cluster.pipelines[0].batch,
            stages: Vec::new(),
            throughput: rate,
            latency: Span::ZERO,
        }],
        throughput: rate,
    };
    PipelineSlots::new(cluster, ModuleId(0), &plan).expect("a pipeline")
}

fn run(spec: &WorldSpec, arrivals: &[Timestamp]) -> SimulationResult {
    simulate(spec, "pipelines", &mut arrivals.iter().copied(), &mut |now| {
        assert!(now < Timestamp::ZERO + Span::from_secs(600), "stuck at {now:?}");
    })
}

fn usage(ran: &SimulationResult) -> &ClusterUsage {
    ran.usage.as_ref().expect("the usage of the cluster")
}

fn check_books(ran: &SimulationResult, arrivals: &[Timestamp], seed: u64) {
    let requests = ran.report.requests;
    assert!(
        requests.is_balanced() && requests.in_flight == 0,
        "seed {seed}: {requests:?}"
    );
    assert_eq!(requests.arrived, arrivals.len() as u64, "seed {seed}");
    assert!(requests.delivered > 0, "seed {seed}");
}

/// No share and no link is used twice at once.
fn check_used_once(spec: &WorldSpec, ran: &SimulationResult, seed: u64) {
    let cluster = &spec.cluster.as_ref().expect("a cluster").plan.reserve.cluster;
    let server = |share: ShareId| cluster.shares[share.index()].server.0;
    let mut spans = Vec::new();
    let mut ran_on = BTreeMap::new();
    for used in &usage(ran).uses {
        match used.used {
            ResourceUse::Run => {
                ran_on.insert((used.booking, used.stage), used.share);
                spans.push((0, used.share.0, used.from, used.to));
            }
            ResourceUse::Transfer => {
                let sender = ran_on[&(used.booking, used.stage - 1)];
                spans.push((1, server(sender), used.from, used.to));
                spans.push((2, server(used.share), used.from, used.to));
            }
        }
    }
    spans.sort_unstable();
    for pair in spans.windows(2) {
        let same = (pair[0].0, pair[0].1) == (pair[1].0, pair[1].1);
        assert!(!same || pair[0].3 <= pair[1].2, "seed {seed}: {pair:?}");
    }
}

#[test]
fn what_is_booked_happens() {
    for seed in 0..40 {
        let (spec, arrivals) = world(seed, false, 0.0);
        let ran = run(&spec, &arrivals);
        check_books(&ran, &arrivals, seed);
        check_used_once(&spec, &ran, seed);
        assert_eq!(
            ran.report.requests.late, 0,
            "seed {seed}: what is booked is in time"
        );
        // Reported, the same comes out.
        let (spec, _) = world(seed, true, 0.0);
        let reported = run(&spec, &arrivals);
        let by_booking = |ran: &SimulationResult| {
            let mut uses = usage(ran).uses.clone();
            uses.sort_by_key(|used| (used.booking, used.stage, used.used));
            uses
        };
        assert_eq!(by_booking(&ran), by_booking(&reported), "seed {seed}");
        let accuracy = reported.report.reservations.expect("a report of bookings");
        assert!(accuracy.apart_mean_ms < 1e-9, "seed {seed}: {accuracy:?}");
    }
}

#[test]
fn reports_of_uses_keep_more_in_time() {
    let (mut with, mut without) = (0, 0);
    for seed in 0..40 {
        for (feedback, missed) in [(true, &mut with), (false, &mut without)] {
            let (spec, arrivals) = world(seed, feedback, 0.15);
            let ran = run(&spec, &arrivals);
            check_books(&ran, &arrivals, seed);
            check_used_once(&spec, &ran, seed);
            *missed += ran.report.requests.late + ran.report.requests.dropped;
        }
    }
    assert!(with < without, "with reports {with}, without {without}");
}

/// The only share of a stage is away for a second: what may be dropped is dropped, what may not waits and runs.
#[test]
fn a_share_that_fails_loses_only_what_needs_it() {
    for (rule, lossless) in [("back", false), ("none", true)] {
        let mut lost = 0;
        for seed in 0..20 {
            let (mut spec, arrivals) = world(seed, true, 0.0);
            spec.policy.drop = DropRule::by_name(rule).expect("a rule");
            let cluster = &mut spec.cluster.as_mut().expect("a cluster").plan.reserve.cluster;
            cluster.pipelines[0].stages[1].shares.truncate(1);
            let failing = cluster.pipelines[0].stages[0].shares.len() as u32;
            spec.failures = vec![WorkerFailure {
                module: 0,
                worker: failing,
                at: Span::from_millis(1_000),
                lasts: Span::from_millis(1_000),
            }];
            let ran = run(&spec, &arrivals);
            check_books(&ran, &arrivals, seed);
            check_used_once(&spec, &ran, seed);
            lost += ran.report.reservations.as_ref().expect("bookings").lost;
            if lossless {
                // A request that is lost twice is dropped as failed; the share fails only once.
                assert_eq!(ran.report.requests.dropped, 0, "seed {seed}");
            } else {
                assert!(ran.report.requests.dropped > 0, "seed {seed}");
            }
        }
        assert!(lost > 0, "{rule}: no batch was ever on a share that failed");
    }
}

/// A plan for the same shares with larger batches comes while the first is in force.
#[test]
fn a_switch_of_plans_loses_nothing() {
    for seed in 0..20 {
        let (mut spec, arrivals) = world(seed, true, 0.0);
        let cluster = spec.cluster.as_mut().expect("a cluster");
        let mut plan = cluster.plan.clone();
        plan.number = 2;
        plan.owners = (0..plan.reserve.cluster.shares.len() as u32)
            .map(WorkerId)
            .collect();
        plan.reserve.cluster.pipelines[0].batch = 2;
        let rate = 120.0;
        let slots = slots(&plan.reserve.cluster, rate);
        cluster.later.push(LaterPlan {
            at: Span::from_millis(1_000),
            load_time: Span::from_millis(300),
            plan,
            modules: vec![(0, slots)],
            origin: None,
        });
        let ran = run(&spec, &arrivals);
        check_books(&ran, &arrivals, seed);
        check_used_once(&spec, &ran, seed);
        let report = ran.report.reservations.as_ref().expect("bookings");
        let [switch] = &report.plans[..] else {
            panic!("seed {seed}: {:?}", report.plans);
        };
        assert_eq!(switch.preload_ms, 300.0, "seed {seed}");
        assert!(switch.pause_ms < 100.0, "seed {seed}: {switch:?}");
        assert_eq!((report.lost, report.failed), (0, 0), "seed {seed}");
        let largest = usage(&ran).uses.iter().map(|used| used.size).max();
        assert_eq!(largest, Some(2), "seed {seed}: batches of the second plan");
    }
}

/// One of two shared slots fails every batch at once, so it would otherwise be granted every batch.
#[test]
fn a_slot_that_fails_at_once_is_taken_out_of_use() {
    let (mut spec, _) = world(0, false, 0.0);
    spec.cluster = None;
    spec.shared_slots = 2;
    spec.policy = Policy::default();
    spec.modules[0].pool = WorldPool::Shared(vec![0, 1]);
    let arrivals = poisson(50.0, Span::from_secs(10), 1);
    let failed = |spec: &WorldSpec| {
        let ran = run(spec, &arrivals);
        check_books(&ran, &arrivals, 0);
        let drops = ran.report.drops.iter();
        let failed = drops.filter(|drop| drop.reason == DropReason::Failed);
        failed.map(|drop| drop.count).sum::<u64>()
    };
    assert_eq!(failed(&spec), 0);
    spec.faults = vec![SlotFault {
        slot: 0,
        at: Span::from_secs(2),
        lasts: Span::from_secs(6),
    }];
    // Five losses, of two requests at most, take it out; each second it is tried again, for five losses more.
    let lost = failed(&spec);
    assert!((5..=70).contains(&lost), "{lost} of 300");
}
