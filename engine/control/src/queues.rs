//! Queues of several models that generate and take turns on the slots of a device, as a machine (QLM).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weir_policy::groups::{
    ModelPrior, Operations, QueueEffect, QueueEvent, QueueInstance, QueueRule, Queues, QueuesSpec,
    ServedModel,
};
use weir_policy::residency::ResidencySpec;
use weir_policy::route::{Link, MoveCost, Transfer};
use weir_policy::{
    DeviceMemory, DeviceModel, GenerateSpec, ModuleEvent, QueueFact, QueuesReport, SlotEffect, SlotEvent,
    SlotPlanning, SlotQueues,
};
use weir_types::{InstanceId, ModelId, ModuleId, SequenceId, SlotId, Span, Timestamp};

use crate::machine::{Machine, Outbox, Outgoing};
use crate::message::{Effect, Message, ModuleMessage, QueueMessage};

/// Bytes of a token's part of a cache that cannot leave its session: moving it never takes less than computing it again.
const CACHE_BYTES: f64 = 1e9;
/// Link to host memory if no cache can leave its session.
const HOST_LINK: Link = Link {
    latency: Span::from_micros(50),
    bandwidth_bps: 8e9,
};
/// Largest expected number of tokens of a prompt before any prompt was seen.
const PROMPT_TOKENS: u32 = 128;

/// Models of a device that take turns on its slots, with their queues.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeviceQueuesSpec {
    /// The queues: an instance is a slot of the device, and a model one of `modules`.
    pub queues: QueuesSpec,
    /// Modules of the models, by their ids in the queues.
    pub modules: Vec<QueuedModule>,
}

/// A module whose model takes turns with others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueuedModule {
    /// Its id in the graph.
    pub module: ModuleId,
    /// Its model, by the index in the graph.
    pub model: ModelId,
    /// Its slots, by the ids of the instances in the queues. A session of its model is opened on each.
    pub slots: Vec<SlotId>,
}

impl DeviceQueuesSpec {
    /// Queues of the models of a device, in the order of `memory`, each with its module. The slots of the device share its
    /// memory evenly. Returns `None` if no model has a module.
    #[must_use]
    pub fn new(
        memory: &DeviceMemory,
        modules: &[Option<(ModuleId, &GenerateSpec)>],
        (rule, planning): (Option<SlotQueues>, SlotPlanning),
    ) -> Option<Self> {
        let used: Vec<(&DeviceModel, ModuleId, &GenerateSpec)> = memory
            .models
            .iter()
            .zip(modules)
            .filter_map(|(model, module)| module.map(|(module, generate)| (model, module, generate)))
            .collect();
        let count = used.iter().map(|(model, ..)| model.slots.len()).min()?;
        let part = |bytes: u64| bytes / count.max(1) as u64;
        let link = used.iter().find_map(|(.., generate)| moves(generate));
        let link = link.map_or(HOST_LINK, |moves| moves.link);
        let instance = |place: usize| QueueInstance {
            models: used
                .iter()
                .filter_map(|(model, _, generate)| {
                    Some(ServedModel {
                        spec: generate.instances.get(place)?.clone(),
                        cache_bytes: moves(generate).map_or(CACHE_BYTES, |moves| moves.cache_bytes),
                        open_cold: model.open_cold,
                        open_warm: model.open_warm,
                    })
                })
                .collect(),
            residency: ResidencySpec {
                memory: Some(part(memory.memory)),
                host_memory: part(memory.host_memory),
                models: used.iter().map(|(model, ..)| model.memory).collect(),
                same_bytes: Vec::new(),
            },
            swap_memory: part(memory.host_memory),
            host_link: link,
            reserved: 0.0,
        };
        Some(Self {
            queues: QueuesSpec {
                rule: rule_of(rule),
                operations: Operations {
                    evict: planning.operations.evict,
                    swap: planning.operations.swap
                        && used.iter().any(|(.., generate)| moves(generate).is_some()),
                    balance: planning.operations.balance,
                    warm_start: planning.operations.warm_start,
                    reorder: planning.operations.reorder,
                },
                delta: f64::from(planning.delta),
                models: used.iter().map(|(_, _, generate)| prior(generate)).collect(),
                instances: (0..count).map(instance).collect(),
            },
            modules: used
                .iter()
                .map(|&(model, module, _)| QueuedModule {
                    module,
                    model: model.model,
                    slots: model.slots[..count].to_vec(),
                })
                .collect(),
        })
    }
}

