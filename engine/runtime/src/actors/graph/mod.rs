//! The actor of one graph: hosts its machines, which decide, and its site, which carries out what they decide.

mod batches;
mod booked_batches;
mod generating;
mod instances;
mod losses;
mod module_site;
mod output_check;
mod overdue;
mod partition_site;
mod pending;
mod pipelines;
mod prompts;
mod requests;
mod scaled_workers;
mod sessions;
mod site;
mod slot_watch;
mod stage;

use std::collections::BTreeMap;
use std::sync::Arc;

use actix::fut::{self, ActorFutureExt};
use actix::{Actor, ActorContext, Addr, AsyncContext, Context, Handler, MessageResult, SpawnHandle};
use weir_control::{Address, Controller, EgressMessage, GEAR_INTERVAL, GearMessage, Message, QueueMachine};
use weir_policy::SlotEvent;
use weir_types::ModuleId;

pub(crate) use module_site::ModuleSetup;
pub(crate) use partition_site::PartitionSiteSetup;
pub(crate) use prompts::{PromptJob, PromptMaker, PromptsMade};
pub(crate) use sessions::SlotSessions;
pub(crate) use site::{Site, SiteSetup};

use super::egress::Egress;
use super::graph_counts::{GraphStats, ReservationCounts};
use super::messages::{
    AddStats, BatchDone, ControlMessage, InstanceSaid, ModuleLoad, ReportStats, RequestAdmitted, RunLaunched,
    SessionChanged, StatsReported, StopActor, SwitchPlan, TakeLoads, TakePlan, TakeStats,
};
use crate::clock::{Clock, duration};
use crate::control_times::{ControlEvent, ControlTimes};
use crate::fleet::WorkerEvent;
use crate::instance::InstanceReport;
use crate::record::Recorder;
use crate::request::Request;
use crate::telemetry::{self, TICK_INTERVAL};

/// The actors of a graph.
#[derive(Clone)]
pub(crate) struct ActorRefs {
    pub(crate) graph: Addr<GraphActor>,
    pub(crate) egress: Addr<Egress>,
}

impl ActorRefs {
    /// Sends a message to a machine of the graph.
    pub(crate) fn tell(&self, message: impl Into<Message>) {
        self.graph.do_send(ControlMessage(message.into()));
    }
}

/// See the module.
pub(crate) struct GraphActor {
    controller: Controller,
    site: Site,
    clock: Clock,
    recorder: Option<Recorder>,
    timers: BTreeMap<Address, SpawnHandle>,
    times: ControlTimes,
    decides_soon: bool,
    /// Whether it ends once no batch runs: its graph is taken down.
    is_stopping: bool,
}

impl GraphActor {
    pub(crate) fn new(controller: Controller, site: Site, clock: Clock, recorder: Option<Recorder>) -> Self {
        Self {
            controller,
            site,
            clock,
            recorder,
            timers: BTreeMap::new(),
            times: ControlTimes::default(),
            decides_soon: false,
            is_stopping: false,
        }
    }

    /// Does work for an event of that kind, and counts its time.
    fn timed(&mut self, kind: ControlEvent, work: impl FnOnce(&mut Self)) {
        let began = self.clock.now();
        work(self);
        self.times.observe(kind, self.clock.now().since(began));
    }

    /// Gives messages to their machines.
    fn tell_all(&mut self, messages: impl IntoIterator<Item = Message>, context: &mut Context<Self>) {
        messages
            .into_iter()
            .for_each(|message| self.tell(message, context));
    }

    /// Gives a message to its machine. It is decided on with all others of its burst.
    fn tell(&mut self, message: Message, context: &mut Context<Self>) {
        let now = self.clock.now();
        let recorded = self.recorder.as_ref().map(|_| message.clone());
        self.controller.on(message, now, &mut self.site);
        if let Some(recorder) = &self.recorder {
            recorder.record_control(now, recorded, self.site.take_acted());
        }
        self.complete(context);
    }

    /// Lets the machines decide on all that came in.
    fn decide(&mut self, context: &mut Context<Self>) {
        self.decides_soon = false;
        let now = self.clock.now();
        self.controller.decide(now, &mut self.site);
        if let Some(recorder) = &self.recorder {
            recorder.record_control(now, None, self.site.take_acted());
        }
        self.complete(context);
    }

    /// Sets the timers that were asked for, and lets the machines decide once the burst is in, or sends the ends of requests
    /// to the egress once they have decided. What an actor spawns onto itself is polled after its mailbox is empty.
    fn complete(&mut self, context: &mut Context<Self>) {
        for (of, at) in self.site.take_timers() {
            let wait = self.clock.duration_until(at);
            let timer = context.run_later(wait, move |actor: &mut Self, context| {
                actor.timers.remove(&of);
                actor.timed(ControlEvent::Timer, |actor| {
                    actor.tell(Message::TimerFired(of), context);
                });
            });
            if let Some(before) = self.timers.insert(of, timer) {
                context.cancel_future(before);
            }
        }
        if !self.controller.is_due() {
            self.site.send_ends();
        } else if !std::mem::replace(&mut self.decides_soon, true) {
            context.spawn(fut::ready(()).map(|(), actor: &mut Self, context| {
                actor.timed(ControlEvent::Decision, |actor| actor.decide(context));
            }));
        }
    }

