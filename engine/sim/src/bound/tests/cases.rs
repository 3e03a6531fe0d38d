//! Inputs whose optimum is known.

use super::*;

#[test]
fn a_million_requests_through_five_modules() {
    let sent: Vec<u64> = (0..1_000_000).map(|request| request * 1_000).collect();
    let arrivals = at(&sent);
    let chain = (1..=5).map(|next| if next < 5 { vec![ModuleId(next)] } else { vec![] });
    let topology = Topology::new(chain.collect());
    let profile = Profile::new(vec![(1, Span::from_micros(1_500))]).unwrap();
    let modules = vec![module_input(&profile, &[1], 1); 5];
    let bound = bound(&input(&arrivals, 400_000, &topology, modules)).unwrap();
    // 1,000 a second come, 667 can be done; what waits when the last has come is done within the SLO after it.
    assert!(
        (bound.min_drop_rate - 1.0 / 3.0).abs() < 1e-3,
        "{}",
        bound.min_drop_rate
    );
    assert_eq!(bound.binding, Some(ModuleId(0)));
}

/// Poisson arrivals at this rate per second, over this many seconds.
fn poisson(rate: f64, seconds: f64) -> Vec<Timestamp> {
    use rand::{RngExt, SeedableRng};
    let mut rng = rand_pcg::Pcg64::seed_from_u64(1);
    let mut moment = 0.0;
    let mut sent = Vec::new();
    loop {
        moment -= (1.0 - rng.random::<f64>()).ln() / rate;
        if moment >= seconds {
            return at(&sent);
        }
        sent.push((moment * 1e6) as u64);
    }
}

fn rate(input: &BoundInput<'_>) -> f64 {
    let bound = bound(input).unwrap();
    println!("{:.5} bound by {:?}", bound.min_drop_rate, bound.binding);
    bound.min_drop_rate
}

/// First come, first served, turning away what would be late, is optimal for one server: the bound must agree.
#[test]
fn one_server_in_overload_is_met_exactly() {
    let (arrivals, topology) = (poisson(150.0, 600.0), Topology::new(vec![vec![]]));
    let profile = Profile::new(vec![(1, Span::from_millis(10))]).unwrap();
    let input = input(
        &arrivals,
        100_000,
        &topology,
        vec![module_input(&profile, &[1], 1)],
    );
    let (mut done, mut lost) = (0, 0);
    for sent in &arrivals {
        let finish = done.max(sent.micros()) + 10_000;
        if finish <= sent.micros() + 100_000 {
            done = finish
        } else {
            lost += 1
        }
    }
    assert_eq!(bound(&input).unwrap().min_lost, lost);
    assert!((rate(&input) - 1.0 / 3.0).abs() < 0.01);
}

#[test]
fn a_chain_is_bound_by_its_slowest_module_of_the_moment() {
    let arrivals = poisson(150.0, 600.0);
    let topology = Topology::new(vec![vec![ModuleId(1)], vec![ModuleId(2)], vec![]]);
    let profile = Profile::new(vec![(1, Span::from_millis(10)), (4, Span::from_millis(20))]).unwrap();
    let mut modules = vec![module_input(&profile, &[1, 2, 4], 1); 3];
    // 200 a second each; one is gone for a fifth of the run, and then another.
    let outage = |from: u64| {
        let step = |second: u64, workers| (Timestamp::from_micros(second * 1_000_000), workers);
        Capacity(vec![step(0, 1), step(from, 0), step(from + 120, 1)])
    };
    modules[0].workers = outage(100);
    modules[2].workers = outage(350);
    let chain = input(&arrivals, 400_000, &topology, modules);
    assert!(
        (rate(&chain) - 0.4).abs() < 0.02,
        "losses at different times add up"
    );
}

#[test]
fn losses_of_exclusive_branches_add_up() {
    let arrivals = poisson(300.0, 600.0);
    let topology = Topology::new(vec![vec![ModuleId(1), ModuleId(2)], vec![], vec![]]);
    let profile = Profile::new(vec![(1, Span::from_millis(10))]).unwrap();
    let left: Vec<u32> = (0..arrivals.len() as u32).map(|request| request % 2).collect();
    let right: Vec<u32> = left.iter().map(|left| 1 - left).collect();
    let mut modules = vec![
        module_input(&profile, &[1], 3),
        module_input(&profile, &[1], 1),
        module_input(&profile, &[1], 1),
    ];
    modules[1].items = Items::PerRequest(&left);
    modules[2].items = Items::PerRequest(&right);
    let branches = input(&arrivals, 400_000, &topology, modules);
    assert!((rate(&branches) - 1.0 / 3.0).abs() < 0.01);
}

