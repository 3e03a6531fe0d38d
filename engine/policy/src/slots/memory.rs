//! Sessions on the slots of devices whose memory does not hold all their models. A session is one model
//! opened on one slot, as the residency of the device decides. Each slot has a queue of sessions to open and
//! close once it is free.
//!
//! A session that was opened has a *turn*: while something asks for it, it is not closed for four times as
//! long as it took to open. So a slot spends at most a fifth of its time on opening.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use weir_types::{ModelId, SlotId, Span, Timestamp};

use super::api::DeviceMemory;
use super::reserve::Reserve;
use crate::residency::{Residency, ResidencyEffect, ResidencyEvent, ResidencySpec, Standing};
use crate::strategy::SlotQueues;

/// Rule for how long a session that was opened stays open while work asks for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Turn {
    /// For a multiple of the time that it took to open.
    #[default]
    Openings,
    /// Until it has run one batch.
    Once,
    /// As long as work asks for it.
    WhileAsked,
}

impl Turn {
    pub(super) fn of(queues: Option<SlotQueues>) -> Self {
        match queues {
            None => Self::Openings,
            Some(SlotQueues::Sticky) => Self::WhileAsked,
            // Under these rules the queue decides which work is next, so a turn need not protect a session
            // after one batch.
            Some(SlotQueues::Fcfs | SlotQueues::Edf | SlotQueues::Shepherd | SlotQueues::Virtual) => {
                Self::Once
            }
        }
    }

    /// Longest turn after an opening that took `took`.
    fn span(self, took: Span) -> Span {
        match self {
            Self::Openings => took * TURN,
            Self::Once => Span::ZERO,
            Self::WhileAsked => Span::MAX,
        }
    }
}

/// Length of a turn, as a multiple of the time that the opening took.
const TURN: u64 = 4;

/// A session that no work asks for ends its turn early: after the opening's time divided by this.
const IDLE_PART: u64 = 4;

/// A pending change of a slot's sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    Open { model: ModelId, warm: bool },
    Close(ModelId),
}

/// A model on a slot.
#[derive(Debug, Clone)]
struct Session {
    slot: SlotId,
    model: ModelId,
    open_cold: Span,
    open_warm: Span,
    /// Start of its turn, and the time that opening took; `None` if it has no turn.
    turn: Option<(Timestamp, Span)>,
    /// Time at which it last ran or was asked for.
    used_at: Timestamp,
    /// Whether its device was notified that the session is wanted, and has not opened it yet.
    is_wanted: bool,
    /// Whether a module holds a grant of the slot for this session.
    is_granted: bool,
    /// Whether it has run since it was opened.
    has_run: bool,
    /// Whether work asked for it at the last step.
    is_asked: bool,
    /// Whether it stays open for cameras.
    is_reserved: bool,
}

impl Session {
    /// End of its turn, as seen now; `None` if it has no turn, or has to run first.
    fn turn_end(&self, turn: Turn) -> Option<Timestamp> {
        let (began, took) = self.turn?;
        let longest = began + turn.span(took);
        if self.is_granted {
            return Some(longest);
        }
        if self.is_asked {
            // A session that was opened for queued work is not closed before it has run a batch.
            return self.has_run.then_some(longest);
        }
        Some(longest.min(self.used_at + took / IDLE_PART))
    }
}

#[derive(Debug, Clone)]
struct Device {
    residency: Residency,
    /// By id in the residency.
    sessions: Vec<Session>,
    /// Sessions kept open for cameras; `None` if all work on the device is for cameras, or none is.
    reserve: Option<Reserve>,
}

/// Sessions of all devices with limited memory.
#[derive(Debug, Clone, Default)]
pub(super) struct SlotMemory {
    devices: Vec<Device>,
    turn: Turn,
    /// Index of the device, and id of the session in that device's residency.
    places: BTreeMap<(SlotId, ModelId), (usize, ModelId)>,
    /// Pending openings and closings of each slot, in order; a slot does them while it is free.
    queued: BTreeMap<SlotId, VecDeque<Change>>,
    /// Sessions that could not be opened: one batch of each is granted and fails, as if its session had been
    /// lost.
    failed: BTreeSet<(SlotId, ModelId)>,
    /// Models whose bytes in host memory are not needed any more.
    discarded: Vec<ModelId>,
    effects: Vec<ResidencyEffect>,
}

