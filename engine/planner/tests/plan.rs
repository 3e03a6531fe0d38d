//! Plans respect devices and SLOs, are deterministic, and match exhaustive search on small problems.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;
use weir_planner::{
    BlockTimes, Blocks, Class, Objective, Plan, PlanError, Problem, Scheme, ServedModel, Solution, solve,
};
use weir_types::Span;

fn class(name: &str, count: u32) -> Class {
    Class {
        name: name.into(),
        count,
        per_server: 1,
        bandwidth_bps: 8_000_000_000,
        cost: 1.0,
    }
}

fn blocks(rng: &mut Pcg64Mcg, model: &str, classes: &[Class], count: usize) -> Blocks {
    let mut times = Vec::new();
    for (at, class) in classes.iter().enumerate() {
        let base: Vec<u64> = (0..count)
            .map(|_| rng.random_range(300..900) * (1 + 2 * at as u64))
            .collect();
        for shares in 1..=rng.random_range(1..=2) {
            let row = |us: &u64| vec![us * u64::from(shares), us * u64::from(shares) * 17 / 10];
            let us = base.iter().map(row).collect();
            times.push(BlockTimes {
                class: class.name.clone(),
                shares,
                batch: vec![1, 2],
                us,
                whole_us: Vec::new(),
            });
        }
    }
    let boundary_bytes = (1..count).map(|_| rng.random_range(20_000..400_000)).collect();
    Blocks {
        model: model.into(),
        boundary_bytes,
        times,
        ..Blocks::default()
    }
}

/// A small random problem.
pub(super) fn problem(seed: u64, devices: u32, count: usize) -> Problem {
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    let classes = vec![
        class("fast", rng.random_range(1..=devices)),
        class("slow", rng.random_range(1..=devices)),
    ];
    let models = (0..rng.random_range(1..=2_u32))
        .map(|at| ServedModel {
            name: format!("m{at}"),
            slo: Span::from_micros(rng.random_range(5_000..14_000)),
            weight: f64::from(rng.random_range(1..=4_u32)) / 4.0,
            blocks: blocks(&mut rng, "m", &classes, count),
        })
        .collect();
    Problem {
        classes,
        models,
        objective: Objective::Throughput,
        scheme: Scheme::Pooled {
            partitions: rng.random_range(1..=3),
        },
        margin: 0.2,
        building: 0.0,
        gap: 1e-6,
    }
}

/// Invariants of every plan.
fn check_invariants(problem: &Problem, solution: &Solution, seed: u64) {
    let mut shares = vec![0.0; problem.classes.len()];
    for (plan, model) in solution.models.iter().zip(&problem.models) {
        let mut classes_of_pipelines = Vec::new();
        for pipeline in &plan.pipelines {
            let stages = &pipeline.stages;
            assert_eq!(stages[0].from, 0, "seed {seed}");
            assert!(
                stages.windows(2).all(|pair| pair[0].to == pair[1].from),
                "seed {seed}"
            );
            assert_eq!(
                stages[stages.len() - 1].to as usize,
                model.blocks.boundary_bytes.len() + 1,
                "seed {seed}"
            );
            assert!(
                stages.iter().all(|stage| stage.from < stage.to && stage.pool > 0),
                "seed {seed}"
            );
            let latency: u64 = stages
                .iter()
                .map(|stage| (stage.duration + stage.transfer).micros())
                .sum();
            let budget = model.slo.scale(1.0 - problem.margin).micros();
            assert!(
                latency <= budget + 3 && pipeline.latency.micros() <= budget + 1,
                "seed {seed}: {latency} > {budget}"
            );
            for stage in stages {
                let class = problem
                    .classes
                    .iter()
                    .position(|class| class.name == stage.class)
                    .unwrap();
                shares[class] += f64::from(stage.pool) / f64::from(stage.shares);
            }
            classes_of_pipelines.push(stages.iter().map(|stage| stage.class.clone()).collect::<Vec<_>>());
        }
        let pipelines = classes_of_pipelines.len();
        classes_of_pipelines.sort();
        classes_of_pipelines.dedup();
        assert_eq!(
            classes_of_pipelines.len(),
            pipelines,
            "seed {seed}: two pipelines of the same classes"
        );
        assert!(
            solution.objective <= plan.throughput / model.weight + 1e-9,
            "seed {seed}"
        );
    }
    for ((held, &used), class) in shares.iter().zip(&solution.devices).zip(&problem.classes) {
        assert!(
            used <= class.count && *held <= f64::from(used) + 1e-9,
            "seed {seed}"
        );
    }
    assert!(solution.bound >= solution.objective, "seed {seed}");
    let plan = Plan {
        solution: solution.clone(),
        problem: problem.clone(),
    };
    assert_eq!(plan.check(), Ok(()), "seed {seed}");
}

