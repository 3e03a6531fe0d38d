//! Device memory that is reserved for cameras, if they share the device with work that can wait. After QLM,
//! whose planner reserves a part of an instance by rate for a stream of live requests.
//!
//! ```text
//! load(m)     = slots that modules of model m for cameras kept busy recently (sum of busy fractions)
//! sessions(m) = load(m) / 0.8, rounded up; at least one if there is any load
//! ```
//!
//! So many sessions of each such model stay open, at first one of each, as long as the largest of all models
//! still fits beside them. On a further slot the model is opened only if a request would be late on the
//! reserved sessions.

use std::collections::{BTreeMap, BTreeSet};

use weir_types::ModelId;

use super::api::DeviceMemory;

/// Fraction of a slot's time that one session is planned to use.
const MAX_LOAD: f64 = 0.8;
/// Upper bound on the rounding error of a load, which is a sum of measured times.
const ROUNDING: f64 = 1e-6;

/// The reserve of one device.
#[derive(Debug, Clone)]
pub(super) struct Reserve {
    /// Models that cameras need: id, bytes of a session, and the most sessions that are possible.
    models: Vec<(ModelId, u64, usize)>,
    /// Bytes that may be reserved.
    room: u64,
    /// Sessions that stay open.
    sessions: BTreeMap<ModelId, usize>,
}

impl Reserve {
    /// Returns `None` if all models of the device are for cameras, or none is.
    pub(super) fn new(device: &DeviceMemory, live: &BTreeSet<ModelId>) -> Option<Self> {
        let models: Vec<_> = device
            .models
            .iter()
            .filter(|of_model| live.contains(&of_model.model))
            .map(|of_model| (of_model.model, of_model.memory.device_bytes, of_model.slots.len()))
            .collect();
        let largest = device
            .models
            .iter()
            .map(|of_model| of_model.memory.device_bytes)
            .max()?;
        (!models.is_empty() && models.len() < device.models.len()).then(|| Self {
            models,
            room: device.memory.saturating_sub(largest),
            sessions: BTreeMap::new(),
        })
    }

    /// Sets the number of sessions that stay open from the recent load of each model.
    pub(super) fn follow(&mut self, load: impl Fn(ModelId) -> f64) {
        self.sessions.clear();
        let mut room = self.room;
        let needed: Vec<usize> = self
            .models
            .iter()
            .map(|(model, _, slots)| {
                ((load(*model) / MAX_LOAD - ROUNDING).ceil().max(0.0) as usize).min(*slots)
            })
            .collect();
        // One session of each model first, since a frame needs all of them.
        for round in 0..needed.iter().copied().max().unwrap_or_default() {
            for ((model, bytes, _), needed) in self.models.iter().zip(&needed) {
                if round < *needed && *bytes <= room {
                    room -= bytes;
                    *self.sessions.entry(*model).or_default() += 1;
                }
            }
        }
    }

    /// Sessions of a model that stay open.
    pub(super) fn sessions(&self, model: ModelId) -> usize {
        self.sessions.get(&model).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use weir_types::{SlotId, Span};

    use super::super::api::DeviceModel;
    use super::*;
    use crate::residency::ModelMemory;

    /// A device whose models take so many bytes on each of two slots.
    fn device(memory: u64, bytes: &[u64]) -> DeviceMemory {
        let model = |(id, bytes): (u32, &u64)| DeviceModel {
            model: ModelId(id),
            slots: vec![SlotId(0), SlotId(1)],
            memory: ModelMemory {
                device_bytes: *bytes,
                host_bytes: *bytes,
            },
            open_cold: Span::ZERO,
            open_warm: Span::ZERO,
        };
        DeviceMemory {
            memory,
            host_memory: 0,
            models: (0..).zip(bytes).map(model).collect(),
        }
    }

    fn kept(memory: u64, bytes: &[u64], loads: &[f64]) -> Vec<usize> {
        let live = (0..loads.len() as u32).map(ModelId).collect();
        let mut reserve = Reserve::new(&device(memory, bytes), &live).unwrap();
        reserve.follow(|model| loads[model.index()]);
        (0..loads.len() as u32)
            .map(|id| reserve.sessions(ModelId(id)))
            .collect()
    }

    #[test]
    fn sessions_follow_the_load_and_leave_a_place_for_the_largest() {
        assert_eq!(kept(100, &[20, 10, 20], &[1.1, 0.1]), [2, 1]);
        assert_eq!(kept(100, &[20, 10, 20], &[0.7, 0.0]), [1, 0]);
        // Not more sessions than slots.
        assert_eq!(kept(100, &[20, 10, 20], &[3.0, 0.1]), [2, 1]);
        // One session of each model before a second of any.
        assert_eq!(kept(55, &[20, 10, 20], &[1.1, 0.1]), [1, 1]);
        assert_eq!(kept(40, &[20, 10, 20], &[1.1, 0.1]), [1, 0]);
    }

    #[test]
    fn where_all_is_for_cameras_or_nothing_is_nothing_is_kept() {
        let device = device(100, &[20, 20]);
        for live in [vec![], vec![0, 1]] {
            let live = live.into_iter().map(ModelId).collect();
            assert!(Reserve::new(&device, &live).is_none());
        }
    }
}
