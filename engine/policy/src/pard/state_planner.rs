//! The state planner (PARD 4.2): derives a module's downstream estimate and budgets from the states that all modules
//! publish about once a second; under the rule `weir`, while fan-out varies, at every tick, and the fan-out alone every 50 ms.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_types::{ModuleId, Span, StreamId, Timestamp, Topology};

use crate::baselines::shares::{ShareWeight, SplitScope, of_objective};
use crate::measure::fan_out::FanOut;
use crate::pard::batch_wait::{QuantileSketch, path_wait_quantile};
use crate::pard::estimator::{Estimation, WaitTerm};
use crate::pard::state::{DownstreamEstimate, ModuleState, ObjectiveEstimate};

/// Keeps the latest state of every module, and derives estimates for what lies downstream of one module.
#[derive(Debug, Clone)]
pub struct StatePlanner {
    module: ModuleId,
    slo: Span,
    estimation: Estimation,
    paths_after: Vec<Vec<ModuleId>>,
    downstream_modules: Vec<ModuleId>,
    paths_through: Vec<Vec<ModuleId>>,
    states: Vec<Arc<ModuleState>>,
    /// Latest fan-out of every module; it is published more often than the rest of the state.
    fan_outs: Vec<Arc<FanOut>>,
    /// Whether some module publishes expected items by stream.
    is_stream_dependent: bool,
    /// Wait quantiles by path after this module; `None`: not computed yet.
    waits: Vec<Option<Span>>,
    /// The same for requests of one objective, by objective and path.
    objective_waits: BTreeMap<(Span, usize), Span>,
    /// This module's share of the SLO by the execution time of one item.
    fair_share: Span,
}

impl StatePlanner {
    /// A planner for `module`; `states` are the initial states by module id.
    #[must_use]
    pub fn new(
        module: ModuleId,
        slo: Span,
        estimation: Estimation,
        topology: &Topology,
        mut states: Vec<ModuleState>,
    ) -> Self {
        // A module without a state counts as taking no time.
        let modules = topology.len().max(module.index() + 1);
        let unknown = |id: usize| ModuleState::initial(ModuleId(id as u32), Span::ZERO);
        states.extend((states.len()..modules).map(unknown));
        let (paths_after, paths_through) = (topology.paths_after(module), topology.paths_through(module));
        let mut downstream_modules: Vec<ModuleId> = paths_after.iter().flatten().copied().collect();
        downstream_modules.sort_unstable();
        downstream_modules.dedup();
        let states: Vec<Arc<ModuleState>> = states.into_iter().map(Arc::new).collect();
        let mut planner = Self {
            module,
            slo,
            estimation,
            downstream_modules,
            fan_outs: states.iter().map(|state| Arc::clone(&state.fan_out)).collect(),
            is_stream_dependent: false,
            waits: vec![None; paths_after.len()],
            objective_waits: BTreeMap::new(),
            paths_after,
            paths_through,
            states,
            fair_share: slo,
        };
        planner.is_stream_dependent = planner.streams_differ();
        planner.fair_share = planner.budgets(slo).0;
        planner
    }

    /// Leaves out optional modules: requests without time for them continue without their results.
    #[must_use]
    pub fn without(mut self, optional: &[ModuleId]) -> Self {
        if optional.is_empty() {
            return self;
        }
        for path in &mut self.paths_after {
            path.retain(|module| !optional.contains(module));
        }
        self.downstream_modules
            .retain(|module| !optional.contains(module));
        self
    }

    /// This module's share of the SLO by the execution time of one item, for choosing a batch size. It is
    /// constant: a share by present durations would be a positive feedback, since larger batches give a
    /// larger share and thereby larger batches.
    #[must_use]
    pub fn fair_share(&self) -> Span {
        self.fair_share
    }

    /// The same for an objective that is not the graph's.
    pub(crate) fn fair_share_of(&self, slo: Span) -> Span {
        of_objective(self.fair_share, self.slo, slo)
    }

