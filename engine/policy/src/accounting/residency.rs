//! Report of opening and closing models on devices with limited memory.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weir_types::{ModelId, Span};

use crate::accounting::is_zero;
use crate::slots::SlotEvent;

/// Openings and closings on all devices with limited memory.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ResidencyReport {
    /// Number of openings from a file.
    pub opened_cold: u64,
    /// Number of openings from host memory.
    pub opened_warm: u64,
    /// Seconds that slots spent opening and closing models.
    pub seconds: f64,
    /// Counts by name of the model.
    pub models: BTreeMap<String, ModelResidency>,
}

/// Openings and closings of one model.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct ModelResidency {
    /// Number of openings from the model's file.
    pub opened_cold: u64,
    /// Number of openings from host memory.
    pub opened_warm: u64,
    /// Number of times that the model was closed.
    pub closed: u64,
    /// Number of openings that failed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failed: u64,
    /// Seconds that slots spent opening and closing the model.
    pub seconds: f64,
}

impl ResidencyReport {
    /// Counts an event of a slot; `name` returns the name of a model.
    pub fn on_event<'a>(&mut self, event: &SlotEvent, name: impl Fn(ModelId) -> &'a str) {
        match *event {
            SlotEvent::Opened {
                model, warm, took, ..
            } => {
                let (all, own) = self.add(name(model), took);
                *all[usize::from(warm)] += 1;
                own.opened_cold += u64::from(!warm);
                own.opened_warm += u64::from(warm);
            }
            SlotEvent::OpenFailed { model, took, .. } => self.add(name(model), took).1.failed += 1,
            SlotEvent::Closed { model, took, .. } => self.add(name(model), took).1.closed += 1,
            _ => {}
        }
    }

    fn add(&mut self, name: &str, took: Span) -> ([&mut u64; 2], &mut ModelResidency) {
        self.seconds += took.as_secs_f64();
        let own = self.models.entry(name.to_owned()).or_default();
        own.seconds += took.as_secs_f64();
        ([&mut self.opened_cold, &mut self.opened_warm], own)
    }
}
