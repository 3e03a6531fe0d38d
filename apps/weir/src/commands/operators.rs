//! `weir operators`: what graphs may name, from the very catalog that they are checked against.

use std::fmt::Write;

use weir_flow::{Catalog, HeadOutput, KeyKind, KeySpec, OperatorInput};

use crate::output;
use crate::zoo::Zoo;

/// Prints operators, heads and sinks with their keys, as Markdown.
///
/// # Errors
/// Where standard output cannot be written.
pub(crate) fn operators(zoo: &Zoo) -> anyhow::Result<()> {
    output::say(page(&crate::catalog::catalog(zoo)).trim_end())?;
    Ok(())
}

fn page(catalog: &Catalog) -> String {
    let mut page = "# Operators, heads and sinks\n\nPrinted by `weir operators` from the catalog that graphs are \
                    checked against.\n\n## Operators\n\n`operator = \"...\"` of a module. A module's keys stand beside \
                    `operator`, `model`, `inputs` and `regions`.\n"
        .to_owned();
    for operator in &catalog.operators {
        let heads = operator
            .heads
            .iter()
            .map(|head| format!("`{head}`"))
            .collect::<Vec<_>>()
            .join(", ");
        let _ = write!(
            page,
            "\n### `{}`\n\n{}. Takes {}; runs models with the heads {heads}.\n",
            operator.name,
            operator.about,
            operator_input(operator.input)
        );
        keys(&mut page, operator.keys);
    }
    page += "\n## Heads\n\n`head = \"...\"` of a model: how its inputs are prepared and its outputs are read. A model's \
             keys stand beside `model`, `head`, `device`, `batch`, `workers` and `profile`.\n";
    for head in &catalog.heads {
        let _ = write!(
            page,
            "\n### `{}`\n\n{}. Gives {}.\n",
            head.name,
            head.about,
            head_output(head.output)
        );
        keys(&mut page, head.keys);
    }
    page += "\n## Sinks\n\n`type = \"...\"` of a sink.\n";
    for sink in &catalog.sinks {
        let _ = write!(page, "\n### `{}`\n\n{}.\n", sink.name, sink.about);
        keys(&mut page, sink.keys);
    }
    page
}

fn keys(page: &mut String, keys: &[KeySpec]) {
    if keys.is_empty() {
        return;
    }
    page.push_str("\n| key | holds | meaning |\n|---|---|---|\n");
    for key in keys {
        let about = key.about.replace('|', "\\|");
        let _ = writeln!(page, "| `{}` | {} | {about} |", key.name, holds(key.kind));
    }
}

fn operator_input(input: OperatorInput) -> &'static str {
    match input {
        OperatorInput::FrameOrBoxes => "whole frames, or crops of the objects in `regions`",
        OperatorInput::Boxes => "crops of the objects in `regions`",
        OperatorInput::Faces => "faces with their five points",
        OperatorInput::Quads => "flat things by their four corners, or crops of the objects in `regions`",
    }
}

fn head_output(output: HeadOutput) -> &'static str {
    match output {
        HeadOutput::Boxes => "objects",
        HeadOutput::Faces => "objects with the five points of a face",
        HeadOutput::Quads => "objects with four corners",
        HeadOutput::Attribute => "an attribute of the object",
    }
}

fn holds(kind: KeyKind) -> String {
    match kind {
        KeyKind::Number { min, max } => format!("a number, {min} to {max}"),
        KeyKind::Integer { min, max } => format!("a whole number, {min} to {max}"),
        KeyKind::Text => "text".to_owned(),
        KeyKind::OneOf(words) => words
            .iter()
            .map(|word| format!("`{word}`"))
            .collect::<Vec<_>>()
            .join(", "),
        KeyKind::Texts => "a list of texts".to_owned(),
        KeyKind::File => "a file".to_owned(),
        KeyKind::Folder => "a folder".to_owned(),
        KeyKind::Flag => "`true` or `false`".to_owned(),
        KeyKind::Duration => "a duration, such as `\"24h\"`".to_owned(),
        KeyKind::Bytes => "an amount of bytes, such as `\"64MiB\"`".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_in_docs_is_what_is_printed() {
        let catalog = Catalog {
            operators: weir_operators::operators(),
            heads: weir_operators::heads(),
            sinks: weir_operators::sinks::catalog(),
            ..Catalog::default()
        };
        let page = page(&catalog);
        let docs = include_str!("../../../../docs/operators.md");
        assert_eq!(
            docs.trim_end(),
            page.trim_end(),
            "write it anew: weir operators > docs/operators.md"
        );
    }
}