    /// A module (this one included) published its state.
    pub fn on_peer_state(&mut self, state: Arc<ModuleState>) {
        let Some(previous) = self.states.get_mut(state.module.index()) else {
            return;
        };
        let waits_changed = previous.waits != state.waits || previous.disturbance != state.disturbance;
        if waits_changed {
            let paths = self.paths_after.iter().zip(&mut self.waits);
            for (_, wait) in paths.filter(|(path, _)| path.contains(&state.module)) {
                *wait = None;
            }
        }
        if waits_changed || previous.objectives != state.objectives {
            let paths = &self.paths_after;
            self.objective_waits
                .retain(|(_, path), _| !paths[*path].contains(&state.module));
        }
        let (module, fan_out) = (state.module, Arc::clone(&state.fan_out));
        *previous = state;
        self.on_peer_fan_out(module, fan_out);
    }

    /// A module published only its fan-out; the rest of its state is as published last.
    pub fn on_peer_fan_out(&mut self, module: ModuleId, fan_out: Arc<FanOut>) {
        let Some(previous) = self.fan_outs.get_mut(module.index()) else {
            return;
        };
        *previous = fan_out;
        self.is_stream_dependent = self.streams_differ();
    }

    /// Whether some module publishes expected items by stream.
    fn streams_differ(&self) -> bool {
        self.fan_outs.iter().any(|fan_out| fan_out.streams() > 0)
    }

    fn fan_out(&self, module: ModuleId) -> &FanOut {
        &self.fan_outs[module.index()]
    }

    /// Whether expected items differ by stream at some module.
    pub(crate) fn is_stream_dependent(&self) -> bool {
        self.is_stream_dependent
    }

    /// The estimate from the states published so far.
    #[must_use]
    pub fn downstream_estimate(&mut self) -> DownstreamEstimate {
        let (own_budget, budget_up_to_here) = self.budgets(self.slo);
        DownstreamEstimate {
            downstream: self.downstream(None),
            own_budget,
            budget_up_to_here,
            shed_share: self.shed_share(),
            per_stream: self.per_stream(None),
            per_objective: self.per_objective(),
        }
    }

    /// Latency downstream for each objective that a module downstream publishes separately.
    fn per_objective(&mut self) -> Vec<ObjectiveEstimate> {
        let of = |module: &ModuleId| self.state(*module).objectives.iter();
        let mut objectives: Vec<Span> = self
            .downstream_modules
            .iter()
            .flat_map(of)
            .map(|of| of.slo)
            .collect();
        objectives.sort_unstable();
        objectives.dedup();
        let estimate = |slo: Span| ObjectiveEstimate {
            slo,
            downstream: self.downstream(Some(slo)),
            per_stream: self.per_stream(Some(slo)),
        };
        objectives.into_iter().map(estimate).collect()
    }

    /// State that every module published last, by id.
    pub(crate) fn states(&self) -> &[Arc<ModuleState>] {
        &self.states
    }

    /// Fan-out that every module published last, by id.
    pub(crate) fn fan_outs(&self) -> &[Arc<FanOut>] {
        &self.fan_outs
    }

    /// State that a module published last.
    pub(crate) fn state(&self, module: ModuleId) -> &ModuleState {
        &self.states[module.index()]
    }

    /// The State Planner's half of Eq. 3b: `max over paths of [sum q_i + sum d_i + W]`, as the rule has it; of all requests,
    /// or of those with one objective.
    fn downstream(&mut self, slo: Option<Span>) -> Span {
        let mut max_latency = Span::ZERO;
        for path in 0..self.paths_after.len() {
            max_latency = max_latency.max(self.path_latency(path, slo, max_latency));
        }
        max_latency
    }

