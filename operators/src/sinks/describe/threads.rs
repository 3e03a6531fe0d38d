//! Threads that ask, one request each at a time or with a model of their own, and what they share.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use weir_flow::{Description, SinkError};

use super::answers::Answer;
use super::budget::Budget;
use super::keys::{Config, ModelFolder};
use super::local::LocalModel;
use super::questions::{Next, Now, Question, Questions, Reply};
use super::server::Server;
use super::subject::Subject;

/// Longest wait of a thread, so that a question whose time is over is counted soon.
const MAX_WAIT: Duration = Duration::from_secs(1);

/// Added to the niceness of the thread of a model: a thread at 10 has about a tenth of the time of one at 0 where both want the same core.
#[cfg(target_os = "linux")]
const NICENESS: i32 = 10;

/// Descriptions that the engine has not taken yet.
const MAX_DESCRIPTIONS: usize = 1_024;

/// See the module. The threads end some time after it is dropped: at the latest with their request.
pub(super) struct Threads {
    shared: Arc<Shared>,
    patience: Duration,
}

struct Shared {
    state: Mutex<State>,
    /// Notified when there is a question, an answer or an end.
    changed: Condvar,
    began: Instant,
}

struct State {
    questions: Questions<Subject>,
    /// Descriptions for other sinks; the engine takes them twice a second.
    descriptions: Vec<Description>,
    /// True once late answers are dropped.
    is_closed: bool,
}

impl Threads {
    fn new(config: &Config) -> Self {
        let budget = Budget::new(config.day, config.prices, config.chat.max_tokens);
        Self {
            shared: Arc::new(Shared {
                state: Mutex::new(State {
                    questions: Questions::new(config.limits, budget),
                    descriptions: Vec::new(),
                    is_closed: false,
                }),
                changed: Condvar::new(),
                began: instant(),
            }),
            patience: config.finish,
        }
    }

    /// Starts as many threads as there may be requests.
    ///
    /// # Errors
    /// The machine gives no thread.
    pub(super) fn with_server(config: &Arc<Config>, server: Server) -> Result<Self, SinkError> {
        let threads = Self::new(config);
        let server = Arc::new(server);
        for number in 0..config.concurrency.max(1) {
            let (shared, server, owned) = (
                Arc::clone(&threads.shared),
                Arc::clone(&server),
                Arc::clone(config),
            );
            start(config, number, move || {
                shared.run(&owned, |subject| server.ask(subject));
            })?;
        }
        Ok(threads)
    }

    /// Starts a thread that opens the model and runs it. Questions wait until it is open; if it cannot be opened, they are refused.
    ///
    /// # Errors
    /// The machine gives no thread.
    pub(super) fn with_model(config: &Arc<Config>, folder: ModelFolder) -> Result<Self, SinkError> {
        let threads = Self::new(config);
        let (shared, owned) = (Arc::clone(&threads.shared), Arc::clone(config));
        start(config, 0, move || {
            // Before the model is opened: threads of the runtime take over the priority.
            lower_priority();
            match LocalModel::open(&owned, &folder) {
                Ok(model) => shared.run_model(model, &owned),
                Err(error) => {
                    tracing::error!("describe: {}: {}", owned.backend.shown(), error.reason);
                    shared.run(&owned, |_| (Reply::Refused(error.reason.clone()), None));
                }
            }
        })?;
        Ok(threads)
    }

    /// Hands a question over.
    pub(super) fn push(&self, subject: Subject) {
        let now = self.shared.now();
        self.shared.lock().questions.on_question(subject, now);
        self.shared.changed.notify_one();
    }

    pub(super) fn take_descriptions(&self) -> Vec<Description> {
        std::mem::take(&mut self.shared.lock().descriptions)
    }

    /// Counts by name, as reports have them.
    pub(super) fn counts(&self) -> BTreeMap<&'static str, u64> {
        let state = self.shared.lock();
        let (counts, usage) = (state.questions.counts(), state.questions.usage());
        [
            ("questions", counts.questions),
            ("asked", counts.asked),
            ("answered", counts.answered),
            ("wrong", counts.wrong),
            ("refused", counts.refused),
            ("failed", counts.failed),
            ("expired", counts.expired),
            ("crowded_out", counts.crowded_out),
            ("over_budget", counts.over_budget),
            ("timed_out", counts.timed_out),
            ("limited", counts.limited),
            ("pauses", counts.pauses),
            ("queued", state.questions.queued() as u64),
            ("tokens_in", usage.input),
            ("tokens_out", usage.output),
            ("price_millionths", state.questions.cost_millionths()),
        ]
        .into()
    }

    pub(super) fn outage(&self) -> Option<String> {
        let now = self.shared.now();
        self.shared.lock().questions.outage(now.utc_ms)
    }

    /// Waits for questions that wait, for a bounded time, and gives up the rest.
    pub(super) fn finish(&self) {
        let mut state = self.shared.lock();
        state.questions.close(self.shared.now(), self.patience);
        self.shared.changed.notify_all();
        while !state.questions.is_done() && !state.questions.is_over(self.shared.now()) {
            let waited = self
                .shared
                .changed
                .wait_timeout(state, Duration::from_millis(100));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.questions.give_up();
        state.is_closed = true;
        drop(state);
        self.shared.changed.notify_all();
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.shared.lock().is_closed = true;
        self.shared.changed.notify_all();
    }
}

