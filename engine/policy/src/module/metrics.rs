//! What a module measures of itself: rates, delays, waits; and from them its priority, its batch size and the state that
//! it tells.

use std::sync::Arc;

use weir_types::{Span, StreamId, Timestamp};

use super::{Module, ModuleEffect, ModuleSpec, Pool};
use crate::measure::fan_out::FanOut;
use crate::measure::window::Window;
use crate::pard::batch_wait::BatchWaitSamples;
use crate::pard::state::ModuleState;
use crate::pard::state_planner::{StatePlanner, is_publish_due};
use crate::queue::depq::End;
use crate::strategy::{DropRule, Lookahead, Queueing, Sizing};
use crate::weir::cost_limit::CostLimit;
use crate::weir::joint_batching::JointBatching;

/// Over which arrivals are counted as the present rate.
const PRESENT: Span = Span::from_secs(1);

/// The same where it is asked whether a burst is over: as long as a batch or two.
const JUST_NOW: Span = Span::from_millis(100);

/// A state is told before its time when the queueing delay has moved by this part of the SLO: modules before this one let
/// go by it, and while it is stale they let go of too many or too few.
const NEWS: u64 = 20;

/// Where streams differ in what they bring, that is told this often: it is worth knowing while they still bring it.
const STREAMS: Span = Span::from_millis(50);

/// The measurements.
#[derive(Debug, Clone)]
pub(super) struct ModuleMetrics {
    present: Window,
    smoothed: Window,
    queueing: Window,
    /// This and the next two only where the rule reckons with them.
    recent: Option<Window>,
    latency: Option<Window>,
    waits: Option<BatchWaitSamples>,
    first_arrival_at: Option<Timestamp>,
    items_per_request: f64,
    /// As above, with those that bring nothing.
    demand: f64,
    requests: u64,
    cost_limit: CostLimit,
    fan_out: FanOut,
    share: f64,
    published: Option<Timestamp>,
    /// When what streams bring was told last.
    fan_out_published: Option<Timestamp>,
    /// The queueing delay that was published.
    published_queueing: Span,
    queueing_rule: Queueing,
}

impl ModuleMetrics {
    /// Weight of a new request in the mean number of items.
    const GAIN: f64 = 0.05;
    /// The same where sizes are planned by it: a plan must not follow every wave.
    const SLOW: f64 = 0.0005;
    /// From so many requests on; before, the mean is that of all.
    const SLOWED: u64 = 2_000;
    /// The least share of its slots that a module is taken to have: it is never quite shut out.
    const MIN_SHARE: f64 = 0.02;

    pub(super) fn new(rule: &DropRule) -> Self {
        let ahead = match rule {
            DropRule::Pard(ahead)
            | DropRule::Weir(ahead)
            | DropRule::Lower(ahead)
            | DropRule::Upper(ahead)
            | DropRule::Wcl(ahead) => *ahead,
            _ => Lookahead::default(),
        };
        Self {
            present: Window::new(PRESENT),
            smoothed: Window::new(ahead.window),
            queueing: Window::new(ahead.window),
            recent: matches!(rule, DropRule::Weir(_)).then(|| Window::new(JUST_NOW)),
            latency: matches!(rule, DropRule::Wcl(_)).then(|| Window::new(ahead.window)),
            waits: matches!(rule, DropRule::Pard(_) | DropRule::Weir(_))
                .then(|| BatchWaitSamples::new(ahead.samples)),
            first_arrival_at: None,
            items_per_request: 1.0,
            demand: 1.0,
            requests: 0,
            cost_limit: CostLimit::default(),
            fan_out: FanOut::default(),
            share: 1.0,
            published: None,
            fan_out_published: None,
            published_queueing: Span::ZERO,
            queueing_rule: ahead.queueing,
        }
    }

    pub(super) fn on_arrived(&mut self, items: u32, now: Timestamp) {
        self.first_arrival_at.get_or_insert(now);
        self.cost_limit.on_arrived(items);
        self.present.observe(f64::from(items), now);
        if let Some(recent) = &mut self.recent {
            recent.observe(f64::from(items), now);
        }
        self.smoothed.observe(f64::from(items), now);
        self.items_per_request += Self::GAIN * (f64::from(items) - self.items_per_request);
    }