/// Cost of moving the cache of a sequence out of a session and into another one; `None` if sessions keep their caches.
fn moves(generate: &GenerateSpec) -> Option<MoveCost> {
    generate.router.transfer
}

/// Rule of the queues; planned virtual queues unless another one is configured.
fn rule_of(queues: Option<SlotQueues>) -> QueueRule {
    match queues {
        None | Some(SlotQueues::Virtual) => QueueRule::WEIR,
        Some(SlotQueues::Fcfs) => QueueRule::Fcfs,
        Some(SlotQueues::Edf) => QueueRule::Edf,
        Some(SlotQueues::Shepherd) => QueueRule::Shepherd,
        Some(SlotQueues::Sticky) => QueueRule::Sticky,
    }
}

/// Expected lengths before any was seen: outputs are as often short as long.
fn prior(generate: &GenerateSpec) -> ModelPrior {
    let output = f64::from(generate.max_tokens.max(1));
    let longest = generate.instances.iter().map(|spec| spec.max_sequence_tokens);
    let prompt = longest.min().unwrap_or(0).saturating_sub(generate.max_tokens) / 2;
    ModelPrior {
        prompt: f64::from(prompt.clamp(1, PROMPT_TOKENS)),
        output: 0.5 * (1.0 + output),
        output_deviation: 0.3 * output,
    }
}

/// Class of a latency objective: objectives within a factor of two may share a group.
fn class_of(slo: Span) -> u32 {
    slo.micros().max(1).ilog2()
}

/// A session of a model on a slot, by the orders that were given and their answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Session {
    Closed,
    Opening,
    Open,
    Closing,
}

/// An instance of the queues.
#[derive(Debug, Clone)]
struct InstanceSessions {
    /// Sessions by model.
    sessions: Vec<Session>,
    /// Models whose threads are lost.
    lost: Vec<bool>,
    /// Whether the queues may not use it: a thread is lost, or sessions from before are still to be closed.
    is_down: bool,
}

/// Queues of one device.
#[derive(Debug)]
struct DeviceQueues {
    policy: Queues,
    modules: Vec<QueuedModule>,
    instances: Vec<InstanceSessions>,
    /// Requests in the queues by the sequences of modules.
    requests: BTreeMap<(ModuleId, SequenceId), SequenceId>,
    /// Sequences by their requests in the queues, with the model.
    sequences: BTreeMap<SequenceId, (ModelId, SequenceId)>,
    /// Number of the next request.
    next: u64,
}

/// Starts sequences of several models on slots that they share, and opens and closes their models there.
#[derive(Debug)]
pub struct QueueMachine {
    devices: Vec<DeviceQueues>,
    due: Vec<QueueMessage>,
    /// Latest room by slot of a module. It comes before other facts: whatever was started since is not in it.
    rooms: BTreeMap<(ModuleId, SlotId), [u32; 2]>,
    effects: Vec<QueueEffect>,
}

impl QueueMachine {
    /// Queues without sequences, on slots without open models. Returns `None` if there are no devices.
    #[must_use]
    pub fn new(devices: Vec<DeviceQueuesSpec>) -> Option<Self> {
        (!devices.is_empty()).then(|| Self {
            devices: devices.into_iter().map(DeviceQueues::new).collect(),
            due: Vec::new(),
            rooms: BTreeMap::new(),
            effects: Vec::new(),
        })
    }

    /// Modules whose sequences wait here.
    pub(crate) fn modules(&self) -> impl Iterator<Item = ModuleId> {
        let modules = self.devices.iter().flat_map(|device| &device.modules);
        modules.map(|module| module.module)
    }

    /// Whether a session of that model on that slot is opened and closed here.
    pub(crate) fn has_session(&self, slot: SlotId, model: ModelId) -> bool {
        self.devices
            .iter()
            .any(|device| device.place_of_session(slot, model).is_some())
    }

    /// Statistics of planning so far.
    #[must_use]
    pub fn report(&self) -> QueuesReport {
        let mut report = QueuesReport::default();
        for device in &self.devices {
            let stats = device.policy.stats();
            report.groups = report.groups.max(stats.max_groups as u64);
            report.replans += stats.replans;
            report.violations_predicted += stats.violations_predicted;
        }
        report
    }

