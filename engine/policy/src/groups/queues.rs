//! The queues as a state machine: takes in events and decides which request an instance serves next.

use std::collections::BTreeMap;

use weir_types::invariant;
use weir_types::invariant::Kind;
use weir_types::{GroupId, InstanceId, ModelId, SequenceId, Timestamp};

use super::api::{QueueEffect, QueueEvent, QueuesSpec};
use super::estimator::{Inefficiency, OutputLengths, ServiceRates};
use super::group::{GroupKey, Share, Wanted, tier};
use super::instance::At;
use super::orders::VirtualQueues;
use super::rule::QueueRule;
use super::sorted::Lines;
use crate::residency::{Residency, ResidencyEffect, ResidencyEvent};

/// Whereabouts of a request: in a queue or on an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// In a line of `fcfs`, `edf` or `sticky`, by its index.
    Line(usize),
    Group(GroupId),
    Running(InstanceId),
    Returning(InstanceId),
}

#[derive(Debug, Clone)]
pub(super) struct Request {
    pub(super) model: ModelId,
    pub(super) class: u32,
    pub(super) prompt: u32,
    pub(super) generated: u32,
    /// Number of tokens whose cache is in the host memory of `home`.
    pub(super) cached: u32,
    pub(super) home: Option<InstanceId>,
    pub(super) arrived: Timestamp,
    pub(super) deadline: Timestamp,
    pub(super) place: Place,
    /// Number of times that the request returned to the queue.
    pub(super) returns: u32,
    pub(super) started: Timestamp,
    /// Expected seconds in service when the request started, without the factor `eps`.
    pub(super) service_s: f64,
}

impl Request {
    /// Tier of the prompt; expected lengths are estimated for each tier.
    pub(super) fn tier(&self) -> u32 {
        tier(self.prompt)
    }

    /// Number of tokens to compute before the request generates.
    pub(super) fn pending(&self) -> f64 {
        f64::from((self.prompt + self.generated).saturating_sub(self.cached))
    }
}

/// Queued requests, in the structure that the rule needs.
#[derive(Debug, Clone)]
pub(super) enum Waiting {
    /// One line for each instance: `fcfs`, `edf`.
    ByInstance(Lines),
    /// One line for each model: `sticky`.
    ByModel(Lines),
    /// Groups in planned orders: `virtual`, `shepherd`.
    Virtual(VirtualQueues),
}

/// Counters of the queues since the start.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct QueueStats {
    /// Number of plans that were made.
    pub replans: u64,
    /// Number of arrivals and checks at which a violation was predicted.
    pub violations_predicted: u64,
    /// Number of requests that returned with their tokens alone.
    pub evicted: u64,
    /// Number of requests that returned with their cache.
    pub swapped: u64,
    /// Largest number of groups at one time.
    pub max_groups: usize,
    /// Number of instances that were missing by the last plan.
    pub missing: f64,
}

/// Queues of requests for several models over several instances.
#[derive(Debug, Clone)]
pub struct Queues {
    pub(super) spec: QueuesSpec,
    pub(super) requests: BTreeMap<SequenceId, Request>,
    pub(super) waiting: Waiting,
    pub(super) at: Vec<At>,
    /// Output lengths by model and tier.
    pub(super) lengths: BTreeMap<(ModelId, u32), OutputLengths>,
    /// Service rates by instance and model.
    pub(super) rates: Vec<Vec<ServiceRates>>,
    /// Measured inefficiency of each instance, by instance id.
    pub(super) eps: Vec<Inefficiency>,
    pub(super) stats: QueueStats,
    pub(super) now: Timestamp,
    /// Whether models are read into host memory before they are needed.
    pub(super) prefetches: bool,
    /// Instances that are to be served in this step because of an event.
    touched: Vec<InstanceId>,
}

/// Whether a model fits into an instance's memory at all.
pub(super) fn can_hold(spec: &QueuesSpec, instance: InstanceId, model: ModelId) -> bool {
    let residency = &spec.instances[instance.index()].residency;
    let bytes = residency.models[model.index()].device_bytes;
    residency.memory.is_none_or(|memory| bytes <= memory)
}

/// Residency of an instance on which no model is open.
fn closed(spec: &QueuesSpec, instance: InstanceId) -> Residency {
    let mut residency = spec.instances[instance.index()].residency.clone();
    if !spec.operations.warm_start {
        residency.host_memory = 0;
    }
    Residency::new(&residency)
}

