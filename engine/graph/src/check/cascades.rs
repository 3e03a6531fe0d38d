//! Whether the stages of a cascade can answer for each other: each but the last gives a certainty, and they know the same
//! classes.

use std::collections::BTreeSet;

use weir_config::Diagnostics;
use weir_flow::{Catalog, HeadOutput, KeyKind, Value};
use weir_policy::gears::Settle;

use crate::graph::Escalate;
use crate::raw::{HeadName, RawGraph, RawStage};

/// Also sets the measure of certainty of the models, where none is given and their heads have one: it is computed only where asked
/// for.
pub(super) fn check(
    raw: &mut RawGraph,
    models: &[Option<usize>],
    catalog: &Catalog,
    diagnostics: &mut Diagnostics,
) {
    let mut measures = Vec::new();
    for (module, model) in raw.modules.iter().zip(models) {
        let (Some(stage), Some(model)) = (&module.stage, model) else {
            continue;
        };
        let node = &raw.models[*model];
        let HeadName::Known(head) = &node.head else {
            continue;
        };
        if node.settings.text("certainty").is_some() {
            continue;
        }
        // The last stage is asked whatever it says, but for which answer counts.
        let is_needed = !stage.is_last() || stage.settle == Settle::Surest;
        let spec = catalog.heads.iter().find(|spec| spec.name == head);
        let key = spec.and_then(|spec| spec.keys.iter().find(|key| key.name == "certainty"));
        match key.map(|key| key.kind) {
            Some(KeyKind::OneOf([default, ..])) => measures.push((*model, (*default).to_owned())),
            _ if !is_needed => {}
            _ => {
                let message = format!(
                    "stage {} of \"{}\" needs the certainty of \"{}\", whose head \"{head}\" reports none",
                    stage.index + 1,
                    stage.cascade,
                    node.name.value
                );
                let hint =
                    "models with this head can be the last stage of a cascade only, with settle = \"last\"";
                let hint = Some(hint.to_owned());
                diagnostics.add_if_parsed(stage.certainty.at, message, hint);
            }
        }
    }
    check_classes(raw, models, diagnostics);
    check_regions(raw, models, catalog, diagnostics);
    for (model, measure) in measures {
        let settings = &mut raw.models[model].settings;
        settings.0.insert("certainty".to_owned(), Value::Text(measure));
    }
}

/// The classes of each stage are those of the one before it.
fn check_classes(raw: &RawGraph, models: &[Option<usize>], diagnostics: &mut Diagnostics) {
    for (index, module) in raw.modules.iter().enumerate() {
        let Some(stage) = module.stage.as_ref().filter(|stage| stage.index > 0) else {
            continue;
        };
        let (Some(before), Some(own)) = (models[index - 1], models[index]) else {
            continue;
        };
        let (before, own) = (&raw.models[before], &raw.models[own]);
        let (Some(known), Some(classes)) = (&before.classes, &own.classes) else {
            continue;
        };
        let (known, classes): (BTreeSet<_>, BTreeSet<_>) = (known.iter().collect(), classes.iter().collect());
        if let Some(class) = known.symmetric_difference(&classes).next() {
            let (has, lacks) = if known.contains(class) {
                (before, own)
            } else {
                (own, before)
            };
            let message = format!(
                "the stages of \"{}\" know different classes: \"{}\" knows \"{class}\", \"{}\" does not",
                stage.cascade, has.name.value, lacks.name.value
            );
            let hint = Some("their `labels` must use the same names for the same classes".to_owned());
            diagnostics.add_if_parsed(stage.certainty.at, message, hint);
        }
    }
}

/// Only detectors of whole frames hand on regions.
fn check_regions(raw: &RawGraph, models: &[Option<usize>], catalog: &Catalog, diagnostics: &mut Diagnostics) {
    for (module, model) in raw.modules.iter().zip(models) {
        let regions = |stage: &&RawStage| stage.index == 0 && stage.escalate.value == Escalate::Regions;
        let Some(stage) = module.stage.as_ref().filter(regions) else {
            continue;
        };
        let at = stage.escalate.at;
        if module
            .regions
            .given()
            .is_some_and(|regions| !regions.value.is_empty())
        {
            let message = format!(
                "\"{}\" takes crops of objects, and `escalate = \"regions\"` is for detectors that take whole frames",
                stage.cascade
            );
            let hint = Some("remove `escalate`: crops are always handed on whole".to_owned());
            diagnostics.add(at, message, hint);
            continue;
        }
        let Some(HeadName::Known(head)) = model.map(|model| &raw.models[model].head) else {
            continue;
        };
        let spec = catalog.heads.iter().find(|spec| spec.name == head);
        if spec.is_some_and(|spec| spec.output == HeadOutput::Attribute) {
            let message = format!(
                "`escalate = \"regions\"` of \"{}\" is for detectors, and its first model finds no objects",
                stage.cascade
            );
            let hint = Some("remove it: items are always handed on whole".to_owned());
            diagnostics.add_if_parsed(at, message, hint);
        }
    }
}