    pub(crate) fn due(&self) -> usize {
        self.due.len() + self.rooms.len()
    }
}

impl Machine for QueueMachine {
    type Message = QueueMessage;

    fn on(&mut self, message: QueueMessage, _now: Timestamp, _out: &mut Outbox) {
        match message {
            QueueMessage::Fact(
                module,
                QueueFact::Room {
                    slot,
                    sequences,
                    tokens,
                },
            ) => {
                self.rooms.insert((module, slot), [sequences, tokens]);
            }
            message => self.due.push(message),
        }
    }

    fn decide(&mut self, now: Timestamp, out: &mut Outbox) {
        let effects = &mut self.effects;
        for ((module, slot), room) in std::mem::take(&mut self.rooms) {
            for device in &mut self.devices {
                device.on_room((module, slot), room, now, effects);
                device.carry_out(effects, out);
            }
        }
        for message in self.due.drain(..) {
            for device in &mut self.devices {
                match message {
                    QueueMessage::Fact(module, fact) => device.on_fact(module, fact, now, effects, out),
                    QueueMessage::Session(event) => device.on_session(event, now, effects, out),
                    QueueMessage::Tick => device.policy.step(QueueEvent::Timer, now, effects),
                }
                device.carry_out(effects, out);
            }
        }
    }

    fn is_due(&self) -> bool {
        !self.due.is_empty() || !self.rooms.is_empty()
    }
}

impl DeviceQueues {
    fn new(spec: DeviceQueuesSpec) -> Self {
        let instance = InstanceSessions {
            sessions: vec![Session::Closed; spec.modules.len()],
            lost: vec![false; spec.modules.len()],
            is_down: false,
        };
        Self {
            instances: vec![instance; spec.queues.instances.len()],
            // Drivers open models from host memory, and do not read them into it ahead.
            policy: Queues::new(spec.queues).without_prefetching(),
            modules: spec.modules,
            requests: BTreeMap::new(),
            sequences: BTreeMap::new(),
            next: 0,
        }
    }

    /// The model of a module; `None` if its sequences do not wait here.
    fn model_of(&self, module: ModuleId) -> Option<ModelId> {
        let place = self.modules.iter().position(|own| own.module == module)?;
        Some(ModelId(place as u32))
    }

    fn instance_of(&self, model: ModelId, slot: SlotId) -> Option<InstanceId> {
        let mut slots = self.modules.get(model.index())?.slots.iter();
        let place = slots.position(|own| *own == slot)?;
        Some(InstanceId(place as u32))
    }

    fn place_of_session(&self, slot: SlotId, of_graph: ModelId) -> Option<(InstanceId, ModelId)> {
        let place = self.modules.iter().position(|own| own.model == of_graph)?;
        let model = ModelId(place as u32);
        Some((self.instance_of(model, slot)?, model))
    }

    fn on_room(
        &mut self,
        (module, slot): (ModuleId, SlotId),
        [sequences, tokens]: [u32; 2],
        now: Timestamp,
        effects: &mut Vec<QueueEffect>,
    ) {
        let Some(model) = self.model_of(module) else {
            return;
        };
        // A module whose model is not served there any more may still report.
        if let Some(instance) = self.instance_of(model, slot)
            && self.policy.model_on(instance) == Some(model)
        {
            let room = QueueEvent::Room {
                instance,
                sequences,
                tokens,
            };
            self.policy.step(room, now, effects);
        }
    }

