//! Keys that a table must have.

use weir_config::{Field, Fields};

use super::context::Context;

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
