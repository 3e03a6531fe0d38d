//! The gears of a graph (KEN), checked: the setting of each stage of its cascades, by range of load.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{InvocationSize, ShiftRule, ShiftSpec};

/// The setting of a stage in a gear.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct StageSetting {
    /// Whether items are given to it.
    pub is_used: bool,
    /// Least certainty, 0 to 1, of an answer that is accepted.
    pub certainty: f32,
    /// Items that it waits for before it runs a batch.
    pub invocation: InvocationSize,
}

impl StageSetting {
    /// Of a stage that is asked.
    #[must_use]
    pub fn asked(certainty: f32) -> Self {
        Self {
            is_used: true,
            certainty,
            invocation: InvocationSize::default(),
        }
    }
}

/// One gear.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GearNode {
    /// Requests a second up to which it is meant.
    pub up_to: f64,
    /// The accuracy that is expected, 0 to 1, where the file says so.
    pub accuracy: Option<f64>,
    /// By the index of a stage's module.
    pub stages: BTreeMap<usize, StageSetting>,
    /// By the index of a stage's module: the part of its items that each slot of its model does, 0 to 1, by the place of the
    /// slot. A module that is not here has no shares: each slot does as much as it can.
    pub shares: BTreeMap<usize, Vec<f64>>,
}

/// The gears of a graph.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Gears {
    /// The file that they are read from.
    pub file: PathBuf,
    /// Number of the plan.
    pub number: u64,
    /// The rule by which they are shifted.
    pub rule: ShiftRule,
    /// By ascending load, at least one.
    pub gears: Vec<GearNode>,
}

impl Gears {
    /// Gives the setting of a stage, by the index of its module, in a gear; `own` where the gear does not name it.
    #[must_use]
    pub fn setting(&self, gear: usize, module: usize, own: StageSetting) -> StageSetting {
        let gear = self.gears.get(gear);
        gear.and_then(|gear| gear.stages.get(&module).copied())
            .unwrap_or(own)
    }

    /// Gives the part of a stage's items that the slot at a place does in a gear; `None` where the gear does not say.
    #[must_use]
    pub fn share(&self, gear: usize, module: usize, place: usize) -> Option<f64> {
        let shares = self.gears.get(gear)?.shares.get(&module)?;
        Some(shares.get(place).copied().unwrap_or(0.0))
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
