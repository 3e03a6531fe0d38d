//! The driver: arrivals, batches that end, and waits that end, in the order of time.

use weir_planner::gears::{Assignment, GearProblem};
use weir_policy::gears::{GearEffect, GearEvent, GearShift, Invocation, Replicas, ShiftRule};
use weir_policy::{GOLDEN_GAMMA, uniform_hash};
use weir_types::{GearPlan, Span, Timestamp};

use super::outcome::{GearOutcome, StageCounts};
use crate::event_queue::EventQueue;

/// Item of a request on its way through a cascade.
#[derive(Debug, Clone, Copy)]
struct Item {
    request: u32,
    operator: u32,
    /// Gear whose cascade it passes.
    gear: u32,
    stage: u32,
    /// Uniform from 0 to 1; the item reaches every stage whose share of all items is larger.
    difficulty: f32,
}

/// Batch and timer of a slot.
#[derive(Debug, Default)]
struct Slot {
    running: Option<Invocation<Item>>,
    /// Time of the next wake-up if no item comes before.
    timer: Option<Timestamp>,
}

/// Scheduled event of a slot.
#[derive(Debug, Clone, Copy)]
enum Due {
    BatchDone(usize),
    Timer(usize),
}

pub(super) struct World<'a> {
    problem: &'a GearProblem,
    plan: &'a GearPlan,
    assignment: &'a Assignment,
    seed: u64,
    shift: GearShift,
    replicas: Replicas<Item>,
    /// Durations by model and batch size, from 1.
    durations: Vec<Vec<Span>>,
    slots: Vec<Slot>,
    due: EventQueue<Due>,
    /// Items that a request still waits for, and when it came.
    open: Vec<(u32, Timestamp)>,
    /// Parts of items that requests so far have brought each operator, and that made no whole item yet.
    carried: Vec<f64>,
    items: u64,
    right: f64,
    shifted_at: Timestamp,
    now: Timestamp,
    outcome: GearOutcome,
}

impl<'a> World<'a> {
    pub(super) fn new(
        problem: &'a GearProblem,
        plan: &'a GearPlan,
        assignment: &'a Assignment,
        rule: ShiftRule,
        seed: u64,
    ) -> Self {
        let largest: Vec<u32> = (problem.models.iter())
            .map(|model| model.batch.last().copied().unwrap_or(1))
            .collect();
        let table = |(model, largest): (&weir_planner::gears::GearModel, &u32)| {
            (0..=*largest).map(|size| model.profile.duration(size)).collect()
        };
        let stages = |operator: &weir_planner::gears::OperatorChoices| {
            let longest = operator.cascades.iter().map(|choice| choice.stages.len()).max();
            vec![StageCounts::default(); longest.unwrap_or(0)]
        };
        Self {
            problem,
            plan,
            assignment,
            seed,
            shift: GearShift::new(rule, plan.gears.iter().map(|gear| gear.up_to).collect()),
            replicas: Replicas::new(plan, &largest),
            durations: problem.models.iter().zip(&largest).map(table).collect(),
            slots: plan.placement.iter().map(|_| Slot::default()).collect(),
            due: EventQueue::default(),
            open: Vec::new(),
            carried: vec![0.0; problem.operators.len()],
            items: 0,
            right: 0.0,
            shifted_at: Timestamp::ZERO,
            now: Timestamp::ZERO,
            outcome: GearOutcome {
                requests: 0,
                latencies: Vec::new(),
                accuracy: 0.0,
                stages: problem.operators.iter().map(stages).collect(),
                shifts: 0,
                seconds_by_gear: vec![0.0; plan.gears.len()],
                busy_s: 0.0,
            },
        }
    }

    pub(super) fn run(mut self, arrivals: &[Timestamp]) -> GearOutcome {
        self.open.reserve(arrivals.len());
        self.outcome.latencies.reserve(arrivals.len());
        let mut arrivals = arrivals.iter().copied().peekable();
        loop {
            let due = self.due.next_time();
            match (arrivals.peek(), due) {
                (Some(&arrival), due) if due.is_none_or(|due| arrival < due) => {
                    self.now = arrival;
                    arrivals.next();
                    self.on_arrival();
                }
                (_, Some(_)) => self.on_due(),
                (_, None) => break,
            }
        }
        self.count_gear_time(self.shift.gear());
        self.outcome.latencies.sort_unstable();
        self.outcome.accuracy = if self.items == 0 {
            1.0
        } else {
            self.right / self.items as f64
        };
        self.outcome
    }

