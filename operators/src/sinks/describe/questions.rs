//! Questions that wait for a model: which one is asked next, which are tried again and which are given up. All decisions are pure:
//! the time is an argument.
//!
//! The newest question goes first, so that descriptions are of now however many incidents there are; where the queue is full, the
//! oldest question makes room.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::budget::{Budget, Usage};

/// Attempts of a question that the server fails on.
const MAX_TRIES: u32 = 3;

/// Failures of the server in a row from which on it is left alone for a while.
const BREAKER_FAILURES: u32 = 3;

/// The first pause of a server that fails, and the longest; each is twice as long as the one before.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const MAX_PAUSE: Duration = Duration::from_secs(60);

/// Longest wait that a server may ask for.
const MAX_LIMITED: Duration = Duration::from_secs(10 * 60);

/// Span of the limit of requests.
const MINUTE: Duration = Duration::from_secs(60);

/// A moment of decision.
#[derive(Debug, Clone, Copy)]
pub(super) struct Now {
    /// Time since the sink was opened, by a clock that never goes back.
    pub(super) since_start: Duration,
    /// Milliseconds since 1970 (UTC), for the days of the budget.
    pub(super) utc_ms: u64,
}

/// Bounds of the questions of a sink.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Maximum number of queued questions.
    pub(super) queue: usize,
    /// Requests that begin within a minute; `None`: any number.
    pub(super) per_minute: Option<usize>,
    /// Age from which on a question is given up.
    pub(super) give_up_after: Duration,
}

/// A question, with what became of it so far.
#[derive(Debug)]
pub(super) struct Question<T> {
    /// Position among all questions; the newest has the highest.
    number: u64,
    since: Duration,
    due: Duration,
    tries: u32,
    pub(super) subject: T,
}

/// Next step of a thread that asks.
#[derive(Debug)]
pub(super) enum Next<T> {
    /// Asks this question now.
    Ask(Question<T>),
    /// Nothing is to be asked for that time, unless a question or an answer comes.
    Wait(Duration),
}

/// Result of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Reply {
    /// The model answered as it was asked to.
    Answered(Usage),
    /// The model answered something else, for this reason.
    Wrong(Usage, String),
    /// No answer came in time.
    TimedOut(String),
    /// The server takes no request for that time.
    Limited(String, Option<Duration>),
    /// The server was reached, and failed.
    Failed(String),
    /// The server will never answer this question, for this reason.
    Refused(String),
    /// The server was not reached.
    Unreached(String),
}

/// Numbers of the questions by what became of them: `questions = answered + wrong + refused + failed + expired + crowded_out +
/// over_budget + queued`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) questions: u64,
    /// Requests that were sent; a question may need several.
    pub(super) asked: u64,
    pub(super) answered: u64,
    pub(super) wrong: u64,
    pub(super) refused: u64,
    pub(super) failed: u64,
    pub(super) expired: u64,
    pub(super) crowded_out: u64,
    pub(super) over_budget: u64,
    /// Requests without an answer in time.
    pub(super) timed_out: u64,
    /// Requests that the server refused because they were too many.
    pub(super) limited: u64,
    /// Pauses of the server after failures.
    pub(super) pauses: u64,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Questions<T> {
    limits: Limits,
    budget: Budget,
    /// Questions that wait, by number.
    waiting: BTreeMap<u64, Question<T>>,
    next_number: u64,
    in_flight: usize,
    /// Beginnings of the requests of the last minute, the oldest first.
    begun: VecDeque<Duration>,
    limited_until: Duration,
    breaker: Breaker,
    counts: Counts,
    trouble: Option<String>,
    /// Time at which the remaining questions are given up.
    closes_at: Option<Duration>,
}

/// Server that fails again and again: it is left alone, then one request tries it.
#[derive(Debug, Default)]
struct Breaker {
    failures: u32,
    pauses: u32,
    until: Option<Duration>,
}

impl Breaker {
    fn on_alive(&mut self) {
        *self = Self::default();
    }

    /// Returns whether another pause begins.
    fn on_failure(&mut self, now: Duration) -> bool {
        self.failures = self.failures.saturating_add(1);
        if self.failures < BREAKER_FAILURES {
            return false;
        }
        let pause = doubled(self.pauses);
        self.pauses = self.pauses.saturating_add(1);
        self.until = Some(now + pause);
        true
    }
}

