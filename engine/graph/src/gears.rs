//! The gears of a graph (KEN), checked: what each stage of its cascades is set to, by range of load.

use std::collections::BTreeMap;
use std::path::PathBuf;

use weir_policy::gears::{InvocationSize, ShiftRule, ShiftSpec};

/// What one stage is set to in a gear.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StageSetting {
    /// Whether items are given to it.
    pub is_used: bool,
    /// Least certainty, 0 to 1, of an answer that is accepted.
    pub certainty: f32,
    /// What it waits for before it runs a batch.
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
#[derive(Debug, Clone, PartialEq)]
pub struct GearNode {
    /// Requests a second up to which it is meant.
    pub up_to: f64,
    /// The accuracy that is expected, 0 to 1, where the file says so.
    pub accuracy: Option<f64>,
    /// By the index of a stage's module.
    pub stages: BTreeMap<usize, StageSetting>,
    /// By the index of a stage's module, which part of its items each slot of its model does, 0 to 1, by the place of the slot;
    /// of one that is not here, each as much as it can.
    pub shares: BTreeMap<usize, Vec<f64>>,
}

/// The gears of a graph.
#[derive(Debug, Clone, PartialEq)]
pub struct Gears {
    /// The file that they are read from.
    pub file: PathBuf,
    /// Number of the plan.
    pub number: u64,
    /// How they are shifted.
    pub rule: ShiftRule,
    /// By ascending load, at least one.
    pub gears: Vec<GearNode>,
}

impl Gears {
    /// What a stage, by the index of its module, is set to in a gear: what that does not name stays as the graph has it.
    #[must_use]
    pub fn setting(&self, gear: usize, module: usize, own: StageSetting) -> StageSetting {
        let gear = self.gears.get(gear);
        gear.and_then(|gear| gear.stages.get(&module).copied())
            .unwrap_or(own)
    }

    /// Which part of a stage's items the slot of its model at a place does in a gear; `None` where the gear does not say.
    #[must_use]
    pub fn share(&self, gear: usize, module: usize, place: usize) -> Option<f64> {
        let shares = self.gears.get(gear)?.shares.get(&module)?;
        Some(shares.get(place).copied().unwrap_or(0.0))
    }

    /// What they are shifted by.
    #[must_use]
    pub fn shift_spec(&self) -> ShiftSpec {
        ShiftSpec {
            rule: self.rule,
            bounds: self.gears.iter().map(|gear| gear.up_to).collect(),
        }
    }
}
