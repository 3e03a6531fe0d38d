//! Delays of requests by their latency objective, and the tightest objective in use. Nothing is kept while
//! all requests have the graph's objective.

use weir_types::{Span, Timestamp};

use crate::measure::window::Window;
use crate::pard::batch_wait::BatchWaitSamples;
use crate::pard::state::ObjectiveState;

/// Maximum number of objectives that are measured separately; further ones are measured together with all.
const MAX_OBJECTIVES: usize = 16;

/// Time for which an objective counts after its last request; batches are sized for it meanwhile.
const MEMORY: Span = Span::from_secs(30);

/// Requests of one objective.
#[derive(Debug, Clone)]
struct Objective {
    slo: Span,
    last_at: Timestamp,
    queueing: Window,
    waits: Option<BatchWaitSamples>,
}

/// All objectives of a module's requests.
#[derive(Debug, Clone)]
pub(super) struct Objectives {
    graph: Span,
    /// Window over which queueing delays are averaged.
    window: Span,
    /// Number of recent waits that are kept for each objective; `None`: waits are not measured.
    samples: Option<usize>,
    /// Objectives in ascending order; empty until a request has another one than the graph's.
    all: Vec<Objective>,
}

impl Objectives {
    pub(super) fn new(graph: Span, window: Span, samples: Option<usize>) -> Self {
        Self {
            graph,
            window,
            samples,
            all: Vec::new(),
        }
    }

    /// The objective of the graph.
    pub(super) fn graph(&self) -> Span {
        self.graph
    }

    /// Measures with the window and samples of `other` from now on; measurements with other parameters start
    /// again.
    pub(super) fn measure_by(&mut self, other: &Self) {
        for objective in &mut self.all {
            if self.window != other.window {
                objective.queueing = Window::new(other.window);
            }
            if self.samples != other.samples {
                objective.waits = other.samples.map(BatchWaitSamples::new);
            }
        }
        (self.window, self.samples) = (other.window, other.samples);
    }

    /// A request has arrived.
    pub(super) fn on_arrived(&mut self, slo: Span, now: Timestamp) {
        if self.all.is_empty() && slo == self.graph {
            return;
        }
        match self.place(slo) {
            Ok(place) => self.all[place].last_at = now,
            Err(_) => self.add(slo, now),
        }
    }

    fn place(&self, slo: Span) -> Result<usize, usize> {
        self.all.binary_search_by_key(&slo, |objective| objective.slo)
    }

    fn add(&mut self, slo: Span, now: Timestamp) {
        if self.all.len() >= MAX_OBJECTIVES {
            self.all.retain(|objective| now.since(objective.last_at) < MEMORY);
        }
        let (Err(place), true) = (self.place(slo), self.all.len() < MAX_OBJECTIVES) else {
            return;
        };
        let objective = Objective {
            slo,
            last_at: now,
            queueing: Window::new(self.window),
            waits: self.samples.map(BatchWaitSamples::new),
        };
        self.all.insert(place, objective);
    }

    /// Tightest objective of recent requests; the graph's if no request has another one.
    pub(super) fn tightest(&self, now: Timestamp) -> Span {
        let mut recent = self
            .all
            .iter()
            .filter(|objective| now.since(objective.last_at) < MEMORY);
        recent.next().map_or(self.graph, |objective| objective.slo)
    }

    /// Whether requests have different objectives.
    pub(super) fn differ(&self) -> bool {
        self.all.len() > 1
    }

    fn get_mut(&mut self, slo: Span) -> Option<&mut Objective> {
        let place = self.place(slo).ok()?;
        self.all.get_mut(place)
    }

    pub(super) fn on_queued(&mut self, slo: Span, delay: Span, now: Timestamp) {
        if let Some(objective) = self.get_mut(slo) {
            objective.queueing.observe(delay.micros() as f64, now);
        }
    }

    pub(super) fn on_batch_wait(&mut self, slo: Span, wait: Span) {
        if let Some(waits) = self.get_mut(slo).and_then(|objective| objective.waits.as_mut()) {
            waits.observe(wait);
        }
    }

    /// Recent mean queueing delay and waits for each objective, if requests differ in it.
    pub(super) fn states(&mut self, now: Timestamp) -> Vec<ObjectiveState> {
        if !self.differ() {
            return Vec::new();
        }
        let recent = |objective: &&mut Objective| now.since(objective.last_at) < MEMORY;
        let state = |objective: &mut Objective| {
            let mean = objective.queueing.weighted_mean(now).unwrap_or(0.0);
            ObjectiveState {
                slo: objective.slo,
                queueing_delay: Span::from_micros(mean as u64),
                waits: objective
                    .waits
                    .as_mut()
                    .map(BatchWaitSamples::sketch)
                    .unwrap_or_default(),
            }
        };
        self.all.iter_mut().filter(recent).map(state).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Span {
        Span::from_millis(ms)
    }

    fn objectives() -> Objectives {
        Objectives::new(ms(400), Span::from_secs(5), Some(100))
    }

    #[test]
    fn nothing_is_kept_while_all_requests_have_the_objective_of_the_graph() {
        let mut objectives = objectives();
        objectives.on_arrived(ms(400), Timestamp::ZERO);
        objectives.on_queued(ms(400), ms(10), Timestamp::ZERO);
        assert!(objectives.states(Timestamp::ZERO).is_empty() && !objectives.differ());
        assert_eq!(objectives.tightest(Timestamp::ZERO), ms(400));
    }

    #[test]
    fn the_tightest_objective_counts_while_its_requests_come() {
        let mut objectives = objectives();
        objectives.on_arrived(ms(150), Timestamp::ZERO);
        let later = Timestamp::ZERO + MEMORY;
        objectives.on_arrived(ms(2_000), later);
        assert_eq!(objectives.tightest(later.saturating_sub(ms(1))), ms(150));
        assert_eq!(objectives.tightest(later), ms(2_000));
    }

    #[test]
    fn each_objective_has_its_own_delay_and_waits() {
        let (mut objectives, now) = (objectives(), Timestamp::ZERO + ms(1_000));
        for (slo, delay) in [(150, 20), (2_000, 700)] {
            objectives.on_arrived(ms(slo), now);
            objectives.on_queued(ms(slo), ms(delay), now);
            objectives.on_batch_wait(ms(slo), ms(delay));
        }
        let states = objectives.states(now);
        let delays: Vec<(Span, Span)> = states
            .iter()
            .map(|state| (state.slo, state.queueing_delay))
            .collect();
        assert_eq!(delays, [(ms(150), ms(20)), (ms(2_000), ms(700))]);
        assert!(states[0].waits.max() < states[1].waits.max());
    }

    #[test]
    fn so_many_objectives_are_distinguished_and_room_is_made_of_those_that_are_gone() {
        let mut objectives = objectives();
        for slo in 1..=40 {
            objectives.on_arrived(ms(slo), Timestamp::ZERO);
        }
        assert_eq!(objectives.states(Timestamp::ZERO).len(), MAX_OBJECTIVES);
        let later = Timestamp::ZERO + MEMORY;
        objectives.on_arrived(ms(1), later);
        objectives.on_arrived(ms(40), later);
        assert_eq!(objectives.tightest(later), ms(1));
        assert_eq!(objectives.states(later).len(), 2);
    }
}
