//! Instances that open models and run their steps, and the queues before them.

use serde::{Deserialize, Serialize};
use thiserror::Error;
use weir_policy::generate::InstanceSpecError;
use weir_policy::groups::{QueueEffect, QueueEvent, Queues, QueuesSpec};
use weir_policy::route::Transfer;
use weir_types::{InstanceId, ModelId, SequenceId, Span, Timestamp};

use super::result::{QueueOutcome, QueueResult};
use super::workload::QueueRequest;
use crate::event_queue::EventQueue;
use crate::generate::{InstanceDriver, Placed, SequenceNews};

/// Interval between two checks for violations.
const CHECK_INTERVAL: Span = Span::from_millis(500);
/// Time that closing a model takes.
const CLOSE: Span = Span::from_millis(100);

/// An instance is lost for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InstanceFault {
    /// Instance that fails.
    pub instance: InstanceId,
    /// Time of the failure.
    pub at: Timestamp,
    /// Time of its return.
    pub until: Timestamp,
}

/// Queues, instances and their fault schedule.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct QueueWorld {
    /// Queues and instances.
    pub queues: QueuesSpec,
    /// Fault schedule of the instances.
    pub faults: Vec<InstanceFault>,
}

/// Reason why the world is invalid.
#[derive(Debug, Error)]
pub enum QueueWorldError {
    /// A model on an instance.
    #[error(transparent)]
    Instance(#[from] InstanceSpecError),
}

#[derive(Debug, Clone, Copy)]
enum Due {
    Arrives(usize),
    /// The step of an instance is done; the number of the life of the instance.
    Stepped(usize, u32),
    Opened(usize, ModelId, u32),
    Closed(usize, ModelId, u32),
    Prefetched(usize, ModelId, u32),
    /// A request's cache is on its instance again.
    Restored(usize, u32),
    Check,
    Down(usize),
    Up(usize),
}

/// A request that is on an instance or goes there.
#[derive(Debug, Clone, Copy, Default)]
struct Open {
    instance: usize,
    generated: u32,
    cached: u32,
    by: Option<Transfer>,
    is_ended: bool,
}

struct Machine {
    /// Driver of each model.
    drivers: Vec<InstanceDriver>,
    /// Index of the model whose sequences run.
    model: usize,
    /// Number of requests whose cache is being transferred, and their tokens.
    coming: [u32; 2],
    /// Time at which the link to host memory becomes free.
    link_free: Timestamp,
    /// Number of failures so far. Events that were scheduled before a failure are ignored after it.
    life: u32,
    max_used: u64,
    is_up: bool,
}

struct World<'a> {
    spec: &'a QueueWorld,
    requests: &'a [QueueRequest],
    queues: Queues,
    machines: Vec<Machine>,
    open: Vec<Open>,
    outcomes: Vec<QueueOutcome>,
    due: EventQueue<Due>,
    effects: Vec<QueueEffect>,
    touched: Vec<usize>,
    opened: [u64; 2],
    opening: Span,
    busy: Span,
    left: usize,
    now: Timestamp,
}

fn drivers(spec: &QueueWorld, instance: usize) -> Result<Vec<InstanceDriver>, InstanceSpecError> {
    let models = spec.queues.instances[instance].models.iter();
    models
        .map(|served| InstanceDriver::new(served.spec.clone()))
        .collect()
}

/// Runs requests, ascending by arrival, until all of them have ended.
///
/// # Errors
/// [`QueueWorldError`] where bounds of a model on an instance do not fit.
pub fn simulate_queues(spec: &QueueWorld, requests: &[QueueRequest]) -> Result<QueueResult, QueueWorldError> {
    let mut machines = Vec::new();
    for instance in 0..spec.queues.instances.len() {
        machines.push(Machine {
            drivers: drivers(spec, instance)?,
            model: 0,
            coming: [0, 0],
            link_free: Timestamp::ZERO,
            life: 0,
            max_used: 0,
            is_up: true,
        });
    }
    let mut world = World {
        queues: Queues::new(spec.queues.clone()),
        spec,
        requests,
        machines,
        open: vec![Open::default(); requests.len()],
        outcomes: vec![QueueOutcome::default(); requests.len()],
        due: EventQueue::default(),
        effects: Vec::new(),
        touched: Vec::new(),
        opened: [0, 0],
        opening: Span::ZERO,
        busy: Span::ZERO,
        left: requests.len(),
        now: Timestamp::ZERO,
    };
    world.run();
    let end = world.now;
    Ok(QueueResult {
        stats: world.queues.stats(),
        opened_cold: world.opened[0],
        opened_warm: world.opened[1],
        opening: world.opening,
        busy: world.busy + world.running_time(),
        max_used: world.machines.iter().map(|machine| machine.max_used).collect(),
        requests: world.outcomes,
        end,
    })
}