impl SlotMemory {
    /// Starts without open sessions; `live` are models that cameras need. `None` if no device is limited.
    pub(super) fn new(spec: &[DeviceMemory], turn: Turn, live: &BTreeSet<ModelId>) -> Option<Self> {
        if spec.is_empty() {
            return None;
        }
        let mut memory = Self {
            turn,
            ..Self::default()
        };
        for (index, device) in spec.iter().enumerate() {
            let (mut sessions, mut models, mut same_bytes) = (Vec::new(), Vec::new(), Vec::new());
            for of_model in &device.models {
                let first = ModelId(sessions.len() as u32);
                for &slot in &of_model.slots {
                    let id = ModelId(sessions.len() as u32);
                    memory.places.insert((slot, of_model.model), (index, id));
                    same_bytes.push(first);
                    models.push(of_model.memory);
                    sessions.push(Session {
                        slot,
                        model: of_model.model,
                        open_cold: of_model.open_cold,
                        open_warm: of_model.open_warm,
                        turn: None,
                        used_at: Timestamp::ZERO,
                        is_wanted: false,
                        is_granted: false,
                        has_run: false,
                        is_asked: false,
                        is_reserved: false,
                    });
                }
            }
            let residency = Residency::new(&ResidencySpec {
                memory: Some(device.memory),
                host_memory: device.host_memory,
                models,
                same_bytes,
            });
            memory.devices.push(Device {
                residency,
                sessions,
                reserve: Reserve::new(device, live),
            });
        }
        Some(memory)
    }

    fn session(&mut self, slot: SlotId, model: ModelId) -> Option<(&mut Session, ModelId, usize)> {
        let (device, id) = *self.places.get(&(slot, model))?;
        Some((&mut self.devices[device].sessions[id.index()], id, device))
    }

    /// Residency of a model on a slot; always open on devices that are not limited.
    pub(super) fn standing(&self, slot: SlotId, model: ModelId) -> Standing {
        let place = self.places.get(&(slot, model));
        place.map_or(Standing::Open, |&(device, id)| {
            self.devices[device].residency.standing(id)
        })
    }

    /// Whether a batch of the model may be granted the slot: its session is open, or could not be opened and
    /// the batch is to fail.
    pub(super) fn is_ready(&self, slot: SlotId, model: ModelId) -> bool {
        self.standing(slot, model) == Standing::Open || self.failed.contains(&(slot, model))
    }

    /// Time that opening the model on the slot takes from where it is now; zero if it is open or opening.
    pub(super) fn opening_time(&self, slot: SlotId, model: ModelId) -> Span {
        let Some(&(device, id)) = self.places.get(&(slot, model)) else {
            return Span::ZERO;
        };
        let session = &self.devices[device].sessions[id.index()];
        match self.devices[device].residency.standing(id) {
            Standing::Open | Standing::Opening => Span::ZERO,
            Standing::Closing | Standing::Cold | Standing::Warm => self.opening_span(session, id, device),
        }
    }

    /// Time that opening the model on the slot takes once it was closed for another one.
    pub(super) fn reopening_time(&self, slot: SlotId, model: ModelId) -> Span {
        self.places
            .get(&(slot, model))
            .map_or(Span::ZERO, |&(device, id)| {
                self.opening_span(&self.devices[device].sessions[id.index()], id, device)
            })
    }

    fn opening_span(&self, session: &Session, id: ModelId, device: usize) -> Span {
        match self.devices[device].residency.is_warm(id) {
            true => session.open_warm,
            false => session.open_cold,
        }
    }

    /// Declared duration of opening the model on the slot, from host memory if `warm`.
    pub(super) fn declared(&self, slot: SlotId, model: ModelId, warm: bool) -> Span {
        let Some(&(device, id)) = self.places.get(&(slot, model)) else {
            return Span::ZERO;
        };
        let session = &self.devices[device].sessions[id.index()];
        if warm {
            session.open_warm
        } else {
            session.open_cold
        }
    }

