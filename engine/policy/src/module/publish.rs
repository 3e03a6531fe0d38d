//! State that a module publishes: about once a second, or at once if its queue has changed much. Its own
//! estimates are updated at the same tick.

use std::sync::Arc;

use weir_types::{Span, Timestamp};

use super::Module;
use super::api::ModuleEffect;
use crate::pard::batch_wait::BatchWaitSamples;
use crate::pard::estimator::Queueing;
use crate::pard::state::{ModuleState, ObjectiveState};
use crate::pard::state_planner::is_publish_due;
use crate::queue::depq::End;

/// A state is published early if the queueing delay has changed by more than the SLO divided by this. Modules
/// upstream use it to drop requests; with a stale value they drop too many or too few.
const PUBLISH_DIVISOR: u64 = 20;

/// A state is also published early if durations have changed by more than this ratio, because batch sizes
/// follow durations.
const MAX_UNPUBLISHED_RATIO: f64 = 0.1;

impl Module {
    /// Execution time of a typical request: its batches in sequence, as many at a time as there are slots.
    fn request_duration(&self) -> Span {
        let at_once = f64::from(self.peers.batch_size()) * self.workers.up().max(1) as f64;
        self.workers
            .expected(self.peers.batch_size())
            .scale((self.metrics.items_per_request / at_once).max(1.0))
    }

    /// Throughput in items a second that the module can reach beside other modules on its slots, `T_m`.
    pub(super) fn throughput(&self) -> f64 {
        let a_slot = f64::from(self.peers.batch_size())
            / self
                .workers
                .expected(self.peers.batch_size())
                .as_secs_f64()
                .max(1e-6);
        a_slot * self.workers.up() as f64 * self.metrics.share
    }

    /// Arrival rate of the last 100 ms, relative to the throughput.
    pub(super) fn arrival_ratio(&self, now: Timestamp) -> f64 {
        let first_arrival_at = self.metrics.first_arrival_at.unwrap_or(now);
        let recent = self.metrics.recent.as_ref();
        recent.map_or(0.0, |recent| recent.rate(now, first_arrival_at)) / self.throughput().max(1e-6)
    }

    /// Time that running so many items takes at the module's throughput.
    fn time_to_run(&self, items: u64) -> Span {
        Span::from_secs_f64(items as f64 / self.throughput().max(1e-6))
    }

    /// Time that running all waiting items takes.
    pub(super) fn drain_time(&self) -> Span {
        self.time_to_run(self.mailboxes.waiting_items())
    }

    /// Time that running all items takes which must be done within `tightest` of `start`; others can wait for
    /// them. All waiting items if all requests have the same objective.
    pub(super) fn drain_time_until(&self, start: Timestamp, tightest: Span) -> Span {
        if !self.metrics.objectives.differ() || self.priority.is_fcfs() {
            return self.drain_time();
        }
        self.time_to_run(self.mailboxes.waiting_items_until(start + tightest))
    }

    pub(super) fn on_tick(&mut self, now: Timestamp, effects: &mut Vec<ModuleEffect>) {
        if let Some(first_arrival_at) = self.metrics.first_arrival_at {
            let input = self.metrics.present.rate(now, first_arrival_at);
            let smoothed = self.metrics.smoothed.rate(now, first_arrival_at);
            self.priority.update(input, smoothed, self.throughput());
            if let Some(spec) = self.strategies.cost_limit {
                self.metrics.cost_limit.update(input, self.throughput(), spec);
            }
        }
        let promptly = self.metrics.queueing_rule == Queueing::Present;
        let moved = self
            .queueing(now)
            .micros()
            .abs_diff(self.metrics.published_queueing.micros());
        let tightest = self.metrics.objectives.tightest(now);
        self.workers.refresh(now);
        let slowed = self.workers.ratio() / self.metrics.published_ratio - 1.0;
        let news = promptly && moved > tightest.micros() / PUBLISH_DIVISOR
            || self.workers.has_spread() && slowed.abs() > MAX_UNPUBLISHED_RATIO;
        if is_publish_due(self.metrics.published, now) || news || self.publishes_fan_out() {
            self.publish(now, effects);
        }
        self.peers
            .update(&self.spec, &self.strategies, self.workers.ratio(), tightest);
    }

