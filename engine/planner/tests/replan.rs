//! Plans that are solved again for measured conditions.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use weir_planner::{
    BlockTimes, Blocks, Class, Objective, Plan, Problem, Scheme, ServedModel, corrected, replan, solve,
    total_throughput,
};
use weir_types::{Conditions, DurationRatio, LinkSpeed, MixShare, ModuleId, PlanGain, Span};

use super::plan;

const MODULE: ModuleId = ModuleId(3);

fn modules() -> Vec<(ModuleId, String)> {
    vec![(MODULE, "detector".to_owned())]
}

/// A model that is best cut between two slow devices and a fast one, 4 ms of transfer apart: 14 of 15 ms.
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

fn solved() -> Plan {
    Plan {
        solution: solve(&problem()).unwrap(),
        problem: problem(),
    }
}

fn link(bandwidth_bps: u64) -> Conditions {
    Conditions {
        links: vec![LinkSpeed {
            from: "slow".to_owned(),
            to: "fast".to_owned(),
            bandwidth_bps,
        }],
        ..Conditions::default()
    }
}

fn durations(class: &str, per_mille: u32) -> Conditions {
    Conditions {
        durations: vec![DurationRatio {
            module: MODULE,
            class: class.to_owned(),
            per_mille,
        }],
        ..Conditions::default()
    }
}

#[test]
fn slow_link_is_planned_around() {
    let plan = solved();
    assert_eq!(plan.solution.models[0].pipelines[0].stages.len(), 2);
    let next = replan(&plan, &modules(), &link(250_000_000)).unwrap().unwrap();
    let pipelines = &next.plan.solution.models[0].pipelines;
    assert_eq!((pipelines.len(), pipelines[0].stages.len()), (1, 1));
    assert_eq!(pipelines[0].stages[0].class, "fast");
    let gain = PlanGain {
        current: 0,
        next: 125_000,
    };
    assert_eq!(
        next.gain, gain,
        "the plan in force is late under these conditions"
    );
    assert_eq!(
        next.plan.problem, plan.problem,
        "the problem stays as it was declared"
    );
    next.plan.check().unwrap();
}

#[test]
fn plan_that_stays_the_best_is_not_replaced() {
    for conditions in [
        Conditions::default(),
        link(2_000_000_000),
        durations("slow", 1_050),
    ] {
        let next = replan(&solved(), &modules(), &conditions).unwrap();
        assert_eq!(next, None, "{conditions:?}");
    }
}

#[test]
fn conditions_that_no_plan_meets_are_an_error() {
    assert!(replan(&solved(), &modules(), &durations("fast", 2_000)).is_err());
}

#[test]
fn problem_is_corrected_by_what_was_measured() {
    let mut declared = problem();
    let mut other = declared.models[0].clone();
    other.name = "other".to_owned();
    declared.models.push(other);
    let mut modules = modules();
    modules.push((ModuleId(4), "other".to_owned()));
    let measured = Conditions {
        mix: [(MODULE, 750), (ModuleId(4), 250)]
            .map(|(module, per_mille)| MixShare { module, per_mille })
            .to_vec(),
        ..durations("slow", 1_500)
    };
    let corrected = corrected(&declared, &modules, &measured);
    let weights: Vec<f64> = corrected.models.iter().map(|model| model.weight).collect();
    assert_eq!(weights, [1.5, 0.5]);
    for model in &corrected.models {
        // The other model was not measured there, so it is as slow as the first.
        assert_eq!(model.blocks.times[1].us, [[9_000], [18_000]], "{}", model.name);
        assert_eq!(model.blocks.times[0].us, [[4_000], [4_000]], "{}", model.name);
    }
    assert_eq!(corrected.classes, declared.classes, "no link was measured");
}

#[test]
fn predicted_throughput_is_that_of_the_solution() {
    let mut checked = 0;
    for seed in 0..60 {
        let problem = plan::problem(seed, 3, 4);
        let Ok(solution) = solve(&problem) else { continue };
        let weights: f64 = problem.models.iter().map(|model| model.weight).sum();
        let predicted = total_throughput(&problem, &solution);
        let planned = solution.objective * weights;
        assert!(
            predicted >= planned * (1.0 - 1e-6),
            "seed {seed}: {predicted} {planned}"
        );
        checked += 1;
    }
    assert!(checked > 10, "{checked} problems have a plan");
}
