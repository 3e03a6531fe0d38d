//! Unequal instances of one model and the router before them, in virtual time.

use serde::{Deserialize, Serialize};
use thiserror::Error;
use weir_policy::generate::{InstanceSpec, InstanceSpecError, InstanceStats};
use weir_policy::route::{
    Link, MoveCost, Prefix, RouteEffect, RouteEvent, Router, RouterSpec, RouterSpecError, Transfer,
};
use weir_types::{DropReason, InstanceId, SequenceId, Span, Timestamp};

use super::driver::{InstanceDriver, Placed, SequenceNews};
use super::lengths::{LengthRule, Lengths};
use crate::event_queue::EventQueue;

/// Request to a generative model.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct GenerateRequest {
    /// Arrival time since the start of the simulation.
    pub at: Timestamp,
    /// Number of prompt tokens.
    pub prompt: u32,
    /// Number of tokens that are generated after the prompt.
    pub length: u32,
    /// Time from arrival within which the last token must be generated.
    pub objective: Span,
    /// Shared beginning of its prompt, which instances may have cached.
    pub prefix: Option<Prefix>,
    /// Output length that a predictor beside the router expects, in tokens, for [`LengthRule::Given`].
    pub predicted: Option<u32>,
}

impl GenerateRequest {
    /// True length, and predicted length (0: none).
    fn lengths(&self) -> [u32; 2] {
        [self.length, self.predicted.unwrap_or(0)]
    }
}

/// Data that is sent over the link when a sequence migrates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MoveBy {
    /// Numbers of its tokens, whose cache is computed again at the destination.
    TokenIds,
    /// Its key-value cache.
    Cache,
    /// The faster of the two, by link, number of tokens and device.
    Cheaper,
}

/// The link between instances, and what goes over it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct MoveLink {
    /// Link between any two instances.
    pub link: Link,
    /// Data that is sent over the link.
    pub by: MoveBy,
    /// Size of a token's share of the cache, in bytes.
    pub cache_bytes: f64,
}

impl GenerateCluster {
    /// Parameters of the router. If the cheaper transfer is chosen, the router knows the costs of both.
    fn router_spec(&self) -> RouterSpec {
        let known = (self.link.by == MoveBy::Cheaper).then(|| self.link.cost());
        RouterSpec {
            transfer: self.router.transfer.or(known),
            ..self.router
        }
    }
}

impl MoveLink {
    /// Numbers of tokens over 10 Gb/s, as in the paper (4.1). A cache as of a model of 8 B parameters with eight heads of
    /// keys and values in 16 bits.
    pub const TOKEN_IDS: Self = Self {
        link: Link {
            latency: Span::from_millis(1),
            bandwidth_bps: 1e10,
        },
        by: MoveBy::TokenIds,
        cache_bytes: 131_072.0,
    };

    fn cost(&self) -> MoveCost {
        MoveCost {
            link: self.link,
            cache_bytes: self.cache_bytes,
        }
    }

    /// Time for which a sequence with `[tokens, cached tokens]` is on the link, and the number of tokens that
    /// are cached at its destination.
    fn carry(&self, tokens: [u32; 2], to: &InstanceSpec) -> (Span, u32) {
        let cost = self.cost();
        let by = match self.by {
            MoveBy::TokenIds => Transfer::TokenIds,
            MoveBy::Cache => Transfer::Cache,
            MoveBy::Cheaper => cost.cheaper(tokens, to),
        };
        cost.carry(by, tokens)
    }
}

/// Instances, their router and their link.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GenerateCluster {
    /// Instances by id.
    pub instances: Vec<InstanceSpec>,
    /// Rule that routes requests to instances.
    pub router: RouterSpec,
    /// Link over which sequences migrate.
    pub link: MoveLink,
    /// Rule that predicts output lengths.
    pub lengths: LengthRule,
    /// Expected output length in tokens before any sequence has finished.
    pub prior_length: u32,
    /// Seed of random draws for lengths.
    pub seed: u64,
}