#[test]
fn plans_respect_devices_slo_and_blocks_and_are_deterministic() {
    for seed in 0..40 {
        let problem = Problem {
            gap: 1e-3,
            ..problem(seed, 6, 3)
        };
        match solve(&problem) {
            Ok(solution) => {
                check_invariants(&problem, &solution, seed);
                assert_eq!(solve(&problem).unwrap(), solution, "seed {seed}");
            }
            Err(PlanError::Infeasible { .. } | PlanError::TooSmall(_)) => {}
            Err(error) => panic!("seed {seed}: {error}"),
        }
    }
}

#[test]
fn more_devices_never_lower_the_objective() {
    for seed in 0..40 {
        let mut problem = Problem {
            gap: 5e-5,
            ..problem(seed, 4, 3)
        };
        let Ok(before) = solve(&problem) else { continue };
        for class in 0..problem.classes.len() {
            problem.classes[class].count += 1;
            let after = solve(&problem).unwrap();
            assert!(after.objective >= before.objective * (1.0 - 1e-4), "seed {seed}");
            problem.classes[class].count -= 1;
        }
    }
}

mod enumeration {
    //! An exhaustive planner: for each model, every set of pipelines with every pool, as devices by position and class
    //! and throughput.

    use std::collections::BTreeMap;

    use super::*;

    /// A stage: class, shares, and rate of a share.
    type Stage = (usize, u32, f64);

    /// Complete pipeline, by its stages.
    struct Chain(Vec<Stage>);

    /// A pipeline so far: the next block, the microseconds spent, and its stages.
    type Open = (usize, f64, Vec<Stage>);

    fn chains(problem: &Problem, model: &ServedModel) -> Vec<Chain> {
        let count = model.blocks.boundary_bytes.len() + 1;
        let Scheme::Pooled { partitions } = problem.scheme else {
            return Vec::new();
        };
        let budget = model.slo.micros() as f64 * (1.0 - problem.margin);
        let mut chains = Vec::new();
        for k in 0..2 {
            let mut open: Vec<Open> = vec![(0, 0.0, Vec::new())];
            while let Some((from, spent, stages)) = open.pop() {
                if from == count {
                    if spent <= budget {
                        chains.push(Chain(stages));
                    }
                    continue;
                }
                if stages.len() == partitions as usize {
                    continue;
                }
                for times in &model.blocks.times {
                    for to in from + 1..=count {
                        let batch = f64::from(times.batch[k]);
                        let us: u64 = times.us[from..to].iter().map(|row| row[k]).sum();
                        let item_us = |at: usize| model.blocks.boundary_bytes[at - 1] as f64 / 1e3;
                        let sent = if from == 0 { 0.0 } else { item_us(from) * batch };
                        let link = |at: usize| {
                            if at == 0 || at == count {
                                f64::INFINITY
                            } else {
                                1e6 / item_us(at) / f64::from(times.shares)
                            }
                        };
                        let rate = (batch * 1e6 / us as f64).min(link(from)).min(link(to));
                        let class = problem
                            .classes
                            .iter()
                            .position(|class| class.name == times.class)
                            .unwrap();
                        let mut stages = stages.clone();
                        stages.push((class, times.shares, rate));
                        open.push((to, spent + sent + us as f64, stages));
                    }
                }
            }
        }
        chains
    }