impl Queues {
    /// Creates queues without requests, on instances without open models.
    #[must_use]
    pub fn new(spec: QueuesSpec) -> Self {
        let rates = spec.instances.iter().map(|instance| {
            let models = instance.models.iter().zip(&spec.models);
            models
                .map(|(served, prior)| {
                    ServiceRates::new(&served.spec, prior.prompt, prior.output, instance.reserved)
                })
                .collect()
        });
        let waiting = match spec.rule {
            QueueRule::Fcfs | QueueRule::Edf => Waiting::ByInstance(Lines::new(spec.instances.len())),
            QueueRule::Sticky => Waiting::ByModel(Lines::new(spec.models.len())),
            QueueRule::Virtual(_) | QueueRule::Shepherd => {
                Waiting::Virtual(VirtualQueues::new(spec.instances.len()))
            }
        };
        let all = (0..spec.instances.len() as u32).map(InstanceId);
        let at = all.map(|instance| At::new(closed(&spec, instance)));
        Self {
            rates: rates.collect(),
            waiting,
            at: at.collect(),
            lengths: BTreeMap::new(),
            eps: vec![Inefficiency::new(); spec.instances.len()],
            requests: BTreeMap::new(),
            stats: QueueStats::default(),
            now: Timestamp::ZERO,
            prefetches: true,
            touched: Vec::new(),
            spec,
        }
    }

    /// The same without reading models into host memory ahead, for drivers that cannot do so. Models that were
    /// open stay in host memory as before.
    #[must_use]
    pub fn without_prefetching(self) -> Self {
        Self {
            prefetches: false,
            ..self
        }
    }

    /// Model that an instance serves, open or opening.
    #[must_use]
    pub fn model_on(&self, instance: InstanceId) -> Option<ModelId> {
        self.at.get(instance.index()).and_then(|at| at.model)
    }

    /// Counters since the start.
    #[must_use]
    pub fn stats(&self) -> QueueStats {
        self.stats
    }

    /// Residency of the models on an instance.
    #[must_use]
    pub fn residency(&self, instance: InstanceId) -> &Residency {
        &self.at[instance.index()].residency
    }

    /// Number of queued requests.
    #[must_use]
    pub fn waiting(&self) -> usize {
        match &self.waiting {
            Waiting::ByInstance(lines) | Waiting::ByModel(lines) => lines.len(),
            Waiting::Virtual(queues) => queues.groups.requests(),
        }
    }

    /// Expected time of a request's last token, by the present order; `None` if it is not in a group. A
    /// request that arrives later changes it only if it is served earlier.
    #[must_use]
    pub fn estimate(&self, request: SequenceId) -> Option<Timestamp> {
        let (Waiting::Virtual(queues), Some(found)) = (&self.waiting, self.requests.get(&request)) else {
            return None;
        };
        let Place::Group(id) = found.place else {
            return None;
        };
        self.request_end(queues, id, request)
    }

    /// Takes in one event, then pulls requests, opens models, and plans if a violation is predicted.
    pub fn step(&mut self, event: QueueEvent, now: Timestamp, effects: &mut Vec<QueueEffect>) {
        self.now = now;
        match event {
            QueueEvent::Arrived {
                request,
                model,
                class,
                prompt,
                deadline,
            } => self.on_arrived(request, model, [class, prompt], deadline, effects),
            QueueEvent::Room {
                instance,
                sequences,
                tokens,
            } => {
                self.at[instance.index()].room = [sequences, tokens];
                self.touched.push(instance);
            }
            QueueEvent::Finished { request, generated } => self.on_finished(request, generated, effects),
            QueueEvent::Returned {
                request,
                generated,
                cached,
            } => self.on_returned(request, generated, cached, effects),
            QueueEvent::Cancelled { request } => self.on_cancelled(request, effects),
            QueueEvent::OpenFailed { instance, model } => self.on_open_failed(instance, model, effects),
            QueueEvent::Opened { instance, model } => {
                self.reside(instance, ResidencyEvent::Opened(model), effects);
                let room = self.full_room(instance, model);
                let at = &mut self.at[instance.index()];
                at.opening = None;
                if at.model == Some(model) {
                    at.room = room;
                }
                self.touched.push(instance);
            }
            QueueEvent::Closed { instance, model } => {
                self.reside(instance, ResidencyEvent::Closed(model), effects);
            }
            QueueEvent::Prefetched { instance, model } => {
                self.reside(instance, ResidencyEvent::Prefetched(model), effects);
            }
            QueueEvent::Down(instance) => self.on_down(instance, effects),
            QueueEvent::Up(instance) => {
                self.at[instance.index()].is_up = true;
                self.touched.push(instance);
                self.plan(effects);
            }
            QueueEvent::Timer => self.check(effects),
        }
        while let Some(instance) = self.touched.pop() {
            self.dispatch(instance, effects);
        }
    }