/// Reason why the cluster is invalid.
#[derive(Debug, Error)]
pub enum GenerateClusterError {
    /// The bounds of an instance do not fit together.
    #[error(transparent)]
    Instance(#[from] InstanceSpecError),
    /// The router's parameters are invalid.
    #[error(transparent)]
    Router(#[from] RouterSpecError),
}

/// Outcome of a request.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct GenerateOutcome {
    /// Time from its arrival to its first token.
    pub first: Option<Span>,
    /// Time from its arrival to its last token.
    pub last: Option<Span>,
    /// Reason of its drop; `None`: it was not dropped.
    pub dropped: Option<DropReason>,
    /// Time to its last token, as estimated when it was routed.
    pub estimate: Span,
    /// Output length in tokens that was expected at that time.
    pub expected: u32,
    /// Number of tokens that it generated.
    pub generated: u32,
    /// Number of migrations.
    pub moves: u32,
}

/// Outcomes of all requests and statistics of all instances.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GenerateResult {
    /// Outcome of each request, in the order of arrival.
    pub requests: Vec<GenerateOutcome>,
    /// Statistics of each instance, by id.
    pub instances: Vec<InstanceStats>,
    /// Time at which the last request ended.
    pub end: Timestamp,
}

impl GenerateResult {
    /// Requests that had their last token in time.
    #[must_use]
    pub fn in_time(&self, requests: &[GenerateRequest]) -> usize {
        let pairs = self.requests.iter().zip(requests);
        pairs
            .filter(|(outcome, request)| outcome.last.is_some_and(|last| last <= request.objective))
            .count()
    }
}

/// Scheduled event of the cluster.
#[derive(Debug, Clone, Copy)]
enum Due {
    /// A request arrives, by its index.
    Arrives(usize),
    /// The step of an instance is done.
    Stepped(usize),
    /// Instances report their measurements to the router.
    Reports,
    /// A migrating sequence reaches its destination.
    Moved(usize),
}

/// A request on its way.
#[derive(Debug, Clone, Copy, Default)]
struct Open {
    /// Instance that it is on or migrates to.
    instance: usize,
    generated: u32,
    cached: u32,
    is_open: bool,
}

/// Predictor of the number of tokens that a request still generates, by its index and the number that it has
/// generated.
pub type Predict<'a> = &'a dyn Fn(usize, u32) -> Option<u32>;

struct World<'a> {
    cluster: &'a GenerateCluster,
    requests: &'a [GenerateRequest],
    predict: Predict<'a>,
    drivers: Vec<InstanceDriver>,
    router: Router,
    lengths: Lengths,
    open: Vec<Open>,
    outcomes: Vec<GenerateOutcome>,
    queue: EventQueue<Due>,
    /// Instances that something happened to.
    touched: Vec<usize>,
    effects: Vec<RouteEffect>,
    news: Vec<SequenceNews>,
    /// Requests that have not ended.
    left: usize,
    now: Timestamp,
}

/// Runs requests, ascending by arrival, through a cluster until all of them have ended.
///
/// # Errors
/// [`GenerateClusterError`] where bounds of an instance or parameters of the router do not fit.
pub fn simulate_cluster(
    cluster: &GenerateCluster,
    requests: &[GenerateRequest],
) -> Result<GenerateResult, GenerateClusterError> {
    simulate_predicted(cluster, requests, &|_, _| None)
}