    fn on_arrival(&mut self) {
        let before = self.shift.gear();
        let mut effects = Vec::new();
        let waiting = GearEvent::Waiting {
            items: self.replicas.waiting() as u64,
        };
        self.shift.step(
            [
                GearEvent::Arrived {
                    cascade: 0,
                    requests: 1,
                },
                waiting,
            ],
            self.now,
            &mut effects,
        );
        for GearEffect::Shift { gear, .. } in effects {
            self.count_gear_time(before);
            self.outcome.shifts += 1;
            self.replicas.shift(&self.plan.gears[gear]);
        }
        let request = self.open.len() as u32;
        self.outcome.requests += 1;
        self.open.push((0, self.now));
        for operator in 0..self.problem.operators.len() {
            self.carried[operator] += self.problem.operators[operator].items;
            while self.carried[operator] >= 1.0 - 1e-9 {
                self.carried[operator] -= 1.0;
                self.begin(request, operator);
            }
        }
        if self.open[request as usize].0 == 0 {
            self.outcome.latencies.push(Span::ZERO);
        }
        (0..self.slots.len()).for_each(|slot| self.invoke(slot));
    }

    /// A gear was in force since the last shift.
    fn count_gear_time(&mut self, gear: usize) {
        self.outcome.seconds_by_gear[gear] += self.now.since(self.shifted_at).as_secs_f64();
        self.shifted_at = self.now;
    }

    fn begin(&mut self, request: u32, operator: usize) {
        let number = self.items;
        self.items += 1;
        self.open[request as usize].0 += 1;
        let item = Item {
            request,
            operator: operator as u32,
            gear: self.shift.gear() as u32,
            stage: 0,
            difficulty: uniform_hash(self.seed.wrapping_add(number.wrapping_mul(GOLDEN_GAMMA))) as f32,
        };
        self.dispatch(item);
    }

    fn dispatch(&mut self, item: Item) {
        let cascade = &self.plan.gears[item.gear as usize].cascades[item.operator as usize];
        let model = cascade.stages[item.stage as usize].model;
        self.outcome.stages[item.operator as usize][item.stage as usize].items += 1;
        // A plan that was checked places every model that its cascades use.
        if self.replicas.push(model, item, self.now).is_err() {
            self.answer(item);
        }
    }

    fn answer(&mut self, item: Item) {
        let operator = item.operator as usize;
        let choice = self.assignment[operator][item.gear as usize];
        self.right += self.problem.operators[operator].cascades[choice].accuracy;
        let (open, came_at) = &mut self.open[item.request as usize];
        *open -= 1;
        if *open == 0 {
            let latency = self.now.since(*came_at);
            self.outcome.latencies.push(latency);
        }
    }

    /// Lets a free slot run what it may.
    fn invoke(&mut self, slot: usize) {
        if self.slots[slot].running.is_some() {
            return;
        }
        let Some(invocation) = self.replicas.next(slot, self.now) else {
            return self.set_timer(slot);
        };
        let table = &self.durations[invocation.model];
        let took = table[invocation.items.len().min(table.len() - 1)];
        self.outcome.busy_s += took.as_secs_f64();
        self.slots[slot].running = Some(invocation);
        self.due.push(self.now + took, Due::BatchDone(slot));
    }

    fn set_timer(&mut self, slot: usize) {
        let Some(at) = self.replicas.ready_at(slot) else {
            return;
        };
        if self.slots[slot].timer.is_none_or(|timer| at < timer) {
            self.slots[slot].timer = Some(at);
            self.due.push(at.max(self.now), Due::Timer(slot));
        }
    }

    fn on_due(&mut self) {
        let Some((at, due)) = self.due.pop() else {
            return;
        };
        self.now = at;
        match due {
            Due::Timer(slot) => {
                self.slots[slot].timer = None;
                self.invoke(slot);
            }
            Due::BatchDone(slot) => {
                let Some(Invocation { items, .. }) = self.slots[slot].running.take() else {
                    return;
                };
                items.into_iter().for_each(|item| self.on_answer(item));
                (0..self.slots.len()).for_each(|slot| self.invoke(slot));
            }
        }
    }

    /// A stage has answered an item: it is accepted, or handed on.
    fn on_answer(&mut self, mut item: Item) {
        let operator = item.operator as usize;
        let choice =
            &self.problem.operators[operator].cascades[self.assignment[operator][item.gear as usize]];
        let next = item.stage as usize + 1;
        match choice.reach.get(next) {
            Some(reach) if f64::from(item.difficulty) < *reach => {
                self.outcome.stages[operator][item.stage as usize].handed_on += 1;
                item.stage += 1;
                self.dispatch(item);
            }
            _ => self.answer(item),
        }
    }
}