    /// Latency downstream of each stream, by the items that it is expected to bring to each module; empty if
    /// streams do not differ.
    fn per_stream(&mut self, slo: Option<Span>) -> Vec<Span> {
        let estimator = self.estimation.estimator;
        if estimator.per_stream.is_none() {
            return Vec::new();
        }
        let of = |module: &ModuleId| self.fan_out(*module).streams();
        let streams = self.paths_after.iter().flatten().map(of).max().unwrap_or(0);
        if streams == 0 {
            return Vec::new();
        }
        let waits: Vec<Span> = (0..self.paths_after.len())
            .map(|path| self.path_wait(path, slo))
            .collect();
        let along = |path: &[ModuleId], wait: Span, stream: StreamId| {
            let passes = |module: &ModuleId| {
                let state = self.state(*module);
                self.fan_out(*module)
                    .expected_items(stream)
                    .unwrap_or(state.items_per_request)
                    .min(1.0)
            };
            let passed: f64 = path.iter().map(passes).sum();
            let latency = |module: &ModuleId| {
                let state = self.state(*module);
                let queueing = if estimator.queueing {
                    state.queueing_delay_of(slo)
                } else {
                    Span::ZERO
                };
                let duration = if estimator.execution {
                    state.duration
                } else {
                    Span::ZERO
                };
                (queueing + duration).scale(passes(module))
            };
            let latency: Span = path.iter().map(latency).sum();
            latency + wait.scale(passed / path.len().max(1) as f64)
        };
        let of_stream = |stream: u32| {
            let paths = self.paths_after.iter().zip(&waits);
            paths
                .map(|(path, &wait)| along(path, wait, StreamId(stream)))
                .max()
                .unwrap_or_default()
        };
        (0..streams as u32).map(of_stream).collect()
    }

    /// Latency along one path after this module; zero if it is certainly not longer than `known`.
    fn path_latency(&mut self, path: usize, slo: Option<Span>, known: Span) -> Span {
        let estimator = self.estimation.estimator;
        let sum = |counts: bool, of: &dyn Fn(&ModuleState) -> Span| -> Span {
            if !counts {
                return Span::ZERO;
            }
            let modules = self.paths_after[path].iter();
            modules.map(|&module| of(self.state(module))).sum()
        };
        let queueing = sum(estimator.queueing, &|state| state.queueing_delay_of(slo));
        let duration = sum(estimator.execution, &|state| state.duration);
        let certain = queueing + duration;
        match estimator.wait {
            WaitTerm::None => certain,
            WaitTerm::Execution => certain + sum(true, &|state| state.duration),
            WaitTerm::Quantile => {
                // Computing the wait quantile is expensive: skipped if even the longest waits would not
                // exceed `known`.
                let longest = sum(true, &|state| state.waits_of(slo).max());
                if certain + longest <= known {
                    return Span::ZERO;
                }
                certain + self.path_wait(path, slo)
            }
        }
    }

    /// Expected sum of batch waits along a path; zero if waits are not counted.
    fn path_wait(&mut self, path: usize, slo: Option<Span>) -> Span {
        let estimator = self.estimation.estimator;
        if estimator.wait != WaitTerm::Quantile {
            return Span::ZERO;
        }
        let known = match slo {
            None => self.waits[path],
            Some(slo) => self.objective_waits.get(&(slo, path)).copied(),
        };
        if let Some(wait) = known {
            return wait;
        }
        let modules = self.paths_after[path].iter().map(|&module| self.state(module));
        let waits: Vec<&QuantileSketch> = modules.clone().map(|state| state.waits_of(slo)).collect();
        let quantile = self
            .estimation
            .disturbed_quantile
            .map_or(estimator.quantile, |disturbed| {
                let most = modules.map(|state| state.disturbance).fold(0.0, f64::max);
                estimator.quantile + (disturbed - estimator.quantile).max(0.0) * most
            });
        let wait = path_wait_quantile(&waits, quantile);
        match slo {
            None => self.waits[path] = Some(wait),
            Some(slo) => {
                self.objective_waits.insert((slo, path), wait);
            }
        }
        wait
    }

    /// Modules downstream of this one, each once.
    pub(crate) fn modules_downstream(&self) -> &[ModuleId] {
        &self.downstream_modules
    }

    /// Expected items of a request of `stream` at a module; `None` if unknown.
    pub(crate) fn expected_items(&self, stream: StreamId, module: ModuleId) -> Option<f64> {
        self.fan_out(module).expected_items(stream)
    }

