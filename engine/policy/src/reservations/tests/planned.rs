//! Switches of plans: requests made while booking is paused are answered afterwards, no path is booked
//! meanwhile, and a plan that is given up changes nothing.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

const WORKERS: u32 = 3;

/// A plan of random shares, spread over three workers.
fn plan(number: u64, random: &mut Pcg64Mcg) -> PlanSpec {
    let draw = Draw {
        stages: 2,
        links: true,
        tables: BookingTable::Intervals,
        feedback: true,
        head_min_fraction: 0.0,
    };
    let (reserve, _) = reservations(draw, random);
    let shares = 0..reserve.cluster.shares.len() as u32;
    PlanSpec {
        number,
        reserve,
        owners: shares.map(|share| WorkerId(share % WORKERS)).collect(),
        replan: None,
    }
}

fn load(worker: u32) -> PartitionLoad {
    PartitionLoad {
        worker: WorkerId(worker),
        partition: PartitionId(worker),
    }
}

fn offer(plan: &PlanSpec) -> PlanEvent {
    PlanEvent::PlanOffered {
        plan: Box::new(plan.clone()),
        loads: (0..WORKERS).map(load).collect(),
        origin: None,
    }
}

fn request(deadline: u64, waiting: u32) -> PathRequest {
    PathRequest {
        deadline: at(deadline),
        since: at(1),
        waiting,
    }
}

/// A request with enough items for a whole batch, so that it is answered at once.
fn asked(module: u32, deadline: u64) -> PlannedEvent {
    let (module, request) = (ModuleId(module), request(deadline, 8));
    ReserveEvent::PathRequested { module, request }.into()
}

fn step(
    planned: &mut PlannedReservations,
    events: impl IntoIterator<Item = PlannedEvent>,
    now: u64,
) -> Vec<PlannedEffect> {
    let mut effects = Vec::new();
    planned.step(events, at(now), &mut effects);
    effects
}

fn plan_effects(effects: &[PlannedEffect]) -> Vec<PlanEffect> {
    let of_plans = effects.iter().filter_map(|effect| match effect {
        PlannedEffect::Plan(effect) => Some(*effect),
        PlannedEffect::Reserve(_) | PlannedEffect::Replan(_) => None,
    });
    of_plans.collect()
}

fn bookings(effects: &[PlannedEffect]) -> Vec<BookingId> {
    let booked = effects.iter().filter_map(|effect| match effect {
        PlannedEffect::Reserve(ReserveEffect::Book { booking, .. }) => Some(*booking),
        _ => None,
    });
    booked.collect()
}

#[test]
fn a_plan_comes_into_force_once_it_is_loaded_and_nothing_is_booked() {
    let mut random = Pcg64Mcg::seed_from_u64(1);
    let (first, second) = (plan(1, &mut random), plan(2, &mut random));
    let mut planned = PlannedReservations::new(&first);
    let booked = bookings(&step(&mut planned, [asked(0, 1_000_000)], 10));
    assert_eq!(booked.len(), 1);

    let effects = step(&mut planned, [offer(&second).into()], 20);
    assert_eq!(plan_effects(&effects), [PlanEffect::Load { plan: 2 }]);
    let effects = step(&mut planned, [offer(&first).into()], 21);
    let ignored = PlanEffect::GiveUp {
        plan: 1,
        reason: GiveUpReason::SwitchPending,
    };
    assert_eq!(plan_effects(&effects), [ignored]);

    let loaded = (0..WORKERS).map(|worker| PlanEvent::Loaded(load(worker)).into());
    assert_eq!(step(&mut planned, loaded, 50), [], "a batch is on its path");
    assert_eq!(
        step(&mut planned, [asked(1, 1_000_000)], 60),
        [],
        "nothing is booked while it is"
    );

    let declined = ReserveEvent::Declined { booking: booked[0] };
    let effects = step(&mut planned, [declined.into()], 70);
    let switch = PlanEffect::Switch {
        plan: 2,
        preload: Span::from_micros(30),
        pause: Span::from_micros(20),
    };
    assert_eq!(effects[0], PlannedEffect::Plan(switch));
    assert_eq!(
        bookings(&effects).len(),
        1,
        "what was asked meanwhile is asked again"
    );
}