    pub(super) fn touch_all(&mut self) {
        let all = (0..self.at.len() as u32).rev().map(InstanceId);
        self.touched = all.collect();
    }

    pub(super) fn lengths(&self, model: ModelId, tier: u32) -> OutputLengths {
        let prior = &self.spec.models[model.index()];
        let known = self.lengths.get(&(model, tier)).copied();
        known.unwrap_or_else(|| OutputLengths::new(prior.output, prior.output_deviation))
    }

    fn on_arrived(
        &mut self,
        id: SequenceId,
        model: ModelId,
        [class, prompt]: [u32; 2],
        deadline: Timestamp,
        effects: &mut Vec<QueueEffect>,
    ) {
        let is_new = !self.requests.contains_key(&id);
        if !invariant!(is_new, Kind::Groups, "request {} arrives twice", id.0) {
            return;
        }
        let all = (0..self.at.len() as u32).map(InstanceId);
        let mut all = all.filter(|instance| can_hold(&self.spec, *instance, model));
        let fits = all.next().is_some();
        if !fits {
            effects.push(QueueEffect::Refuse { request: id });
            return;
        }
        let request = Request {
            model,
            class,
            prompt,
            generated: 0,
            cached: 0,
            home: None,
            arrived: self.now,
            deadline,
            place: Place::Line(0),
            returns: 0,
            started: self.now,
            service_s: 0.0,
        };
        self.requests.insert(id, request);
        self.enqueue(id, effects);
    }

    /// A request waits, new or again.
    pub(super) fn enqueue(&mut self, id: SequenceId, effects: &mut Vec<QueueEffect>) {
        let Some(request) = self.requests.get_mut(&id) else {
            return;
        };
        let by_deadline = self.spec.rule == QueueRule::Edf;
        let at = &self.at;
        match &mut self.waiting {
            Waiting::ByInstance(lines) => {
                let model = request.model;
                let holds = |line: usize| can_hold(&self.spec, InstanceId(line as u32), model);
                let line = lines.shortest(|line| at[line].is_up && holds(line));
                let line = line.or_else(|| lines.shortest(holds)).unwrap_or(0);
                let key = if by_deadline {
                    request.deadline
                } else {
                    request.arrived
                };
                request.place = Place::Line(line);
                lines.insert(line, key, id);
                self.touched.push(InstanceId(line as u32));
            }
            Waiting::ByModel(lines) => {
                let line = request.model.index();
                request.place = Place::Line(line);
                lines.insert(line, request.deadline, id);
                // Instances that have the model open, or that are idle.
                let (model, all) = (request.model, (0..self.at.len() as u32).rev().map(InstanceId));
                let idle = all.filter(|id| {
                    let at = &self.at[id.index()];
                    at.model == Some(model) || at.running.is_empty()
                });
                self.touched.extend(idle);
            }
            Waiting::Virtual(_) => self.enqueue_in_group(id, effects),
        }
    }

    fn enqueue_in_group(&mut self, id: SequenceId, effects: &mut Vec<QueueEffect>) {
        let Some(request) = self.requests.get(&id) else {
            return;
        };
        let key = GroupKey {
            model: request.model,
            class: request.class,
            tier: request.tier(),
        };
        let share = Share {
            prompt: request.pending(),
            output: self.lengths(request.model, key.tier).rest(request.generated),
            deadline: request.deadline,
        };
        let Waiting::Virtual(queues) = &self.waiting else {
            return;
        };
        let wanted = Wanted {
            key,
            prompt: share.prompt,
            output: share.output,
            requests: 1.0,
            deadline: share.deadline,
            may_join: true,
            turn: queues.groups.next(),
        };
        // An instance can hold the model: this was checked when the request arrived.
        let Some(choice) = self.choose(queues, &wanted) else {
            return;
        };
        let max = self.max_group(key.model);
        let Waiting::Virtual(queues) = &mut self.waiting else {
            return;
        };
        let joined = queues.groups.join(choice.joins, key, (id, share), max);
        self.stats.max_groups = self.stats.max_groups.max(queues.groups.len());
        if joined.is_new {
            queues.put(joined.group, (choice.instance, choice.at), &self.rates);
        } else {
            queues.update_work(joined.group, &self.rates);
        }
        queues.count_arrival(key, choice.instance);
        if let Some(request) = self.requests.get_mut(&id) {
            request.place = Place::Group(joined.group);
        }
        self.on_joined(joined.group, (id, share.deadline), effects);
    }