impl Shared {
    /// Asks one question at a time.
    fn run(&self, config: &Config, ask: impl Fn(&Subject) -> (Reply, Option<Answer>)) {
        let mut state = self.lock();
        while !state.is_closed {
            match state.questions.next(self.now()) {
                Next::Wait(wait) => {
                    let waited = self.changed.wait_timeout(state, wait.min(MAX_WAIT));
                    state = waited.unwrap_or_else(PoisonError::into_inner).0;
                }
                Next::Ask(question) => {
                    drop(state);
                    let reply = ask(&question.subject);
                    state = self.lock();
                    if !state.is_closed {
                        self.settle(&mut state, config, question, reply);
                    }
                }
            }
        }
    }

    /// Runs a model: questions begin as long as it has room for them.
    fn run_model(&self, mut model: LocalModel, config: &Config) {
        let mut state = self.lock();
        while !state.is_closed {
            let (mut begun, mut wait) = (Vec::new(), MAX_WAIT);
            while model.has_room(begun.len()) {
                match state.questions.next(self.now()) {
                    Next::Ask(question) => begun.push(question),
                    Next::Wait(longest) => {
                        wait = longest.min(MAX_WAIT);
                        break;
                    }
                }
            }
            if begun.is_empty() && model.is_idle() {
                let waited = self.changed.wait_timeout(state, wait);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
                continue;
            }
            drop(state);
            let ended = model.step(begun, &|| self.now().since_start);
            state = self.lock();
            for (question, reply) in ended {
                if !state.is_closed {
                    self.settle(&mut state, config, question, reply);
                }
            }
        }
    }

    /// Takes in the result of a question.
    fn settle(
        &self,
        state: &mut State,
        config: &Config,
        question: Question<Subject>,
        (reply, answer): (Reply, Option<Answer>),
    ) {
        let now = self.now();
        if let Some(answer) = answer
            && state.descriptions.len() < MAX_DESCRIPTIONS
        {
            let described = description(&question.subject, answer, &reply, config, now.utc_ms);
            state.descriptions.push(described);
        }
        let pauses = state.questions.counts().pauses;
        state.questions.on_reply(question, &reply, now);
        report(&reply, state, pauses);
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Now {
        Now {
            since_start: instant().saturating_duration_since(self.began),
            utc_ms: utc_ms(),
        }
    }
}

/// Starts a thread of the sink.
fn start(config: &Config, number: usize, run: impl FnOnce() + Send + 'static) -> Result<(), SinkError> {
    let thread = std::thread::Builder::new().name(format!("weir-describe-{number}"));
    thread.spawn(run).map(drop).map_err(|error| SinkError {
        target: format!("to {}", config.backend.shown()),
        reason: format!("cannot start a thread: {error}"),
    })
}

/// Lowers the priority of the calling thread and of threads that it starts, so that frames come first on a contended core.
fn lower_priority() {
    // Elsewhere niceness is the whole process's.
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::nice(NICENESS) {
        tracing::debug!("the thread of a model keeps its priority: {error}");
    }
}

fn description(
    subject: &Subject,
    answer: Answer,
    reply: &Reply,
    config: &Config,
    time_ms: u64,
) -> Description {
    let (tokens_in, tokens_out) = match reply {
        Reply::Answered(usage) => (usage.input, usage.output),
        _ => (0, 0),
    };
    Description {
        stream: Arc::clone(&subject.stream),
        incident: Arc::clone(&subject.incident),
        of_track: config.per_track,
        model: config.chat.model.as_str().into(),
        text: answer.text.into(),
        fields: answer.fields,
        time_ms,
        tokens_in,
        tokens_out,
    }
}

/// Logs an answer that describes nothing: the first of a kind, then ever fewer of them.
fn report(reply: &Reply, state: &State, pauses_before: u64) {
    let counts = state.questions.counts();
    match reply {
        Reply::Wrong(_, reason) if counts.wrong.is_power_of_two() => {
            tracing::warn!("describe: {reason} (wrong answers so far: {})", counts.wrong);
        }
        Reply::Refused(reason) if counts.refused.is_power_of_two() => {
            tracing::error!("describe: {reason} (refused so far: {})", counts.refused);
        }
        Reply::Limited(reason, _) if counts.limited.is_power_of_two() => {
            tracing::warn!("describe: {reason} (limited so far: {})", counts.limited);
        }
        Reply::TimedOut(reason) | Reply::Failed(reason) | Reply::Unreached(reason)
            if counts.pauses > pauses_before && counts.pauses.is_power_of_two() =>
        {
            tracing::error!("describe: {reason}; questions wait, and one is tried now and then");
        }
        _ => {}
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "what is beyond the engine has no time but the clock's"
)]
fn instant() -> Instant {
    Instant::now()
}

#[expect(
    clippy::disallowed_methods,
    reason = "days of the budget and times of events are UTC"
)]
fn utc_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
