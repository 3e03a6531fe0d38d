//! Groups of a camera: the key `group`.

use std::slice::from_ref;

use weir_config::{Content, Fields, Spanned, texts};

use super::context::Context;
use crate::keys::MAX_GROUPS;

/// Characters of the name of a group.
const MAX_NAME: usize = 64;

/// Names of the groups, each once, in the order of the text.
pub(super) fn read(fields: &Fields<'_>, context: &mut Context<'_>) -> Vec<String> {
    let diagnostics = &mut *context.diagnostics;
    let field = fields.read("group", diagnostics, |node| match &node.content {
        Content::Text(_) => Ok(from_ref(node)),
        Content::List(list) => Ok(list.as_slice()),
        _ => Err("a name or a list of names, such as \"yard\" or [\"yard\", \"night\"]".to_owned()),
    });
    let names = field.and_then(|spanned| texts("group", spanned.value, diagnostics));
    let names = names.into_value().unwrap_or_default();
    let mut groups: Vec<String> = Vec::new();
    for Spanned { value: name, at } in names {
        if name.trim() != name || name.is_empty() || name.chars().any(char::is_control) {
            let message = format!("`group`: \"{}\" is not a name of a group", name.escape_debug());
            let hint = "a name has visible characters, and no space at its begin or end: group = \"yard\"";
            diagnostics.add(at, message, Some(hint.to_owned()));
        } else if name.chars().count() > MAX_NAME {
            let message = format!("`group`: a name has at most {MAX_NAME} characters");
            diagnostics.add(at, message, None);
        } else if groups.len() == MAX_GROUPS {
            let message = format!("{} is in more than {MAX_GROUPS} groups", fields.owner);
            diagnostics.add(at, message, Some("take some of them out".to_owned()));
            break;
        } else if !groups.contains(&name) {
            groups.push(name);
        }
    }
    groups
}