    /// Maximum number of requests in a group of this model: `delta` mean batches of the largest instance.
    pub(super) fn max_group(&self, model: ModelId) -> usize {
        let batches = self.rates.iter().map(|rates| rates[model.index()].batch);
        let batch = batches.fold(1.0, f64::max);
        (self.spec.delta * batch).max(1.0) as usize
    }

    fn on_finished(&mut self, id: SequenceId, generated: u32, effects: &mut Vec<QueueEffect>) {
        let Some(request) = self.requests.remove(&id) else {
            return;
        };
        let instance = match request.place {
            Place::Running(instance) => instance,
            Place::Returning(instance) => {
                self.at[instance.index()].returning -= 1;
                instance
            }
            Place::Line(_) | Place::Group(_) => {
                invariant!(false, Kind::Groups, "request {} ends while it waits", id.0);
                return;
            }
        };
        let prior = self.lengths(request.model, request.tier());
        let lengths = self
            .lengths
            .entry((request.model, request.tier()))
            .or_insert(prior);
        lengths.on_finished(generated);
        let served_s = self.now.since(request.started).as_secs_f64();
        self.eps[instance.index()].on_measured(request.service_s, served_s);
        self.leave_instance(id, request.model, instance, effects);
    }

    fn on_returned(&mut self, id: SequenceId, generated: u32, cached: u32, effects: &mut Vec<QueueEffect>) {
        let Some(request) = self.requests.get_mut(&id) else {
            return;
        };
        let Place::Returning(instance) = request.place else {
            invariant!(false, Kind::Groups, "request {} returns uncalled", id.0);
            return;
        };
        request.returns += 1;
        request.generated = generated;
        request.cached = cached;
        request.home = (cached > 0).then_some(instance);
        let (model, bytes) = (request.model, f64::from(cached));
        let at = &mut self.at[instance.index()];
        at.returning -= 1;
        at.swapped_bytes += bytes * self.spec.instances[instance.index()].models[model.index()].cache_bytes;
        if cached > 0 {
            self.stats.swapped += 1;
        } else {
            self.stats.evicted += 1;
        }
        self.leave_instance(id, model, instance, effects);
        self.enqueue(id, effects);
    }

    fn on_cancelled(&mut self, id: SequenceId, effects: &mut Vec<QueueEffect>) {
        let Some(place) = self.requests.get(&id).map(|request| request.place) else {
            return;
        };
        if matches!(place, Place::Line(_) | Place::Group(_)) {
            self.dequeue(id);
        }
        let Some(request) = self.requests.remove(&id) else {
            return;
        };
        match place {
            Place::Line(_) | Place::Group(_) => self.free_swapped(&request),
            Place::Running(instance) => self.leave_instance(id, request.model, instance, effects),
            Place::Returning(instance) => {
                self.at[instance.index()].returning -= 1;
                self.leave_instance(id, request.model, instance, effects);
            }
        }
    }

    /// Frees the host memory of a queued request's cache.
    fn free_swapped(&mut self, request: &Request) {
        if let Some(home) = request.home {
            let served = &self.spec.instances[home.index()].models[request.model.index()];
            let bytes = f64::from(request.cached) * served.cache_bytes;
            let at = &mut self.at[home.index()];
            at.swapped_bytes = (at.swapped_bytes - bytes).max(0.0);
        }
    }

    fn on_open_failed(&mut self, instance: InstanceId, model: ModelId, effects: &mut Vec<QueueEffect>) {
        self.at[instance.index()].opening = None;
        self.reside(instance, ResidencyEvent::OpenFailed(model), effects);
        if self.at[instance.index()].model == Some(model) {
            self.at[instance.index()].model = None;
            let head = self.head(instance);
            let is_of_model = |id: &SequenceId| {
                let request = self.requests.get(id);
                request.is_some_and(|request| request.model == model)
            };
            if let Some(id) = head.filter(is_of_model) {
                self.on_cancelled(id, effects);
                effects.push(QueueEffect::Refuse { request: id });
            }
        }
        self.touched.push(instance);
    }

    fn leave_instance(
        &mut self,
        id: SequenceId,
        model: ModelId,
        instance: InstanceId,
        effects: &mut Vec<QueueEffect>,
    ) {
        self.at[instance.index()].running.remove(&id);
        self.reside(instance, ResidencyEvent::Ended(model), effects);
        self.touched.push(instance);
    }

