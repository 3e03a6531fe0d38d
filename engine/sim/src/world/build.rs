//! A world as its specification has it, before the first request.

use std::collections::VecDeque;

use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;
use weir_policy::{
    BatchBinding, ConcurrencyLimit, ConcurrencyLimitSpec, Join, Ledger, Module, ModuleEvent, ModuleInfo,
    ModuleSpec, Overflow, Placement, Pool, RunStats, Slots, SlotsSpec,
};
use weir_types::{ModuleId, SlotId, Timestamp, Topology};

use super::fleet::Fleet;
use super::{Event, World};
use crate::agenda::Agenda;
use crate::demand::Draws;
use crate::spec::{ModulePlan, PoolPlan, WorldSpec};
use crate::trail::Trail;

impl<'a> World<'a> {
    pub(super) fn new(spec: &'a WorldSpec) -> Self {
        let topology = spec.topology();
        let count = spec.modules.len();
        let peer = |plan: &ModulePlan| ModuleInfo {
            profile: plan.profile.clone(),
            batch: plan.batch.clone(),
            workers: slots_of(&plan.pool).len() as u32,
        };
        let peers: Vec<ModuleInfo> = spec.modules.iter().map(peer).collect();
        let module = |(id, plan): (u32, &ModulePlan)| {
            Module::new(ModuleSpec {
                id: ModuleId(id),
                slo: spec.slo,
                policy: spec.policy.clone(),
                slots: slots_of(&plan.pool),
                pool: match plan.pool {
                    PoolPlan::Shared(_) => Pool::Shared,
                    PoolPlan::Fixed(_) | PoolPlan::Scaled(_) => Pool::Own,
                },
                batch: plan.batch.clone(),
                profile: plan.profile.clone(),
                topology: topology.clone(),
                peers: peers.clone(),
                seed: spec.seed,
            })
        };
        let into = |id: usize| {
            let before = spec
                .modules
                .iter()
                .filter(|module| module.next.iter().any(|edge| edge.to == id));
            before.count().max(1) as u32
        };
        let ends = spec
            .modules
            .iter()
            .filter(|module| module.next.is_empty())
            .count();
        let gate = ConcurrencyLimitSpec {
            overflow: Overflow::Drop,
            initial: spec.under_way.unwrap_or(u32::MAX),
            max: spec.under_way.unwrap_or(u32::MAX),
            slo: spec.slo,
        };
        let streams = spec.streams.max(1);
        let mut world = Self {
            spec,
            now: Timestamp::ZERO,
            agenda: Agenda::default(),
            modules: (0..).zip(&spec.modules).map(module).collect(),
            slots: shared(spec, &topology),
            slot_facts: Vec::new(),
            due: vec![Vec::new(); count],
            ready: VecDeque::new(),
            parts: (0..count).map(into).chain([ends as u32]).collect(),
            joins: (0..=count).map(|_| Join::default()).collect(),
            gates: (0..streams).map(|_| ConcurrencyLimit::new(gate)).collect(),
            draws: Draws::new(spec.demand.clone(), streams, spec.seed),
            journeys: Vec::new(),
            items: Vec::new(),
            ledger: Ledger::default(),
            tally: RunStats::default(),
            trail: Trail::new(count),
            fleets: spec.modules.iter().map(|plan| Fleet::new(&plan.pool)).collect(),
            link_free: vec![Timestamp::ZERO; spec.links.len()],
            random: Pcg64Mcg::seed_from_u64(spec.seed ^ 0x006e_6f69_7365),
            splits: topology.has_branches(),
            entrances: topology.entry_modules(),
            events: 0,
            facts: 0,
            each_worker: spec.each_worker(),
            effects: Vec::new(),
            slot_effects: Vec::new(),
            open: true,
        };
        world.begin();
        world
    }

    fn begin(&mut self) {
        for module in 0..self.modules.len() {
            for slot in self.fleets[module].absent() {
                self.tell(ModuleId(module as u32), ModuleEvent::SlotDown { slot });
            }
        }
        for (index, failure) in (0..).zip(&self.spec.failures) {
            let at = Timestamp::ZERO + failure.at;
            self.agenda.note(at, Event::Failure(index, true));
            self.agenda.note(at + failure.lasts, Event::Failure(index, false));
        }
        self.agenda.note(Timestamp::ZERO, Event::Tick);
        self.settle();
    }
}

fn slots_of(pool: &PoolPlan) -> Vec<SlotId> {
    match pool {
        PoolPlan::Fixed(workers) => (0..*workers).map(SlotId).collect(),
        PoolPlan::Scaled(scaling) => (0..scaling.rule.max_workers.max(scaling.begin))
            .map(SlotId)
            .collect(),
        PoolPlan::Shared(slots) => slots.iter().copied().map(SlotId).collect(),
    }
}

fn shared(spec: &WorldSpec, topology: &Topology) -> Option<Slots> {
    let placements: Vec<Placement> = (0..)
        .zip(&spec.modules)
        .filter(|(_, plan)| matches!(plan.pool, PoolPlan::Shared(_)))
        .map(|(id, plan)| Placement {
            module: ModuleId(id),
            slots: slots_of(&plan.pool),
            weight: plan.weight,
        })
        .collect();
    (!placements.is_empty()).then(|| {
        Slots::new(SlotsSpec {
            slots: spec.shared_slots,
            placements,
            arbitration: spec.policy.arbitration,
            topology: topology.clone(),
            forecasts: spec.policy.forming == BatchBinding::Early,
        })
    })
}
