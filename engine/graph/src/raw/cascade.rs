//! Cascades (KEN): the stages of a module that names several models. Each becomes a module of its own, called after the module
//! and its number: `plate-text/1`, `plate-text/2`.

use weir_config::{Content, Entry, Field, Fields, Node, Spanned};
use weir_policy::gears::Settle;

use super::context::Context;
use super::required::required;
use super::tables::{RawModule, RawStage};
use crate::graph::{Escalate, OnLate};
use crate::keys::{self, MAX_STAGES, MODULE, Mark, STAGE};

/// One table of `cascade`.
struct Stage {
    model: Field<String>,
    /// Least certainty that is accepted; of the last stage 0.
    certainty: Spanned<f32>,
}

/// The stages of a module as modules of their own, in order; the module itself where it has none.
pub(super) fn expand(module: RawModule, fields: &Fields<'_>, context: &mut Context<'_>) -> Vec<RawModule> {
    let Some(entry) = fields.entry("cascade") else {
        for key in keys::marked(MODULE, Mark::Cascade) {
            if let Some(entry) = fields.entry(key) {
                let message = format!(
                    "`{key}` is of modules with a `cascade`, and {} has none",
                    fields.owner
                );
                context.diagnostics.add(entry.at, message, None);
            }
        }
        return vec![module];
    };
    if let Some(model) = fields.entry("model") {
        let hint = Some("name it in a stage of the cascade".to_owned());
        let message = format!("{} has a `cascade`, and a `model` beside it", fields.owner);
        context.diagnostics.add(model.at, message, hint);
    }
    if let Some(on_drop) = fields.entry("on_drop") {
        let hint = Some(
            "set `on_late = \"accept\"`: answers of earlier stages then count if there is no time for the next stage"
                .to_owned(),
        );
        let message = format!("{} has a `cascade`, and `on_drop` beside it", fields.owner);
        context.diagnostics.add(on_drop.at, message, hint);
    }
    let stages = stages(entry, fields, context);
    let settles = [("last", Settle::Last), ("surest", Settle::Surest)];
    let lates = [("drop", OnLate::Drop), ("accept", OnLate::Accept)];
    let settle = fields.word("settle", &settles, context.diagnostics);
    let on_late = fields.word("on_late", &lates, context.diagnostics);
    let (settle, on_late) = (
        settle.into_value().unwrap_or_default(),
        on_late.into_value().unwrap_or_default(),
    );
    let escalates = [("frames", Escalate::Frames), ("regions", Escalate::Regions)];
    let escalate = fields.word("escalate", &escalates, context.diagnostics);
    let at = fields.entry("escalate").map_or(entry.at, |entry| entry.at);
    let escalate = Spanned::new(escalate.into_value().unwrap_or_default(), at);
    if stages.is_empty() {
        // Reported; the module keeps its name for those that take from it.
        return vec![RawModule {
            model: Field::Broken,
            ..module
        }];
    }
    let count = stages.len() as u32;
    let stage = |(index, stage): (u32, Stage)| RawModule {
        name: Spanned::new(format!("{}/{}", module.name.value, index + 1), module.name.at),
        model: stage.model,
        inputs: if index == 0 {
            module.inputs.clone()
        } else {
            Field::Absent
        },
        stage: Some(RawStage {
            cascade: module.name.value.clone(),
            index,
            count,
            certainty: stage.certainty,
            settle,
            on_late,
            escalate: escalate.clone(),
        }),
        ..module.clone()
    };
    (0..).zip(stages).map(stage).collect()
}

/// Empty where something was reported that leaves stages unknown.
fn stages(entry: &Entry, fields: &Fields<'_>, context: &mut Context<'_>) -> Vec<Stage> {
    let wanted = "cascade = [{ model = \"small\", certainty = 0.9 }, { model = \"large\" }]";
    let Content::List(list) = &entry.node.content else {
        if !matches!(entry.node.content, Content::Broken) {
            let message = format!(
                "`cascade` must be a list of stages, not {}",
                entry.node.content.kind()
            );
            context
                .diagnostics
                .add(entry.node.at, message, Some(wanted.to_owned()));
        }
        return Vec::new();
    };
    if list.len() < 2 || list.len() > MAX_STAGES {
        let message = format!(
            "the cascade of {} has {} stages; it may have 2 to {MAX_STAGES}",
            fields.owner,
            list.len()
        );
        context
            .diagnostics
            .add(entry.node.at, message, Some(wanted.to_owned()));
    }
    let numbered = list.iter().take(MAX_STAGES).enumerate();
    let last = list.len().saturating_sub(1);
    let stages: Vec<Stage> = numbered
        .filter_map(|(index, node)| stage(&fields.owner, index, index == last, node, context))
        .collect();
    if stages.len() < list.len() {
        return Vec::new();
    }
    stages
}

fn stage(owner: &str, index: usize, is_last: bool, node: &Node, context: &mut Context<'_>) -> Option<Stage> {
    let entry = Entry {
        name: "cascade".to_owned(),
        at: node.at,
        node: node.clone(),
    };
    let owner = format!("stage {} of {owner}", index + 1);
    let mut fields = Fields::open(owner, &entry, context.diagnostics)?;
    fields.expect(&keys::names(STAGE), false, context.diagnostics);
    let model = required(&fields, "model", "the name of a [models] table", context);
    let certainty = fields.read("certainty", context.diagnostics, |node| {
        node.number().ok_or_else(|| "a number from 0 to 1".to_owned())
    });
    if let Some(given) = certainty.given() {
        if is_last {
            let hint = Some("the last stage takes the rest: leave it out".to_owned());
            let message = format!("{} has a `certainty`", fields.owner);
            context.diagnostics.add(given.at, message, hint);
        } else if !keys::in_bounds(STAGE, "certainty", given.value) {
            let message = format!("`certainty` must lie between 0 and 1, not {}", given.value);
            let hint = "answers that are less certain are handed on: 0 accepts all, 1 next to none";
            context.diagnostics.add(given.at, message, Some(hint.to_owned()));
        }
    } else if certainty.is_absent() && !is_last {
        let hint = Some("certainty = 0.9: answers that are less certain go to the next stage".to_owned());
        let message = format!("{} has no `certainty`", fields.owner);
        context.diagnostics.add_if_parsed(fields.at, message, hint);
    }
    let at = certainty.given().map_or(node.at, |given| given.at);
    Some(Stage {
        model,
        certainty: Spanned::new(certainty.into_value().unwrap_or(0.0) as f32, at),
    })
}