    fn on_down(&mut self, instance: InstanceId, effects: &mut Vec<QueueEffect>) {
        let at = &mut self.at[instance.index()];
        at.is_up = false;
        at.model = None;
        at.opening = None;
        at.returning = 0;
        at.swapped_bytes = 0.0;
        at.residency = closed(&self.spec, instance);
        let running = std::mem::take(&mut at.running);
        // Generated tokens are lost with the instance.
        for (id, request) in &mut self.requests {
            if running.contains(id) {
                request.generated = 0;
            }
            if request.home == Some(instance) || running.contains(id) {
                (request.home, request.cached) = (None, 0);
            }
        }
        let (lost, groups) = match &mut self.waiting {
            Waiting::ByInstance(lines) => (lines.take(instance.index()), Vec::new()),
            Waiting::ByModel(_) => (Vec::new(), Vec::new()),
            Waiting::Virtual(queues) => (Vec::new(), queues.clear(instance)),
        };
        for id in groups {
            self.place_again(id);
        }
        for id in running.into_iter().chain(lost) {
            self.enqueue(id, effects);
        }
        self.plan(effects);
        self.touch_all();
    }

    /// Puts a group whose instance was lost into the order of another one.
    fn place_again(&mut self, id: GroupId) {
        let Waiting::Virtual(queues) = &self.waiting else {
            return;
        };
        let Some(group) = queues.groups.get(id) else {
            return;
        };
        let wanted = Wanted {
            key: group.key,
            prompt: group.prompt,
            output: group.output,
            requests: group.requests.len() as f64,
            deadline: group.deadlines()[1],
            may_join: false,
            turn: id.0,
        };
        if let Some(choice) = self.choose(queues, &wanted)
            && let Waiting::Virtual(queues) = &mut self.waiting
        {
            queues.put(id, (choice.instance, choice.at), &self.rates);
        }
    }

    /// Sends an event to the residency of an instance, and its effects to the driver.
    pub(super) fn reside(
        &mut self,
        instance: InstanceId,
        event: ResidencyEvent,
        effects: &mut Vec<QueueEffect>,
    ) {
        let mut asked = Vec::new();
        let at = &mut self.at[instance.index()];
        at.residency.step(event, &mut asked);
        for effect in asked {
            match effect {
                ResidencyEffect::Open { model, warm } => {
                    let served = &self.spec.instances[instance.index()].models[model.index()];
                    let span = if warm { served.open_warm } else { served.open_cold };
                    at.opening = Some((model, self.now + span));
                    effects.push(QueueEffect::Open {
                        instance,
                        model,
                        warm,
                    });
                }
                ResidencyEffect::Close(model) => effects.push(QueueEffect::Close { instance, model }),
                ResidencyEffect::Prefetch(model) => effects.push(QueueEffect::Prefetch { instance, model }),
                ResidencyEffect::Discard(model) => effects.push(QueueEffect::Discard { instance, model }),
                // This was checked when the request arrived: another instance can hold the model.
                ResidencyEffect::Refuse(_) => {}
            }
        }
    }

    /// Expected seconds in service of a request from its start, without the factor `eps`.
    pub(super) fn service_s(&self, request: &Request, instance: InstanceId, beside: f64) -> f64 {
        let rates = &self.rates[instance.index()][request.model.index()];
        let output = self
            .lengths(request.model, request.tier())
            .rest(request.generated);
        rates.service_s(request.pending(), output, beside)
    }

    /// That every request that waits is in one group and one queue; for tests.
    pub fn check_books(&self) {
        if let Waiting::Virtual(queues) = &self.waiting {
            queues.check();
            for (id, request) in &self.requests {
                if let Place::Group(group) = request.place {
                    let found = queues.groups.get(group);
                    let has = found.is_some_and(|group| group.requests.contains_key(id));
                    invariant!(has, Kind::Groups, "request {} is not in its group", id.0);
                }
            }
            let max = |model| self.max_group(model);
            for (id, group) in queues.groups.iter() {
                let fits = group.requests.len() <= max(group.key.model);
                invariant!(fits, Kind::Groups, "group {} is too large", id.0);
            }
        }
    }

    /// Number of groups at present.
    #[must_use]
    pub fn groups(&self) -> usize {
        match &self.waiting {
            Waiting::Virtual(queues) => queues.groups.len(),
            Waiting::ByInstance(_) | Waiting::ByModel(_) => 0,
        }
    }

    /// `eps` of an instance.
    #[must_use]
    pub fn eps(&self, instance: InstanceId) -> f64 {
        self.eps[instance.index()].factor()
    }

    pub(super) fn seconds_until(&self, at: Timestamp) -> f64 {
        if at >= self.now {
            at.since(self.now).as_secs_f64()
        } else {
            -self.now.since(at).as_secs_f64()
        }
    }
}
