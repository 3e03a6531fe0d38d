//! The site of a graph: carries out the effects of its machines. It has the frames, items and results of requests, the
//! channels of workers, and the addresses of actors outside the graph.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use actix::Addr;
use weir_control::{Act, Address, BooksMessage, Effect, Message, ModuleMessage, Published, View};
use weir_flow::RequestResults;
use weir_partition::wire::BatchKey;
use weir_policy::reservations::WorkerReport;
use weir_policy::{ModuleStats, Outcome, QueuesReport, SlotEffect, SlotEvent};
use weir_types::{DropReason, ModuleId, RequestId, Shortfall, SlotId, Span, Timestamp};

use super::losses::LossCounts;
use super::module_site::{ModuleSetup, ModuleSite};
use super::overdue::OverdueSlots;
use super::partition_site::{PartitionSite, PartitionSiteSetup};
use super::sessions::SlotSessions;
use crate::actors::egress::Egress;
use crate::actors::messages::{EgressFact, EgressFacts, ModuleLoad, RequestEnded};
use crate::clock::Clock;
use crate::fleet::ActivePlan;
use crate::record::Acted;
use crate::request::{Request, RequestBranch};
use crate::routes::Route;

/// The parts that a site is made from.
pub(crate) struct SiteSetup {
    /// The number of the graph.
    pub(crate) graph: u32,
    pub(crate) modules: Vec<ModuleSetup>,
    pub(crate) sessions: SlotSessions,
    pub(crate) clock: Clock,
    pub(crate) egress: Addr<Egress>,
    /// The plan of partitioned models on their workers, if there are any.
    pub(crate) partitions: Option<PartitionSiteSetup>,
    /// For how long a slot is out of use that lost too many batches.
    pub(crate) cooldown: Span,
    pub(crate) is_recorded: bool,
}

/// See the module.
pub(crate) struct Site {
    graph: u32,
    pub(super) modules: Vec<ModuleSite>,
    pub(super) shared: Shared,
    pub(super) partitions: Option<PartitionSite>,
    pub(super) sessions: SlotSessions,
    /// Requests of the graph in flight.
    requests: BTreeMap<RequestId, Arc<Request>>,
    /// Results of requests that have come to the end on some of their branches.
    ending: BTreeMap<RequestId, RequestResults>,
    /// Routes that the egress knows: those of streams that enter alike are one.
    routes: Vec<weir_control::Route>,
    cooldown: Span,
    /// Timers that machines asked for.
    timers: Vec<(Address, Timestamp)>,
    /// When the arbiter began to decide, where it plans the order of work.
    decision_began: Timestamp,
    /// Effects that were carried out, with their answers; `None` where nothing records them.
    acted: Option<Vec<Acted>>,
}

/// Parts of a site that all modules use.
pub(super) struct Shared {
    pub(super) clock: Clock,
    pub(super) losses: LossCounts,
    pub(super) overdue: OverdueSlots,
    egress: Addr<Egress>,
    /// Facts for the egress, sent together.
    facts: Vec<EgressFact>,
}

impl Site {
    pub(crate) fn new(setup: SiteSetup) -> Self {
        Self {
            graph: setup.graph,
            modules: setup.modules.into_iter().map(ModuleSite::new).collect(),
            shared: Shared {
                clock: setup.clock,
                losses: LossCounts::default(),
                overdue: OverdueSlots::default(),
                egress: setup.egress,
                facts: Vec::new(),
            },
            partitions: setup.partitions.map(PartitionSite::new),
            sessions: setup.sessions,
            requests: BTreeMap::new(),
            ending: BTreeMap::new(),
            routes: Vec::new(),
            cooldown: setup.cooldown,
            timers: Vec::new(),
            decision_began: Timestamp::ZERO,
            acted: setup.is_recorded.then(Vec::new),
        }
    }

    pub(super) fn egress(&self) -> &Addr<Egress> {
        &self.shared.egress
    }

    pub(super) fn take_timers(&mut self) -> Vec<(Address, Timestamp)> {
        std::mem::take(&mut self.timers)
    }

