//! Residency of models on a device whose memory does not hold all of them (QLM, section 5: model warm start).
//!
//! ```text
//! cold --(prefetch)--> warm          the model's bytes are in host memory
//! cold, warm --> opening --> open --> closing --> warm, or cold if host memory has no room
//! ```
//!
//! In states *opening*, *open* and *closing* a model uses memory of the device; the sum never exceeds the
//! device's memory. If a wanted model has no room, the least valuable open models are closed, but none that
//! runs. The value of a model is set from outside: a virtual queue sets how soon the model is needed;
//! otherwise it is the time of the latest demand.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use weir_types::ModelId;
use weir_types::invariant;
use weir_types::invariant::Kind;

#[cfg(test)]
mod tests;

/// Memory use of one model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelMemory {
    /// Bytes of the device, while the model is opening, open or closing.
    pub device_bytes: u64,
    /// Bytes of host memory, while the model is warm.
    pub host_bytes: u64,
}

/// A device and the models that may be opened on it, by their ids.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResidencySpec {
    /// Bytes of the device's memory; `None`: unlimited.
    pub memory: Option<u64>,
    /// Bytes of host memory that warm models may use.
    pub host_memory: u64,
    /// Memory use of each model, by id.
    pub models: Vec<ModelMemory>,
    /// For each model, the first model that is opened from the same bytes of host memory; these count once.
    /// Used for sessions of one model on several slots. Empty if each model has its own bytes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub same_bytes: Vec<ModelId>,
}

/// Location of a model: file, host memory or device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Standing {
    /// In its file alone.
    Cold,
    /// In host memory.
    Warm,
    /// Being loaded onto the device.
    Opening,
    /// Loaded and able to run.
    Open,
    /// Being removed from the device.
    Closing,
}

/// A fact about the device's models.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ResidencyEvent {
    /// A model is needed. Models are opened in the order of these events, as memory gets free.
    Wanted(ModelId),
    /// A model is not needed any more. An opening in progress continues.
    Unwanted(ModelId),
    /// A model will be needed soon: it is read into host memory if there is room.
    Expected(ModelId),
    /// The value of a model from now on; the least valuable model is closed first.
    Valued(ModelId, f64),
    /// A batch or sequence of an open model starts to run.
    Began(ModelId),
    /// A model that is opening or open is not closed until [`Ended`](Self::Ended), as if a batch of it ran.
    Kept(ModelId),
    /// Such a run or hold has ended.
    Ended(ModelId),
    /// The model is open.
    Opened(ModelId),
    /// The model could not be opened; it uses no memory.
    OpenFailed(ModelId),
    /// The model is closed, and its memory is free.
    Closed(ModelId),
    /// The model is in host memory.
    Prefetched(ModelId),
}

/// An action that the residency requests from its driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ResidencyEffect {
    /// Open the model, from host memory or from its file.
    Open {
        /// Model to be opened.
        model: ModelId,
        /// Whether its bytes are in host memory.
        warm: bool,
    },
    /// Close the model.
    Close(ModelId),
    /// Read the model's file into host memory.
    Prefetch(ModelId),
    /// Remove the model's bytes from host memory.
    Discard(ModelId),
    /// The model is larger than the device's memory: it can never be opened.
    Refuse(ModelId),
}

/// Counters of a device since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ResidencyStats {
    /// Number of openings from a file.
    pub opened_cold: u64,
    /// Number of openings from host memory.
    pub opened_warm: u64,
    /// Number of times that a model was closed.
    pub closed: u64,
}

#[derive(Debug, Clone, Copy)]
struct Model {
    memory: ModelMemory,
    /// State on the device, if the model is there; [`Standing::Warm`] and [`Standing::Cold`] follow from
    /// `host`.
    device: Option<Standing>,
    host: Host,
    running: u32,
    value: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Host {
    Absent,
    Coming,
    Present,
}

/// The models of one device.
#[derive(Debug, Clone)]
pub struct Residency {
    memory: Option<u64>,
    host_memory: u64,
    models: Vec<Model>,
    /// For each model, the model whose bytes in host memory it is opened from.
    homes: Vec<ModelId>,
    /// Wanted models that are not opening yet, in order of the demands.
    wanted: VecDeque<ModelId>,
    /// Number of demands so far: the value of a model that was given no other.
    clock: f64,
    stats: ResidencyStats,
}

impl Residency {
    /// Creates a residency with no model open or warm.
    #[must_use]
    pub fn new(spec: &ResidencySpec) -> Self {
        let model = |memory: &ModelMemory| Model {
            memory: *memory,
            device: None,
            host: Host::Absent,
            running: 0,
            value: 0.0,
        };
        Self {
            memory: spec.memory,
            host_memory: spec.host_memory,
            models: spec.models.iter().map(model).collect(),
            homes: (0..spec.models.len())
                .map(|id| spec.same_bytes.get(id).copied().unwrap_or(ModelId(id as u32)))
                .collect(),
            wanted: VecDeque::new(),
            clock: 0.0,
            stats: ResidencyStats::default(),
        }
    }

