//! The plan of a graph on its partition workers: batches on booked paths, reports of workers, and plans that are loaded and
//! switched.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_control::{BookedPath, Message, ReservationMessage};
use weir_partition::wire::{BatchKey, Resource, Usage};
use weir_partition::{Client, Stage, WorkerId, WorkerInfo};
use weir_policy::reservations::{BookingId, GiveUpReason, Interval, PlanEvent, ResourceUse, WorkerReport};
use weir_policy::{ModuleEvent, Policy};
use weir_types::invariant;
use weir_types::invariant::Kind;
use weir_types::{Conditions, ModuleId, Span};

use crate::fleet::{ActivePlan, ReplanRequest, ReplanRequests};
use crate::timeline::{Lane, Timeline};

/// The parts that it is made from.
pub(crate) struct PartitionSiteSetup {
    pub(crate) client: Arc<Client>,
    /// Workers that are up as the graph begins.
    pub(crate) available: BTreeMap<WorkerId, WorkerInfo>,
    /// Names of all workers.
    pub(crate) names: Vec<String>,
    /// By worker: whether the graph declares that it emulates another device.
    pub(crate) emulated: Vec<bool>,
    pub(crate) policy: Policy,
    pub(crate) active: ActivePlan,
    pub(crate) timeline: Arc<Timeline>,
    /// Asks the engine for a plan for other conditions.
    pub(crate) replans: ReplanRequests,
}

/// See the module.
pub(super) struct PartitionSite {
    setup: PartitionSiteSetup,
    /// Batches that are on their paths.
    in_flight: BTreeMap<BatchKey, BookingId>,
    /// Plans that are neither given up nor in force, by number.
    offers: BTreeMap<u64, Box<ActivePlan>>,
    workers: BTreeMap<WorkerId, WorkerReport>,
}

impl PartitionSite {
    pub(super) fn new(setup: PartitionSiteSetup) -> Self {
        let mut site = Self {
            in_flight: BTreeMap::new(),
            offers: BTreeMap::new(),
            workers: BTreeMap::new(),
            setup,
        };
        for (worker, info) in site.setup.available.clone() {
            site.on_worker_info(worker, &info);
        }
        site
    }

    /// Gives the news of workers that are not up as the graph begins.
    pub(super) fn absent_workers(&self) -> Vec<Message> {
        let workers = (0..self.setup.names.len() as u32).map(WorkerId);
        let absent = workers.filter(|worker| !self.setup.available.contains_key(worker));
        absent
            .map(|worker| Message::planned(PlanEvent::WorkerDown { worker }))
            .collect()
    }

    /// Gives what ran on workers, by their names.
    pub(super) fn worker_reports(&self) -> BTreeMap<String, WorkerReport> {
        let workers = self.workers.iter();
        let named = workers.map(|(worker, report)| (self.name(*worker).to_owned(), report.clone()));
        named.collect()
    }

    /// Gives the plan in force; `None` where another one is being loaded.
    pub(super) fn plan_in_force(&self) -> Option<ActivePlan> {
        self.offers.is_empty().then(|| self.setup.active.clone())
    }

    pub(super) fn name(&self, worker: WorkerId) -> &str {
        let name = self.setup.names.get(worker.0 as usize);
        name.map_or("?", String::as_str)
    }

    pub(super) fn on_worker_info(&mut self, worker: WorkerId, info: &WorkerInfo) {
        let declared = self.setup.emulated.get(worker.0 as usize).copied();
        let report = self.workers.entry(worker).or_default();
        report.class.clone_from(&info.class);
        report.emulated = info.emulated || declared.unwrap_or(false);
    }

    /// A plan is to take the place of the one in force.
    pub(super) fn offer(&mut self, next: Box<ActivePlan>) -> Message {
        let offered = PlanEvent::PlanOffered {
            plan: Box::new(next.spec(&self.setup.policy)),
            loads: next.loads(),
            origin: next.origin,
        };
        self.offers.insert(next.number, next);
        Message::planned(offered)
    }

    pub(super) fn load_plan(&self, plan: u64) {
        let loads = self.offers.get(&plan).map(|offer| &offer.partitions.loads);
        for (worker, load) in loads.into_iter().flatten() {
            self.setup.client.load(*worker, load.clone());
        }
    }