/// The first pause, doubled so many times within the bound.
fn doubled(times: u32) -> Duration {
    FIRST_PAUSE.saturating_mul(1 << times.min(16)).min(MAX_PAUSE)
}

impl<T> Questions<T> {
    pub(super) fn new(limits: Limits, budget: Budget) -> Self {
        Self {
            limits,
            budget,
            waiting: BTreeMap::new(),
            next_number: 0,
            in_flight: 0,
            begun: VecDeque::new(),
            limited_until: Duration::ZERO,
            breaker: Breaker::default(),
            counts: Counts::default(),
            trouble: None,
            closes_at: None,
        }
    }

    /// Takes in another question.
    pub(super) fn on_question(&mut self, subject: T, now: Now) {
        self.counts.questions += 1;
        let number = self.next_number;
        self.next_number += 1;
        if self.is_over(now) {
            self.counts.expired += 1;
            return;
        }
        if self.waiting.len() >= self.limits.queue.max(1) {
            self.waiting.pop_first();
            self.counts.crowded_out += 1;
        }
        let question = Question {
            number,
            since: now.since_start,
            due: now.since_start,
            tries: 0,
            subject,
        };
        self.waiting.insert(number, question);
    }

    /// Decides what a thread does next.
    pub(super) fn next(&mut self, now: Now) -> Next<T> {
        self.give_up_old(now);
        let at = now.since_start;
        if let Some(until) = self.breaker.until {
            if at < until {
                return Next::Wait(until - at);
            }
            // One request tries the server.
            if self.in_flight > 0 {
                return Next::Wait(Duration::MAX);
            }
        }
        if at < self.limited_until {
            return Next::Wait(self.limited_until - at);
        }
        if let Some(wait) = self.wait_of_minute(at) {
            return Next::Wait(wait);
        }
        let is_due = |question: &&Question<T>| question.due <= at;
        let Some(number) = self
            .waiting
            .values()
            .rev()
            .find(is_due)
            .map(|question| question.number)
        else {
            let due = self.waiting.values().map(|question| question.due).min();
            return Next::Wait(due.map_or(Duration::MAX, |due| due.saturating_sub(at)));
        };
        if !self.budget.allows(self.in_flight, now.utc_ms) {
            // Nothing of it is left before the next day.
            self.counts.over_budget += self.waiting.len() as u64;
            self.waiting.clear();
            return Next::Wait(Duration::MAX);
        }
        let Some(question) = self.waiting.remove(&number) else {
            return Next::Wait(Duration::ZERO);
        };
        self.in_flight += 1;
        self.counts.asked += 1;
        if self.limits.per_minute.is_some() {
            self.begun.push_back(at);
        }
        Next::Ask(question)
    }

    /// Takes in the result of a question.
    pub(super) fn on_reply(&mut self, question: Question<T>, reply: &Reply, now: Now) {
        self.in_flight = self.in_flight.saturating_sub(1);
        let usage = match reply {
            Reply::Answered(usage) | Reply::Wrong(usage, _) => *usage,
            _ => Usage::default(),
        };
        self.budget.settle(usage, now.utc_ms);
        match reply {
            Reply::Answered(_) => self.counts.answered += 1,
            Reply::Wrong(..) => self.counts.wrong += 1,
            Reply::Refused(_) => self.counts.refused += 1,
            Reply::TimedOut(_) => self.counts.timed_out += 1,
            Reply::Limited(..) => self.counts.limited += 1,
            Reply::Failed(_) | Reply::Unreached(_) => {}
        }
        self.judge_server(reply, now.since_start);
        match reply {
            Reply::Answered(_) | Reply::Wrong(..) | Reply::Refused(_) => {}
            // It tells nothing of the question.
            Reply::Limited(..) | Reply::Unreached(_) => self.ask_again(question, Duration::ZERO, now),
            Reply::TimedOut(_) | Reply::Failed(_) => {
                let tries = question.tries + 1;
                if tries >= MAX_TRIES {
                    self.counts.failed += 1;
                } else {
                    let wait = doubled(tries - 1);
                    self.ask_again(Question { tries, ..question }, wait, now);
                }
            }
        }
    }

