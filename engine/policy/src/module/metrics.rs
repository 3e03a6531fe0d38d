//! A module's measurements of itself: rates, delays, waits.

use weir_types::{Span, StreamId, Timestamp};

use super::objectives::Objectives;
use crate::baselines::shares::ShareWeight;
use crate::measure::fan_out::FanOut;
use crate::measure::window::Window;
use crate::pard::batch_wait::BatchWaitSamples;
use crate::pard::estimator::{Queueing, WaitTerm};
use crate::strategy::Strategies;
use crate::weir::cost_limit::CostLimit;

/// Window over which the present arrival rate is counted.
const PRESENT: Span = Span::from_secs(1);

/// Window for detecting the end of a burst: about one or two batches.
const JUST_NOW: Span = Span::from_millis(100);

/// Measurements of one module.
#[derive(Debug, Clone)]
pub(super) struct ModuleMetrics {
    pub(super) present: Window,
    pub(super) smoothed: Window,
    pub(super) queueing: Window,
    /// This one and the next two are measured only if the policy's rules use them.
    pub(super) recent: Option<Window>,
    pub(super) latency: Option<Window>,
    pub(super) waits: Option<BatchWaitSamples>,
    pub(super) first_arrival_at: Option<Timestamp>,
    pub(super) items_per_request: f64,
    /// Mean items per request as above, including requests that bring none.
    pub(super) demand: f64,
    pub(super) requests: u64,
    pub(super) cost_limit: CostLimit,
    /// Delays by objective, if requests have objectives of their own.
    pub(super) objectives: Objectives,
    pub(super) fan_out: FanOut,
    pub(super) share: f64,
    pub(super) published: Option<Timestamp>,
    /// Time of the last publication of the items of streams.
    pub(super) fan_out_published: Option<Timestamp>,
    /// The queueing delay that was published.
    pub(super) published_queueing: Span,
    /// The ratio of durations that was published.
    pub(super) published_ratio: f64,
    pub(super) queueing_rule: Queueing,
}

impl ModuleMetrics {
    /// Weight of a new request in the mean number of items.
    const GAIN: f64 = 0.05;
    /// The gain for sizes that are planned by this value: a plan must not follow every wave.
    const SLOW: f64 = 0.0005;
    /// Number of requests from which this gain applies; before, the value is the mean of all requests.
    const SLOWED: u64 = 2_000;
    /// Minimum share of its slots that a module is assumed to have, so that it is never shut out completely.
    const MIN_SHARE: f64 = 0.02;

    /// Creates measurements; `slo` is the graph's objective.
    pub(super) fn new(strategies: &Strategies, slo: Span, share: f64) -> Self {
        let estimator = strategies.estimator;
        let by_latency = strategies.estimation().share_weight == ShareWeight::WorstLatency;
        let by_waits = estimator.wait == WaitTerm::Quantile;
        let mut metrics = Self {
            present: Window::new(PRESENT),
            smoothed: Window::new(estimator.window),
            queueing: Window::new(estimator.window),
            recent: strategies.slack.map(|_| Window::new(JUST_NOW)),
            latency: by_latency.then(|| Window::new(estimator.window)),
            waits: by_waits.then(|| BatchWaitSamples::new(estimator.samples)),
            first_arrival_at: None,
            items_per_request: 1.0,
            demand: 1.0,
            requests: 0,
            cost_limit: CostLimit::default(),
            objectives: Objectives::new(slo, estimator.window, by_waits.then_some(estimator.samples)),
            fan_out: FanOut::default(),
            share: 1.0,
            published: None,
            fan_out_published: None,
            published_queueing: Span::ZERO,
            published_ratio: 1.0,
            queueing_rule: estimator.reported,
        };
        metrics.set_share(share);
        metrics
    }

    /// Switches to other strategies: quantities that they measure differently start again, and the state is
    /// published soon.
    pub(super) fn on_strategies(&mut self, before: &Strategies, strategies: &Strategies) {
        let (old, estimator) = (before.estimator, strategies.estimator);
        let same_window = old.window == estimator.window;
        let fresh = Self::new(strategies, self.objectives.graph(), self.share);
        if !same_window {
            self.smoothed = fresh.smoothed;
            self.queueing = fresh.queueing;
        }
        if !same_window || self.latency.is_some() != fresh.latency.is_some() {
            self.latency = fresh.latency;
        }
        if self.recent.is_some() != fresh.recent.is_some() {
            self.recent = fresh.recent;
        }
        if old.samples != estimator.samples || self.waits.is_some() != fresh.waits.is_some() {
            self.waits = fresh.waits;
        }
        if strategies.cost_limit.is_none() {
            self.cost_limit = fresh.cost_limit;
        }
        self.objectives.measure_by(&fresh.objectives);
        self.queueing_rule = fresh.queueing_rule;
        (self.published, self.fan_out_published) = (None, None);
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

    /// Records a request, with or without items.
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

    /// Records the queueing delay of a request with objective `slo`.
    pub(super) fn on_queued(&mut self, slo: Span, delay: Span, now: Timestamp) {
        self.objectives.on_queued(slo, delay, now);
        self.queueing.observe(delay.micros() as f64, now);
    }

    /// Whether a dropped request counts as having queued; the paper only counts requests that joined a batch.
    pub(super) fn counts_dropped(&self) -> bool {
        self.queueing_rule == Queueing::Present
    }

    /// Whether a request has too many items at present.
    pub(super) fn exceeds_cost_limit(&self, items: u32) -> bool {
        self.cost_limit.limit().is_some_and(|limit| items > limit)
    }

    /// Records the batch wait of a request with objective `slo`.
    pub(super) fn on_batch_wait(&mut self, slo: Span, wait: Span) {
        self.objectives.on_batch_wait(slo, wait);
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
