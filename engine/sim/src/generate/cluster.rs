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

/// What is asked of a model.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct GenerateRequest {
    /// When it arrives.
    pub at: Timestamp,
    /// Tokens of its prompt.
    pub prompt: u32,
    /// Tokens that are generated after it.
    pub length: u32,
    /// Within which it must have its last token.
    pub objective: Span,
    /// What its prompt begins with.
    pub prefix: Option<Prefix>,
    /// Tokens that a predictor beside the router expects, for [`LengthRule::Given`].
    pub predicted: Option<u32>,
}

impl GenerateRequest {
    /// Its true length, and the one that is predicted.
    fn lengths(&self) -> [u32; 2] {
        [self.length, self.predicted.unwrap_or(0)]
    }
}

/// What goes over the link when a sequence moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MoveBy {
    /// Numbers of its tokens, which are computed again.
    TokenIds,
    /// Its cache.
    Cache,
    /// Whichever takes less, by link, tokens and device.
    Cheaper,
}

/// The link between instances, and what goes over it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct MoveLink {
    /// Between any two.
    pub link: Link,
    /// What goes over it.
    pub by: MoveBy,
    /// Bytes of a token's part of the cache.
    pub cache_bytes: f64,
}

impl GenerateCluster {
    /// The router's parameters: where whichever takes less goes over the link, it knows what that takes.
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

    /// How long a sequence with so many tokens, and so many of them cached, is on it, and what is cached where it goes to.
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
    /// By their ids.
    pub instances: Vec<InstanceSpec>,
    /// Who goes where.
    pub router: RouterSpec,
    /// Over which sequences move.
    pub link: MoveLink,
    /// Where expected lengths come from.
    pub lengths: LengthRule,
    /// Expected length where nothing was seen.
    pub prior_length: u32,
    /// For what is drawn of lengths.
    pub seed: u64,
}

/// Why there is no such cluster.
#[derive(Debug, Error)]
pub enum GenerateClusterError {
    /// An instance.
    #[error(transparent)]
    Instance(#[from] InstanceSpecError),
    /// Its router.
    #[error(transparent)]
    Router(#[from] RouterSpecError),
}

/// What became of a request.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct GenerateOutcome {
    /// From its arrival to its first token.
    pub first: Option<Span>,
    /// From its arrival to its last token.
    pub last: Option<Span>,
    /// Why it was dropped, if it was.
    pub dropped: Option<DropReason>,
    /// How long it should have taken when it was routed.
    pub estimate: Span,
    /// Tokens that it was expected to generate then.
    pub expected: u32,
    /// Tokens that it generated.
    pub generated: u32,
    /// Times that it moved.
    pub moves: u32,
}

/// What came out.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GenerateResult {
    /// By request.
    pub requests: Vec<GenerateOutcome>,
    /// By instance.
    pub instances: Vec<InstanceStats>,
    /// When the last request ended.
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

/// What is due at an instant.
#[derive(Debug, Clone, Copy)]
enum Due {
    /// A request, by its number.
    Arrives(usize),
    /// The step of an instance is done.
    Stepped(usize),
    /// Instances say what they measured.
    Reports,
    /// A sequence that moves is where it goes to.
    Moved(usize),
}

/// A request on its way.
#[derive(Debug, Clone, Copy, Default)]
struct Open {
    /// Where it is or goes to.
    instance: usize,
    generated: u32,
    cached: u32,
    is_open: bool,
}

struct World<'a> {
    cluster: &'a GenerateCluster,
    requests: &'a [GenerateRequest],
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
    let drivers: Result<Vec<_>, _> = cluster
        .instances
        .iter()
        .cloned()
        .map(InstanceDriver::new)
        .collect();
    let mut world = World {
        cluster,
        requests,
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
                reused,
                estimate,
            } => {
                let number = sequence.index();
                self.outcomes[number].estimate = estimate;
                self.open[number].instance = to.index();
                self.open[number].cached = reused;
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

    /// Puts a request onto the instance where it is to be.
    fn place(&mut self, number: usize) {
        let (open, request) = (self.open[number], &self.requests[number]);
        self.drivers[open.instance].place(Placed {
            sequence: SequenceId(number as u64),
            prompt: request.prompt,
            generated: open.generated,
            cached: open.cached,
            length: request.length,
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
        let expected = self.lengths.rest(sequence, request.lengths(), 0);
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
                    self.route(RouteEvent::Progressed {
                        sequence,
                        generated: tokens,
                        expected: self.lengths.rest(sequence, request.lengths(), tokens),
                    });
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

    fn on_ended(&mut self, sequence: SequenceId, dropped: Option<DropReason>) {
        let generated = self.open[sequence.index()].generated;
        self.end(sequence.index(), dropped);
        self.route(RouteEvent::Ended { sequence, generated });
    }

    /// Asks the instances that something happened to, until nothing does.
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