    fn on_fact(
        &mut self,
        module: ModuleId,
        fact: QueueFact,
        now: Timestamp,
        effects: &mut Vec<QueueEffect>,
        out: &mut Outbox,
    ) {
        let Some(model) = self.model_of(module) else {
            return;
        };
        let request = |sequence: SequenceId| self.requests.get(&(module, sequence)).copied();
        let event = match fact {
            QueueFact::Arrived {
                sequence,
                prompt,
                slo,
                deadline,
            } => {
                let request = SequenceId(self.next);
                self.next += 1;
                self.requests.insert((module, sequence), request);
                self.sequences.insert(request, (model, sequence));
                QueueEvent::Arrived {
                    request,
                    model,
                    class: class_of(slo),
                    prompt,
                    deadline,
                }
            }
            QueueFact::Finished { sequence, generated } => {
                let Some(request) = request(sequence) else { return };
                self.forget(request);
                QueueEvent::Finished { request, generated }
            }
            QueueFact::Returned {
                sequence,
                generated,
                cached,
            } => {
                let Some(request) = request(sequence) else { return };
                QueueEvent::Returned {
                    request,
                    generated,
                    cached,
                }
            }
            QueueFact::Cancelled { sequence } => {
                let Some(request) = request(sequence) else { return };
                self.forget(request);
                QueueEvent::Cancelled { request }
            }
            // Rooms are kept apart.
            QueueFact::Room { .. } => return,
            QueueFact::Down { slot } => return self.on_down((model, slot), now, effects, out),
            QueueFact::Up { slot } => return self.on_up((model, slot), now, effects, out),
        };
        self.policy.step(event, now, effects);
    }

    fn forget(&mut self, request: SequenceId) {
        if let Some((model, sequence)) = self.sequences.remove(&request) {
            let module = self.modules[model.index()].module;
            self.requests.remove(&(module, sequence));
        }
    }

    /// The thread of a model on an instance is lost. If the instance serves that model, what runs there waits again, and sessions of
    /// other models are closed, so that the instance begins anew. Else the other models are served as before.
    fn on_down(
        &mut self,
        (model, slot): (ModelId, SlotId),
        now: Timestamp,
        effects: &mut Vec<QueueEffect>,
        out: &mut Outbox,
    ) {
        let Some(instance) = self.instance_of(model, slot) else {
            return;
        };
        let is_served = self.policy.model_on(instance) == Some(model);
        let own = &mut self.instances[instance.index()];
        own.lost[model.index()] = true;
        if !is_served && !own.is_down {
            if own.sessions[model.index()] == Session::Open {
                own.sessions[model.index()] = Session::Closed;
                let closed = QueueEvent::Closed { instance, model };
                self.policy.step(closed, now, effects);
            }
            return;
        }
        if !std::mem::replace(&mut own.is_down, true) {
            self.withdraw_starts(instance, out);
            self.policy.step(QueueEvent::Down(instance), now, effects);
        }
        for other in (0..self.modules.len() as u32).map(ModelId) {
            let own = &self.instances[instance.index()];
            if own.sessions[other.index()] == Session::Open && !own.lost[other.index()] {
                self.close(instance, other, out);
            }
        }
    }

    /// Withdraws starts of sequences on a lost instance that their modules have not received: the instance may be back already,
    /// and the sequences wait again.
    fn withdraw_starts(&self, instance: InstanceId, out: &mut Outbox) {
        out.0.retain(|outgoing| {
            let Outgoing::Tell(Message::Module(module, ModuleMessage::Fact(event))) = outgoing else {
                return true;
            };
            let ModuleEvent::SequenceStarted { slot, .. } = event else {
                return true;
            };
            let is_here =
                |own: &QueuedModule| own.module == *module && own.slots.get(instance.index()) == Some(slot);
            !self.modules.iter().any(is_here)
        });
    }

    /// The thread of a model is back. On an instance that is down it may have opened its session again by itself, so that is
    /// closed. Else it may have opened its session for the queues.
    fn on_up(
        &mut self,
        (model, slot): (ModelId, SlotId),
        now: Timestamp,
        effects: &mut Vec<QueueEffect>,
        out: &mut Outbox,
    ) {
        let Some(instance) = self.instance_of(model, slot) else {
            return;
        };
        let own = &mut self.instances[instance.index()];
        if !std::mem::take(&mut own.lost[model.index()]) {
            return;
        }
        match (own.is_down, own.sessions[model.index()]) {
            (true, Session::Open | Session::Closed) => self.close(instance, model, out),
            (false, Session::Open) => {
                let opened = QueueEvent::Opened { instance, model };
                self.policy.step(opened, now, effects);
            }
            // The answer to an order that it has follows.
            _ => {}
        }
    }

    /// Uses an instance that was lost once all threads are back and all sessions from before are closed.
    fn use_again(&mut self, instance: InstanceId, now: Timestamp, effects: &mut Vec<QueueEffect>) {
        let own = &mut self.instances[instance.index()];
        let is_clear = own.sessions.iter().all(|session| *session == Session::Closed);
        if own.is_down && is_clear && !own.lost.contains(&true) {
            own.is_down = false;
            self.policy.step(QueueEvent::Up(instance), now, effects);
        }
    }

