//! Virtual queues carried out as operations (QLM, section 5): requests are pulled, running ones return to the
//! queue for more urgent ones, with their cache if that is cheaper, and models are opened.

use weir_types::{InstanceId, ModelId, SequenceId, Span, Timestamp};

use super::api::QueueEffect;
use super::queues::{Place, Queues, Request, Waiting, can_hold};
use super::rule::QueueRule;
use super::sorted::sticky_model;
use crate::residency::{ResidencyEvent, Standing};
use crate::route::{Transfer, TransferCost};

/// Maximum number of times that a request returns to the queue; after that it runs to its end, so that
/// requests cannot displace each other forever.
const MAX_RETURNS: u32 = 2;
/// Seconds before its expected end within which a request is not returned.
const NEARLY_DONE_S: f64 = 1.0;

impl Queues {
    /// The next request of an instance's queue, if any.
    pub(super) fn head(&mut self, instance: InstanceId) -> Option<SequenceId> {
        match &mut self.waiting {
            Waiting::ByInstance(lines) => lines.first(instance.index()).map(|(_, id)| id),
            Waiting::ByModel(lines) => {
                let own = self.at[instance.index()].model;
                let others = self.at.iter().enumerate();
                let served: Vec<Option<ModelId>> = others
                    .filter(|(other, at)| *other != instance.index() && at.is_up)
                    .map(|(_, at)| at.model)
                    .collect();
                let can_hold = |model| can_hold(&self.spec, instance, model);
                let model = sticky_model(lines, own, &served, can_hold)?;
                lines.first(model.index()).map(|(_, id)| id)
            }
            Waiting::Virtual(queues) => queues.head(instance),
        }
    }

    /// Removes a request from its queue.
    pub(super) fn dequeue(&mut self, id: SequenceId) {
        let Some(request) = self.requests.get(&id) else {
            return;
        };
        let key = match self.spec.rule {
            QueueRule::Fcfs => request.arrived,
            _ => request.deadline,
        };
        match (&mut self.waiting, request.place) {
            (Waiting::ByInstance(lines) | Waiting::ByModel(lines), Place::Line(line)) => {
                lines.remove(line, key, id);
            }
            (Waiting::Virtual(queues), Place::Group(group)) => queues.leave(group, id, &self.rates),
            _ => {}
        }
    }

    /// Starts requests on an instance while it has room for them.
    pub(super) fn dispatch(&mut self, instance: InstanceId, effects: &mut Vec<QueueEffect>) {
        if !self.at[instance.index()].is_up {
            return;
        }
        // A fixed batch is filled at once, when no request runs.
        let mut fixed = self
            .spec
            .rule
            .has_fixed_batches()
            .then(|| self.fixed_batch(instance));
        loop {
            let Some(id) = self.head(instance) else {
                self.plan_for_idle(instance, effects);
                if self.head(instance).is_none() {
                    return;
                }
                continue;
            };
            let Some(request) = self.requests.get(&id) else {
                return;
            };
            let (model, at) = (request.model, &self.at[instance.index()]);
            if at.model != Some(model) {
                self.change_model(instance, id, effects);
                return;
            }
            if at.residency.standing(model) != Standing::Open {
                // The model was closed for another one, or is still opening.
                self.reside(instance, ResidencyEvent::Wanted(model), effects);
                return;
            }
            if fixed == Some(0) {
                return;
            }
            let tokens = request.prompt + request.generated;
            if at.room[0] == 0 || at.room[1] < tokens {
                self.preempt(instance, id, effects);
                return;
            }
            fixed = fixed.map(|left| left - 1);
            self.start(instance, id, effects);
        }
    }

    fn fixed_batch(&self, instance: InstanceId) -> u32 {
        let at = &self.at[instance.index()];
        match at.model {
            Some(model) if at.running.is_empty() => {
                self.rates[instance.index()][model.index()].batch.max(1.0) as u32
            }
            Some(_) => 0,
            None => u32::MAX,
        }
    }