    /// Location of a model at present.
    #[must_use]
    pub fn standing(&self, model: ModelId) -> Standing {
        match (self.models[model.index()].device, self.host(model)) {
            (Some(standing), _) => standing,
            (None, Host::Present) => Standing::Warm,
            (None, _) => Standing::Cold,
        }
    }

    /// Whether the model's bytes are in host memory, open or not.
    #[must_use]
    pub fn is_warm(&self, model: ModelId) -> bool {
        self.host(model) == Host::Present
    }

    fn host(&self, model: ModelId) -> Host {
        self.models[self.homes[model.index()].index()].host
    }

    fn set_host(&mut self, model: ModelId, host: Host) {
        self.models[self.homes[model.index()].index()].host = host;
    }

    /// Models that are opened from the same bytes.
    fn sharers(&self, home: ModelId) -> impl Iterator<Item = ModelId> {
        let ids = (0..self.models.len() as u32).map(ModelId);
        ids.filter(move |id| self.homes[id.index()] == home)
    }

    /// Value of bytes in host memory: that of the most valuable model opened from them.
    fn host_value(&self, home: ModelId) -> f64 {
        let values = self.sharers(home).map(|id| self.models[id.index()].value);
        values.fold(f64::NEG_INFINITY, f64::max)
    }

    /// Bytes of the device in use.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        let on_device = self.models.iter().filter(|model| model.device.is_some());
        on_device.map(|model| model.memory.device_bytes).sum()
    }

    /// Bytes of host memory in use.
    #[must_use]
    pub fn host_bytes(&self) -> u64 {
        let in_host = self.models.iter().filter(|model| model.host != Host::Absent);
        in_host.map(|model| model.memory.host_bytes).sum()
    }

    /// Counters since the start.
    #[must_use]
    pub fn stats(&self) -> ResidencyStats {
        self.stats
    }

    /// Takes in one event, then opens and closes models as far as memory allows.
    pub fn step(&mut self, event: ResidencyEvent, effects: &mut Vec<ResidencyEffect>) {
        match event {
            ResidencyEvent::Wanted(model) => self.on_wanted(model, effects),
            ResidencyEvent::Unwanted(model) => self.wanted.retain(|other| *other != model),
            ResidencyEvent::Expected(model) => self.prefetch(model, effects),
            ResidencyEvent::Valued(model, value) => self.models[model.index()].value = value,
            ResidencyEvent::Began(model) => {
                let is_open = self.standing(model) == Standing::Open;
                invariant!(is_open, Kind::Residency, "model {} runs and is not open", model.0);
                self.models[model.index()].running += 1;
            }
            ResidencyEvent::Kept(model) => self.models[model.index()].running += 1,
            ResidencyEvent::Ended(model) => {
                let running = &mut self.models[model.index()].running;
                *running = running.saturating_sub(1);
            }
            ResidencyEvent::Opened(model) => {
                self.models[model.index()].device = Some(Standing::Open);
                // The model was read through host memory, and its bytes stay there if there is room.
                if self.host(model) == Host::Absent && self.make_host_room(model, effects) {
                    self.set_host(model, Host::Present);
                }
            }
            ResidencyEvent::OpenFailed(model) => self.models[model.index()].device = None,
            ResidencyEvent::Closed(model) => {
                self.stats.closed += 1;
                self.models[model.index()].device = None;
            }
            ResidencyEvent::Prefetched(model) => {
                if self.host(model) == Host::Coming {
                    self.set_host(model, Host::Present);
                }
            }
        }
        self.open_wanted(effects);
    }

    fn on_wanted(&mut self, model: ModelId, effects: &mut Vec<ResidencyEffect>) {
        self.clock += 1.0;
        let bytes = self.models[model.index()].memory.device_bytes;
        if self.memory.is_some_and(|memory| bytes > memory) {
            effects.push(ResidencyEffect::Refuse(model));
            return;
        }
        self.models[model.index()].value = self.clock;
        let on_its_way = matches!(self.standing(model), Standing::Open | Standing::Opening);
        if !on_its_way && !self.wanted.contains(&model) {
            self.wanted.push_back(model);
        }
    }