    /// A request has come, with or without items.
    pub(super) fn on_items(&mut self, stream: StreamId, items: u32) {
        self.requests += 1;
        let gain = if self.requests < Self::SLOWED {
            1.0 / self.requests as f64
        } else {
            Self::SLOW
        };
        self.demand += gain * (f64::from(items) - self.demand);
        self.fan_out.on_items(stream, items);
    }

    pub(super) fn on_queued(&mut self, delay: Span, now: Timestamp) {
        self.queueing.observe(delay.micros() as f64, now);
    }

    /// Whether a request that was let go counts as having queued; the paper counts those that joined a batch.
    pub(super) fn counts_dropped(&self) -> bool {
        self.queueing_rule == Queueing::Present
    }

    /// Whether so many items are too many for one request at present.
    pub(super) fn exceeds_cost_limit(&self, items: u32) -> bool {
        self.cost_limit.limit().is_some_and(|limit| items > limit)
    }

    pub(super) fn on_batch_wait(&mut self, wait: Span) {
        if let Some(waits) = &mut self.waits {
            waits.observe(wait);
        }
    }

    pub(super) fn on_completed(&mut self, latency: Span, now: Timestamp) {
        if let Some(latencies) = &mut self.latency {
            latencies.observe(latency.micros() as f64, now);
        }
    }

    pub(super) fn set_share(&mut self, share: f64) {
        if !share.is_nan() {
            self.share = share.clamp(Self::MIN_SHARE, 1.0);
        }
    }
}

impl Module {
    /// Expected duration of a batch of `size` on the slots as they are lately.
    pub(super) fn expected(&self, size: u32) -> Span {
        self.profiled(size).scale(self.workers.ratio())
    }

    /// Duration of a batch of `size` by the profile.
    pub(super) fn profiled(&self, size: u32) -> Span {
        let known = self.profiled.get(size as usize).copied();
        known.unwrap_or_else(|| self.spec.profile.duration(size))
    }

    /// Execution of a typical request: its batches one after the other, as many at a time as there are slots.
    fn request_duration(&self) -> Span {
        let at_once = f64::from(self.batch_size) * self.workers.up().max(1) as f64;
        self.expected(self.batch_size)
            .scale((self.metrics.items_per_request / at_once).max(1.0))
    }

    /// Items a second that the module can do beside the others on its slots, `T_m`.
    pub(super) fn throughput(&self) -> f64 {
        let a_slot = f64::from(self.batch_size) / self.expected(self.batch_size).as_secs_f64().max(1e-6);
        a_slot * self.workers.up() as f64 * self.metrics.share
    }

    /// What came just now over what the module can do.
    pub(super) fn arrival_ratio(&self, now: Timestamp) -> f64 {
        let first_arrival_at = self.metrics.first_arrival_at.unwrap_or(now);
        let recent = self.metrics.recent.as_ref();
        recent.map_or(0.0, |recent| recent.rate(now, first_arrival_at)) / self.throughput().max(1e-6)
    }

    /// How long what waits will take to run.
    pub(super) fn drain_time(&self) -> Span {
        Span::from_secs_f64(self.mailboxes.waiting_items() as f64 / self.throughput().max(1e-6))
    }

    pub(super) fn tick(&mut self, now: Timestamp, effects: &mut Vec<ModuleEffect>) {
        if let Some(first_arrival_at) = self.metrics.first_arrival_at {
            let input = self.metrics.present.rate(now, first_arrival_at);
            let smoothed = self.metrics.smoothed.rate(now, first_arrival_at);
            self.priority.update(input, smoothed, self.throughput());
            self.metrics.cost_limit.update(input, self.throughput() * 0.8);
        }
        let promptly = self.metrics.queueing_rule == Queueing::Present;
        let moved = self
            .queueing(now)
            .micros()
            .abs_diff(self.metrics.published_queueing.micros());
        let news = promptly && moved > self.spec.slo.micros() / NEWS;
        if is_publish_due(self.metrics.published, now) || news || self.publishes_fan_out() {
            self.publish(now, effects);
        }
        if std::mem::take(&mut self.stale) {
            self.update_plans();
        }
    }

