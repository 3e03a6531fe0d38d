//! The plan of a graph: the same for all its models that have one, and matching its workers.

use std::collections::BTreeMap;

use weir_config::{Diagnostics, spelling};
use weir_planner::Plan;

use crate::planning;
use crate::raw::RawGraph;

/// Reads the plan that models name and checks it against them and the workers.
pub(super) fn read(raw: &RawGraph, diagnostics: &mut Diagnostics) -> Option<Plan> {
    let mut planned = raw
        .models
        .iter()
        .filter_map(|model| Some((model, model.plan.as_ref()?)));
    let (_, first) = planned.next()?;
    for (model, spanned) in planned {
        if spanned.value != first.value {
            let hint =
                Some("plan all models at once: a plan assigns the workers of the whole graph".to_owned());
            let message = format!(
                "model \"{}\" has another plan than the models before it",
                model.name.value
            );
            diagnostics.add(spanned.at, message, hint);
        }
    }
    let plan = match planning::read_plan(&first.value) {
        Ok(plan) => plan,
        Err(reason) => {
            let name = first.value.display();
            diagnostics.add(first.at, format!("`plan`: {name}: {reason}"), None);
            return None;
        }
    };
    fits_models(raw, &plan, diagnostics);
    fits_workers(raw, &plan, diagnostics);
    Some(plan)
}

fn fits_models(raw: &RawGraph, plan: &Plan, diagnostics: &mut Diagnostics) {
    let names = || plan.solution.models.iter().map(|model| model.model.as_str());
    for model in raw.models.iter().filter(|model| model.plan.is_some()) {
        let name = &model.name.value;
        if !names().any(|planned| planned == name) {
            let hint = spelling::hint(name, "models of the plan", names());
            diagnostics.add(model.name.at, format!("the plan has no model \"{name}\""), hint);
            continue;
        }
        let served = plan.problem.model(name);
        if served.is_none_or(|served| served.blocks.layers.is_empty()) {
            let hint =
                Some("measure the model with weir profile --blocks, and plan with that profile".to_owned());
            let message = format!("the plan does not say where \"{name}\" is cut: its profile has no layers");
            diagnostics.add(model.name.at, message, hint);
        }
    }
}

fn fits_workers(raw: &RawGraph, plan: &Plan, diagnostics: &mut Diagnostics) {
    // A worker whose table could not be read exists all the same.
    if raw.workers.is_empty() || !diagnostics.is_clean() {
        return;
    }
    let at = raw
        .models
        .iter()
        .find_map(|model| model.plan.as_ref())
        .map_or(0, |plan| plan.at);
    let mut available: BTreeMap<&str, u32> = BTreeMap::new();
    for (_, worker) in &raw.workers {
        *available.entry(&worker.class).or_default() += 1;
    }
    for (class, &used) in plan.problem.classes.iter().zip(&plan.solution.devices) {
        let count = available.get(class.name.as_str()).copied().unwrap_or(0);
        if count < used {
            let hint = Some("add [workers.NAME] with that class, or plan for those there are".to_owned());
            let message = format!(
                "the plan needs {used} workers of class \"{}\", and there are {count}",
                class.name
            );
            diagnostics.add_if_parsed(at, message, hint);
        }
    }
}
