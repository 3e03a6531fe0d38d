//! What a module measures of itself: rates, delays, waits; and from them its priority, its batch size and the state that
//! it tells.

use std::sync::Arc;

use super::{Module, ModuleEffect, ModuleSpec, Pool};
use crate::dear::Dear;
use crate::depq::End;
use crate::fan_out::FanOut;
use crate::id::StreamId;
use crate::outlook::{ModuleState, Planner, due};
use crate::time::{Span, Timestamp};
use crate::values::{DropRule, Lookahead, Queueing, Sizing};
use crate::waits::Waits;
use crate::window::Window;

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
pub(super) struct Load {
    present: Window,
    smoothed: Window,
    queueing: Window,
    /// This and the next two only where the rule reckons with them.
    just_now: Option<Window>,
    latency: Option<Window>,
    waits: Option<Waits>,
    began: Option<Timestamp>,
    items_per_request: f64,
    /// As above, with those that bring nothing.
    demand: f64,
    brought: u64,
    dear: Dear,
    fan_out: FanOut,
    share: f64,
    published: Option<Timestamp>,
    /// When what streams bring was told last.
    streams_told: Option<Timestamp>,
    /// The queueing delay that was published.
    told: Span,
    telling: Queueing,
}

impl Load {
    /// Weight of a new request in the mean number of items.
    const GAIN: f64 = 0.05;
    /// The same where sizes are planned by it: a plan must not follow every wave.
    const SLOW: f64 = 0.0005;
    /// From so many requests on; before, the mean is that of all.
    const SLOWED: u64 = 2_000;
    /// The least share of its slots that a module is taken to have: it is never quite shut out.
    const SHARE_LEAST: f64 = 0.02;

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
            just_now: matches!(rule, DropRule::Weir(_)).then(|| Window::new(JUST_NOW)),
            latency: matches!(rule, DropRule::Wcl(_)).then(|| Window::new(ahead.window)),
            waits: matches!(rule, DropRule::Pard(_) | DropRule::Weir(_)).then(|| Waits::new(ahead.samples)),
            began: None,
            items_per_request: 1.0,
            demand: 1.0,
            brought: 0,
            dear: Dear::default(),
            fan_out: FanOut::default(),
            share: 1.0,
            published: None,
            streams_told: None,
            told: Span::ZERO,
            telling: ahead.queueing,
        }
    }

    pub(super) fn arrived(&mut self, items: u32, now: Timestamp) {
        self.began.get_or_insert(now);
        self.dear.arrived(items);
        self.present.observe(f64::from(items), now);
        if let Some(just_now) = &mut self.just_now {
            just_now.observe(f64::from(items), now);
        }
        self.smoothed.observe(f64::from(items), now);
        self.items_per_request += Self::GAIN * (f64::from(items) - self.items_per_request);
    }

    /// A request has come, with or without items.
    pub(super) fn brought(&mut self, stream: StreamId, items: u32) {
        self.brought += 1;
        let gain = if self.brought < Self::SLOWED {
            1.0 / self.brought as f64
        } else {
            Self::SLOW
        };
        self.demand += gain * (f64::from(items) - self.demand);
        self.fan_out.brought(stream, items);
    }

    pub(super) fn queued(&mut self, delay: Span, now: Timestamp) {
        self.queueing.observe(delay.micros() as f64, now);
    }

    /// Whether a request that was let go counts as having queued; the paper counts those that joined a batch.
    pub(super) fn counts_vain(&self) -> bool {
        self.telling == Queueing::Present
    }

    /// Whether so many items are too many for one request at present.
    pub(super) fn is_dear(&self, items: u32) -> bool {
        self.dear.limit().is_some_and(|limit| items > limit)
    }

    pub(super) fn waited(&mut self, wait: Span) {
        if let Some(waits) = &mut self.waits {
            waits.observe(wait);
        }
    }

    pub(super) fn left(&mut self, latency: Span, now: Timestamp) {
        if let Some(latencies) = &mut self.latency {
            latencies.observe(latency.micros() as f64, now);
        }
    }

    pub(super) fn share(&mut self, share: f64) {
        if !share.is_nan() {
            self.share = share.clamp(Self::SHARE_LEAST, 1.0);
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
            .scale((self.load.items_per_request / at_once).max(1.0))
    }

    /// Items a second that the module can do beside the others on its slots, `T_m`.
    pub(super) fn throughput(&self) -> f64 {
        let a_slot = f64::from(self.batch_size) / self.expected(self.batch_size).as_secs_f64().max(1e-6);
        a_slot * self.workers.up() as f64 * self.load.share
    }

    /// What came just now over what the module can do.
    pub(super) fn rush(&self, now: Timestamp) -> f64 {
        let began = self.load.began.unwrap_or(now);
        let just_now = self.load.just_now.as_ref();
        just_now.map_or(0.0, |just_now| just_now.rate(now, began)) / self.throughput().max(1e-6)
    }

    /// How long what waits will take to run.
    pub(super) fn drain(&self) -> Span {
        Span::from_secs_f64(self.queues.waiting_items() as f64 / self.throughput().max(1e-6))
    }

    pub(super) fn tick(&mut self, now: Timestamp, effects: &mut Vec<ModuleEffect>) {
        if let Some(began) = self.load.began {
            let input = self.load.present.rate(now, began);
            let smoothed = self.load.smoothed.rate(now, began);
            self.priority.reading(input, smoothed, self.throughput());
            self.load.dear.reading(input, self.throughput() * 0.8);
        }
        let promptly = self.load.telling == Queueing::Present;
        let moved = self.queueing(now).micros().abs_diff(self.load.told.micros());
        let news = promptly && moved > self.spec.slo.micros() / NEWS;
        if due(self.load.published, now) || news || self.tells_streams() {
            self.publish(now, effects);
        }
        if std::mem::take(&mut self.stale) {
            self.reconsider();
        }
    }

    /// Where streams differ in what they bring, tells of that alone before the next tick: the rest stays as it was told.
    pub(super) fn tell_streams(&mut self, now: Timestamp, effects: &mut Vec<ModuleEffect>) {
        let fresh = |at: Timestamp| now.since(at) < STREAMS;
        if self.load.streams_told.is_some_and(fresh) || !self.tells_streams() {
            return;
        }
        let state = ModuleState {
            fan_out: self.load.fan_out.told(),
            ..self.planner.state(self.spec.id).clone()
        };
        self.publish_state(state, now, effects);
    }

    /// Whether it has streams to tell of.
    fn tells_streams(&self) -> bool {
        self.is_weir() && self.load.fan_out.varies()
    }

    fn publish(&mut self, now: Timestamp, effects: &mut Vec<ModuleEffect>) {
        let queueing = self.queueing(now);
        self.load.published = Some(now);
        self.load.told = queueing;
        let state = self.state(queueing, now);
        self.publish_state(state, now, effects);
    }

    fn publish_state(&mut self, state: ModuleState, now: Timestamp, effects: &mut Vec<ModuleEffect>) {
        self.load.streams_told = Some(now);
        let state = Arc::new(state);
        self.planner.heard(Arc::clone(&state));
        self.stale = true;
        effects.push(ModuleEffect::Publish(state));
    }

    /// The delay that a request will find here, `q_i`: the recent mean, as far as what waits now bears it out. Where the
    /// queue would be served sooner, the mean speaks of a queue that is gone (and would for a whole window, if modules
    /// before this one let everything go because of it). Where it takes most of the SLO to serve and newcomers stand at
    /// its end, the mean speaks only of those that were served in time.
    fn queueing(&self, now: Timestamp) -> Span {
        let mean = self.load.queueing.weighted_mean(now).unwrap_or(0.0);
        let mean = Span::from_micros(mean as u64);
        if self.load.telling == Queueing::Recent {
            return mean;
        }
        let drain = self.drain();
        if self.priority.end() == End::Low && drain * 2 > self.spec.slo {
            drain
        } else {
            mean.min(drain + self.expected(self.batch_size))
        }
    }

    fn state(&mut self, queueing: Span, now: Timestamp) -> ModuleState {
        let duration = self.request_duration();
        let worst = self
            .load
            .latency
            .as_ref()
            .map_or(0.0, |latency| latency.largest(now));
        ModuleState {
            module: self.spec.id,
            queueing,
            duration,
            waits: self.load.waits.as_mut().map(Waits::sketch).unwrap_or_default(),
            worst: Span::from_micros(worst as u64).max(duration),
            input: self
                .load
                .began
                .map_or(0.0, |began| self.load.present.rate(now, began)),
            throughput: self.throughput(),
            workers: self.workers.up() as f64 * self.load.share,
            items: self.load.demand,
            fan_out: self.load.fan_out.told(),
            dear: self.load.dear.limit(),
            ratio: self.workers.ratio(),
        }
    }

    /// After something was heard: the way ahead, and the batch size that fits this module's share of the SLO. Done at
    /// ticks, once for all that was heard in between: the outlook draws thousands of waits for every path.
    fn reconsider(&mut self) {
        self.outlook = self.planner.outlook();
        self.batch_size = batch_size(&self.spec, &mut self.planner, self.workers.ratio());
    }
}

/// The batch size that a module aims at.
pub(super) fn batch_size(spec: &ModuleSpec, planner: &mut Planner, ratio: f64) -> u32 {
    let mut together = || {
        let sizes = planner.batch_sizes(&spec.peers, spec.pool == Pool::Own);
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