    /// Ends where that is asked for and no batch runs: what was counted goes to the egress.
    fn stop_when_idle(&mut self, context: &mut Context<Self>) {
        if self.is_stopping && self.site.is_idle() {
            let stats = self.stats();
            self.site.egress().do_send(AddStats(stats));
            context.stop();
        }
    }

    /// Gives the counts so far. Facts that belong to them go to the egress before.
    fn stats(&mut self) -> GraphStats {
        self.site.send_facts();
        let modules = self.controller.modules().iter().zip(self.site.own_stats());
        let stats = modules.map(|(machine, (id, own))| {
            let mut stats = machine.stats();
            stats.merge(own);
            (id, stats)
        });
        GraphStats {
            modules: stats.collect(),
            gears: self.controller.gears().map(|gears| gears.tally().clone()),
            reservations: self.controller.reservations().map(|machine| ReservationCounts {
                accuracy: machine.accuracy().clone(),
                workers: self.site.worker_reports(),
            }),
            control: self.times.clone(),
        }
    }
}

impl Actor for GraphActor {
    type Context = Context<Self>;

    fn started(&mut self, context: &mut Self::Context) {
        self.tell_all(self.site.absent_workers(), context);
        if self.controller.gears().is_some() {
            self.tell(Message::Gears(GearMessage::Begun), context);
            context.run_interval(duration(GEAR_INTERVAL), |actor, context| {
                actor.timed(ControlEvent::Timer, |actor| {
                    actor.tell(Message::Gears(GearMessage::Look), context);
                });
                if let Some(gears) = actor.controller.gears() {
                    telemetry::record_gear(gears.highest());
                }
            });
        }
        context.run_interval(duration(TICK_INTERVAL), |actor, context| {
            actor.timed(ControlEvent::Timer, |actor| actor.tick(context));
            actor.site.send_facts();
        });
    }
}

impl GraphActor {
    fn tick(&mut self, context: &mut Context<Self>) {
        let overdue = self.site.find_overdue().into_iter();
        let down = overdue.map(|slot| Message::Slots(SlotEvent::Down { slot }));
        self.tell_all(down, context);
        let slots = self.controller.slots();
        let planned = slots.and_then(|slots| slots.policy().queues_report());
        let planned = planned.or_else(|| self.controller.queues().map(QueueMachine::report));
        if planned.is_some() {
            self.site.on_queues(planned);
        }
        self.tell(Message::Tick, context);
    }

    /// A frame was admitted: its request enters the graph.
    fn admit(&mut self, request: Arc<Request>, context: &mut Context<Self>) {
        let (route, is_new) = self.site.route_index(&request.route);
        if is_new {
            let route = request.route.path.clone();
            self.tell(Message::Egress(EgressMessage::RouteAdded(route)), context);
        }
        let info = request.info(route);
        self.site.on_admitted(request);
        self.tell(Message::Egress(EgressMessage::Arrived(info)), context);
    }
}

impl Handler<StopActor> for GraphActor {
    type Result = ();

    fn handle(&mut self, _: StopActor, context: &mut Self::Context) {
        self.is_stopping = true;
        self.stop_when_idle(context);
    }
}

impl Handler<ControlMessage> for GraphActor {
    type Result = ();

    fn handle(&mut self, ControlMessage(message): ControlMessage, context: &mut Self::Context) {
        self.timed(ControlEvent::Other, |actor| actor.tell(message, context));
    }
}

impl Handler<RequestAdmitted> for GraphActor {
    type Result = ();

    fn handle(&mut self, RequestAdmitted(request): RequestAdmitted, context: &mut Self::Context) {
        self.timed(ControlEvent::Arrival, |actor| actor.admit(request, context));
    }
}

impl Handler<PromptsMade> for GraphActor {
    type Result = ();

    fn handle(&mut self, made: PromptsMade, context: &mut Self::Context) {
        self.timed(ControlEvent::Arrival, |actor| {
            let entered = actor.site.on_prompts(made);
            actor.tell_all(entered, context);
        });
    }
}

impl Handler<RunLaunched> for GraphActor {
    type Result = ();

    fn handle(&mut self, RunLaunched(launched): RunLaunched, context: &mut Self::Context) {
        self.timed(ControlEvent::Result, |actor| {
            let message = actor.site.on_launched(launched);
            actor.tell_all(message, context);
        });
    }
}

impl Handler<BatchDone> for GraphActor {
    type Result = ();