#[test]
fn a_plan_without_a_worker_for_a_stage_is_given_up() {
    let mut random = Pcg64Mcg::seed_from_u64(2);
    let (first, mut second) = (plan(1, &mut random), plan(2, &mut random));
    second.owners.fill(WorkerId(2));
    let mut planned = PlannedReservations::new(&first);
    let down = PlanEvent::WorkerDown { worker: WorkerId(2) };
    let effects = step(&mut planned, [down.into(), offer(&second).into()], 10);
    let blocks = second.reserve.cluster.pipelines[0].stages[0].blocks;
    let given_up = PlanEffect::GiveUp {
        plan: 2,
        reason: GiveUpReason::NoWorker { blocks },
    };
    assert_eq!(plan_effects(&effects), [given_up]);

    let up = PlanEvent::WorkerUp { worker: WorkerId(2) };
    let effects = step(&mut planned, [up.into(), offer(&second).into()], 20);
    assert_eq!(plan_effects(&effects), [PlanEffect::Load { plan: 2 }]);
}

#[test]
fn loads_of_a_worker_that_is_lost_are_not_waited_for_and_its_shares_stay_down() {
    let mut random = Pcg64Mcg::seed_from_u64(3);
    let (first, mut second) = (plan(1, &mut random), plan(2, &mut random));
    second.owners.fill(WorkerId(1));
    let mut planned = PlannedReservations::new(&first);
    step(&mut planned, [offer(&second).into()], 10);
    let loaded = [0, 2].map(|worker| PlanEvent::Loaded(load(worker)).into());
    assert_eq!(step(&mut planned, loaded, 20), []);

    let down = PlanEvent::WorkerDown { worker: WorkerId(1) };
    let effects = step(&mut planned, [down.into()], 30);
    assert!(matches!(
        plan_effects(&effects)[..],
        [PlanEffect::Switch { plan: 2, .. }]
    ));
    let no_path = ReserveEffect::NoPath {
        module: ModuleId(0),
        finish: Timestamp::MAX,
    };
    let effects = step(&mut planned, [asked(0, 1_000_000)], 40);
    assert_eq!(effects, [PlannedEffect::Reserve(no_path)]);
}

#[test]
fn a_plan_that_was_solved_again_is_loaded_only_if_it_is_better() {
    let mut random = Pcg64Mcg::seed_from_u64(4);
    let (mut first, second) = (plan(1, &mut random), plan(2, &mut random));
    first.replan = Some(ReplanSpec::new(Vec::new()));
    let mut planned = PlannedReservations::new(&first);
    let gain = |next| PlanGain { current: 100, next };
    let solved = |from, next| PlanEvent::PlanOffered {
        plan: Box::new(second.clone()),
        loads: Vec::new(),
        origin: Some(ReplanOrigin {
            plan: from,
            gain: gain(next),
        }),
    };
    let effects = step(&mut planned, [solved(0, 120).into()], 10);
    let outdated = PlanEffect::GiveUp {
        plan: 2,
        reason: GiveUpReason::Outdated,
    };
    assert_eq!(plan_effects(&effects), [outdated], "plan 0 is not in force");
    let effects = step(&mut planned, [solved(1, 105).into()], 20);
    let declined = PlanEffect::GiveUp {
        plan: 2,
        reason: GiveUpReason::NotBetter(gain(105)),
    };
    assert_eq!(plan_effects(&effects), [declined]);
    let effects = step(&mut planned, [solved(1, 120).into()], 30);
    let switch = PlanEffect::Switch {
        plan: 2,
        preload: Span::ZERO,
        pause: Span::ZERO,
    };
    assert_eq!(plan_effects(&effects), [PlanEffect::Load { plan: 2 }, switch]);
    let effects = step(&mut planned, [solved(1, 120).into()], 40);
    assert_eq!(plan_effects(&effects), [outdated], "plan 2 is in force");
}

/// Invariants that are checked after each step while random events arrive.
struct Checked {
    planned: PlannedReservations,
    /// Unanswered request of each module, as the module counts them.
    open: BTreeMap<ModuleId, PathRequest>,
    outstanding: BTreeSet<BookingId>,
    /// Loads of the offered plan that have not been reported yet.
    pending: Option<BTreeSet<PartitionLoad>>,
    down: BTreeSet<WorkerId>,
    number: u64,
    now: u64,
}

