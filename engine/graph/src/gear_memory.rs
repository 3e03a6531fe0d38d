//! Memory of the models that gears ask, on devices whose models share a limit. A gear whose models do not fit together
//! opens and closes them as long as it is in force, and does not do what it was planned for.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use weir_policy::gears::{GearNode, Gears};

use crate::graph::Graph;

/// Models of a gears file that are in memory together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GearModels {
    /// Those of all gears: a shift opens no model that was open before.
    Resident,
    /// Those of the gear in force: a shift closes models and opens others.
    Switched,
}

impl GearModels {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Resident => "resident",
            Self::Switched => "switched",
        }
    }
}

/// A gear whose models a device cannot hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GearShortage {
    /// Number of the gear, from 1. Of resident models: the first whose models do not fit beside those before it.
    gear: usize,
    models: GearModels,
    device: String,
    wanted: u64,
    memory: u64,
}

impl fmt::Display for GearShortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gears = match self.models {
            GearModels::Resident if self.gear > 1 => format!("gears 1 to {} need", self.gear),
            GearModels::Resident | GearModels::Switched => format!("gear {} needs", self.gear),
        };
        write!(
            f,
            "{gears} {} for the models on device \"{}\", whose `memory` is {}",
            shown(self.wanted),
            self.device,
            shown(self.memory)
        )
    }
}

fn shown(bytes: u64) -> String {
    format!("{bytes} bytes ({:.1} MiB)", bytes as f64 / f64::from(1 << 20))
}

/// First gear whose models do not fit into the memory that they share on a device. Models without a declared `memory` are
/// measured when they are opened: their devices are left out.
pub(crate) fn shortage(graph: &Graph, gears: &Gears, models: GearModels) -> Option<GearShortage> {
    let devices = graph.devices().iter().enumerate();
    let mut limited =
        devices.filter_map(|(index, node)| Some((index, node, graph.shared_memory(index)?.bytes)));
    limited.find_map(|(device, node, memory)| {
        let mut open: BTreeMap<(usize, usize), u64> = BTreeMap::new();
        for (number, gear) in (1..).zip(&gears.gears) {
            let asked = sessions(graph, gear, device)?;
            match models {
                GearModels::Resident => open.extend(asked),
                GearModels::Switched => open = asked,
            }
            let wanted: u64 = open.values().fold(0, |sum, bytes| sum.saturating_add(*bytes));
            if wanted > memory {
                return Some(GearShortage {
                    gear: number,
                    models,
                    device: node.name.clone(),
                    wanted,
                    memory,
                });
            }
        }
        None
    })
}

/// Bytes of the sessions that a gear asks on a device, by model and place of the slot: those with a share, or one where a
/// stage has no shares; and one of each module outside cascades. `None` if a model declares no `memory`.
fn sessions(graph: &Graph, gear: &GearNode, device: usize) -> Option<BTreeMap<(usize, usize), u64>> {
    let mut sessions = BTreeMap::new();
    for (module, node) in graph.modules().iter().enumerate() {
        let model = &graph.models()[node.model];
        let is_asked = gear.stages.get(&module).is_none_or(|setting| setting.is_used);
        if model.device != device || !is_asked {
            continue;
        }
        let bytes = model.memory?;
        let shares = gear.shares.get(&module).into_iter().flatten().enumerate();
        let mut places: Vec<usize> = shares
            .filter(|(_, share)| **share > 0.0)
            .map(|(place, _)| place)
            .collect();
        if places.is_empty() {
            places.push(0);
        }
        sessions.extend(places.into_iter().map(|place| ((node.model, place), bytes)));
    }
    Some(sessions)
}