    /// Gives the effects since this was asked last, where they are recorded.
    pub(super) fn take_acted(&mut self) -> Vec<Acted> {
        self.acted.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Sends the facts that were collected for the egress where a request has ended: it need not be woken for others.
    pub(super) fn send_ends(&mut self) {
        let is_end = |fact: &EgressFact| matches!(fact, EgressFact::Ended(_));
        if self.shared.facts.iter().any(is_end) {
            self.send_facts();
        }
    }

    /// Sends the facts that were collected for the egress.
    pub(super) fn send_facts(&mut self) {
        if !self.shared.facts.is_empty() {
            let facts = std::mem::take(&mut self.shared.facts);
            self.shared.egress.do_send(EgressFacts(facts));
        }
    }

    /// Gives the index of a route, and whether the egress of the graph does not know it yet.
    pub(super) fn route_index(&mut self, route: &Route) -> (usize, bool) {
        let known = self.routes.len();
        let index = *route.index.get_or_init(|| {
            let same = self.routes.iter().position(|path| *path == route.path);
            same.unwrap_or(known)
        });
        let is_new = index == known;
        if is_new {
            self.routes.push(route.path.clone());
        }
        (index, is_new)
    }

    /// A request was admitted: its branches go to the modules that it enters.
    pub(super) fn on_admitted(&mut self, request: Arc<Request>) {
        let path = &request.route.path;
        if path.entries.is_empty() {
            self.ending.insert(request.id, RequestResults::default());
        }
        for entry in &path.entries {
            let branch = RequestBranch {
                request: Arc::clone(&request),
                results: RequestResults::default(),
            };
            if let Some(module) = self.modules.get_mut(entry.index()) {
                module.arriving.insert(request.id, branch);
            }
        }
        self.requests.insert(request.id, request);
    }

    /// Gives the news of partition workers that are not up as the run begins.
    pub(super) fn absent_workers(&self) -> Vec<Message> {
        let partitions = self.partitions.as_ref();
        partitions.map_or(Vec::new(), PartitionSite::absent_workers)
    }

    /// A plan is to take the place of the one in force.
    pub(super) fn offer_plan(&mut self, next: Box<ActivePlan>) -> Option<Message> {
        Some(self.partitions.as_mut()?.offer(next))
    }

    /// Gives the plan in force; `None` where there is none, or another one is being loaded.
    pub(super) fn plan_in_force(&self) -> Option<ActivePlan> {
        self.partitions.as_ref()?.plan_in_force()
    }

    /// Gives what ran on partition workers, by their names.
    pub(super) fn worker_reports(&self) -> BTreeMap<String, WorkerReport> {
        let partitions = self.partitions.as_ref();
        partitions.map(PartitionSite::worker_reports).unwrap_or_default()
    }

    /// A session was opened or closed: news for the pool of a module, or for the arbiter.
    pub(super) fn on_session_changed(&self, change: SlotEvent) -> Message {
        self.on_worker_changed(&change).unwrap_or_else(|| {
            self.sessions.on_changed(&change);
            Message::Slots(change)
        })
    }

    pub(super) fn on_queues(&self, report: Option<QueuesReport>) {
        self.sessions.on_queues(report);
    }

    pub(super) fn is_idle(&self) -> bool {
        self.modules.iter().all(ModuleSite::is_idle)
    }

    /// Counts of modules that their machines do not have, with their numbers in reports.
    pub(super) fn own_stats(&self) -> impl Iterator<Item = (ModuleId, &ModuleStats)> {
        let modules = self.modules.iter();
        modules.map(|module| (module.setup.report_id, &module.stats))
    }

    pub(super) fn load(&self, module: ModuleId) -> ModuleLoad {
        let Some(module) = self.modules.get(module.index()) else {
            return ModuleLoad::default();
        };
        ModuleLoad {
            overdue_slots: self.shared.overdue.count(module.placed_slots()),
            ..module.load()
        }
    }

    /// Slots on which work has become overdue; they are to be taken out of use.
    pub(super) fn find_overdue(&mut self) -> BTreeSet<SlotId> {
        let mut slots = BTreeSet::new();
        for module in &mut self.modules {
            slots.extend(module.watch_slots(&mut self.shared));
        }
        for slot in &slots {
            self.on_slot_down(*slot);
        }
        slots
    }

    fn on_slot_down(&mut self, slot: SlotId) {
        self.modules
            .iter_mut()
            .for_each(|module| module.on_slot_down(slot));
    }

    /// A request leaves a module: its results go along on all edges, or to the end.
    fn leave(
        &mut self,
        module: ModuleId,
        request: RequestId,
        fallback: Option<DropReason>,
    ) -> Option<Message> {
        let site = self.modules.get_mut(module.index())?;
        let left = site.settle(request, fallback, &mut self.shared)?;
        let (branch, message) = match left {
            Ok(left) => left,
            Err(dropped) => return Some(dropped),
        };
        let successors = self.modules[module.index()].setup.successors.len();
        if successors == 0 {
            let ending = self.ending.entry(request).or_default();
            ending.merge(&branch.results);
        }
        for edge in 0..successors {
            let to = self.modules[module.index()].setup.successors[edge];
            if let Some(next) = self.modules.get_mut(to.index()) {
                next.on_branch(&branch);
            }
        }
        Some(message)
    }

    /// Sends a message to the books, which the egress has.
    fn carry_to_books(&mut self, message: &BooksMessage) {
        match *message {
            BooksMessage::Spent {
                request,
                module,
                span,
            } => {
                let module = self.report_id(module);
                self.shared.facts.push(EgressFact::Spent {
                    request,
                    module,
                    span,
                });
            }
            BooksMessage::Ended {
                request,
                outcome,
                latency,
                shortfall,
            } => {
                let outcome = match outcome {
                    Outcome::Dropped(Some(module), reason) => {
                        Outcome::Dropped(Some(self.report_id(module)), reason)
                    }
                    other => other,
                };
                self.on_ended(request.id, (outcome, latency, shortfall));
            }
            // Those the egress has from sources.
            BooksMessage::Arrived { .. }
            | BooksMessage::Rejected { .. }
            | BooksMessage::LeftOut { .. }
            | BooksMessage::Still { .. }
            | BooksMessage::RemoveStream(_) => {}
        }
    }

    fn report_id(&self, module: ModuleId) -> ModuleId {
        let site = self.modules.get(module.index());
        site.map_or(module, |site| site.setup.report_id)
    }

    pub(super) fn has_request(&self, request: RequestId) -> bool {
        self.requests.contains_key(&request)
    }

    /// A request has ended: nothing of it is kept here.
    fn on_ended(
        &mut self,
        request: RequestId,
        (outcome, latency, shortfall): (Outcome, Option<Span>, Option<Shortfall>),
    ) {
        self.modules.iter_mut().for_each(|module| module.forget(request));
        let results = self.ending.remove(&request);
        if let Some(request) = self.requests.remove(&request) {
            self.shared.facts.push(EgressFact::Ended(Box::new(RequestEnded {
                request,
                results,
                outcome,
                latency,
                shortfall,
            })));
        }
    }

    fn act_on(&mut self, effect: Effect, answers: &mut Vec<Message>) {
        match effect {
            Effect::Enter(module, request) => {
                let entry = self.with(module, |site, shared| site.enter(request, shared));
                if let Some(entry) = entry.flatten() {
                    answers.push(Message::Module(module, ModuleMessage::Entered(request, entry)));
                }
            }
            Effect::Leave {
                module,
                request,
                fallback,
            } => answers.extend(self.leave(module, request, fallback)),
            Effect::Run {
                module,
                slot,
                batch,
                slices,
                expected,
            } => {
                let lost = self.with(module, |site, _| site.run((slot, expected), batch, slices));
                if let Some(lost) = lost.flatten() {
                    answers.extend(self.on_batch_done(lost));
                }
            }
            Effect::Dispatch {
                module,
                batch,
                slices,
                ..
            } => {
                self.with(module, |site, _| site.dispatch(batch, slices));
            }
            Effect::Published(module, Published::State(state)) => {
                self.with(module, |site, _| site.on_published(&state));
            }
            Effect::StageSet {
                module,
                stream,
                setting,
            } => {
                let site = self.modules.get_mut(module.index());
                if let Some(settings) = site.and_then(|site| site.settings.as_mut()) {
                    settings.set(stream, setting);
                }
            }
            Effect::StagesUnset(stream) => {
                let settings = self.modules.iter_mut().filter_map(|site| site.settings.as_mut());
                settings.for_each(|settings| settings.unset(stream));
            }
            Effect::Shifted { gear, rate, stream } => {
                let of = stream.map(|stream| stream.0);
                tracing::info!(gear, rate, stream = of, "another gear is in force");
            }
            Effect::Session(effect) => answers.extend(self.act_on_session(effect)),
            Effect::OpenWorker { module, slot } => answers.extend(self.change_worker(module, slot, true)),
            Effect::CloseWorker { module, slot } => answers.extend(self.change_worker(module, slot, false)),
            Effect::TakenOut(slot) => {
                tracing::error!(
                    slot = slot.0,
                    "too many batches lost; the slot is out of use for {} s",
                    self.cooldown.as_secs_f64()
                );
                self.on_slot_down(slot);
            }
            Effect::SetTimer { of, at } => self.timers.push((of, at)),
            Effect::Carry {
                message: Message::Books(message),
                ..
            } => self.carry_to_books(&message),
            Effect::BatchOver { module, batch, .. } => {
                self.with(module, |site, _| site.on_batch_over(batch));
            }
            Effect::Published(_, Published::FanOut(_)) => {}
            effect => self.act_on_sequence(effect, answers),
        }
    }

    /// Carries out an effect of the arbiter on a session; gives the answer where its worker is gone.
    fn act_on_session(&mut self, effect: SlotEffect) -> Option<Message> {
        if let SlotEffect::Open { slot, .. } = effect {
            // Commands for the session before it, which is closed, are not for this one.
            let instances = self.modules.iter_mut().map(|module| &mut module.instances);
            let of_slot = instances.filter(|instances| instances.jobs.contains_key(&slot));
            of_slot.for_each(|instances| instances.lose(slot));
        }
        let (clock, began) = (self.shared.clock, self.decision_began);
        let event = self.sessions.act(effect, || clock.now().since(began))?;
        self.sessions.on_changed(&event);
        Some(Message::Slots(event))
    }

    /// Carries out an effect on the sequences that a model generates.
    fn act_on_sequence(&mut self, effect: Effect, answers: &mut Vec<Message>) {
        match effect {
            Effect::Place {
                module,
                slot,
                sequence,
                request,
                item,
                cached,
            } => {
                self.with(module, |site, _| {
                    site.place(slot, (sequence, cached), request, item)
                });
            }
            Effect::Remove {
                module,
                slot,
                sequence,
                keeps_cache,
            } => {
                self.with(module, |site, _| match keeps_cache {
                    true => site.instances.hand_over(slot, sequence),
                    false => site.instances.remove(slot, sequence),
                });
            }
            Effect::Evict {
                module,
                slot,
                sequence,
            } => {
                self.with(module, |site, _| site.instances.evict(slot, sequence));
            }
            Effect::RunStep { module, slot, step } => {
                let lost = self.with(module, |site, _| site.run_step(slot, &step));
                if let Some(lost) = lost.flatten() {
                    answers.extend(self.on_step_done(lost));
                }
            }
            effect => self.act_on_plan(effect, answers),
        }
    }

    /// Carries out what reservations want.
    fn act_on_plan(&mut self, effect: Effect, answers: &mut Vec<Message>) {
        match effect {
            Effect::SetOut {
                booking,
                module,
                batch,
                items,
                path,
            } => {
                let graph = self.graph;
                let key = BatchKey { graph, module, batch };
                answers.extend(self.set_out(booking, key, items, &path));
            }
            Effect::LoadPlan(plan) => {
                if let Some(partitions) = &self.partitions {
                    partitions.load_plan(plan);
                }
            }
            Effect::GiveUpPlan(plan, reason) => {
                if let Some(partitions) = &mut self.partitions {
                    partitions.give_up_plan(plan, &reason);
                }
            }
            Effect::SwitchPlan { plan, pause, .. } => {
                if let Some(partitions) = &mut self.partitions {
                    answers.extend(partitions.switch_plan(plan, pause));
                }
            }
            Effect::Replan(conditions) => {
                if let Some(partitions) = &self.partitions {
                    partitions.replan(conditions);
                }
            }
            // The worker reports the failure of a batch on a path that is lost; the books are with the egress.
            _ => {}
        }
    }

    /// Calls on the site of a module, where there is one.
    pub(super) fn with<T>(
        &mut self,
        module: ModuleId,
        act: impl FnOnce(&mut ModuleSite, &mut Shared) -> T,
    ) -> Option<T> {
        let site = self.modules.get_mut(module.index())?;
        Some(act(site, &mut self.shared))
    }
}

impl Act for Site {
    fn on_decision(&mut self, of: Address) {
        if of == Address::Slots && self.sessions.is_any() {
            self.decision_began = self.shared.clock.now();
        }
    }

    fn act(&mut self, effect: Effect, _view: View<'_>, answers: &mut Vec<Message>) {
        if self.acted.is_none() {
            return self.act_on(effect, answers);
        }
        let recorded = effect.clone();
        self.act_on(effect, answers);
        if let Some(acted) = &mut self.acted {
            acted.push(Acted {
                effect: recorded,
                answers: answers.clone(),
            });
        }
    }
}