    fn start(&mut self, instance: InstanceId, id: SequenceId, effects: &mut Vec<QueueEffect>) {
        self.dequeue(id);
        let beside = self.at[instance.index()].running.len() as f64;
        let Some(request) = self.requests.get(&id) else {
            return;
        };
        let service_s = self.service_s(request, instance, beside);
        let Some(request) = self.requests.get_mut(&id) else {
            return;
        };
        if let Some(home) = request.home.take() {
            let served = &self.spec.instances[home.index()].models[request.model.index()];
            let bytes = f64::from(request.cached) * served.cache_bytes;
            let at = &mut self.at[home.index()];
            at.swapped_bytes = (at.swapped_bytes - bytes).max(0.0);
            if home != instance {
                request.cached = 0;
            }
        }
        request.place = Place::Running(instance);
        request.started = self.now;
        request.service_s = service_s;
        let (model, tokens, generated, cached) = (
            request.model,
            request.prompt + request.generated,
            request.generated,
            request.cached,
        );
        request.cached = 0;
        let at = &mut self.at[instance.index()];
        at.running.insert(id);
        at.room[0] = at.room[0].saturating_sub(1);
        at.room[1] = at.room[1].saturating_sub(tokens);
        self.reside(instance, ResidencyEvent::Began(model), effects);
        effects.push(QueueEffect::Start {
            request: id,
            instance,
            generated,
            cached,
        });
    }

    /// Another model is next: it is opened once running requests have ended or returned.
    fn change_model(&mut self, instance: InstanceId, head: SequenceId, effects: &mut Vec<QueueEffect>) {
        let Some(model) = self.requests.get(&head).map(|request| request.model) else {
            return;
        };
        if self.at[instance.index()].running.is_empty() {
            let at = &self.at[instance.index()];
            // A model that is opening is served first: otherwise changing plans would only open models.
            if at
                .model
                .is_some_and(|before| at.residency.standing(before) != Standing::Open)
            {
                return;
            }
            let room = self.full_room(instance, model);
            let at = &mut self.at[instance.index()];
            if let Some(before) = at.model.replace(model) {
                self.reside(instance, ResidencyEvent::Unwanted(before), effects);
            }
            let at = &mut self.at[instance.index()];
            if at.residency.standing(model) == Standing::Open {
                at.room = room;
                self.dispatch(instance, effects);
                return;
            }
            self.reside(instance, ResidencyEvent::Wanted(model), effects);
            self.announce(instance, effects);
            return;
        }
        if self.at[instance.index()].returning > 0 || !self.may_return() {
            return;
        }
        let drained_s = self.drained_s(instance);
        let Some(request) = self.requests.get(&head) else {
            return;
        };
        let ready_s = self.open_s(instance, model) + self.service_s(request, instance, 1.0);
        let margin_s = self.seconds_until(request.deadline) - ready_s;
        let is_urgent = margin_s < drained_s && margin_s > 0.0;
        let is_costly = drained_s > self.switch_s(instance);
        if is_urgent || is_costly {
            let running: Vec<SequenceId> = self.at[instance.index()].running.iter().copied().collect();
            for id in running {
                let rest_s = self
                    .requests
                    .get(&id)
                    .map_or(0.0, |request| self.rest_s(request, instance));
                if rest_s > NEARLY_DONE_S {
                    self.send_back(instance, id, effects);
                }
            }
        }
    }

    /// Expected seconds until an instance can begin to open another model: what runs there has ended. If the
    /// rule also plans for idle instances, what runs returns to the queue where that is shorter. Returning
    /// costs the work that is done again, and another opening of the model.
    pub(super) fn switch_s(&self, instance: InstanceId) -> f64 {
        let drained_s = self.drained_s(instance);
        let at = &self.at[instance.index()];
        let plans_idle = self
            .spec
            .rule
            .planning()
            .is_some_and(|planning| planning.when_idle);
        let returns = |id: &SequenceId| {
            let request = self.requests.get(id);
            request.is_none_or(|request| request.returns < MAX_RETURNS)
        };
        if !plans_idle || !self.may_return() || drained_s < NEARLY_DONE_S || !at.running.iter().all(returns) {
            return drained_s;
        }
        let again_s = at.model.map_or(0.0, |model| {
            let served = &self.spec.instances[instance.index()].models[model.index()];
            served.open_warm.as_secs_f64()
        });
        drained_s.min(2.0 * self.return_cost_s(instance) + again_s + NEARLY_DONE_S)
    }

