//! Errors of problems and plans, and serialisation of plans.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use weir_planner::{
    BlockTimes, Blocks, Class, Objective, PipelinePlan, Plan, Problem, Scheme, ServedModel, Solution, solve,
};
use weir_types::Span;

fn problem() -> Problem {
    let times = |class: &str, us: u64| BlockTimes {
        class: class.into(),
        shares: 1,
        batch: vec![1, 2],
        us: vec![vec![us, us * 3 / 2]; 3],
        whole_us: Vec::new(),
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
        models: vec![ServedModel {
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
fn each_invalid_problem_has_its_message() {
    let check = |change: &dyn Fn(&mut Problem), slice: &str| {
        let mut problem = problem();
        change(&mut problem);
        let error = solve(&problem).expect_err(slice).to_string();
        assert!(error.contains(slice), "{error}");
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
        &|p| p.models[0].blocks.times[0].whole_us = vec![1],
        "has whole_us for other than its batch sizes",
    );
    check(
        &|p| p.models[0].blocks.times[0].whole_us = vec![1, 0],
        "has 0 us in whole_us",
    );
    check(
        &|p| p.objective = Objective::Cost { rate: 1e9 },
        "cannot carry 1000000000",
    );
}

#[test]
fn profiles_out_of_range_are_rejected() {
    let check = |change: &dyn Fn(&mut BlockTimes), slice: &str| {
        let mut problem = problem();
        change(&mut problem.models[0].blocks.times[0]);
        let error = solve(&problem).expect_err(slice).to_string();
        assert!(error.contains(slice), "{error}");
    };
    check(&|times| times.shares = 5_000, "more than 1024 shares");
    check(&|times| times.batch[1] = u32::MAX, "batch size above 4096");
    check(
        &|times| times.us.iter_mut().for_each(|us| us[0] = u64::MAX / 2),
        "for block 0 at a batch of 1; the most is 3600000000",
    );
}

#[test]
fn a_modified_plan_is_rejected() {
    let whole = Plan {
        solution: solve(&problem()).unwrap(),
        problem: problem(),
    };
    assert_eq!(whole.check(), Ok(()));
    let check = |change: &dyn Fn(&mut PipelinePlan), slice: &str| {
        let mut plan = whole.clone();
        change(&mut plan.solution.models[0].pipelines[0]);
        let error = plan.check().expect_err(slice).to_string();
        assert!(error.contains(slice) && error.contains("plan again"), "{error}");
    };
    check(&|pipeline| pipeline.stages.clear(), "runs 0 of 3 blocks");
    check(
        &|pipeline| pipeline.stages[0].from = 1,
        "where block 0 should follow",
    );
    check(&|pipeline| pipeline.stages[0].to = 0, "blocks 0..0");
    check(&|pipeline| pipeline.batch = u32::MAX, "batches of 4294967295");
    check(&|pipeline| pipeline.stages[0].shares = 7, "on 1/7 of a");
    check(
        &|pipeline| pipeline.stages[0].pool = 0,
        "nothing to run blocks 0..",
    );
    check(
        &|pipeline| pipeline.stages.iter_mut().for_each(|stage| stage.to = 4),
        "4 of 3",
    );
    let mut plan = whole.clone();
    plan.problem.models[0].blocks.times[0].us.pop();
    let error = plan.check().expect_err("a hole").to_string();
    assert!(error.contains("no times of block 2"), "{error}");
    plan.problem.models[0].name = "other".into();
    plan.problem.models[0].blocks = problem().models.remove(0).blocks;
    let error = plan.check().expect_err("another model").to_string();
    assert!(error.contains("does not name"), "{error}");
}

#[test]
fn a_plan_survives_serialisation() {
    let solution = solve(&problem()).unwrap();
    let text = toml::to_string(&solution).unwrap();
    assert_eq!(toml::from_str::<Solution>(&text).unwrap(), solution);
}

#[test]
fn the_cost_objective_uses_fewer_devices() {
    let mut problem = problem();
    let most = solve(&problem).unwrap();
    problem.objective = Objective::Cost {
        rate: most.objective / 3.0,
    };
    let cheap = solve(&problem).unwrap();
    assert!(cheap.objective < f64::from(most.devices.iter().sum::<u32>()));
    assert!(cheap.models[0].throughput >= most.objective / 3.0 * (1.0 - 1e-5));
}
