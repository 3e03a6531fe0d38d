use proptest::prelude::*;
use weir_planner::gears::{
    Beam, CascadeChoice, Evaluated, GearModel, LoadOrder, OperatorChoices, Operators, Overload, Scoring,
    exhaustive, frontier, hypervolume,
};
use weir_types::{Profile, StageGear};

use super::*;

fn model(name: &str, memory: u64, slots: usize, ms: &[(u32, u64)]) -> GearModel {
    let points = ms
        .iter()
        .map(|(size, ms)| (*size, Span::from_millis(*ms)))
        .collect();
    GearModel {
        name: name.to_owned(),
        memory,
        profile: Profile::new(points).unwrap(),
        batch: ms.iter().map(|(size, _)| *size).collect(),
        slots: 0..slots,
    }
}

fn choice(stages: &[(usize, f64)], accuracy: f64) -> CascadeChoice {
    let stage = |(model, _): &(usize, f64)| StageGear {
        model: *model,
        certainty: 0.5,
    };
    CascadeChoice {
        stages: stages.iter().map(stage).collect(),
        reach: stages.iter().map(|(_, reach)| *reach).collect(),
        accuracy,
    }
}

/// A large model of 20 ms and a small one of 4 ms, with cascades between them.
fn problem(slots: usize, memory: u64) -> GearProblem {
    GearProblem {
        models: vec![
            model("small", 1, slots, &[(1, 4), (2, 5), (4, 7), (8, 11)]),
            model("large", 3, slots, &[(1, 20), (2, 28), (4, 44), (8, 76)]),
        ],
        operators: vec![OperatorChoices {
            name: "read".to_owned(),
            items: 1.0,
            cascades: vec![
                choice(&[(1, 1.0)], 0.95),
                choice(&[(0, 1.0), (1, 0.5)], 0.94),
                choice(&[(0, 1.0), (1, 0.2)], 0.91),
                choice(&[(0, 1.0)], 0.80),
            ],
        }],
        slots,
        memory,
        ranges: vec![20.0, 40.0, 60.0, 80.0],
        scoring: Scoring::Trade,
        together: Operators::Together,
        overload: Overload::Prune,
        order: LoadOrder::Falling,
        refine: 100,
        beam: Beam::default(),
        seed: 1,
    }
}

/// Two seconds at each rate in turn.
fn arrivals(rates: &[u64]) -> Vec<Timestamp> {
    let mut out = Vec::new();
    for (part, rate) in (0_u64..).zip(rates) {
        out.extend((0..2 * rate).map(|n| Timestamp::from_micros(part * 2_000_000 + n * 1_000_000 / rate)));
    }
    out
}

fn evaluate(problem: &GearProblem, plan: &GearPlan, assignment: &Assignment) -> Evaluation {
    let load = arrivals(&[10, 70, 30, 80, 15]);
    let measure = Measure::Quantile(0.95);
    evaluate_gears(
        problem,
        plan,
        assignment,
        &load,
        ShiftRule::default(),
        measure,
        &[1],
    )
}

fn planned(problem: &GearProblem) -> Vec<Evaluated> {
    frontier(problem, &mut |plan, assignment| {
        evaluate(problem, plan, assignment)
    })
    .unwrap()
}

#[test]
fn a_frontier_holds_no_plan_that_another_beats_and_dearer_cascades_only_at_lower_loads() {
    let problem = problem(1, 4);
    let plans = planned(&problem);
    assert!(plans.len() > 2, "{}", plans.len());
    for plan in &plans {
        assert_eq!(plan.plan.check(), Ok(()));
        assert!(
            plans
                .iter()
                .all(|other| !other.evaluation.beats(&plan.evaluation))
        );
        for ranges in &plan.assignment {
            assert!(
                ranges.is_sorted(),
                "a higher load never has a dearer cascade: {ranges:?}"
            );
        }
    }
    assert_eq!(planned(&problem), plans, "solving twice gives the same");
}

