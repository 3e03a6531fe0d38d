//! The program against enumeration, the search against the program, and books that balance whatever happens.

use proptest::prelude::*;
use weir_types::{InstanceId, ModelId, SequenceId, Span, StepCurve, StepProfile, Timestamp};

use super::search::search;
use super::*;
use crate::generate::InstanceSpec;
use crate::residency::{ModelMemory, ResidencySpec};
use crate::route::Link;

fn problem(objective: PlanObjective, groups: &[(u32, u8, u8, u8)], busy: [u8; 2]) -> PlanProblem {
    let group = |(model, requests, deadline, work): &(u32, u8, u8, u8)| {
        let cost = |slower: f64| GroupCost {
            work_s: slower * f64::from(*work),
            variance: 0.3,
            service_s: 1.5 * slower,
        };
        PlanGroup {
            model: ModelId(*model),
            requests: f64::from(*requests),
            first_deadline_s: f64::from(*deadline),
            last_deadline_s: f64::from(*deadline) + 2.0,
            cost: vec![cost(1.0), cost(1.7)],
        }
    };
    let instance = |(model, busy): (u32, u8)| PlanInstance {
        free_s: 0.0,
        drained_s: f64::from(busy),
        model: Some(ModelId(model)),
        open_s: (0..3)
            .map(|other| if other == model { 0.0 } else { 3.0 })
            .collect(),
        again_s: vec![3.0; 3],
        is_up: true,
    };
    PlanProblem {
        groups: groups.iter().map(group).collect(),
        instances: (0..).zip(busy).map(instance).collect(),
        objective,
        quantile: 0.9,
    }
}

/// Every order of all groups, cut in two at every place.
fn enumerated(problem: &PlanProblem) -> PlanCost {
    fn extend(problem: &PlanProblem, order: &mut Vec<usize>, best: &mut PlanCost) {
        if order.len() == problem.groups.len() {
            for cut in 0..=order.len() {
                let cost = problem.cost(&[order[..cut].to_vec(), order[cut..].to_vec()]);
                if cost.is_below(best) {
                    *best = cost;
                }
            }
            return;
        }
        for group in 0..problem.groups.len() {
            if !order.contains(&group) {
                order.push(group);
                extend(problem, order, best);
                order.pop();
            }
        }
    }
    let mut best = PlanCost::WORST;
    extend(problem, &mut Vec::new(), &mut best);
    best
}

fn group() -> impl Strategy<Value = (u32, u8, u8, u8)> {
    (0..3_u32, 1..9_u8, 0..30_u8, 1..9_u8)
}

