//! `scaling = { least = 1, most = 4 }` of a model: its workers open and close with the load.

use weir_config::{Fields, Spanned};
use weir_policy::AutoscaleRule;

use super::context::Context;
use crate::keys::{self, SCALING};

/// Reads the rule; without `most` it allows any number of workers.
pub(super) fn read(fields: &Fields<'_>, context: &mut Context<'_>) -> Option<Spanned<AutoscaleRule>> {
    let entry = fields.entry("scaling")?;
    for key in ["workers", "devices", "plan", "url"] {
        if let Some(other) = fields.entry(key) {
            let message = format!("{} has `scaling` and `{key}`", fields.owner);
            let hint =
                "leave one of them out: workers follow the load on one device of this process, up to `most`";
            context.diagnostics.add(other.at, message, Some(hint.to_owned()));
        }
    }
    let owner = format!("`scaling` of {}", fields.owner);
    let mut own = Fields::open(owner, entry, context.diagnostics)?;
    own.expect(&keys::names(SCALING), false, context.diagnostics);
    let diagnostics = &mut *context.diagnostics;
    let least = keys::count(SCALING, "least", &own, diagnostics);
    let most = keys::count(SCALING, "most", &own, diagnostics);
    let hint = "the capacity aimed at over the present rate";
    let headroom = keys::number(SCALING, "headroom", Some(hint), &own, diagnostics);
    let patience = own.span("patience", diagnostics);
    if let (Some(least), Some(most)) = (least.given(), most.given())
        && least.value > most.value
    {
        let message = format!("`least` is {} and `most` is {}", least.value, most.value);
        let hint = "`least` workers are always open, and `most` at the highest load";
        diagnostics.add(least.at, message, Some(hint.to_owned()));
    }
    let rule = AutoscaleRule {
        min_workers: least.into_value().unwrap_or(1),
        max_workers: most.into_value().unwrap_or(u32::MAX),
        headroom: headroom.into_value().unwrap_or(AutoscaleRule::HEADROOM),
        scale_down_delay: patience.into_value().unwrap_or(AutoscaleRule::SCALE_DOWN_DELAY),
    };
    Some(Spanned::new(rule, entry.at))
}