impl Checked {
    fn step(&mut self, event: PlannedEvent, was_paused: bool) {
        self.now += 7;
        let mut switched = false;
        for effect in step(&mut self.planned, [event], self.now) {
            match effect {
                PlannedEffect::Plan(PlanEffect::Load { plan }) => {
                    assert_eq!(plan, self.number);
                    let on_worker_up = |load: &PartitionLoad| !self.down.contains(&load.worker);
                    self.pending = Some((0..WORKERS).map(load).filter(on_worker_up).collect());
                }
                PlannedEffect::Plan(PlanEffect::GiveUp { .. }) => {}
                PlannedEffect::Plan(PlanEffect::Switch { .. }) => {
                    assert!(
                        self.outstanding.is_empty(),
                        "a batch is on a path of the plan before"
                    );
                    assert_eq!(self.pending.take(), Some(BTreeSet::new()), "it is not loaded");
                    switched = true;
                }
                PlannedEffect::Reserve(ReserveEffect::Book { module, booking, .. }) => {
                    assert!(!was_paused || switched, "booked while it is paused");
                    assert!(self.open.remove(&module).is_some(), "nobody asked");
                    self.outstanding.insert(booking);
                }
                PlannedEffect::Reserve(ReserveEffect::NoPath { module, .. }) => {
                    assert!(!was_paused || switched, "answered while it is paused");
                    assert!(self.open.remove(&module).is_some(), "nobody asked");
                }
                PlannedEffect::Reserve(_) | PlannedEffect::Replan(_) => {}
            }
        }
        let open: BTreeMap<_, _> = self.planned.reservations().requests().collect();
        assert_eq!(open, self.open, "a request is lost, or asked twice");
    }

    fn random_step(&mut self, random: &mut Pcg64Mcg) {
        let was_paused = self.pending.as_ref().is_some_and(BTreeSet::is_empty);
        let worker = WorkerId(random.random_range(0..WORKERS));
        let module = random.random_range(0..2);
        let event = match random.random_range(0..10) {
            0..3 => {
                let deadline = self.now + random.random_range(1..2_000);
                let (module, request) = (ModuleId(module), request(deadline, random.random_range(1..8)));
                self.open.insert(module, request);
                ReserveEvent::PathRequested { module, request }.into()
            }
            3 => {
                self.open.remove(&ModuleId(module));
                let module = ModuleId(module);
                ReserveEvent::RequestCancelled { module }.into()
            }
            4..6 => match self.outstanding.pop_first() {
                Some(booking) => ReserveEvent::Finished { booking }.into(),
                None => ReserveEvent::Tick.into(),
            },
            6 => {
                self.number += 1;
                let plan = plan(self.number, random);
                if self.pending.is_some() {
                    self.number -= 1;
                }
                offer(&plan).into()
            }
            7 => {
                if let Some(pending) = &mut self.pending {
                    pending.remove(&load(worker.0));
                }
                PlanEvent::Loaded(load(worker.0)).into()
            }
            8 if random.random_range(0..3) == 0 => {
                let waits = |pending: &mut BTreeSet<PartitionLoad>| pending.contains(&load(worker.0));
                self.pending.take_if(waits);
                PlanEvent::NotLoaded(load(worker.0)).into()
            }
            8 => {
                self.down.insert(worker);
                if let Some(pending) = &mut self.pending {
                    pending.retain(|load| load.worker != worker);
                }
                PlanEvent::WorkerDown { worker }.into()
            }
            _ => {
                self.down.remove(&worker);
                PlanEvent::WorkerUp { worker }.into()
            }
        };
        self.step(event, was_paused);
    }
}

proptest! {
    #[test]
    fn requests_survive_a_switch_and_nothing_is_booked_while_it_is_paused(seed: u64) {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let mut checked = Checked {
            planned: PlannedReservations::new(&plan(1, &mut random)),
            open: BTreeMap::new(),
            outstanding: BTreeSet::new(),
            pending: None,
            down: BTreeSet::new(),
            number: 1,
            now: 1,
        };
        for _ in 0..300 {
            checked.random_step(&mut random);
        }
    }

    #[test]
    fn a_plan_that_is_given_up_leaves_the_old_one_in_force(seed: u64, requests in 1..20_u64) {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let (first, second) = (plan(1, &mut random), plan(2, &mut random));
        let mut alone = PlannedReservations::new(&first);
        let mut offered = alone.clone();
        let given_up = [
            offer(&second).into(),
            PlanEvent::Loaded(load(0)).into(),
            PlanEvent::NotLoaded(load(1)).into(),
            PlanEvent::Loaded(load(2)).into(),
        ];
        for (number, event) in (0..).zip(given_up) {
            let effects = step(&mut offered, [event], 2 + number);
            prop_assert_eq!(effects.len(), [1, 0, 1, 0][number as usize]);
            prop_assert_eq!(step(&mut alone, [], 2 + number), []);
        }
        for now in (0..requests).map(|number| 100 + 30 * number) {
            let request = || [asked((now % 2) as u32, now + 2_000)];
            prop_assert_eq!(step(&mut offered, request(), now), step(&mut alone, request(), now));
        }
    }
}