/// The same with a predictor beside the router that reads the text so far. If it returns `None`, the cluster's
/// rule for lengths applies.
///
/// # Errors
/// As [`simulate_cluster`].
pub fn simulate_predicted(
    cluster: &GenerateCluster,
    requests: &[GenerateRequest],
    predict: Predict<'_>,
) -> Result<GenerateResult, GenerateClusterError> {
    let drivers: Result<Vec<_>, _> = cluster
        .instances
        .iter()
        .cloned()
        .map(InstanceDriver::new)
        .collect();
    let mut world = World {
        cluster,
        requests,
        predict,
        drivers: drivers?,
        router: Router::new(cluster.router_spec(), cluster.instances.clone())?,
        lengths: Lengths::new(cluster.lengths, cluster.prior_length, cluster.seed),
        open: vec![Open::default(); requests.len()],
        outcomes: vec![GenerateOutcome::default(); requests.len()],
        queue: EventQueue::default(),
        touched: Vec::new(),
        effects: Vec::new(),
        news: Vec::new(),
        left: requests.len(),
        now: Timestamp::ZERO,
    };
    world.run();
    Ok(GenerateResult {
        requests: world.outcomes,
        instances: world
            .drivers
            .iter()
            .map(|driver| driver.instance().stats())
            .collect(),
        end: world.now,
    })
}

