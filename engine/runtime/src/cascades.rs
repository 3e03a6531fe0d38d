//! Stages of cascades and their rules.

use std::collections::BTreeSet;
use std::sync::Arc;

use weir_flow::Model;
use weir_graph::{Escalate, Graph, ModuleNode, Vertex};
use weir_policy::gears::{Settle, StageRule, StageSetting};
use weir_types::ModuleId;

use crate::assembly::RunError;
use crate::sampling::{Sampler, StageSampling};

/// The place of a module in its cascade.
#[derive(Debug, Clone)]
pub(crate) struct Stage {
    pub(crate) is_first: bool,
    pub(crate) is_last: bool,
    /// The last stage, whose output the answers become.
    pub(crate) settles_in: ModuleId,
    pub(crate) settle: Settle,
    /// Whether frames are handed on in regions; not where samples are taken, of which every stage answers the same items.
    pub(crate) splits: bool,
    /// Its setting where no gear names it.
    pub(crate) own: StageSetting,
    /// Sampling of this stage; `None` if the run takes no samples.
    pub(crate) sampling: Option<StageSampling>,
}

/// Whether the models of stages can answer for each other, as far as only loaded models say.
///
/// # Errors
/// [`RunError::Cascade`]: classes differ, or a stage cannot write what the one before it can.
pub(crate) fn check(graph: &Graph, models: &[Option<Arc<dyn Model>>]) -> Result<(), RunError> {
    for module in graph.modules() {
        let Some(stage) = module.stage.as_ref().filter(|stage| stage.index > 0) else {
            continue;
        };
        let [Vertex::Module(before)] = module.inputs[..] else {
            continue;
        };
        let model = |module: &ModuleNode| Some((models.get(module.model)?.as_deref()?, module.model));
        let (Some((own, at)), Some((first, before))) = (model(module), model(&graph.modules()[before]))
        else {
            continue;
        };
        let names = [before, at].map(|model| graph.models()[model].name.as_str());
        if let Some(reason) = difference([first, own], names) {
            return Err(RunError::Cascade {
                cascade: stage.cascade.clone(),
                reason,
            });
        }
    }
    Ok(())
}

/// Returns the reason why the answers of two models cannot replace each other; `None` if they can.
fn difference([first, second]: [&dyn Model; 2], [one, other]: [&str; 2]) -> Option<String> {
    let classes = |model: &dyn Model| -> BTreeSet<Arc<str>> { model.classes().iter().cloned().collect() };
    let (known, own) = (classes(first), classes(second));
    if !known.is_empty() && !own.is_empty() {
        let only = known.symmetric_difference(&own).next();
        return only.map(|class| {
            format!(
                "only one of its models {one} and {other} knows the class \"{class}\": their `labels` must name the same \
                 things alike"
            )
        });
    }
    if first.alphabet().is_empty() || second.alphabet().is_empty() {
        return None;
    }
    let own: BTreeSet<&String> = second.alphabet().iter().collect();
    let missing = first
        .alphabet()
        .iter()
        .find(|character| !own.contains(character))?;
    Some(format!(
        "its model {other} cannot write \"{missing}\", which {one} before it can: what is handed on would come back wrong; \
         take a larger model that knows all characters of the smaller one"
    ))
}

impl Stage {
    /// The rule by which it decides on items. Where samples are taken it hands on everything.
    pub(crate) fn rule(&self, setting: StageSetting) -> StageRule {
        StageRule {
            is_last: self.is_last,
            settle: self.settle,
            certainty: match self.sampling {
                Some(_) => f32::INFINITY,
                None => setting.certainty,
            },
        }
    }
}

/// The stages of a graph by module; `None` where a module is in no cascade.
pub(crate) fn stages(graph: &Graph, sampler: Option<&Arc<dyn Sampler>>) -> Vec<Option<Stage>> {
    let streams: Arc<[Arc<str>]> = graph
        .sources()
        .iter()
        .map(|source| source.name.as_str().into())
        .collect();
    let stage = |(id, module): (u32, &ModuleNode)| {
        let stage = module.stage.as_ref()?;
        let rest = stage.count - 1 - stage.index;
        Some(Stage {
            is_first: stage.index == 0,
            is_last: stage.is_last(),
            settles_in: last(graph, id, rest),
            settle: stage.settle,
            splits: stage.escalate == Escalate::Regions && sampler.is_none(),
            own: StageSetting::asked(stage.certainty),
            sampling: sampler.map(|sampler| StageSampling {
                sampler: Arc::clone(sampler),
                cascade: stage.cascade.as_str().into(),
                stage: stage.index,
                streams: Arc::clone(&streams),
            }),
        })
    };
    (0..).zip(graph.modules()).map(stage).collect()
}

/// The last stage of the cascade of a module, which `rest` stages follow. Other modules may be between them in the graph's order.
fn last(graph: &Graph, module: u32, rest: u32) -> ModuleId {
    let mut at = module as usize;
    for _ in 0..rest {
        let next = |(_, node): &(usize, &ModuleNode)| {
            node.stage.as_ref().is_some_and(|stage| stage.index > 0) && node.inputs == [Vertex::Module(at)]
        };
        let Some((next, _)) = graph.modules().iter().enumerate().find(next) else {
            break;
        };
        at = next;
    }
    ModuleId(at as u32)
}