fn objective() -> impl Strategy<Value = PlanObjective> {
    prop_oneof![Just(PlanObjective::Penalty), Just(PlanObjective::Late)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn the_program_comes_to_what_enumeration_does(
        groups in proptest::collection::vec(group(), 1..6),
        objective in objective(),
        busy in [0..6_u8, 0..6_u8],
    ) {
        let problem = problem(objective, &groups, busy);
        let solved = problem.cost(&solve_exactly(&problem));
        let best = enumerated(&problem);
        prop_assert!(!best.is_below(&solved) && !solved.is_below(&best), "{solved:?} {best:?}");
    }

    #[test]
    fn a_search_places_each_group_once_and_is_no_worse_than_what_there_was(
        groups in proptest::collection::vec(group(), 1..24),
        objective in objective(),
        busy in [0..6_u8, 0..6_u8],
        cut in 0..24_usize,
    ) {
        let problem = problem(objective, &groups, busy);
        let all: Vec<usize> = (0..groups.len()).collect();
        let (first, second) = all.split_at(cut.min(all.len()));
        let before = vec![first.to_vec(), second.to_vec()];
        let found = search(&problem, &before, 20_000);
        let mut placed: Vec<usize> = found.iter().flatten().copied().collect();
        placed.sort_unstable();
        prop_assert_eq!(placed, all);
        let (cost, than) = (problem.cost(&found), problem.cost(&before));
        prop_assert!(!than.is_below(&cost), "{cost:?} {than:?}");
    }
}

#[test]
fn what_cannot_be_met_is_said_in_instances_and_the_rest_is_met() {
    // Three groups of 8 s are due after 10 s on two instances: one is late.
    let mut problem = problem(
        PlanObjective::Penalty,
        &[(0, 4, 11, 8), (1, 4, 11, 8), (0, 4, 11, 8)],
        [0, 0],
    );
    for group in &mut problem.groups {
        group.cost = vec![group.cost[0]; 2];
    }
    let orders = solve_exactly(&problem);
    assert!((problem.cost(&orders).late - 4.0).abs() < 1e-9, "{orders:?}");
    let missing = problem.missing(&orders);
    assert!((0.3..1.5).contains(&missing), "{missing}");
}

fn instance_spec() -> InstanceSpec {
    let ms = |ms: u64| Span::from_millis(ms);
    let curve = || StepCurve::from_points(&[(1, ms(20)), (512, ms(80))]).unwrap();
    InstanceSpec {
        steps: StepProfile {
            decode: curve(),
            prompt: curve(),
        },
        max_step_tokens: 512,
        max_sequences: 8,
        max_sequence_tokens: 4_096,
        blocks: 256,
        block_tokens: 16,
        reserve_blocks: 4,
        prompt_gives_token: true,
        prefix_tokens: 0,
    }
}

/// Two instances, four models, memory for one each.
pub(super) fn spec(rule: QueueRule) -> QueuesSpec {
    let served = ServedModel {
        spec: instance_spec(),
        cache_bytes: 1_000.0,
        open_cold: Span::from_secs(5),
        open_warm: Span::from_secs(1),
    };
    let memory = ModelMemory {
        device_bytes: 10,
        host_bytes: 10,
    };
    let instance = QueueInstance {
        models: vec![served; 4],
        residency: ResidencySpec {
            memory: Some(10),
            host_memory: 20,
            same_bytes: Vec::new(),
            models: vec![memory; 4],
        },
        swap_memory: 1_000_000,
        host_link: Link {
            latency: Span::ZERO,
            bandwidth_bps: 1e9,
        },
        reserved: 0.0,
    };
    QueuesSpec {
        rule,
        operations: Operations::ALL,
        delta: 4.0,
        models: vec![
            ModelPrior {
                prompt: 100.0,
                output: 50.0,
                output_deviation: 20.0,
            };
            4
        ],
        instances: vec![instance; 2],
    }
}

fn rules() -> [QueueRule; 6] {
    [
        QueueRule::Fcfs,
        QueueRule::Edf,
        QueueRule::Shepherd,
        QueueRule::Sticky,
        QueueRule::PAPER,
        QueueRule::WEIR,
    ]
}

/// A driver that collects effects and carries them out later.
struct Driver {
    queues: Queues,
    now: Timestamp,
    running: Vec<(SequenceId, InstanceId)>,
    pending: Vec<QueueEvent>,
    open: [Option<ModelId>; 2],
    model_of: std::collections::BTreeMap<SequenceId, ModelId>,
    ended: usize,
}

impl Driver {
    fn new(rule: QueueRule) -> Self {
        Self {
            queues: Queues::new(spec(rule)),
            now: Timestamp::ZERO,
            running: Vec::new(),
            pending: Vec::new(),
            open: [None; 2],
            model_of: std::collections::BTreeMap::new(),
            ended: 0,
        }
    }

    fn step(&mut self, event: QueueEvent) {
        let mut effects = Vec::new();
        self.queues.step(event, self.now, &mut effects);
        for effect in effects {
            match effect {
                QueueEffect::Start {
                    request, instance, ..
                } => {
                    assert_eq!(self.open[instance.index()], Some(self.model_of[&request]));
                    assert!(self.running.iter().all(|(other, _)| *other != request));
                    self.running.push((request, instance));
                }
                QueueEffect::Return { request, by, .. } => {
                    let cached = if by == crate::route::Transfer::Cache {
                        30
                    } else {
                        0
                    };
                    self.pending.push(QueueEvent::Returned {
                        request,
                        generated: 3,
                        cached,
                    });
                }
                QueueEffect::Open { instance, model, .. } => {
                    assert_eq!(self.open[instance.index()], None, "memory for one");
                    self.pending.push(QueueEvent::Opened { instance, model });
                }
                QueueEffect::Close { instance, model } => {
                    let runs = self.running.iter().any(|(_, on)| *on == instance);
                    assert!(!runs, "model {} runs and is closed", model.0);
                    self.open[instance.index()] = None;
                    self.pending.push(QueueEvent::Closed { instance, model });
                }
                QueueEffect::Prefetch { instance, model } => {
                    self.pending.push(QueueEvent::Prefetched { instance, model });
                }
                QueueEffect::Discard { .. } => {}
                QueueEffect::Refuse { .. } => self.ended += 1,
            }
        }
        self.queues.check_books();
        for instance in [InstanceId(0), InstanceId(1)] {
            assert!(self.queues.residency(instance).used_bytes() <= 10);
        }
    }

    fn carry(&mut self, index: usize) {
        let event = self.pending.remove(index);
        match event {
            QueueEvent::Opened { instance, model } => self.open[instance.index()] = Some(model),
            QueueEvent::Returned { request, .. } => self.running.retain(|(other, _)| *other != request),
            _ => {}
        }
        self.step(event);
    }

    fn finish(&mut self, index: usize) {
        let (request, instance) = self.running.remove(index);
        self.pending.retain(
            |event| !matches!(event, QueueEvent::Returned { request: other, .. } if *other == request),
        );
        self.ended += 1;
        self.step(QueueEvent::Finished {
            request,
            generated: 40,
        });
        self.room(instance);
    }

    fn room(&mut self, instance: InstanceId) {
        let on = self.running.iter().filter(|(_, on)| *on == instance).count() as u32;
        self.step(QueueEvent::Room {
            instance,
            sequences: 8_u32.saturating_sub(on),
            tokens: 2_000,
        });
    }

    fn lose(&mut self, instance: InstanceId) {
        self.running.retain(|(_, on)| *on != instance);
        let running = self.running.clone();
        self.pending.retain(|event| match event {
            QueueEvent::Opened { instance: on, .. }
            | QueueEvent::Closed { instance: on, .. }
            | QueueEvent::Prefetched { instance: on, .. } => *on != instance,
            QueueEvent::Returned { request, .. } => running.iter().any(|(other, _)| other == request),
            _ => true,
        });
        self.open[instance.index()] = None;
        self.step(QueueEvent::Down(instance));
    }
}

#[derive(Debug, Clone, Copy)]
enum Act {
    Arrive(u32, u32, u16),
    Carry(usize),
    Finish(usize),
    Room(u32),
    Tick(u16),
    Lose(u32),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        6 => (0..4_u32, 0..2_u32, 1..1_500_u16).prop_map(|(model, class, prompt)| Act::Arrive(model, class, prompt)),
        4 => (0..4_usize).prop_map(Act::Carry),
        4 => (0..8_usize).prop_map(Act::Finish),
        2 => (0..2_u32).prop_map(Act::Room),
        3 => (1..4_000_u16).prop_map(Act::Tick),
        1 => (0..2_u32).prop_map(Act::Lose),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn each_request_is_in_one_place_and_all_end(
        rule in 0..6_usize,
        acts in proptest::collection::vec(act(), 1..150),
    ) {
        let mut driver = Driver::new(rules()[rule]);
        let mut arrived = 0;
        for act in acts {
            match act {
                Act::Arrive(model, class, prompt) => {
                    let request = SequenceId(arrived);
                    arrived += 1;
                    let model = ModelId(model);
                    driver.model_of.insert(request, model);
                    let objective = Span::from_secs(if class == 0 { 10 } else { 100 });
                    let event = QueueEvent::Arrived {
                        request,
                        model,
                        class,
                        prompt: u32::from(prompt),
                        deadline: driver.now + objective,
                    };
                    driver.step(event);
                }
                Act::Carry(index) if index < driver.pending.len() => driver.carry(index),
                Act::Finish(index) if index < driver.running.len() => driver.finish(index),
                Act::Room(instance) => driver.room(InstanceId(instance)),
                Act::Tick(ms) => {
                    driver.now = driver.now + Span::from_millis(u64::from(ms));
                    driver.step(QueueEvent::Timer);
                }
                Act::Lose(instance) => {
                    driver.lose(InstanceId(instance));
                    driver.step(QueueEvent::Up(InstanceId(instance)));
                }
                Act::Carry(_) | Act::Finish(_) => {}
            }
            let there = driver.queues.waiting() + driver.running.len() + driver.ended;
            prop_assert_eq!(there, arrived as usize);
        }
        // No further requests arrive, and all of them are served.
        for _ in 0..20_000 {
            if driver.ended == arrived as usize {
                break;
            }
            driver.now = driver.now + Span::from_millis(700);
            if !driver.pending.is_empty() {
                driver.carry(0);
            } else if !driver.running.is_empty() {
                driver.finish(0);
            } else {
                driver.step(QueueEvent::Timer);
                driver.room(InstanceId(0));
                driver.room(InstanceId(1));
            }
        }
        prop_assert_eq!(driver.ended, arrived as usize);
    }
}

#[test]
fn requests_of_a_group_start_in_the_order_of_their_arrival() {
    let mut driver = Driver::new(QueueRule::PAPER);
    for number in 0..40 {
        driver.model_of.insert(SequenceId(number), ModelId(1));
        driver.step(QueueEvent::Arrived {
            request: SequenceId(number),
            model: ModelId(1),
            class: 0,
            prompt: 100,
            // Later arrivals are more urgent: the order of arrival is not that of deadlines.
            deadline: Timestamp::ZERO + Span::from_secs(500 - number),
        });
    }
    let mut started = [Vec::new(), Vec::new()];
    while driver.ended < 40 {
        if !driver.pending.is_empty() {
            driver.carry(0);
        } else {
            if let Some((request, instance)) = driver.running.first() {
                started[instance.index()].push(request.0);
            }
            driver.finish(0);
        }
    }
    assert!(started.iter().all(|on_one| on_one.is_sorted()), "{started:?}");
}

#[test]
fn tiers_rise_with_the_tokens_of_a_prompt() {
    for (prompt, expected) in [
        (0, 0),
        (1_023, 0),
        (1_024, 1),
        (4_095, 1),
        (4_096, 2),
        (16_384, 3),
    ] {
        assert_eq!(tier(prompt), expected, "{prompt}");
    }
}

#[test]
fn a_model_that_no_instance_can_hold_ends_its_request() {
    let mut spec = spec(QueueRule::WEIR);
    for instance in &mut spec.instances {
        instance.residency.models[2].device_bytes = 11;
    }
    let mut queues = Queues::new(spec);
    let mut effects = Vec::new();
    let arrived = QueueEvent::Arrived {
        request: SequenceId(7),
        model: ModelId(2),
        class: 0,
        prompt: 10,
        deadline: Timestamp::from_micros(1),
    };
    queues.step(arrived, Timestamp::ZERO, &mut effects);
    assert_eq!(
        effects,
        [QueueEffect::Refuse {
            request: SequenceId(7)
        }]
    );
}

fn arrived(request: u64, model: u32, class: u32, deadline: Timestamp) -> QueueEvent {
    QueueEvent::Arrived {
        request: SequenceId(request),
        model: ModelId(model),
        class,
        prompt: 100,
        deadline,
    }
}

/// Steps without a driver; returns the effects.
pub(super) fn step(queues: &mut Queues, event: QueueEvent, ms: u64) -> Vec<QueueEffect> {
    let mut effects = Vec::new();
    let now = Timestamp::ZERO + Span::from_millis(ms);
    queues.step(event, now, &mut effects);
    queues.check_books();
    effects
}

/// Queues whose instances have this model open.
pub(super) fn serving(spec: QueuesSpec, models: [u32; 2]) -> Queues {
    let mut queues = Queues::new(spec);
    for (instance, model) in (0..2).map(InstanceId).zip(models.map(ModelId)) {
        let at = &mut queues.at[instance.index()];
        at.model = Some(model);
        let mut effects = Vec::new();
        queues.reside(
            instance,
            crate::residency::ResidencyEvent::Wanted(model),
            &mut effects,
        );
        step(&mut queues, QueueEvent::Opened { instance, model }, 0);
    }
    queues
}

pub(super) fn full(queues: &mut Queues, instance: u32) {
    let room = QueueEvent::Room {
        instance: InstanceId(instance),
        sequences: 0,
        tokens: 0,
    };
    step(queues, room, 0);
}

fn in_time() -> Timestamp {
    Timestamp::ZERO + Span::from_secs(1_000)
}

#[test]
fn requests_of_one_key_are_spread_over_instances() {
    for rule in [QueueRule::PAPER, QueueRule::WEIR] {
        let mut queues = serving(spec(rule), [0, 0]);
        full(&mut queues, 0);
        full(&mut queues, 1);
        for request in 0..20 {
            step(&mut queues, arrived(request, 0, 1, in_time()), 0);
        }
        let super::queues::Waiting::Virtual(waiting) = &queues.waiting else {
            panic!("the rule has virtual queues");
        };
        // One key and one model, far fewer requests than a group holds: still a group on each instance.
        let queued = |order: &Vec<super::orders::Queued>| -> usize {
            let groups = order.iter().filter_map(|queued| waiting.groups.get(queued.group));
            groups.map(|group| group.requests.len()).sum()
        };
        let each: Vec<usize> = waiting.orders.iter().map(queued).collect();
        assert_eq!(each, [10, 10], "{rule:?}");
    }
}

#[test]
fn estimate_grows_with_groups_before_it() {
    let mut spec = spec(QueueRule::PAPER);
    spec.instances.truncate(1);
    let mut queues = Queues::new(spec);
    // The first group of the order has two requests, the second one.
    for (request, model) in [(0, 0), (1, 0), (2, 1)] {
        step(&mut queues, arrived(request, model, 1, in_time()), 0);
    }
    let before = queues.estimate(SequenceId(2)).unwrap();
    step(&mut queues, arrived(3, 0, 1, in_time()), 0);
    let after = queues.estimate(SequenceId(2)).unwrap();
    let work_s = queues.rates[0][0].work_s(100.0, 50.0);
    let grown_s = after.since(before).as_secs_f64();
    assert!(
        (grown_s - work_s).abs() < 1e-4,
        "{grown_s} s for {work_s} s of work"
    );
}

#[test]
fn change_back_to_a_model_costs_another_opening() {
    let mut problem = problem(
        PlanObjective::Late,
        &[(0, 1, 90, 4), (1, 1, 90, 4), (0, 1, 90, 4)],
        [0, 0],
    );
    let end_s = |problem: &PlanProblem| {
        let mut progress = Progress::new(&problem.instances[0]);
        for group in 0..3 {
            problem.append(0, &mut progress, group);
        }
        progress.at_s
    };
    // The instance has model 0 open: 12 s of work, and 3 s for each of the two changes.
    assert!((end_s(&problem) - 18.0).abs() < 1e-9);
    // If all models stay open, no change costs anything.
    problem.instances[0].open_s = vec![0.0; 3];
    assert!((end_s(&problem) - 12.0).abs() < 1e-9);
}

/// Both instances are full of long requests for other models; those of the first are due soon.
fn full_of_others(planning: Planning) -> Queues {
    let mut spec = spec(QueueRule::Virtual(planning));
    for prior in &mut spec.models[..2] {
        prior.output = 2_000.0;
    }
    for served in spec
        .instances
        .iter_mut()
        .flat_map(|instance| &mut instance.models)
    {
        served.open_cold = Span::from_secs(20);
    }
    let mut queues = serving(spec, [0, 1]);
    for request in 0..16 {
        let (model, due_s) = (request as u32 / 8, if request < 8 { 60 } else { 1_000 });
        let due = Timestamp::ZERO + Span::from_secs(due_s);
        step(&mut queues, arrived(request, model, 1, due), 0);
    }
    queues
}

#[test]
fn urgent_request_for_an_unserved_model_takes_the_instance_with_the_least_loss() {
    let due = Timestamp::ZERO + Span::from_secs(31);
    let returned = |planning: Planning| -> Vec<(u64, u32)> {
        let mut queues = full_of_others(planning);
        assert_eq!(queues.waiting(), 0);
        let effects = step(&mut queues, arrived(99, 2, 0, due), 1_000);
        let returned = effects.iter().filter_map(|effect| match effect {
            QueueEffect::Return {
                request, instance, ..
            } => Some((request.0, instance.0)),
            _ => None,
        });
        returned.collect()
    };
    // Requests 0 to 7 on the first instance would be late for it, those on the second have much time.
    let of = |requests: std::ops::Range<u64>, instance: u32| -> Vec<(u64, u32)> {
        requests.map(|request| (request, instance)).collect()
    };
    assert_eq!(returned(Planning::LATE), of(8..16, 1));
    let without = Planning {
        switch_for_urgent: false,
        ..Planning::LATE
    };
    assert_eq!(returned(without), of(0..8, 0));
}
