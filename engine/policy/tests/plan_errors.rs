//! What is wrong with a problem is said clearly, and plans survive being written down.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use weir_policy::Span;
use weir_policy::plan::{BlockTimes, Blocks, Class, Objective, Problem, Scheme, Served, Solution, solve};

fn problem() -> Problem {
    let times = |class: &str, us: u64| BlockTimes {
        class: class.into(),
        shares: 1,
        batch: vec![1, 2],
        us: vec![vec![us, us * 3 / 2]; 3],
    };
    let class = |name: &str| Class {
        name: name.into(),
        count: 4,
        per_server: 1,
        bandwidth_bps: 10_000_000_000,
        cost: 1.0,
    };
    let blocks = Blocks {
        layers: Vec::new(),
        model: "m".into(),
        boundary_bytes: vec![100_000, 50_000],
        times: vec![times("fast", 1_000), times("slow", 3_000)],
    };
    Problem {
        classes: vec![class("fast"), class("slow")],
        models: vec![Served {
            name: "m".into(),
            slo: Span::from_millis(20),
            weight: 1.0,
            blocks,
        }],
        objective: Objective::Throughput,
        scheme: Scheme::Pooled { partitions: 2 },
        margin: 0.25,
        building: 0.0,
        gap: 1e-6,
    }
}

#[test]
fn what_is_wrong_is_said() {
    let check = |change: &dyn Fn(&mut Problem), part: &str| {
        let mut problem = problem();
        change(&mut problem);
        let error = solve(&problem).expect_err(part).to_string();
        assert!(error.contains(part), "{error}");
    };
    check(
        &|p| p.classes.iter_mut().for_each(|class| class.count = 0),
        "no devices",
    );
    check(&|p| p.models.clear(), "no models");
    check(&|p| p.models[0].weight = 0.0, "weight of model \"m\" is 0");
    check(&|p| p.models[0].weight = f64::NAN, "must be above 0");
    check(
        &|p| p.models[0].slo = Span::from_millis(3),
        "least latency on this cluster is 3ms",
    );
    check(&|p| p.margin = 1.0, "margin is 1");
    check(
        &|p| p.models[0].blocks.times[1].us.truncate(2),
        "class \"slow\", whole device, has no times of block 2",
    );
    check(
        &|p| p.models[0].blocks.times[0].us[1].truncate(1),
        "has no time of block 1 for a batch of 2",
    );
    check(
        &|p| p.models[0].blocks.times[0].us[1][0] = 0,
        "has 0 us for block 1",
    );
    check(
        &|p| p.objective = Objective::Cost { rate: 1e9 },
        "cannot carry 1000000000",
    );
}

#[test]
fn a_plan_can_be_written_and_read_back() {
    let solution = solve(&problem()).unwrap();
    let text = toml::to_string(&solution).unwrap();
    assert_eq!(toml::from_str::<Solution>(&text).unwrap(), solution);
}

#[test]
fn cost_is_no_more_than_needed() {
    let mut problem = problem();
    let most = solve(&problem).unwrap();
    problem.objective = Objective::Cost {
        rate: most.objective / 3.0,
    };
    let cheap = solve(&problem).unwrap();
    assert!(cheap.objective < f64::from(most.devices.iter().sum::<u32>()));
    assert!(cheap.models[0].throughput >= most.objective / 3.0 * (1.0 - 1e-5));
}