    /// Where streams differ in what they bring, tells of that alone before the next tick: the rest stays as it was told.
    pub(super) fn publish_fan_out(&mut self, now: Timestamp, effects: &mut Vec<ModuleEffect>) {
        let fresh = |at: Timestamp| now.since(at) < STREAMS;
        if self.metrics.fan_out_published.is_some_and(fresh) || !self.publishes_fan_out() {
            return;
        }
        let state = ModuleState {
            fan_out: self.metrics.fan_out.summary(),
            ..self.planner.state(self.spec.id).clone()
        };
        self.publish_state(state, now, effects);
    }

    /// Whether it has streams to tell of.
    fn publishes_fan_out(&self) -> bool {
        self.is_weir() && self.metrics.fan_out.varies()
    }

    fn publish(&mut self, now: Timestamp, effects: &mut Vec<ModuleEffect>) {
        let queueing = self.queueing(now);
        self.metrics.published = Some(now);
        self.metrics.published_queueing = queueing;
        let state = self.state(queueing, now);
        self.publish_state(state, now, effects);
    }

    fn publish_state(&mut self, state: ModuleState, now: Timestamp, effects: &mut Vec<ModuleEffect>) {
        self.metrics.fan_out_published = Some(now);
        let state = Arc::new(state);
        self.planner.on_peer_state(Arc::clone(&state));
        self.stale = true;
        effects.push(ModuleEffect::Publish(state));
    }

    /// The delay that a request will find here, `q_i`: the recent mean, as far as what waits now bears it out. Where the
    /// queue would be served sooner, the mean speaks of a queue that is gone (and would for a whole window, if modules
    /// before this one let everything go because of it). Where it takes most of the SLO to serve and newcomers stand at
    /// its end, the mean speaks only of those that were served in time.
    fn queueing(&self, now: Timestamp) -> Span {
        let mean = self.metrics.queueing.weighted_mean(now).unwrap_or(0.0);
        let mean = Span::from_micros(mean as u64);
        if self.metrics.queueing_rule == Queueing::Recent {
            return mean;
        }
        let drain_time = self.drain_time();
        if self.priority.end() == End::Low && drain_time * 2 > self.spec.slo {
            drain_time
        } else {
            mean.min(drain_time + self.expected(self.batch_size))
        }
    }

    fn state(&mut self, queueing: Span, now: Timestamp) -> ModuleState {
        let duration = self.request_duration();
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
                .unwrap_or_default(),
            worst_latency: Span::from_micros(worst as u64).max(duration),
            input_rate: self.metrics.first_arrival_at.map_or(0.0, |first_arrival_at| {
                self.metrics.present.rate(now, first_arrival_at)
            }),
            throughput: self.throughput(),
            workers: self.workers.up() as f64 * self.metrics.share,
            items_per_request: self.metrics.demand,
            fan_out: self.metrics.fan_out.summary(),
            cost_limit: self.metrics.cost_limit.limit(),
            duration_ratio: self.workers.ratio(),
        }
    }

    /// After something was heard: the way ahead, and the batch size that fits this module's share of the SLO. Done at
    /// ticks, once for all that was heard in between: the outlook draws thousands of waits for every path.
    fn update_plans(&mut self) {
        self.downstream_estimate = self.planner.downstream_estimate();
        self.batch_size = batch_size(
            &self.spec,
            &self.planner,
            &mut self.joint_batching,
            self.workers.ratio(),
        );
    }
}

/// The batch size that a module aims at.
pub(super) fn batch_size(
    spec: &ModuleSpec,
    planner: &StatePlanner,
    joint_batching: &mut JointBatching,
    ratio: f64,
) -> u32 {
    let mut together = || {
        let sizes = joint_batching.batch_sizes(&spec.peers, planner, spec.pool == Pool::Own);
        sizes.get(spec.id.index()).copied()
    };
    match spec.policy.sizes() {
        Sizing::Together if let Some(size) = together() => size,
        // A slow device has less of the profile's time in the same share.
        _ => spec
            .profile
            .batch_size(&spec.batch, planner.fair_share().scale(1.0 / ratio.max(1e-3))),
    }
}