#[test]
fn the_walk_is_close_to_all_assignments() {
    let problem = problem(1, 4);
    let worst = Evaluation {
        latency: 0.5,
        accuracy: 0.8,
    };
    let all = exhaustive(&problem, &mut |plan, assignment| {
        evaluate(&problem, plan, assignment)
    })
    .unwrap();
    let part = hypervolume(&planned(&problem), worst) / hypervolume(&all, worst);
    assert!(part >= 0.97, "{part}");
}

/// If only the cheapest cascades sustain a load, any range may be the one with a more expensive cascade.
#[test]
fn in_any_order_the_neighbours_beside_gaps_are_close_to_all_assignments() {
    let falling = GearProblem {
        overload: Overload::Evaluate,
        refine: 60,
        ..problem(1, 4)
    };
    let free = GearProblem {
        order: LoadOrder::Free,
        ..falling.clone()
    };
    // The load is mostly in the highest range, where the large model is three times too slow.
    let load = arrivals(&[30, 50, 80, 80, 80, 80]);
    let evaluate = |plan: &GearPlan, assignment: &Assignment| {
        let measure = Measure::Quantile(0.95);
        evaluate_gears(
            &free,
            plan,
            assignment,
            &load,
            ShiftRule::default(),
            measure,
            &[1],
        )
    };
    let all = exhaustive(&free, &mut { evaluate }).unwrap();
    let worst = Evaluation {
        latency: all.iter().map(|plan| plan.evaluation.latency).fold(0.0, f64::max) * 1.01,
        accuracy: 0.79,
    };
    let mut looked_at = 0;
    let mut count = |plan: &GearPlan, assignment: &Assignment| {
        looked_at += 1;
        evaluate(plan, assignment)
    };
    let found = frontier(&free, &mut count).unwrap();
    let part = |plans: &[Evaluated]| hypervolume(plans, worst) / hypervolume(&all, worst);
    assert!(part(&found) >= 0.97, "{}", part(&found));
    assert!(looked_at < 256 / 2, "{looked_at} of 256");
    let in_order = frontier(&falling, &mut { evaluate }).unwrap();
    assert!(part(&in_order) < part(&found), "{}", part(&in_order));
}

#[test]
fn memory_is_kept_and_a_model_that_fits_no_slot_is_named() {
    let tight = problem(2, 3);
    for plan in planned(&tight) {
        for placed in &plan.plan.placement {
            let taken: u64 = placed.iter().map(|model| tight.models[*model].memory).sum();
            assert!(taken <= 3, "{placed:?}");
        }
    }
    let error = frontier(&problem(2, 2), &mut |_, _| unreachable!()).map_err(|error| error.to_string());
    assert!(error.is_err_and(|error| error.contains("\"large\" takes 3 bytes, a slot has 2")));
}

#[test]
fn a_load_that_nothing_sustains_is_said() {
    let mut problem = problem(1, 4);
    problem.ranges = vec![10_000.0];
    let error = frontier(&problem, &mut |_, _| unreachable!()).map_err(|error| error.to_string());
    assert!(error.is_err_and(|error| error.contains("times what a slot can do")));
}

proptest! {
    /// Every item is answered by one stage; what is handed on plus what is accepted is what came; all requests are done.
    #[test]
    fn items_are_conserved_while_gears_shift(seed in 0_u64..1000, rates in proptest::collection::vec(5_u64..120, 1..6)) {
        let problem = problem(2, 4);
        let plans = planned(&problem);
        let plan = &plans[seed as usize % plans.len()];
        let load = arrivals(&rates);
        let outcome = run_gears(&problem, &plan.plan, &plan.assignment, &load, ShiftRule::default(), seed);
        prop_assert_eq!(outcome.requests, load.len() as u64);
        prop_assert_eq!(outcome.latencies.len(), load.len());
        let stages = &outcome.stages[0];
        prop_assert_eq!(stages[0].items, load.len() as u64);
        let answered: u64 = stages.iter().map(|stage| stage.items - stage.handed_on).sum();
        prop_assert_eq!(answered, load.len() as u64);
        let later: u64 = stages.iter().skip(1).map(|stage| stage.items).sum();
        let handed_on: u64 = stages.iter().map(|stage| stage.handed_on).sum();
        prop_assert_eq!(later, handed_on);
    }
}
