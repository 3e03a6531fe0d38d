//! Cascades of a world (KEN): which modules are stages, how often each is right, and the gears that set them by the load.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use weir_graph::{Escalate, StageNode, Tiling};
use weir_policy::gears::{EMULATED_REGIONS, Fallback, GearNode, Gears, is_accepted};

use crate::gears::SampledItem;

/// Cascades of a world; there are none by default.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CascadeSpec {
    /// Cascade, place and settings of each module that is a stage, by index of the module.
    pub stages: BTreeMap<usize, StageNode>,
    /// Share of the answers of a module that are right, 0 to 1, by its index. Of a stage: of those answers that count.
    pub accuracy: BTreeMap<usize, f64>,
    /// Items that were sampled, by the name of a cascade: one of them is drawn for each item that comes, and says how certain
    /// and how right each stage is. Of other cascades all stages are equally certain, by the number of the frame.
    pub samples: BTreeMap<String, Arc<[SampledItem]>>,
    /// Indices of modules that requests skip if there is no time for them (`on_drop = "degrade"`).
    pub optional: BTreeSet<usize>,
    /// Tiles in which modules read frames, by index of the module.
    pub tiles: BTreeMap<usize, Tiling>,
    /// Gears that set the stages by the load; `None`: the stages keep their settings.
    pub gears: Option<Gears>,
}

impl CascadeSpec {
    /// Condition under which requests that this module cannot serve continue with the answers they have;
    /// otherwise they are dropped.
    pub(crate) fn fallback(&self, module: usize) -> Fallback {
        match self.stages.get(&module) {
            Some(stage) => stage.fallback(),
            None if self.optional.contains(&module) => Fallback::WhenLate,
            None => Fallback::Never,
        }
    }

    /// Modules to which items come only where others were not certain of them.
    pub(crate) fn later_stages(&self) -> impl Iterator<Item = usize> {
        let later = self.stages.iter().filter(|(_, stage)| stage.index > 0);
        later.map(|(module, _)| *module)
    }

    /// True if it is possible that no item reaches a module: a later stage, or one that a gear leaves out.
    pub(crate) fn may_be_left_out(&self, module: usize) -> bool {
        let mut gears = self.gears.iter().flat_map(|gears| &gears.gears);
        let unused = |gear: &GearNode| gear.stages.get(&module).is_some_and(|stage| !stage.is_used);
        self.is_later_stage(module) || gears.any(unused)
    }

    /// True if a module gets only items of which another stage was not certain.
    pub(crate) fn is_later_stage(&self, module: usize) -> bool {
        self.stages.get(&module).is_some_and(|stage| stage.index > 0)
    }

    /// Items of a cascade that reach a module per item of the first stage, with the world's stage settings.
    /// Without samples, certainties are uniform from 0 to 1 and all stages are equally certain of an item.
    pub(crate) fn handed_on_to(&self, module: usize) -> f64 {
        let Some(own) = self.stages.get(&module) else {
            return 1.0;
        };
        let before =
            (self.stages.values()).filter(|stage| stage.cascade == own.cascade && stage.index < own.index);
        let each = match own.escalate {
            Escalate::Regions if own.index > 0 => EMULATED_REGIONS,
            Escalate::Regions | Escalate::Frames => 1.0,
        };
        if let Some(samples) = self.samples.get(&own.cascade) {
            let before: Vec<(usize, f32)> = before
                .map(|stage| (stage.index as usize, stage.certainty))
                .collect();
            let is_handed_on = |item: &&SampledItem| {
                let certainty = |stage: usize| item.certainty.get(stage).copied().unwrap_or(0.0);
                before
                    .iter()
                    .all(|(stage, least)| !is_accepted(certainty(*stage), *least))
            };
            let handed_on = samples.iter().filter(is_handed_on).count();
            return each * handed_on as f64 / samples.len().max(1) as f64;
        }
        each * before.map(|stage| f64::from(stage.certainty)).fold(1.0, f64::min)
    }
}
