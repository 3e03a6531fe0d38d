//! A module's knowledge of other modules and the estimates that follow from it: latency downstream, the batch
//! size that fits the module's share of the SLO, and requests that a branch downstream cannot take.

use std::sync::Arc;

use weir_types::{ModuleId, Span, StreamId, Timestamp};

use super::api::{ModuleSpec, Pool};
use crate::measure::fan_out::FanOut;
use crate::pard::state::{DownstreamEstimate, ModuleState};
use crate::pard::state_planner::StatePlanner;
use crate::strategy::{Sizing, Strategies};
use crate::weir::branch_shedding::BranchShedding;
use crate::weir::joint_batching::{JointBatching, ModuleInfo};

/// States of all modules as published last, and estimates as of the last update.
#[derive(Debug, Clone)]
pub(super) struct Peers {
    planner: StatePlanner,
    joint_batching: JointBatching,
    /// Arrivals about to reach modules downstream, if branch shedding is on.
    branch_shedding: Option<BranchShedding>,
    estimate: DownstreamEstimate,
    /// The same from profiles alone, as before any state was published.
    unmeasured: DownstreamEstimate,
    batch_size: u32,
    /// Whether a state was published that the estimates do not include yet.
    stale: bool,
}

impl Peers {
    /// Peers before any state was published; estimates come from profiles.
    pub(super) fn new(spec: &ModuleSpec, strategies: &Strategies) -> Self {
        let states = (0..).zip(&spec.peers);
        let states = states.map(|(id, peer)| ModuleState::initial(ModuleId(id), peer.profile.duration(1)));
        let (slo, topology) = (spec.slo, &spec.topology);
        let is_optional = |(_, peer): &(u32, &ModuleInfo)| peer.fallback.is_optional();
        let optional = (0..).zip(&spec.peers).filter(is_optional);
        let optional: Vec<ModuleId> = optional.map(|(id, _)| ModuleId(id)).collect();
        let mut planner =
            StatePlanner::new(spec.id, slo, strategies.estimation(), topology, states.collect())
                .without(&optional);
        let estimate = planner.downstream_estimate();
        let mut peers = Self {
            unmeasured: estimate.clone(),
            estimate,
            planner,
            joint_batching: JointBatching::default(),
            branch_shedding: strategies.branch_shedding.map(BranchShedding::new),
            batch_size: 1,
            stale: false,
        };
        peers.batch_size = peers.best_batch_size(spec, strategies, 1.0, slo);
        peers
    }

    /// Switches to other strategies: published states are kept, and estimates are computed from them at once.
    pub(super) fn on_strategies(
        &mut self,
        spec: &ModuleSpec,
        strategies: &Strategies,
        ratio: f64,
        slo: Span,
    ) {
        let before = std::mem::replace(self, Self::new(spec, strategies));
        for (state, fan_out) in before.planner.states().iter().zip(before.planner.fan_outs()) {
            self.on_state(Arc::clone(state));
            self.on_fan_out(state.module, Arc::clone(fan_out));
        }
        self.update(spec, strategies, ratio, slo);
    }

    /// Estimate of latency downstream, as of the last update.
    pub(super) fn estimate(&self) -> &DownstreamEstimate {
        &self.estimate
    }

    /// Estimate of latency downstream from profiles alone.
    pub(super) fn unmeasured(&self) -> &DownstreamEstimate {
        &self.unmeasured
    }

    /// Batch size that dynamic batching aims for, as of the last update.
    pub(super) fn batch_size(&self) -> u32 {
        self.batch_size
    }

    /// Sets the batch size that a plan prescribes.
    pub(super) fn set_batch_size(&mut self, size: u32) {
        self.batch_size = size;
    }

    /// A module, this one included, published its state.
    pub(super) fn on_state(&mut self, state: Arc<ModuleState>) {
        self.planner.on_peer_state(state);
        self.stale = true;
    }

    /// A module, this one included, published its fan-out alone.
    pub(super) fn on_fan_out(&mut self, module: ModuleId, fan_out: Arc<FanOut>) {
        self.planner.on_peer_fan_out(module, fan_out);
        self.stale = true;
    }

    /// A request of `stream` has arrived.
    pub(super) fn on_arrived(&mut self, stream: StreamId, now: Timestamp) {
        if let Some(branches) = &mut self.branch_shedding {
            branches.observe(stream, &self.planner, now);
        }
    }

    /// Probability with which a request of `stream` is to be shed for a module downstream that cannot take
    /// it.
    pub(super) fn shed_probability(&self, stream: StreamId) -> f64 {
        let branches = self.branch_shedding.as_ref();
        branches.map_or(0.0, |branches| branches.shed_probability(stream, &self.planner))
    }

    /// Updates the estimates if a state was published. Called at ticks, once for all states in between, since
    /// an estimate draws thousands of waits for every path. `ratio`: measured over profiled durations of this
    /// module. `slo`: tightest objective of its requests, by which batches are sized.
    pub(super) fn update(&mut self, spec: &ModuleSpec, strategies: &Strategies, ratio: f64, slo: Span) {
        if std::mem::take(&mut self.stale) {
            self.estimate = self.planner.downstream_estimate();
            self.batch_size = self.best_batch_size(spec, strategies, ratio, slo);
        }
    }

    fn best_batch_size(&mut self, spec: &ModuleSpec, strategies: &Strategies, ratio: f64, slo: Span) -> u32 {
        let fair = || {
            // On a slow device, the same share of the SLO holds less profiled time.
            let share: Span = self.planner.fair_share_of(slo).scale(1.0 / ratio.max(1e-3));
            spec.profile.batch_size(&spec.batch, share)
        };
        match strategies.sizing {
            Sizing::Fair => return fair(),
            Sizing::One => return spec.batch.first().copied().unwrap_or(1),
            Sizing::Together => {}
        }
        let own = spec.pool == Pool::Own;
        let (joint, states) = (&mut self.joint_batching, self.planner.states());
        let sizes = joint.sizes(
            strategies.joint_sizing,
            &spec.peers,
            states,
            &spec.topology,
            slo,
            own,
        );
        let size = sizes.get(spec.id.index()).copied();
        size.unwrap_or_else(fair)
    }
}
