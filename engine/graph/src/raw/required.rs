//! Keys that a table must have, and those that it may have.

use weir_config::{Field, Fields, Spanned};
use weir_flow::KeySpec;

use super::context::Context;
use crate::keys::{self, SectionKey};

/// A text that must be there; `what` is a word on what it is.
pub(super) fn required(
    fields: &Fields<'_>,
    name: &str,
    what: &str,
    context: &mut Context<'_>,
) -> Field<String> {
    let field = fields.text(name, context.diagnostics);
    if field.is_absent() {
        let message = format!("{} has no `{name}`", fields.owner);
        context
            .diagnostics
            .add_if_parsed(fields.at, message, Some(what.to_owned()));
    }
    field
}

/// The names of `streams`, of which there must be one where the key is given.
pub(super) fn streams(fields: &Fields<'_>, context: &mut Context<'_>) -> Field<Vec<Spanned<String>>> {
    let field = fields.texts("streams", context.diagnostics);
    if let Field::Given(spanned) = &field
        && spanned.value.is_empty()
    {
        let message = format!("{} is for no stream: `streams` is empty", fields.owner);
        let hint = "leave `streams` out for all streams, or name some, with * for any characters: streams = [\"yard-*\"]";
        context
            .diagnostics
            .add(spanned.at, message, Some(hint.to_owned()));
    }
    field
}

/// The names of `inputs`, of which there must be one.
pub(super) fn required_inputs(fields: &Fields<'_>, context: &mut Context<'_>) -> Field<Vec<Spanned<String>>> {
    let field = fields.texts("inputs", context.diagnostics);
    let hint = || Some("inputs = [\"NAME\"]: the sources or modules that it waits for".to_owned());
    match &field {
        Field::Absent => {
            context
                .diagnostics
                .add_if_parsed(fields.at, format!("{} has no `inputs`", fields.owner), hint());
        }
        Field::Given(spanned) if spanned.value.is_empty() => {
            context.diagnostics.add(
                spanned.at,
                format!("no source reaches {}: `inputs` is empty", fields.owner),
                hint(),
            );
        }
        _ => {}
    }
    field
}

/// Reports unknown keys: the table's own and those of its operator, head or sink are known.
pub(super) fn expect_keys(
    fields: &mut Fields<'_>,
    base: &[SectionKey],
    own: &[KeySpec],
    open_ended: bool,
    context: &mut Context<'_>,
) {
    let mut known = keys::names(base);
    known.extend(own.iter().map(|key| key.name));
    fields.expect(&known, open_ended, context.diagnostics);
}