    /// Whether running requests may return to the queue at all.
    fn may_return(&self) -> bool {
        let operations = self.spec.operations;
        matches!(self.spec.rule, QueueRule::Virtual(_)) && (operations.evict || operations.swap)
    }

    /// Expected seconds until a running request's last token.
    pub(super) fn rest_s(&self, request: &Request, instance: InstanceId) -> f64 {
        let served_s = self.now.since(request.started).as_secs_f64();
        let expected_s = request.service_s * self.eps[instance.index()].factor();
        (expected_s - served_s).max(0.1 * expected_s)
    }

    /// Expected seconds until all running requests have ended.
    pub(super) fn drained_s(&self, instance: InstanceId) -> f64 {
        let running = self.at[instance.index()].running.iter();
        let rests = running.filter_map(|id| Some(self.rest_s(self.requests.get(id)?, instance)));
        // The last of several requests ends later than the expectation of each.
        let late = 1.0 + 0.3 * (self.at[instance.index()].running.len() as f64).ln_1p();
        late * rests.fold(0.0, f64::max)
    }

    /// Expected seconds until the next running request ends.
    pub(super) fn next_end(&self, instance: InstanceId) -> f64 {
        let at = &self.at[instance.index()];
        let rests = at.running.iter();
        let rests = rests.filter_map(|id| Some(self.rest_s(self.requests.get(id)?, instance)));
        let sum: f64 = rests.sum();
        let count = at.running.len().max(1) as f64;
        sum / (count * count)
    }

    fn return_cost_s(&self, instance: InstanceId) -> f64 {
        let running = self.at[instance.index()].running.iter();
        let costs = running.filter_map(|id| {
            let cost = self.transfer_cost(instance, self.requests.get(id)?);
            Some(cost.token_ids.min(cost.cache).as_secs_f64())
        });
        costs.sum()
    }

    /// Cost of returning a request to the queue: computing it again, or moving its cache to host memory and
    /// back.
    fn transfer_cost(&self, instance: InstanceId, request: &Request) -> TransferCost {
        let at = &self.spec.instances[instance.index()];
        let served = &at.models[request.model.index()];
        let served_s = self.now.since(request.started).as_secs_f64();
        let rates = &self.rates[instance.index()][request.model.index()];
        let generated = (served_s / rates.step_s).max(0.0) as u32;
        let tokens = request.prompt + request.generated + generated;
        let device = (&served.spec.steps, served.spec.max_step_tokens);
        // The cache crosses the link twice. The token after the last one is computed in either case.
        let known = tokens.saturating_sub(1);
        let cost = TransferCost::new(&at.host_link, 2.0 * served.cache_bytes, [tokens, known], device);
        // A request that comes back waits for the step in progress: half a step on average.
        let beside = self.at[instance.index()].running.len().saturating_sub(1) as u32;
        let step = match beside {
            0 => Span::ZERO,
            _ => served.spec.steps.duration(beside, false),
        };
        TransferCost {
            cache: cost.cache + step / 2,
            ..cost
        }
    }

    /// Returns a running request to the queue.
    fn send_back(&mut self, instance: InstanceId, id: SequenceId, effects: &mut Vec<QueueEffect>) {
        let Some(request) = self.requests.get(&id) else {
            return;
        };
        if request.place != Place::Running(instance) || request.returns >= MAX_RETURNS {
            return;
        }
        let operations = self.spec.operations;
        let best = self.transfer_cost(instance, request).best();
        let spec = &self.spec.instances[instance.index()];
        let bytes =
            f64::from(request.prompt + request.generated) * spec.models[request.model.index()].cache_bytes;
        let has_place = self.at[instance.index()].swapped_bytes + 1.5 * bytes <= spec.swap_memory as f64;
        let by = match (operations.swap && has_place, operations.evict) {
            (true, true) => best,
            (true, false) => Transfer::Cache,
            (false, true) => Transfer::TokenIds,
            (false, false) => return,
        };
        if let Some(request) = self.requests.get_mut(&id) {
            request.place = Place::Returning(instance);
        }
        self.at[instance.index()].returning += 1;
        effects.push(QueueEffect::Return {
            request: id,
            instance,
            by,
        });
    }

