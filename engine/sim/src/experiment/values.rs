//! Values of experiments: numbers within bounds, spans that may be zero, lists of seeds.

use weir_config::{Content, Diagnostics, Fields};
use weir_types::Span;

/// Reads a number from `min` to `max`; `None` if it is absent, or if a problem was reported.
pub(super) fn number(
    fields: &Fields<'_>,
    name: &str,
    min: f64,
    max: f64,
    diagnostics: &mut Diagnostics,
) -> Option<f64> {
    fields.number(name, min..=max, None, diagnostics).into_value()
}

/// A duration that may be zero.
pub(super) fn span(fields: &Fields<'_>, name: &str, diagnostics: &mut Diagnostics) -> Option<Span> {
    let zero = fields.entry(name).is_some_and(
        |entry| matches!(&entry.node.content, Content::Text(text) if text.parse() == Ok(Span::ZERO)),
    );
    if zero {
        return Some(Span::ZERO);
    }
    fields.span(name, diagnostics).into_value()
}

/// Reads one seed or a list of seeds.
pub(super) fn seeds(fields: &Fields<'_>, diagnostics: &mut Diagnostics) -> Option<Vec<u64>> {
    let field = fields.read("seeds", diagnostics, |node| {
        let one = |content: &Content| match content {
            Content::Integer(seed) => u64::try_from(*seed).ok(),
            _ => None,
        };
        let seeds = match &node.content {
            Content::List(list) => list.iter().map(|node| one(&node.content)).collect(),
            content => one(content).map(|seed| vec![seed]),
        };
        let seeds: Option<Vec<u64>> = seeds;
        let seeds = seeds.filter(|seeds| !seeds.is_empty() && seeds.len() <= 1_000);
        seeds.ok_or_else(|| "a list of 1 to 1000 whole numbers from zero, such as [1, 2, 3]".to_owned())
    });
    field.into_value()
}