impl World<'_> {
    fn run(&mut self) {
        for (number, request) in self.requests.iter().enumerate() {
            self.queue.push_in_order(request.at, Due::Arrives(number));
        }
        self.queue.push(Timestamp::ZERO, Due::Reports);
        while self.left > 0
            && let Some((at, due)) = self.queue.pop()
        {
            self.now = at;
            match due {
                Due::Arrives(number) => self.on_arrives(number),
                Due::Stepped(instance) => self.on_stepped(instance),
                Due::Reports => self.on_reports(),
                Due::Moved(number) => self.on_moved(number),
            }
            self.settle();
        }
    }

    fn route(&mut self, event: RouteEvent) {
        self.router.step(event, self.now, &mut self.effects);
        let mut effects = std::mem::take(&mut self.effects);
        for effect in effects.drain(..) {
            self.carry_out(effect);
        }
        self.effects = effects;
    }

    fn carry_out(&mut self, effect: RouteEffect) {
        match effect {
            RouteEffect::Route {
                sequence,
                to,
                estimate,
                ..
            } => {
                let number = sequence.index();
                self.outcomes[number].estimate = estimate;
                self.open[number].instance = to.index();
                self.open[number].cached = 0;
                self.place(number);
            }
            RouteEffect::Move {
                sequence, from, to, ..
            } => {
                self.open[sequence.index()].instance = to.index();
                self.outcomes[sequence.index()].moves += 1;
                self.drivers[from.index()].reassign(sequence, to);
                self.touched.push(from.index());
            }
            RouteEffect::Drop {
                sequence,
                from,
                reason,
            } => {
                if let Some(from) = from {
                    self.drivers[from.index()].cancel(sequence);
                    self.touched.push(from.index());
                }
                self.end(sequence.index(), Some(reason));
            }
        }
    }

    /// Places a request on the instance for which it is routed.
    fn place(&mut self, number: usize) {
        let (open, request) = (self.open[number], &self.requests[number]);
        let due = match self.cluster.router.rule.waits_by_deadline() {
            true => request.at + request.objective,
            false => Timestamp::ZERO,
        };
        self.drivers[open.instance].place(Placed {
            sequence: SequenceId(number as u64),
            prompt: request.prompt,
            generated: open.generated,
            cached: open.cached,
            length: request.length,
            due,
            prefix: request.prefix,
        });
        self.touched.push(open.instance);
    }

    fn end(&mut self, number: usize, dropped: Option<DropReason>) {
        if !std::mem::replace(&mut self.open[number].is_open, false) {
            return;
        }
        self.left -= 1;
        let outcome = &mut self.outcomes[number];
        outcome.dropped = dropped;
        outcome.generated = self.open[number].generated;
        if dropped.is_none() {
            outcome.last = Some(self.now - self.requests[number].at);
        }
    }

    fn on_arrives(&mut self, number: usize) {
        let (sequence, request) = (SequenceId(number as u64), self.requests[number]);
        self.open[number].is_open = true;
        let predicted = (self.predict)(number, 0).map(|rest| rest.max(1));
        let expected = predicted.unwrap_or_else(|| self.lengths.rest(sequence, request.lengths(), 0));
        self.outcomes[number].expected = expected;
        self.route(RouteEvent::Arrived {
            sequence,
            prompt: request.prompt,
            expected,
            deadline: request.at + request.objective,
            prefix: request.prefix,
        });
    }

    fn on_stepped(&mut self, instance: usize) {
        let mut news = std::mem::take(&mut self.news);
        self.drivers[instance].finish_step(self.now, &mut news);
        self.touched.push(instance);
        for news in news.drain(..) {
            self.on_news(news);
        }
        self.news = news;
    }

    fn on_reports(&mut self) {
        for (id, index) in (0..).map(InstanceId).zip(0..self.drivers.len()) {
            let state = self.drivers[index].instance().state();
            self.route(RouteEvent::Reported { instance: id, state });
        }
        let next = self.now + self.cluster.router.report_interval;
        self.queue.push(next, Due::Reports);
    }

    fn on_moved(&mut self, number: usize) {
        if self.open[number].is_open {
            self.place(number);
            let sequence = SequenceId(number as u64);
            self.route(RouteEvent::Moved { sequence });
        }
    }

    fn on_news(&mut self, news: SequenceNews) {
        match news {
            SequenceNews::Generated { sequence, tokens } => {
                let number = sequence.index();
                self.open[number].generated = tokens;
                let request = &self.requests[number];
                if tokens == 1 {
                    self.outcomes[number].first = Some(self.now - request.at);
                }
                if tokens % self.cluster.router.check_tokens == 0 && tokens < request.length {
                    self.on_checked(sequence, tokens);
                }
            }
            SequenceNews::Finished(sequence) => {
                self.lengths.on_finished(self.requests[sequence.index()].length);
                self.on_ended(sequence, None);
            }
            SequenceNews::Dropped(sequence, reason) => self.on_ended(sequence, Some(reason)),
            SequenceNews::Moved {
                sequence,
                generated,
                cached,
                ..
            } => {
                let number = sequence.index();
                let tokens = self.requests[number].prompt + generated;
                let to = &self.cluster.instances[self.open[number].instance];
                let (took, cached) = self.cluster.link.carry([tokens, cached], to);
                self.open[number].generated = generated;
                self.open[number].cached = cached;
                self.queue.push(self.now + took, Due::Moved(number));
            }
        }
    }

    /// A sequence has so many tokens, after which its length is predicted again and it is checked.
    fn on_checked(&mut self, sequence: SequenceId, generated: u32) {
        let number = sequence.index();
        let predicted = (self.predict)(number, generated).map(|rest| rest.max(1));
        if let Some(rest) = predicted {
            self.route(RouteEvent::Predicted {
                sequence,
                total: generated.saturating_add(rest),
            });
        }
        let lengths = self.requests[number].lengths();
        let expected = predicted.unwrap_or_else(|| self.lengths.rest(sequence, lengths, generated));
        self.route(RouteEvent::Progressed {
            sequence,
            generated,
            expected,
        });
    }

    fn on_ended(&mut self, sequence: SequenceId, dropped: Option<DropReason>) {
        let generated = self.open[sequence.index()].generated;
        self.end(sequence.index(), dropped);
        self.route(match dropped {
            None => RouteEvent::Ended { sequence, generated },
            Some(_) => RouteEvent::Dropped { sequence, generated },
        });
    }

    /// Runs all instances that have new events, until none has any.
    fn settle(&mut self) {
        while let Some(instance) = self.touched.pop() {
            let was_idle = self.drivers[instance].step_end().is_none();
            let mut news = std::mem::take(&mut self.news);
            self.drivers[instance].decide(self.now, &mut news);
            for news in news.drain(..) {
                self.on_news(news);
            }
            self.news = news;
            if was_idle && let Some(end) = self.drivers[instance].step_end() {
                self.queue.push(end, Due::Stepped(instance));
            }
        }
    }
}