/// 0 to 9 crops, 4.5 on average, 200 a second can be done of 450: the dearest frames go, not every second one.
#[test]
fn the_dearest_frames_of_a_fan_out_go() {
    let arrivals = poisson(100.0, 600.0);
    let topology = Topology::new(vec![vec![ModuleId(1)], vec![]]);
    let profile = Profile::new(vec![(1, Span::from_millis(5))]).unwrap();
    let crops: Vec<u32> = (0..arrivals.len() as u32)
        .map(|request| request * 7 % 10)
        .collect();
    let mut modules = vec![module_input(&profile, &[1], 1), module_input(&profile, &[1], 1)];
    modules[1].items = Items::PerRequest(&crops);
    let fan = rate(&input(&arrivals, 400_000, &topology, modules));
    // Frames with up to 5 crops, and a few of 6, fill the capacity: 0 + .. + 5 = 15 of 20 for each ten frames.
    assert!((0.28..0.37).contains(&fan), "{fan}");
}

/// Requests that are costly to one module are cheap to the other: only the sum of both sees that half must go.
#[test]
fn a_sum_of_modules_binds_more_than_each() {
    let arrivals = poisson(100.0, 600.0);
    let topology = Topology::new(vec![vec![], vec![]]);
    let profile = Profile::new(vec![(1, Span::from_millis(5))]).unwrap();
    let one: Vec<u32> = (0..arrivals.len() as u32)
        .map(|request| 1 + 8 * (request % 2))
        .collect();
    let other: Vec<u32> = one.iter().map(|items| 10 - items).collect();
    let mut modules = vec![module_input(&profile, &[1], 1), module_input(&profile, &[1], 1)];
    modules[0].items = Items::PerRequest(&one);
    modules[1].items = Items::PerRequest(&other);
    let both = input(&arrivals, 400_000, &topology, modules);
    let alone = bound(&both).unwrap().per_module[0].min_lost as f64 / arrivals.len() as f64;
    assert!(rate(&both) > alone + 0.1, "alone {alone}");
}

#[test]
fn a_scene_that_contradicts_itself_is_refused() {
    let topology = Topology::new(vec![vec![]]);
    let profile = Profile::new(vec![(1, Span::from_millis(5))]).unwrap();
    let refuse = |arrivals: &[u64], modules: Vec<BoundModule<'_>>, part: &str| {
        let error = bound(&input(&at(arrivals), 10, &topology, modules))
            .unwrap_err()
            .to_string();
        assert!(error.contains(part), "{error}");
    };
    refuse(&[2, 1], vec![module_input(&profile, &[1], 1)], "arrival 1");
    refuse(&[1], vec![], "1 modules, but 0");
    refuse(&[1], vec![module_input(&profile, &[], 1)], "no batch size");
    refuse(&[u64::MAX], vec![module_input(&profile, &[1], 1)], "shorter run");
    let mut few = module_input(&profile, &[1], 1);
    few.items = Items::PerRequest(&[]);
    refuse(&[1], vec![few], "for 0 requests of 1");
}

/// As above, with a branch and a fan-out that run short at the same time.
#[test]
fn a_million_requests_that_differ() {
    let arrivals: Vec<Timestamp> = (0..1_000_000)
        .map(|request| Timestamp::from_micros(request * 1_000))
        .collect();
    let edges = vec![
        vec![ModuleId(1), ModuleId(2)],
        vec![ModuleId(3)],
        vec![ModuleId(4)],
        vec![],
        vec![],
    ];
    let topology = Topology::new(edges);
    let profile = Profile::new(vec![(1, Span::from_micros(1_000)), (4, Span::from_micros(2_000))]).unwrap();
    let crops = |factor: u32| -> Vec<u32> {
        (0..1_000_000_u32)
            .map(|request| request / 3 * factor % 9)
            .collect()
    };
    let items: Vec<Vec<u32>> = [7, 5, 4, 2].into_iter().map(crops).collect();
    let mut modules = vec![module_input(&profile, &[1, 2, 4], 1); 5];
    for (module_input, items) in modules[1..].iter_mut().zip(&items) {
        module_input.items = Items::PerRequest(items);
    }
    let bound = bound(&input(&arrivals, 400_000, &topology, modules)).unwrap();
    let alone = bound.per_module.iter().map(|module| module.min_lost).max();
    assert!(Some(bound.min_lost) >= alone && bound.min_lost < bound.arrived);
}