    /// Publishes the items of streams between ticks, if streams differ in them; the rest of the state stays
    /// as published.
    pub(super) fn publish_fan_out(&mut self, now: Timestamp, effects: &mut Vec<ModuleEffect>) {
        let interval = self.strategies.estimator.per_stream.unwrap_or(Span::MAX);
        let fresh = |at: Timestamp| now.since(at) < interval;
        if self.metrics.fan_out_published.is_some_and(fresh) || !self.publishes_fan_out() {
            return;
        }
        self.metrics.fan_out_published = Some(now);
        let fan_out = Arc::new(self.metrics.fan_out.summary());
        self.peers.on_fan_out(self.spec.id, Arc::clone(&fan_out));
        effects.push(ModuleEffect::PublishFanOut { fan_out });
    }

    /// Whether streams differ in their items and the estimator uses that.
    fn publishes_fan_out(&self) -> bool {
        self.strategies.estimator.per_stream.is_some() && self.metrics.fan_out.varies()
    }

    fn publish(&mut self, now: Timestamp, effects: &mut Vec<ModuleEffect>) {
        let queueing = self.queueing(now);
        self.metrics.published = Some(now);
        self.metrics.published_queueing = queueing;
        self.metrics.published_ratio = self.workers.ratio().max(1e-3);
        self.metrics.fan_out_published = Some(now);
        let state = Arc::new(self.state(queueing, now));
        self.peers.on_state(Arc::clone(&state));
        effects.push(ModuleEffect::Publish(state));
    }

    /// Delay that a new request will find here, `q_i`: the recent mean, limited by the present queue. If the
    /// queue will be served sooner than the mean, the mean describes a queue that is gone; it would do so for
    /// a whole window if upstream modules dropped everything because of it. If the queue takes more than half
    /// of the SLO and newcomers are served last, the mean describes only the requests that were served in
    /// time.
    fn queueing(&self, now: Timestamp) -> Span {
        let mean = self.metrics.queueing.weighted_mean(now).unwrap_or(0.0);
        let tightest = self.metrics.objectives.tightest(now);
        self.expected_queueing(Span::from_micros(mean as u64), tightest, || self.drain_time())
    }

    /// Delay of requests with objective `slo`, whose recent mean is `mean` and which wait behind `drain_time`
    /// of other work.
    fn expected_queueing(&self, mean: Span, slo: Span, drain_time: impl FnOnce() -> Span) -> Span {
        if self.metrics.queueing_rule == Queueing::Recent {
            return mean;
        }
        let drain_time = drain_time();
        if self.priority.end() == End::Low && drain_time * 2 > slo {
            drain_time
        } else {
            mean.min(drain_time + self.workers.expected(self.peers.batch_size()))
        }
    }

    /// State for each objective, if requests differ in it; requests with a long objective do not delay those
    /// with a short one.
    fn objective_states(&mut self, now: Timestamp) -> Vec<ObjectiveState> {
        let mut states = self.metrics.objectives.states(now);
        for state in &mut states {
            state.waits = std::mem::take(&mut state.waits).scaled(self.workers.slowness());
            let drain_time = || self.drain_time_until(now, state.slo);
            state.queueing_delay = self.expected_queueing(state.queueing_delay, state.slo, drain_time);
        }
        states
    }

    fn state(&mut self, queueing: Span, now: Timestamp) -> ModuleState {
        let promise = self.workers.full_promise(self.peers.batch_size());
        let duration = self.request_duration().scale(promise);
        let worst = self
            .metrics
            .latency
            .as_ref()
            .map_or(0.0, |latency| latency.max(now));
        ModuleState {
            module: self.spec.id,
            queueing_delay: queueing,
            duration,
            waits: self
                .metrics
                .waits
                .as_mut()
                .map(BatchWaitSamples::sketch)
                .unwrap_or_default()
                .scaled(self.workers.slowness()),
            worst_latency: Span::from_micros(worst as u64).max(duration),
            input_rate: self.metrics.first_arrival_at.map_or(0.0, |first_arrival_at| {
                self.metrics.present.rate(now, first_arrival_at)
            }),
            throughput: self.throughput(),
            workers: self.workers.up() as f64 * self.metrics.share,
            items_per_request: self.metrics.demand,
            fan_out: Arc::new(self.metrics.fan_out.summary()),
            cost_limit: self.metrics.cost_limit.limit(),
            duration_ratio: self.workers.ratio(),
            disturbance: self.workers.disturbance(),
            objectives: self.objective_states(now),
        }
    }
}
