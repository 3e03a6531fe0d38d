//! Reading of numbers and durations by the bounds of their rows.

use weir_config::{Diagnostics, Field, Fields};
use weir_flow::KeyKind;
use weir_types::Span;

use super::key::{SectionKey, ValueKind};

/// Lower and upper bound of a key's number; `None` if the key has no row, or its value is no number.
fn bounds(keys: &[SectionKey], name: &str) -> Option<(f64, f64)> {
    let key = keys.iter().find(|key| key.name == name)?;
    match key.kind {
        ValueKind::Plain(KeyKind::Number { min, max }) => Some((min, max)),
        ValueKind::Plain(KeyKind::Integer { min, max }) => Some((min as f64, max as f64)),
        _ => None,
    }
}

/// True if a number lies within the bounds of its key.
pub(crate) fn in_bounds(keys: &[SectionKey], name: &str, number: f64) -> bool {
    bounds(keys, name).is_some_and(|(min, max)| (min..=max).contains(&number))
}

/// Reads a number within the bounds of its row; `hint` is the advice for one outside.
pub(crate) fn number(
    keys: &[SectionKey],
    name: &str,
    hint: Option<&str>,
    fields: &Fields<'_>,
    diagnostics: &mut Diagnostics,
) -> Field<f64> {
    let Some((min, max)) = bounds(keys, name) else {
        return Field::Absent;
    };
    fields.number(name, min..=max, hint, diagnostics)
}

/// Reads a whole number within the bounds of its row.
pub(crate) fn count(
    keys: &[SectionKey],
    name: &str,
    fields: &Fields<'_>,
    diagnostics: &mut Diagnostics,
) -> Field<u32> {
    let Some((min, max)) = bounds(keys, name) else {
        return Field::Absent;
    };
    fields.whole(name, min as u32..=max as u32, diagnostics)
}

/// Reads a duration. One outside the bounds of its row is reported, and read as it stands.
pub(crate) fn span(
    keys: &[SectionKey],
    name: &str,
    fields: &Fields<'_>,
    diagnostics: &mut Diagnostics,
) -> Field<Span> {
    let field = fields.span(name, diagnostics);
    let row = keys.iter().find(|key| key.name == name);
    if let Some(row) = row
        && let ValueKind::DurationIn(min, max) = row.kind
        && let Some(read) = field.given()
        && !(min..=max).contains(&read.value)
    {
        let message = format!("`{name}` must lie between {min} and {max}");
        let hint = format!("the default is {}", row.default);
        diagnostics.add(read.at, message, Some(hint));
    }
    field
}