    /// Whether a session has a turn, so that it is served before other sessions are opened.
    pub(super) fn has_turn(&self, slot: SlotId, model: ModelId) -> bool {
        let place = self.places.get(&(slot, model));
        place.is_some_and(|&(device, id)| {
            let session = &self.devices[device].sessions[id.index()];
            session.turn.is_some() && !session.is_reserved
        })
    }

    /// Sessions of a model that stay open for cameras, on the device of the slot.
    pub(super) fn reserved(&self, slot: SlotId, model: ModelId) -> usize {
        let place = self.places.get(&(slot, model));
        let reserve = place.and_then(|&(device, _)| self.devices[device].reserve.as_ref());
        reserve.map_or(0, |reserve| reserve.sessions(model))
    }

    /// A module is granted the slot for its model.
    pub(super) fn on_granted(&mut self, slot: SlotId, model: ModelId, now: Timestamp) {
        if self.failed.remove(&(slot, model)) {
            return;
        }
        let Some((session, id, device)) = self.session(slot, model) else {
            return;
        };
        session.used_at = now;
        session.is_granted = true;
        session.has_run = true;
        self.tell(device, ResidencyEvent::Began(id));
    }

    /// The slot is free of the model again.
    pub(super) fn on_freed(&mut self, slot: SlotId, model: ModelId, now: Timestamp) {
        let Some((session, id, device)) = self.session(slot, model) else {
            return;
        };
        session.used_at = now;
        if std::mem::take(&mut session.is_granted) {
            self.tell(device, ResidencyEvent::Ended(id));
        }
    }

    /// The session is open; opening took `took`.
    pub(super) fn on_opened(&mut self, slot: SlotId, model: ModelId, (took, now): (Span, Timestamp)) {
        let Some((session, id, device)) = self.session(slot, model) else {
            return;
        };
        session.used_at = now;
        session.turn = Some((now, took));
        session.has_run = false;
        // The residency treats the turn as a run, so that it does not close the session before the turn ends.
        self.tell(device, ResidencyEvent::Kept(id));
        self.tell(device, ResidencyEvent::Opened(id));
        if !self.devices[device].residency.is_warm(id) && !self.discarded.contains(&model) {
            self.discarded.push(model);
        }
    }

    pub(super) fn on_open_failed(&mut self, slot: SlotId, model: ModelId) {
        self.failed.insert((slot, model));
        if let Some((_, id, device)) = self.session(slot, model) {
            self.tell(device, ResidencyEvent::OpenFailed(id));
        }
    }

    pub(super) fn on_closed(&mut self, slot: SlotId, model: ModelId) {
        if let Some((_, id, device)) = self.session(slot, model) {
            self.tell(device, ResidencyEvent::Closed(id));
        }
    }

    /// Requests a session on the slot for a model that is not open there.
    pub(super) fn want(&mut self, slot: SlotId, model: ModelId, now: Timestamp) {
        let Some((session, id, device)) = self.session(slot, model) else {
            return;
        };
        session.used_at = now;
        if std::mem::replace(&mut session.is_wanted, true) {
            return;
        }
        // The session that was used longest ago has the least value.
        let sessions = &self.devices[device].sessions;
        let used: Vec<f64> = sessions
            .iter()
            .map(|session| session.used_at.micros() as f64)
            .collect();
        for (other, used) in (0..).map(ModelId).zip(&used) {
            self.tell(device, ResidencyEvent::Valued(other, *used));
        }
        self.tell(device, ResidencyEvent::Wanted(id));
        self.tell(device, ResidencyEvent::Valued(id, used[id.index()]));
    }

    /// Keeps sessions open for cameras, as recent loads need them: for each model the first sessions that are
    /// open on slots in use.
    pub(super) fn keep(&mut self, load: impl Fn(ModelId) -> f64, is_up: impl Fn(SlotId) -> bool) {
        for index in 0..self.devices.len() {
            let device = &mut self.devices[index];
            let Some(reserve) = &mut device.reserve else {
                continue;
            };
            reserve.follow(&load);
            let mut kept: BTreeMap<ModelId, usize> = BTreeMap::new();
            let mut changed = Vec::new();
            for (id, session) in (0..).map(ModelId).zip(&mut device.sessions) {
                let kept = kept.entry(session.model).or_default();
                let is_reserved = device.residency.standing(id) == Standing::Open
                    && is_up(session.slot)
                    && *kept < reserve.sessions(session.model);
                *kept += usize::from(is_reserved);
                if std::mem::replace(&mut session.is_reserved, is_reserved) != is_reserved {
                    changed.push(match is_reserved {
                        true => ResidencyEvent::Kept(id),
                        false => ResidencyEvent::Ended(id),
                    });
                }
            }
            for event in changed {
                self.tell(index, event);
            }
        }
    }