    /// The cost limit of a module in items, as published last.
    pub(crate) fn cost_limit(&self, module: ModuleId) -> Option<u32> {
        self.state(module).cost_limit
    }

    /// Throughput of a module in items a second, as published last.
    pub(crate) fn throughput(&self, module: ModuleId) -> f64 {
        self.state(module).throughput
    }

    /// Own and cumulative shares of the SLO by execution time, or by worst latency under `wcl`, along the longest path through
    /// this module by that measure: `SLO_k = SLO * d_k / sum d_i`.
    fn budgets(&self, slo: Span) -> (Span, Span) {
        let weight = |module: ModuleId| {
            let state = self.state(module);
            match self.estimation.share_weight {
                ShareWeight::WorstLatency => state.worst_latency,
                ShareWeight::Execution => state.duration,
            }
        };
        let whole = |path: &[ModuleId]| path.iter().map(|&module| weight(module)).sum::<Span>();
        let Some(path) = self.paths_through.iter().max_by_key(|path| whole(path)) else {
            return (slo, slo);
        };
        let total = match self.estimation.split_over {
            SplitScope::Path => whole(path),
            SplitScope::Modules => (0..self.states.len() as u32).map(ModuleId).map(weight).sum(),
        };
        if total == Span::ZERO {
            return (slo, slo);
        }
        let share = |weight: Span| slo.scale(weight.micros() as f64 / total.micros() as f64);
        let up_to_here = path
            .iter()
            .take_while(|&&module| module <= self.module)
            .map(|&module| weight(module))
            .sum();
        (share(weight(self.module)), share(up_to_here))
    }

    /// Under `oc`: alpha if the queueing delay of this module or one downstream exceeds the threshold.
    fn shed_share(&self) -> f64 {
        let Some(control) = self.estimation.overload_control else {
            return 0.0;
        };
        let overloaded = |module: ModuleId| self.state(module).queueing_delay > control.threshold;
        let any = overloaded(self.module)
            || self
                .paths_after
                .iter()
                .flatten()
                .any(|&module| overloaded(module));
        if any { control.alpha } else { 0.0 }
    }
}

/// States are published at this interval, not at every change.
pub(crate) const PUBLISH_INTERVAL: Span = Span::from_secs(1);

