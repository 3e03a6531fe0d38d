//! Plans that are solved again while a world runs.

use weir_graph::{WorkerCluster, WorkerNode};
use weir_planner::{BlockTimes, Blocks, Class, Objective, Plan, Problem, Scheme, ServedModel, solve};
use weir_policy::reservations::{BookingTable, ReplanSpec, ReserveSpec};
use weir_policy::{DropRule, Order, Policy, Report};
use weir_sim::{LinkChange, Replanner, WorldCluster, WorldModule, WorldPool, WorldSpec, poisson, simulate};
use weir_types::{ModuleId, Span, WorkerId};

const MODULE: ModuleId = ModuleId(0);
const SECONDS: u64 = 60;
const RATE: f64 = 60.0;

/// A model that is best cut between two slow devices and a fast one. With 4 ms of transfer a batch takes 14 ms; with 16 ms it
/// is later than its 25 ms, and the fast device alone is better.
fn problem() -> Problem {
    let class = |name: &str, count| Class {
        name: name.to_owned(),
        count,
        per_server: 1,
        bandwidth_bps: 1_000_000_000,
        cost: 1.0,
    };
    let times = |class: &str, us: [u64; 2]| BlockTimes {
        class: class.to_owned(),
        shares: 1,
        batch: vec![1],
        us: us.map(|us| vec![us]).to_vec(),
        whole_us: Vec::new(),
    };
    Problem {
        classes: vec![class("fast", 1), class("slow", 2)],
        models: vec![ServedModel {
            name: "detector".to_owned(),
            slo: Span::from_millis(25),
            weight: 1.0,
            blocks: Blocks {
                model: "detector".to_owned(),
                boundary_bytes: vec![500_000],
                times: vec![times("fast", [4_000, 4_000]), times("slow", [6_000, 12_000])],
                ..Blocks::default()
            },
        }],
        objective: Objective::Throughput,
        scheme: Scheme::Pooled { partitions: 2 },
        margin: 0.4,
        building: 0.0,
        gap: 1e-6,
    }
}

fn workers() -> Vec<WorkerNode> {
    let worker = |name: &str, class: &str| WorkerNode {
        name: name.to_owned(),
        class: class.to_owned(),
        address: None,
        server: name.to_owned(),
        bandwidth_bps: 1_000_000_000,
        emulated: true,
        slowdown: 1.0,
        core: None,
    };
    vec![worker("a", "fast"), worker("b", "slow"), worker("c", "slow")]
}

fn run(replans: bool, noise: f64, link_changes: Vec<LinkChange>) -> Report {
    let plan = Plan {
        solution: solve(&problem()).expect("a plan"),
        problem: problem(),
    };
    let modules = vec![(MODULE, "detector".to_owned())];
    let placed = WorkerCluster::on(&workers(), &plan, &modules).expect("workers for the plan");
    let slots = placed.pipeline_slots(&plan, MODULE, "detector");
    let slots = slots.expect("pipelines of the model");
    let mut cluster = WorldCluster::new(ReserveSpec {
        cluster: placed.cluster.clone(),
        tables: BookingTable::Intervals,
        feedback: true,
        corrected: true,
        head_min_fraction: 0.0,
    });
    let owners = placed.owners.iter();
    cluster.plan.owners = owners.map(|(worker, _)| WorkerId(*worker as u32)).collect();
    cluster.plan.replan = replans.then(|| ReplanSpec::new(plan.mix(&modules)));
    cluster.link_changes = link_changes;
    cluster.replanner = Some(Replanner {
        plan,
        modules,
        workers: workers(),
        solve_time: Span::from_secs(1),
        load_time: Span::from_secs(1),
    });
    let policy = Policy {
        drop: DropRule::by_name("back").expect("a rule"),
        order: Some(Order::Fcfs),
        sweep: Some(false),
        ..Policy::default()
    };
    let module = WorldModule {
        ends: Vec::new(),
        name: "detect".to_owned(),
        profile: slots.profile.clone(),
        batch: vec![slots.batch],
        pool: WorldPool::Pipelines(slots),
        next: Vec::new(),
        weight: 1.0,
        overlap: None,
        model: None,
    };
    let spec = WorldSpec {
        cluster: Some(cluster),
        noise,
        ..WorldSpec::new(Span::from_millis(25), policy, vec![module])
    };
    let arrivals = poisson(RATE, Span::from_secs(SECONDS), 1);
    let ran = simulate(&spec, "replan", &mut arrivals.iter().copied(), &mut |_| {});
    assert!(ran.report.requests.is_balanced());
    ran.report
}

fn switches(report: &Report) -> usize {
    report
        .reservations
        .as_ref()
        .map_or(0, |report| report.plans.len())
}

#[test]
fn goodput_recovers_from_a_link_that_becomes_slower_by_4() {
    let slower = || {
        vec![LinkChange {
            at: Span::from_secs(20),
            class: "slow".to_owned(),
            factor: 4.0,
        }]
    };
    let (kept, replanned) = (run(false, 0.0, slower()), run(true, 0.0, slower()));
    assert_eq!((switches(&kept), switches(&replanned)), (0, 1));
    let all = RATE * SECONDS as f64;
    let delivered = |report: &Report| report.requests.delivered as f64 / all;
    assert!(delivered(&kept) < 0.4, "{:?}", kept.requests);
    assert!(delivered(&replanned) > 0.65, "{:?}", replanned.requests);
}

#[test]
fn plan_stays_in_force_while_measurements_are_as_planned() {
    for noise in [0.0, 0.15] {
        let (kept, measured) = (run(false, noise, Vec::new()), run(true, noise, Vec::new()));
        assert_eq!(switches(&measured), 0);
        assert_eq!(measured.requests.delivered, kept.requests.delivered);
    }
}