    /// Throughput by devices of the two classes, for one model.
    fn throughput_by_devices(problem: &Problem, model: &ServedModel) -> BTreeMap<(u32, u32), f64> {
        // Pools by sequence of classes: half devices at each (position, class).
        let counts = [problem.classes[0].count, problem.classes[1].count];
        let mut by_classes: BTreeMap<Vec<usize>, BTreeMap<Vec<u32>, f64>> = BTreeMap::new();
        for Chain(stages) in chains(problem, model) {
            let classes: Vec<usize> = stages.iter().map(|stage| stage.0).collect();
            let of_classes = by_classes.entry(classes).or_default();
            let mut pools = vec![1; stages.len()];
            loop {
                let halves: Vec<u32> = stages
                    .iter()
                    .zip(&pools)
                    .map(|(stage, pool)| pool * 2 / stage.1)
                    .collect();
                let rate = stages
                    .iter()
                    .zip(&pools)
                    .map(|(stage, &pool)| stage.2 * f64::from(pool))
                    .fold(f64::INFINITY, f64::min);
                let best = of_classes.entry(halves).or_insert(0.0);
                *best = best.max(rate);
                let Some(at) = (0..pools.len()).find(|&at| pools[at] < counts[stages[at].0] * stages[at].1)
                else {
                    break;
                };
                pools[at] += 1;
                pools[..at].fill(1);
            }
        }
        // All combinations of at most one pipeline per sequence of classes, by half devices at each (position, class).
        let mut held: BTreeMap<Vec<u32>, f64> = BTreeMap::from([(vec![0; 6], 0.0)]);
        for (classes, pools) in &by_classes {
            let mut more = held.clone();
            for (halves, rate) in &held {
                for (added, extra) in pools {
                    let mut halves = halves.clone();
                    classes
                        .iter()
                        .zip(added)
                        .enumerate()
                        .for_each(|(at, (&class, added))| halves[at * 2 + class] += added);
                    let fits = (0..2).all(|class| devices(&halves, class) <= counts[class]);
                    if fits {
                        let best = more.entry(halves).or_insert(0.0);
                        *best = best.max(rate + extra);
                    }
                }
            }
            held = more;
        }
        let mut throughputs = BTreeMap::new();
        for (halves, rate) in held {
            let best = throughputs
                .entry((devices(&halves, 0), devices(&halves, 1)))
                .or_insert(0.0_f64);
            *best = best.max(rate);
        }
        throughputs
    }

    fn devices(halves: &[u32], class: usize) -> u32 {
        (0..3).map(|at| halves[at * 2 + class].div_ceil(2)).sum()
    }

    /// The greatest least throughput over weight.
    pub(super) fn best(problem: &Problem) -> f64 {
        let counts = (problem.classes[0].count, problem.classes[1].count);
        let mut all: BTreeMap<(u32, u32), f64> = BTreeMap::from([((0, 0), f64::INFINITY)]);
        for model in &problem.models {
            let mut next = BTreeMap::new();
            for (&(a, b), &least) in &all {
                for (&(x, y), &rate) in &throughput_by_devices(problem, model) {
                    if a + x <= counts.0 && b + y <= counts.1 {
                        let best = next.entry((a + x, b + y)).or_insert(0.0_f64);
                        *best = best.max(least.min(rate / model.weight));
                    }
                }
            }
            all = next;
        }
        all.into_values().fold(0.0, f64::max)
    }
}

#[test]
fn plans_match_exhaustive_search_on_small_problems() {
    let mut compared = 0;
    for seed in 1000..1100 {
        let mut problem = problem(seed, 2, 3);
        if let Scheme::Pooled { partitions } = &mut problem.scheme {
            *partitions = (*partitions).min(2);
        }
        let best = enumeration::best(&problem);
        match solve(&problem) {
            Ok(solution) => {
                check_invariants(&problem, &solution, seed);
                let (ours, gap) = (solution.objective, (solution.objective / best - 1.0).abs());
                assert!(gap < 1e-5, "seed {seed}: {ours} against {best}");
                compared += 1;
            }
            Err(error) => assert!(best == 0.0, "seed {seed}: {error}, but {best} is possible"),
        }
    }
    assert!(compared > 15, "only {compared} of 40 could be planned");
}