    /// Ends turns that are over, and withdraws sessions that no work asks for any more.
    pub(super) fn end_turns(&mut self, is_asked: impl Fn(SlotId, ModelId) -> bool, now: Timestamp) {
        for index in 0..self.devices.len() {
            for id in (0..self.devices[index].sessions.len() as u32).map(ModelId) {
                let standing = self.devices[index].residency.standing(id);
                let turn = self.turn;
                let session = &mut self.devices[index].sessions[id.index()];
                session.is_asked = is_asked(session.slot, session.model);
                let asked = session.is_asked;
                if session.is_wanted {
                    let comes = matches!(standing, Standing::Opening | Standing::Open);
                    session.is_wanted = !comes && asked;
                    if !comes && !asked {
                        self.tell(index, ResidencyEvent::Unwanted(id));
                    }
                }
                let session = &mut self.devices[index].sessions[id.index()];
                if session.turn_end(turn).is_some_and(|end| end <= now) {
                    session.turn = None;
                    self.tell(index, ResidencyEvent::Ended(id));
                }
            }
        }
    }

    /// Time at which the next turn ends, if a session waits for that.
    pub(super) fn next_turn_end(&self) -> Option<Timestamp> {
        let sessions = || self.devices.iter().flat_map(|device| &device.sessions);
        if !sessions().any(|session| session.is_wanted) {
            return None;
        }
        let ends = sessions().filter_map(|session| session.turn_end(self.turn));
        // Turns without an end last for as long as work asks for the session.
        ends.filter(|end| *end < Timestamp::MAX).min()
    }

    fn tell(&mut self, device: usize, event: ResidencyEvent) {
        self.devices[device].residency.step(event, &mut self.effects);
        for effect in std::mem::take(&mut self.effects) {
            self.queue(device, effect);
        }
    }

    fn queue(&mut self, device: usize, effect: ResidencyEffect) {
        let of = |id: ModelId, memory: &Self| {
            let session = &memory.devices[device].sessions[id.index()];
            (session.slot, session.model)
        };
        let (slot, change) = match effect {
            ResidencyEffect::Open { model, warm } => {
                let (slot, model) = of(model, self);
                (slot, Change::Open { model, warm })
            }
            ResidencyEffect::Close(id) => {
                let (slot, model) = of(id, self);
                (slot, Change::Close(model))
            }
            ResidencyEffect::Discard(id) => {
                let (_, model) = of(id, self);
                self.discarded.push(model);
                return;
            }
            // No event `Expected` is ever sent; a graph with a model larger than its device is not accepted.
            ResidencyEffect::Prefetch(_) => return,
            ResidencyEffect::Refuse(id) => {
                let place = of(id, self);
                self.failed.insert(place);
                return;
            }
        };
        self.queued.entry(slot).or_default().push_back(change);
    }

    /// Removes the next opening or closing from the queue of a slot, which must be free.
    pub(super) fn next_change(&mut self, slot: SlotId) -> Option<Change> {
        self.queued.get_mut(&slot)?.pop_front()
    }

    /// Slots that have something to open or close.
    pub(super) fn slots_with_changes(&self) -> impl Iterator<Item = SlotId> {
        let with = self.queued.iter().filter(|(_, changes)| !changes.is_empty());
        with.map(|(slot, _)| *slot)
    }

    /// Takes the models whose bytes in host memory are to be removed.
    pub(super) fn take_discarded(&mut self) -> Vec<ModelId> {
        std::mem::take(&mut self.discarded)
    }

    /// Bytes in use on each limited device.
    pub(super) fn used_bytes(&self) -> impl Iterator<Item = u64> {
        self.devices.iter().map(|device| device.residency.used_bytes())
    }
}
