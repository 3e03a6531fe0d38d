//! The gears of a graph (KEN), checked: the setting of each stage of its cascades, by range of load.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use weir_types::TileGrid;

use super::{InvocationSize, ShiftRule, ShiftSpec};

/// Setting of a stage in a gear.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct StageSetting {
    /// Whether the stage gets items.
    pub is_used: bool,
    /// Least certainty, 0 to 1, of an answer that is accepted.
    pub certainty: f32,
    /// Number of items that the stage waits for before it runs a batch, and the longest wait.
    pub invocation: InvocationSize,
    /// Tiles in which the module reads frames, in place of those that the graph sets; `None`: those of the graph.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tiles: Option<TileGrid>,
}

impl StageSetting {
    /// Setting of a stage that gets items and runs batches at once.
    #[must_use]
    pub fn asked(certainty: f32) -> Self {
        Self {
            is_used: true,
            certainty,
            invocation: InvocationSize::default(),
            tiles: None,
        }
    }
}

/// A gear of a plan, for a range of load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GearNode {
    /// Upper end of the range, in requests a second.
    pub up_to: f64,
    /// Expected accuracy, 0 to 1, if the plan's file gives it.
    pub accuracy: Option<f64>,
    /// By the index of a stage's module.
    pub stages: BTreeMap<usize, StageSetting>,
    /// By index of a stage's module: the fraction of its items that each slot gets, 0 to 1, by the place of
    /// the slot. A module that is missing has no shares: each slot takes as many items as it can.
    pub shares: BTreeMap<usize, Vec<f64>>,
    /// By index of a stage's module: items that each of its replicas waits for, by the place of the slot. A module that is here
    /// has a queue for each slot.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub triggers: BTreeMap<usize, Vec<InvocationSize>>,
}

/// The gears of a graph.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Gears {
    /// The file that they are read from.
    pub file: PathBuf,
    /// Number of the plan.
    pub number: u64,
    /// Rule for shifting gears.
    pub rule: ShiftRule,
    /// Gears by ascending load; at least one.
    pub gears: Vec<GearNode>,
}

impl Gears {
    /// Setting of a stage in a gear, by the index of its module; `own` if the gear does not contain it.
    #[must_use]
    pub fn setting(&self, gear: usize, module: usize, own: StageSetting) -> StageSetting {
        let gear = self.gears.get(gear);
        gear.and_then(|gear| gear.stages.get(&module).copied())
            .unwrap_or(own)
    }

    /// Fraction of a stage's items for the slot at a place in a gear; `None` if the gear has no shares for
    /// the stage.
    #[must_use]
    pub fn share(&self, gear: usize, module: usize, place: usize) -> Option<f64> {
        let shares = self.gears.get(gear)?.shares.get(&module)?;
        Some(shares.get(place).copied().unwrap_or(0.0))
    }

    /// Items that the replica of a stage on the slot at a place waits for in a gear; one without a plan for it.
    #[must_use]
    pub fn trigger(&self, gear: usize, module: usize, place: usize) -> InvocationSize {
        let triggers = self.gears.get(gear).and_then(|gear| gear.triggers.get(&module));
        let trigger = triggers.and_then(|triggers| triggers.get(place));
        trigger.copied().unwrap_or_default()
    }

    /// Whether a gear gives each replica of a stage a queue of its own.
    #[must_use]
    pub fn has_replicas(&self, module: usize) -> bool {
        self.gears.iter().any(|gear| gear.triggers.contains_key(&module))
    }

    /// The specification that they are shifted by.
    #[must_use]
    pub fn shift_spec(&self) -> ShiftSpec {
        ShiftSpec {
            rule: self.rule,
            bounds: self.gears.iter().map(|gear| gear.up_to).collect(),
        }
    }
}