    /// Takes in the answer to an order.
    fn on_session(
        &mut self,
        event: SlotEvent,
        now: Timestamp,
        effects: &mut Vec<QueueEffect>,
        out: &mut Outbox,
    ) {
        let (slot, model, session) = match event {
            SlotEvent::Opened { slot, model, .. } => (slot, model, Session::Open),
            SlotEvent::OpenFailed { slot, model, .. } | SlotEvent::Closed { slot, model, .. } => {
                (slot, model, Session::Closed)
            }
            _ => return,
        };
        let Some((instance, model)) = self.place_of_session(slot, model) else {
            return;
        };
        let own = &mut self.instances[instance.index()];
        own.sessions[model.index()] = session;
        let is_lost = own.lost[model.index()];
        if own.is_down {
            // A session whose thread is lost is closed once that is back.
            if session == Session::Open && !is_lost {
                self.close(instance, model, out);
            }
            return self.use_again(instance, now, effects);
        }
        let event = match event {
            // Its module does not use it before its thread is back.
            SlotEvent::Opened { .. } if is_lost => return,
            SlotEvent::Opened { .. } => QueueEvent::Opened { instance, model },
            SlotEvent::OpenFailed { .. } => QueueEvent::OpenFailed { instance, model },
            _ => QueueEvent::Closed { instance, model },
        };
        self.policy.step(event, now, effects);
    }

    fn close(&mut self, instance: InstanceId, model: ModelId, out: &mut Outbox) {
        self.instances[instance.index()].sessions[model.index()] = Session::Closing;
        let module = &self.modules[model.index()];
        out.act(Effect::Session(SlotEffect::Close {
            slot: module.slots[instance.index()],
            model: module.model,
        }));
    }

    /// Turns effects of the queues into messages and effects on the world.
    fn carry_out(&mut self, effects: &mut Vec<QueueEffect>, out: &mut Outbox) {
        for effect in effects.drain(..) {
            match effect {
                QueueEffect::Start {
                    request,
                    instance,
                    cached,
                    ..
                } => {
                    self.tell(request, out, |module, sequence| ModuleEvent::SequenceStarted {
                        slot: module.slots[instance.index()],
                        sequence,
                        cached,
                    });
                }
                QueueEffect::Return {
                    request,
                    instance,
                    by,
                } => {
                    self.tell(request, out, |module, sequence| ModuleEvent::SequenceRecalled {
                        slot: module.slots[instance.index()],
                        sequence,
                        keeps_cache: by == Transfer::Cache,
                    });
                }
                QueueEffect::Refuse { request } => {
                    self.tell(request, out, |_, sequence| ModuleEvent::SequenceRefused {
                        sequence,
                    });
                    self.forget(request);
                }
                QueueEffect::Open {
                    instance,
                    model,
                    warm,
                } => {
                    self.instances[instance.index()].sessions[model.index()] = Session::Opening;
                    let module = &self.modules[model.index()];
                    out.act(Effect::Session(SlotEffect::Open {
                        slot: module.slots[instance.index()],
                        model: module.model,
                        warm,
                    }));
                }
                QueueEffect::Close { instance, model } => self.close(instance, model, out),
                // Instances share what is in host memory.
                QueueEffect::Discard { model, .. } => {
                    let mut instances = (0..self.instances.len() as u32).map(InstanceId);
                    if !instances.any(|instance| self.policy.residency(instance).is_warm(model)) {
                        let model = self.modules[model.index()].model;
                        out.act(Effect::Session(SlotEffect::Discard { model }));
                    }
                }
                QueueEffect::Prefetch { .. } => {}
            }
        }
    }

    /// Sends an event to the module of a request; a request that has ended since has none.
    fn tell(
        &self,
        request: SequenceId,
        out: &mut Outbox,
        event: impl FnOnce(&QueuedModule, SequenceId) -> ModuleEvent,
    ) {
        if let Some(&(model, sequence)) = self.sequences.get(&request) {
            let module = &self.modules[model.index()];
            out.tell(Message::fact(module.module, event(module, sequence)));
        }
    }
}

#[cfg(test)]
mod tests;
