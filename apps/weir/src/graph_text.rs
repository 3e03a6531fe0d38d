//! Names, texts and comments of graphs that commands write.

use std::collections::BTreeSet;

/// A TOML string in which a dollar sign is one.
pub(crate) fn quoted(text: &str) -> String {
    toml::Value::String(text.replace('$', "$$")).to_string()
}

/// Text of others for a comment: one line.
pub(crate) fn one_line(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

/// The name, or the first with a number behind it that is not taken.
pub(crate) fn free_name(wanted: &str, taken: &BTreeSet<String>) -> String {
    let mut numbered = (2_usize..).map(|number| format!("{wanted}-{number}"));
    if taken.contains(wanted) {
        let free = numbered.find(|name| !taken.contains(name));
        return free.unwrap_or_else(|| wanted.to_owned());
    }
    wanted.to_owned()
}