/// Whether the next state is due.
pub(crate) fn is_publish_due(last: Option<Timestamp>, now: Timestamp) -> bool {
    last.is_none_or(|last| now.since(last) >= PUBLISH_INTERVAL)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pard::batch_wait::BatchWaitSamples;
    use crate::{DropRule, Policy};

    fn ms(ms: u64) -> Span {
        Span::from_millis(ms)
    }

    /// 0 -> {1 (20 ms), 2 (50 ms)} -> 3 (10 ms); module 0 takes 20 ms.
    fn planner(module: u32, rule: DropRule) -> StatePlanner {
        let topology = Topology::new(vec![
            vec![ModuleId(1), ModuleId(2)],
            vec![ModuleId(3)],
            vec![ModuleId(3)],
            vec![],
        ]);
        let states = [20, 20, 50, 10];
        let states = (0..)
            .zip(states)
            .map(|(id, d)| ModuleState::initial(ModuleId(id), ms(d)))
            .collect();
        let policy = Policy {
            drop: rule,
            ..Policy::default()
        };
        StatePlanner::new(ModuleId(module), ms(400), policy.estimation(), &topology, states)
    }

    #[test]
    fn the_downstream_latency_is_that_of_the_longest_path() {
        let check = |module, rule: &str, expected| {
            let rule = serde_json::from_value(serde_json::json!(rule)).unwrap();
            assert_eq!(
                planner(module, rule).downstream_estimate().downstream,
                ms(expected),
                "module {module}"
            );
        };
        check(0, "pard", 60);
        check(1, "pard", 10);
        check(3, "pard", 0);
        check(0, "upper", 120);
        check(0, "sf", 60);
        check(0, "back", 0);
    }

    #[test]
    fn downstream_queueing_counts_under_pard_and_not_under_sf() {
        for (rule, expected) in [(DropRule::default(), 90), (DropRule::Sf, 60)] {
            let mut planner = planner(0, rule);
            planner.on_peer_state(Arc::new(ModuleState {
                queueing_delay: ms(30),
                ..ModuleState::initial(ModuleId(2), ms(50))
            }));
            assert_eq!(planner.downstream_estimate().downstream, ms(expected));
        }
    }

    #[test]
    fn a_fan_out_that_is_published_alone_counts_as_in_a_whole_state() {
        let mut fan_out = FanOut::default();
        fan_out.on_items(StreamId(0), 0);
        fan_out.on_items(StreamId(1), 3);
        let fan_out = Arc::new(fan_out);
        let rule: DropRule = serde_json::from_value(serde_json::json!("weir")).unwrap();
        let (mut whole, mut alone) = (planner(0, rule.clone()), planner(0, rule));
        let before = alone.downstream_estimate();
        whole.on_peer_state(Arc::new(ModuleState {
            fan_out: Arc::clone(&fan_out),
            ..ModuleState::initial(ModuleId(2), ms(50))
        }));
        alone.on_peer_fan_out(ModuleId(2), fan_out);
        let estimate = alone.downstream_estimate();
        assert_eq!(estimate, whole.downstream_estimate());
        assert_ne!(estimate, before, "streams differ");
        assert!(alone.is_stream_dependent() && whole.is_stream_dependent());
        alone.on_peer_fan_out(ModuleId(9), Arc::default());
        assert_eq!(alone.downstream_estimate(), estimate, "no such module");
    }

    #[test]
    fn longer_waits_are_expected_downstream_where_durations_are_disturbed() {
        let check = |rule: &str, disturbance: f64, expected| {
            let mut planner = planner(1, serde_json::from_value(serde_json::json!(rule)).unwrap());
            let mut waits = BatchWaitSamples::new(100);
            (0..=10).for_each(|wait| waits.observe(ms(10 * wait)));
            planner.on_peer_state(Arc::new(ModuleState {
                waits: waits.sketch(),
                ..ModuleState::initial(ModuleId(3), ms(10))
            }));
            let downstream = |planner: &mut StatePlanner, expected| {
                let downstream = planner.downstream_estimate().downstream;
                let near = downstream.micros().abs_diff(ms(expected).micros()) < 1_500;
                assert!(near, "{rule}, {disturbance}: {downstream}");
            };
            downstream(&mut planner, 10 + 10);
            let undisturbed = planner.state(ModuleId(3)).clone();
            planner.on_peer_state(Arc::new(ModuleState {
                disturbance,
                ..undisturbed
            }));
            downstream(&mut planner, expected);
        };
        check("weir", 0.0, 10 + 10);
        check("weir", 0.5, 10 + 52);
        check("weir", 1.0, 10 + 95);
        check("pard", 1.0, 10 + 10);
    }

    #[test]
    fn budgets_share_the_slo_by_execution_time() {
        let check = |module, own, up_to_here| {
            let downstream_estimate =
                planner(module, DropRule::Split(crate::Split::default())).downstream_estimate();
            assert_eq!(
                (
                    downstream_estimate.own_budget,
                    downstream_estimate.budget_up_to_here
                ),
                (ms(own), ms(up_to_here))
            );
        };
        check(0, 100, 100);
        check(2, 250, 350);
        check(3, 50, 400);
    }

    #[test]
    fn downstream_overload_sheds_a_share_of_the_input() {
        let mut planner = planner(0, DropRule::Oc(crate::OverloadControl::default()));
        assert_eq!(planner.downstream_estimate().shed_share, 0.0);
        planner.on_peer_state(Arc::new(ModuleState {
            queueing_delay: ms(30),
            ..ModuleState::initial(ModuleId(3), ms(10))
        }));
        assert_eq!(planner.downstream_estimate().shed_share, 0.4);
    }
}