impl World<'_> {
    fn running_time(&self) -> Span {
        let drivers = self.machines.iter().flat_map(|machine| &machine.drivers);
        drivers.map(|driver| driver.instance().stats().busy).sum()
    }

    fn run(&mut self) {
        for (number, request) in self.requests.iter().enumerate() {
            self.due.push_in_order(request.at, Due::Arrives(number));
        }
        for fault in &self.spec.faults {
            self.due.push(fault.at, Due::Down(fault.instance.index()));
            self.due.push(fault.until, Due::Up(fault.instance.index()));
        }
        self.due.push(Timestamp::ZERO + CHECK_INTERVAL, Due::Check);
        while self.left > 0
            && let Some((at, due)) = self.due.pop()
        {
            self.now = at;
            self.on_due(due);
            self.settle();
        }
    }

    fn on_due(&mut self, due: Due) {
        match due {
            Due::Arrives(number) => self.on_arrives(number),
            Due::Stepped(index, life) if self.machines[index].life == life => self.on_stepped(index),
            Due::Opened(index, model, life) if self.machines[index].life == life => {
                self.machines[index].model = model.index();
                let instance = InstanceId(index as u32);
                self.notify(QueueEvent::Opened { instance, model });
            }
            Due::Closed(index, model, life) if self.machines[index].life == life => {
                let instance = InstanceId(index as u32);
                self.notify(QueueEvent::Closed { instance, model });
            }
            Due::Prefetched(index, model, life) if self.machines[index].life == life => {
                let instance = InstanceId(index as u32);
                self.notify(QueueEvent::Prefetched { instance, model });
            }
            Due::Restored(number, life) => {
                let index = self.open[number].instance;
                if self.machines[index].life == life {
                    let tokens = self.requests[number].prompt + self.open[number].generated;
                    let coming = &mut self.machines[index].coming;
                    *coming = [coming[0] - 1, coming[1] - tokens];
                    self.place(number);
                }
            }
            Due::Check => {
                self.notify(QueueEvent::Timer);
                self.due.push(self.now + CHECK_INTERVAL, Due::Check);
            }
            Due::Down(index) => self.on_down(index),
            Due::Up(index) => {
                self.machines[index].is_up = true;
                self.notify(QueueEvent::Up(InstanceId(index as u32)));
            }
            Due::Stepped(..) | Due::Opened(..) | Due::Closed(..) | Due::Prefetched(..) => {}
        }
    }

    fn notify(&mut self, event: QueueEvent) {
        let mut effects = std::mem::take(&mut self.effects);
        self.queues.step(event, self.now, &mut effects);
        for effect in effects.drain(..) {
            self.carry_out(effect);
        }
        self.effects = effects;
    }

    fn carry_out(&mut self, effect: QueueEffect) {
        match effect {
            QueueEffect::Start {
                request,
                instance,
                generated,
                cached,
            } => self.on_start(request.index(), instance.index(), [generated, cached]),
            QueueEffect::Return {
                request,
                instance,
                by,
            } => {
                let index = instance.index();
                self.open[request.index()].by = Some(by);
                let model = self.requests[request.index()].model.index();
                self.machines[index].drivers[model].reassign(request, instance);
                self.touched.push(index);
            }
            QueueEffect::Open {
                instance,
                model,
                warm,
            } => {
                let index = instance.index();
                let served = &self.spec.queues.instances[index].models[model.index()];
                let span = if warm { served.open_warm } else { served.open_cold };
                self.opened[usize::from(warm)] += 1;
                let end = self.machines[index].link_free.max(self.now) + span;
                self.opening += end.since(self.now);
                self.due
                    .push(end, Due::Opened(index, model, self.machines[index].life));
            }
            QueueEffect::Close { instance, model } => {
                let index = instance.index();
                let due = Due::Closed(index, model, self.machines[index].life);
                self.due.push(self.now + CLOSE, due);
            }
            QueueEffect::Prefetch { instance, model } => {
                let index = instance.index();
                let served = &self.spec.queues.instances[index].models[model.index()];
                let span = served.open_cold.saturating_sub(served.open_warm);
                let due = Due::Prefetched(index, model, self.machines[index].life);
                self.due.push(self.now + span, due);
            }
            QueueEffect::Discard { .. } => {}
            QueueEffect::Refuse { request } => self.end(request.index(), true),
        }
    }

    fn on_start(&mut self, number: usize, index: usize, [generated, cached]: [u32; 2]) {
        let request = &self.requests[number];
        let outcome = &mut self.outcomes[number];
        outcome.started.get_or_insert(self.now - request.at);
        let open = &mut self.open[number];
        (open.instance, open.generated, open.cached) = (index, generated, cached);
        if cached == 0 {
            self.place(number);
            return;
        }
        let spec = &self.spec.queues.instances[index];
        let bytes = f64::from(cached) * spec.models[request.model.index()].cache_bytes;
        let machine = &mut self.machines[index];
        machine.link_free = machine.link_free.max(self.now) + spec.host_link.duration(bytes);
        machine.coming[0] += 1;
        machine.coming[1] += request.prompt + generated;
        self.due
            .push(machine.link_free, Due::Restored(number, machine.life));
    }

    fn place(&mut self, number: usize) {
        let (open, request) = (self.open[number], &self.requests[number]);
        self.machines[open.instance].model = request.model.index();
        self.machines[open.instance].drivers[request.model.index()].place(Placed {
            sequence: SequenceId(number as u64),
            prompt: request.prompt,
            generated: open.generated,
            cached: open.cached,
            length: request.length,
            due: Timestamp::ZERO,
            prefix: None,
        });
        self.touched.push(open.instance);
    }

    fn end(&mut self, number: usize, dropped: bool) {
        if std::mem::replace(&mut self.open[number].is_ended, true) {
            return;
        }
        self.left -= 1;
        let outcome = &mut self.outcomes[number];
        outcome.dropped = dropped;
        outcome.last = (!dropped).then(|| self.now - self.requests[number].at);
    }

    fn on_arrives(&mut self, number: usize) {
        let request = self.requests[number];
        let id = SequenceId(number as u64);
        self.notify(QueueEvent::Arrived {
            request: id,
            model: request.model,
            class: request.class,
            prompt: request.prompt,
            deadline: request.at + request.objective,
        });
        let estimate = self.queues.estimate(id);
        self.outcomes[number].estimate = estimate.map(|at| at.since(request.at));
    }

    fn on_stepped(&mut self, index: usize) {
        let mut news = Vec::new();
        let model = self.machines[index].model;
        self.machines[index].drivers[model].finish_step(self.now, &mut news);
        self.touched.push(index);
        self.on_news(index, news);
    }

    fn on_news(&mut self, index: usize, news: Vec<SequenceNews>) {
        for news in news {
            match news {
                SequenceNews::Generated { sequence, tokens } => {
                    self.open[sequence.index()].generated = tokens;
                }
                SequenceNews::Finished(sequence) => self.on_ended(sequence, false),
                SequenceNews::Dropped(sequence, _) => self.on_ended(sequence, true),
                SequenceNews::Moved {
                    sequence,
                    generated,
                    cached,
                    ..
                } => self.on_returned(index, sequence, [generated, cached]),
            }
        }
    }

    fn on_ended(&mut self, sequence: SequenceId, dropped: bool) {
        let generated = self.open[sequence.index()].generated;
        self.end(sequence.index(), dropped);
        self.notify(QueueEvent::Finished {
            request: sequence,
            generated,
        });
    }

    fn on_returned(&mut self, index: usize, sequence: SequenceId, [generated, cached]: [u32; 2]) {
        let number = sequence.index();
        self.open[number].generated = generated;
        self.outcomes[number].returns += 1;
        let by_cache = self.open[number].by.take() == Some(Transfer::Cache);
        let cached = if by_cache { cached } else { 0 };
        let spec = &self.spec.queues.instances[index];
        let bytes = f64::from(cached) * spec.models[self.requests[number].model.index()].cache_bytes;
        if cached > 0 {
            let machine = &mut self.machines[index];
            machine.link_free = machine.link_free.max(self.now) + spec.host_link.duration(bytes);
        }
        self.notify(QueueEvent::Returned {
            request: sequence,
            generated,
            cached,
        });
    }

    fn on_down(&mut self, index: usize) {
        let Ok(drivers) = drivers(self.spec, index) else {
            return;
        };
        let machine = &mut self.machines[index];
        self.busy += machine
            .drivers
            .iter()
            .map(|driver| driver.instance().stats().busy)
            .sum::<Span>();
        machine.drivers = drivers;
        machine.coming = [0, 0];
        machine.life += 1;
        machine.is_up = false;
        self.notify(QueueEvent::Down(InstanceId(index as u32)));
    }

    /// Free room of an instance: `[sequences, tokens]`.
    fn room(&self, index: usize) -> [u32; 2] {
        let machine = &self.machines[index];
        let driver = &machine.drivers[machine.model];
        let (state, spec) = (driver.instance().state(), driver.instance().spec());
        // A sequence that waits on the instance goes first.
        if state.waiting > 0 {
            return [0, 0];
        }
        let blocks = state.free_blocks.saturating_sub(spec.reserve_blocks);
        let tokens = blocks * spec.block_tokens;
        [
            spec.max_sequences
                .saturating_sub(state.running + machine.coming[0]),
            tokens.saturating_sub(machine.coming[1]),
        ]
    }

    /// Runs all instances that have new events, until none has any.
    fn settle(&mut self) {
        while let Some(index) = self.touched.pop() {
            if !self.machines[index].is_up {
                continue;
            }
            let model = self.machines[index].model;
            if self.machines[index].drivers[model].step_end().is_some() {
                continue;
            }
            let used = self.queues.residency(InstanceId(index as u32)).used_bytes();
            self.machines[index].max_used = self.machines[index].max_used.max(used);
            let mut news = Vec::new();
            self.machines[index].drivers[model].decide(self.now, &mut news);
            self.on_news(index, news);
            if let Some(end) = self.machines[index].drivers[model].step_end() {
                let due = Due::Stepped(index, self.machines[index].life);
                self.due.push(end, due);
            }
            let [sequences, tokens] = self.room(index);
            let instance = InstanceId(index as u32);
            self.notify(QueueEvent::Room {
                instance,
                sequences,
                tokens,
            });
        }
    }
}