    /// Opens wanted models in order while there is memory, and closes others to make room.
    fn open_wanted(&mut self, effects: &mut Vec<ResidencyEffect>) {
        while let Some(&model) = self.wanted.front() {
            match self.standing(model) {
                Standing::Open | Standing::Opening => {
                    self.wanted.pop_front();
                    continue;
                }
                // The model is opened again once it is closed.
                Standing::Closing => return,
                Standing::Cold | Standing::Warm => {}
            }
            let bytes = self.models[model.index()].memory.device_bytes;
            if let Some(memory) = self.memory
                && self.used_bytes() + bytes > memory
            {
                self.close_for(bytes, memory, effects);
                return;
            }
            self.wanted.pop_front();
            let warm = self.is_warm(model);
            self.stats.opened_warm += u64::from(warm);
            self.stats.opened_cold += u64::from(!warm);
            self.models[model.index()].device = Some(Standing::Opening);
            effects.push(ResidencyEffect::Open { model, warm });
            let within = self.memory.is_none_or(|memory| self.used_bytes() <= memory);
            invariant!(
                within,
                Kind::Residency,
                "models take more than the device's memory"
            );
        }
    }

    /// Closes the least valuable models that do not run, if they and those already closing free enough
    /// memory.
    fn close_for(&mut self, bytes: u64, memory: u64, effects: &mut Vec<ResidencyEffect>) {
        let closing = self
            .models
            .iter()
            .filter(|model| model.device == Some(Standing::Closing));
        let closing: u64 = closing.map(|model| model.memory.device_bytes).sum();
        let mut left = self.used_bytes() - closing;
        let mut idle: Vec<ModelId> = (0..self.models.len() as u32)
            .map(ModelId)
            .filter(|id| self.standing(*id) == Standing::Open && self.models[id.index()].running == 0)
            .filter(|id| !self.wanted.contains(id))
            .collect();
        idle.sort_by(|a, b| {
            let (a_value, b_value) = (self.models[a.index()].value, self.models[b.index()].value);
            a_value.total_cmp(&b_value).then(a.cmp(b))
        });
        let mut victims = Vec::new();
        for id in idle {
            if left + bytes <= memory {
                break;
            }
            left -= self.models[id.index()].memory.device_bytes;
            victims.push(id);
        }
        // Otherwise a running model has to end first, and until then the others stay open.
        if left + bytes <= memory {
            for id in victims {
                self.models[id.index()].device = Some(Standing::Closing);
                effects.push(ResidencyEffect::Close(id));
            }
        }
    }

    fn prefetch(&mut self, model: ModelId, effects: &mut Vec<ResidencyEffect>) {
        if self.standing(model) == Standing::Cold
            && self.host(model) == Host::Absent
            && self.make_host_room(model, effects)
        {
            self.set_host(model, Host::Coming);
            effects.push(ResidencyEffect::Prefetch(model));
        }
    }

    /// Makes room in host memory for a model by removing warm ones of lower value; returns whether it fits.
    fn make_host_room(&mut self, model: ModelId, effects: &mut Vec<ResidencyEffect>) -> bool {
        let home = self.homes[model.index()];
        let (own, own_value) = (self.models[home.index()].memory, self.host_value(home));
        let mut used = self.host_bytes();
        let stands = |home, standing| self.sharers(home).any(|id| self.standing(id) == standing);
        let mut others: Vec<(f64, ModelId)> = (0..self.models.len() as u32)
            .map(ModelId)
            .filter(|id| *id != home && self.models[id.index()].host == Host::Present)
            // A model that is opening is read from these bytes.
            .filter(|id| !stands(*id, Standing::Opening))
            .map(|id| (self.host_value(id), id))
            .filter(|(value, id)| *value < own_value || stands(*id, Standing::Open))
            .collect();
        others.sort_by(|(a_value, a), (b_value, b)| a_value.total_cmp(b_value).then(a.cmp(b)));
        let mut victims = Vec::new();
        for (_, id) in others {
            if used + own.host_bytes <= self.host_memory {
                break;
            }
            used -= self.models[id.index()].memory.host_bytes;
            victims.push(id);
        }
        let fits = used + own.host_bytes <= self.host_memory;
        if fits {
            for id in victims {
                self.models[id.index()].host = Host::Absent;
                effects.push(ResidencyEffect::Discard(id));
            }
        }
        fits
    }
}