    pub(super) fn give_up_plan(&mut self, plan: u64, reason: &GiveUpReason) {
        let offer = self.offers.remove(&plan);
        match reason {
            GiveUpReason::SwitchPending => {
                tracing::warn!("a switch of plans is not complete yet; the newer plan is ignored");
            }
            GiveUpReason::NoWorker { blocks: (first, end) } => tracing::error!(
                "the new plan is not used and the current plan stays active: the stage of blocks {first}..{end} has no worker that \
                 is up"
            ),
            GiveUpReason::NotLoaded(_) => {
                // Workers that have their partitions would keep them until the next switch.
                for (worker, load) in offer.iter().flat_map(|offer| &offer.partitions.loads) {
                    self.setup.client.unload(*worker, load.partition);
                }
                tracing::error!("the new plan is not used; the current plan stays active");
            }
            GiveUpReason::NotBetter(gain) => tracing::info!(
                current = gain.current as f64 / 1e3,
                next = gain.next as f64 / 1e3,
                "the plan that was solved again is hardly better; the current plan stays active"
            ),
            GiveUpReason::Outdated => tracing::info!(
                "the plan that was solved again is for a plan that is no longer active; it is not used"
            ),
        }
    }

    /// A plan that was offered is in force; gives the news for its modules.
    pub(super) fn switch_plan(&mut self, plan: u64, pause: Span) -> Vec<Message> {
        let Some(next) = self.offers.remove(&plan) else {
            return Vec::new();
        };
        self.setup.active = *next;
        let active = &self.setup.active;
        self.setup.client.activate(active.number);
        let pause_ms = pause.as_millis_f64();
        tracing::info!(plan = active.number, pause_ms, "another plan is in force");
        let changed = |(module, _): &(ModuleId, String)| {
            let slots = active.pipeline_slots(*module)?;
            let changed = ModuleEvent::PlanChanged {
                profile: slots.profile,
                batch: slots.batch,
                lanes: slots.count,
                share: slots.share,
            };
            Some(Message::fact(*module, changed))
        };
        active.modules.iter().filter_map(changed).collect()
    }

    /// The plan in force is to be solved again for measured conditions.
    pub(super) fn replan(&self, conditions: Conditions) {
        let active = &self.setup.active;
        self.setup.replans.ask(ReplanRequest {
            number: active.number,
            plan: active.plan.clone(),
            modules: active.modules.clone(),
            conditions,
        });
    }

    /// The shares and links of a path as they are booked.
    fn show(&self, module: &Arc<str>, path: &BookedPath, items: u32) {
        for stage in &path.stages {
            let (worker, share) = self.setup.active.assignment.owners[stage.share.index()];
            let worker: Arc<str> = self.name(worker).into();
            let record = |lane, time: Interval| {
                let time = (time.from, time.to);
                self.setup.timeline.record(lane, module, time, items);
            };
            if let Some(transfer) = stage.transfer {
                record(Lane::Link(Arc::clone(&worker)), transfer);
            }
            record(Lane::Share(worker, share), stage.run);
        }
    }

    /// A batch goes along its path, which is given as stages on workers. `shown`: the name of its module, and its items.
    pub(super) fn begin(
        &mut self,
        booking: BookingId,
        key: BatchKey,
        shown: (&Arc<str>, u32),
        path: &BookedPath,
    ) -> Vec<Stage> {
        self.show(shown.0, path, shown.1);
        let before = self.in_flight.insert(key, booking);
        invariant!(
            before.is_none(),
            Kind::Batches,
            "batch {} of module {} is dispatched twice",
            key.batch.0,
            key.module.0
        );
        let ActivePlan {
            partitions,
            assignment,
            ..
        } = &self.setup.active;
        partitions.path(assignment, path.pipeline, &path.stages)
    }

    pub(super) fn on_used(
        &mut self,
        worker: WorkerId,
        key: BatchKey,
        used: (u32, Resource, Usage),
    ) -> Option<Message> {
        let (stage, what, time) = used;
        if what == Resource::Run {
            let report = self.workers.entry(worker).or_default();
            report.runs += 1;
            report.busy_s += time.span().as_secs_f64();
        }
        // A use may be reported after the end of its batch.
        let booking = *self.in_flight.get(&key)?;
        Some(Message::Reservations(ReservationMessage::Used {
            booking,
            stage,
            used: match what {
                Resource::Transfer => ResourceUse::Transfer,
                Resource::Run => ResourceUse::Run,
            },
            from: time.from,
            to: time.to,
        }))
    }

    /// A batch ended, well or not, which is reported once.
    pub(super) fn take(&mut self, key: BatchKey) -> Option<BookingId> {
        let booking = self.in_flight.remove(&key);
        invariant!(
            booking.is_some(),
            Kind::Batches,
            "batch {} of module {} ends and is not in flight; {} are",
            key.batch.0,
            key.module.0,
            self.in_flight.len()
        );
        booking
    }
}