    /// Decides whether the server is left alone, and for how long.
    fn judge_server(&mut self, reply: &Reply, now: Duration) {
        match reply {
            Reply::Answered(_) | Reply::Wrong(..) => {
                self.breaker.on_alive();
                self.trouble = None;
            }
            Reply::Refused(reason) => {
                self.breaker.on_alive();
                self.trouble = Some(reason.clone());
            }
            Reply::Limited(reason, wait) => {
                self.breaker.on_alive();
                let wait = wait.unwrap_or(FIRST_PAUSE).min(MAX_LIMITED);
                self.limited_until = self.limited_until.max(now + wait);
                self.trouble = Some(reason.clone());
            }
            Reply::TimedOut(reason) | Reply::Failed(reason) | Reply::Unreached(reason) => {
                if self.breaker.on_failure(now) {
                    self.counts.pauses += 1;
                    self.trouble = Some(reason.clone());
                }
            }
        }
    }

    /// Puts a question back in its place, if there is room beside newer ones.
    fn ask_again(&mut self, question: Question<T>, wait: Duration, now: Now) {
        if self.is_over(now) {
            self.counts.expired += 1;
            return;
        }
        let due = now.since_start + wait;
        self.waiting.insert(question.number, Question { due, ..question });
        if self.waiting.len() > self.limits.queue.max(1) {
            self.waiting.pop_first();
            self.counts.crowded_out += 1;
        }
    }

    fn give_up_old(&mut self, now: Now) {
        let is_over = self.is_over(now);
        let age = self.limits.give_up_after;
        let before = self.waiting.len();
        self.waiting
            .retain(|_, question| !is_over && now.since_start.saturating_sub(question.since) < age);
        self.counts.expired += (before - self.waiting.len()) as u64;
    }

    /// Time until the limit of requests has room for another one; `None`: it has room.
    fn wait_of_minute(&mut self, now: Duration) -> Option<Duration> {
        let max = self.limits.per_minute?;
        while self
            .begun
            .front()
            .is_some_and(|begun| now.saturating_sub(*begun) >= MINUTE)
        {
            self.begun.pop_front();
        }
        let oldest = self.begun.front().filter(|_| self.begun.len() >= max)?;
        Some(MINUTE.saturating_sub(now.saturating_sub(*oldest)))
    }

    /// No question follows. Those that wait are asked for that time, and then given up.
    pub(super) fn close(&mut self, now: Now, patience: Duration) {
        self.closes_at
            .get_or_insert(now.since_start.saturating_add(patience));
    }

    /// True if nothing remains to be asked or answered.
    pub(super) fn is_done(&self) -> bool {
        self.closes_at.is_some() && self.waiting.is_empty() && self.in_flight == 0
    }

    /// True after the time for the last questions.
    pub(super) fn is_over(&self, now: Now) -> bool {
        self.closes_at.is_some_and(|at| now.since_start >= at)
    }

    /// Gives up all questions, also those that are asked now: their answers come too late.
    pub(super) fn give_up(&mut self) {
        self.counts.expired += (self.waiting.len() + self.in_flight) as u64;
        self.waiting.clear();
        self.in_flight = 0;
    }

    pub(super) fn counts(&self) -> Counts {
        self.counts
    }

    pub(super) fn usage(&self) -> Usage {
        self.budget.usage()
    }

    /// Cost so far in millionths of the unit of the prices.
    pub(super) fn cost_millionths(&self) -> u64 {
        self.budget.cost_millionths()
    }

    /// Questions that wait or are asked now.
    pub(super) fn queued(&self) -> usize {
        self.waiting.len() + self.in_flight
    }

    /// Reason why incidents are not described at present.
    pub(super) fn outage(&self, utc_ms: u64) -> Option<String> {
        let spent = self.counts.over_budget > 0 && self.budget.is_spent(self.in_flight, utc_ms);
        let spent = spent.then(|| "the budget of this day (UTC) is spent".to_owned());
        self.trouble.clone().or(spent)
    }
}

#[cfg(test)]
mod tests;