    fn handle(&mut self, BatchDone(result): BatchDone, context: &mut Self::Context) {
        self.timed(ControlEvent::Result, |actor| {
            let messages = actor.site.on_batch_done(result);
            actor.tell_all(messages, context);
        });
        self.stop_when_idle(context);
    }
}

impl Handler<InstanceSaid> for GraphActor {
    type Result = ();

    fn handle(&mut self, InstanceSaid(report): InstanceSaid, context: &mut Self::Context) {
        self.timed(ControlEvent::Result, |actor| {
            let messages = match report {
                InstanceReport::Stepped(result) => actor.site.on_step_done(result),
                InstanceReport::Back { module, slot } => actor.site.on_instance_back(module, slot),
            };
            actor.tell_all(messages, context);
        });
        self.stop_when_idle(context);
    }
}

impl Handler<WorkerEvent> for GraphActor {
    type Result = ();

    fn handle(&mut self, WorkerEvent(event): WorkerEvent, context: &mut Self::Context) {
        self.timed(ControlEvent::Other, |actor| {
            let messages = actor.site.on_worker_event(event);
            actor.tell_all(messages, context);
        });
        self.stop_when_idle(context);
    }
}

impl Handler<SwitchPlan> for GraphActor {
    type Result = ();

    fn handle(&mut self, SwitchPlan(next): SwitchPlan, context: &mut Self::Context) {
        self.timed(ControlEvent::Other, |actor| {
            let offered = actor.site.offer_plan(next);
            actor.tell_all(offered, context);
        });
    }
}

impl Handler<TakePlan> for GraphActor {
    type Result = MessageResult<TakePlan>;

    fn handle(&mut self, _: TakePlan, _context: &mut Self::Context) -> Self::Result {
        MessageResult(self.site.plan_in_force())
    }
}

impl Handler<SessionChanged> for GraphActor {
    type Result = ();

    fn handle(&mut self, SessionChanged(change): SessionChanged, context: &mut Self::Context) {
        self.timed(ControlEvent::Other, |actor| {
            let message = actor.site.on_session_changed(change);
            actor.tell(message, context);
        });
    }
}

impl Handler<TakeStats> for GraphActor {
    type Result = MessageResult<TakeStats>;

    fn handle(&mut self, _: TakeStats, _context: &mut Self::Context) -> Self::Result {
        MessageResult(self.stats())
    }
}

impl Handler<TakeLoads> for GraphActor {
    type Result = MessageResult<TakeLoads>;

    fn handle(&mut self, _: TakeLoads, _context: &mut Self::Context) -> Self::Result {
        let modules = (0..).map(ModuleId).zip(self.controller.modules());
        let load = |(id, machine): (ModuleId, &weir_control::ModuleMachine)| {
            let load = self.site.load(id);
            let open = machine.scaled().map(|pool| pool.placed() as usize);
            ModuleLoad {
                requests: machine.policy().requests(),
                batch_size: machine.policy().batch_size(),
                placed_slots: open.unwrap_or(load.placed_slots),
                ..load
            }
        };
        MessageResult(modules.map(load).collect())
    }
}

impl Handler<ReportStats> for GraphActor {
    type Result = ();

    fn handle(&mut self, _: ReportStats, _context: &mut Self::Context) {
        let stats = self.stats();
        self.site.egress().do_send(StatsReported(stats));
    }
}

#[cfg(test)]
mod tests {
    use actix::System;
    use tokio::sync::oneshot;

    use super::*;

    #[derive(actix::Message)]
    #[rtype(result = "()")]
    struct Number(u32);

    /// Collects numbers, and hands them out once it decides, as a graph does.
    struct Probe {
        numbers: Vec<u32>,
        decides_soon: bool,
        decided: Option<oneshot::Sender<Vec<u32>>>,
    }

    impl Actor for Probe {
        type Context = Context<Self>;
    }

    impl Handler<Number> for Probe {
        type Result = ();

        fn handle(&mut self, Number(number): Number, context: &mut Self::Context) {
            self.numbers.push(number);
            if !std::mem::replace(&mut self.decides_soon, true) {
                context.spawn(fut::ready(()).map(|(), probe: &mut Self, _| {
                    let numbers = std::mem::take(&mut probe.numbers);
                    let _ = probe.decided.take().map(|decided| decided.send(numbers));
                }));
            }
        }
    }

    #[test]
    fn a_burst_is_in_before_it_is_decided_on() {
        let seen = System::new().block_on(async {
            let (sender, receiver) = oneshot::channel();
            let probe = Probe {
                numbers: Vec::new(),
                decides_soon: false,
                decided: Some(sender),
            }
            .start();
            for number in 0..10 {
                probe.do_send(Number(number));
            }
            receiver.await.unwrap()
        });
        assert_eq!(seen, (0..10).collect::<Vec<_>>());
    }
}