    /// The head of the queue has no room. If it would be late after a wait but not now, running requests that
    /// can wait return for it: those with the latest deadlines.
    fn preempt(&mut self, instance: InstanceId, head: SequenceId, effects: &mut Vec<QueueEffect>) {
        if !self.may_return() || self.at[instance.index()].returning > 0 {
            return;
        }
        let Some(request) = self.requests.get(&head) else {
            return;
        };
        let beside = self.at[instance.index()].running.len() as f64;
        let eps = self.eps[instance.index()].factor();
        let service_s = eps * self.service_s(request, instance, beside);
        let margin_s = self.seconds_until(request.deadline) - service_s;
        let ahead = self.head_group_work_s(instance);
        if margin_s < 0.0 || margin_s > self.next_end(instance) + ahead {
            return;
        }
        let tokens = request.prompt + request.generated;
        let deadline = request.deadline;
        let mut later: Vec<(Timestamp, SequenceId)> = self.at[instance.index()]
            .running
            .iter()
            .filter_map(|id| Some((self.requests.get(id)?.deadline, *id)))
            .filter(|(other, _)| *other > deadline)
            .collect();
        later.sort_unstable();
        let mut freed = self.at[instance.index()].room[1];
        let mut has_sequence = self.at[instance.index()].room[0] > 0;
        while (freed < tokens || !has_sequence)
            && let Some((other, id)) = later.pop()
        {
            let Some(running) = self.requests.get(&id) else {
                continue;
            };
            if running.returns >= MAX_RETURNS {
                continue;
            }
            // The returned request is computed again, and must still be in time after that, or be late
            // anyway.
            let again_s = self.service_s(running, instance, beside) * eps + service_s;
            if self.seconds_until(other) < again_s && self.seconds_until(other) > 0.0 {
                continue;
            }
            freed = freed.saturating_add(running.prompt + running.generated);
            has_sequence = true;
            self.send_back(instance, id, effects);
        }
    }

    /// Number of sequences and of tokens that an instance can take while none runs.
    pub(super) fn full_room(&self, instance: InstanceId, model: ModelId) -> [u32; 2] {
        let spec = &self.spec.instances[instance.index()].models[model.index()].spec;
        let blocks = spec.blocks.saturating_sub(spec.reserve_blocks);
        [spec.max_sequences, blocks.saturating_mul(spec.block_tokens)]
    }

    /// Seconds of opening a model after it was closed for another one; 0 if the device holds all models.
    pub(super) fn again_s(&self, instance: InstanceId, model: ModelId) -> f64 {
        let spec = &self.spec.instances[instance.index()];
        let residency = &spec.residency;
        let all = residency.models.iter().map(|model| model.device_bytes);
        let all = all.fold(0, u64::saturating_add);
        if residency.memory.is_none_or(|memory| all <= memory) {
            return 0.0;
        }
        let served = &spec.models[model.index()];
        let is_kept = self.spec.operations.warm_start
            && residency.models[model.index()].host_bytes <= residency.host_memory;
        if is_kept {
            served.open_warm.as_secs_f64()
        } else {
            served.open_cold.as_secs_f64()
        }
    }

    /// Expected seconds from now until a model is open.
    pub(super) fn open_s(&self, instance: InstanceId, model: ModelId) -> f64 {
        let (at, spec) = (&self.at[instance.index()], &self.spec.instances[instance.index()]);
        let served = &spec.models[model.index()];
        match at.opening {
            Some((opening, until)) if opening == model => self.seconds_until(until).max(0.0),
            None if at.residency.standing(model) == Standing::Open => 0.0,
            _ if at.residency.is_warm(model) => served.open_warm.as_secs_f64(),
            _ => served.open_cold.as_secs_f64(),
        }
    }
}
