//! `per_track = { every = "1s", until = 0.9 }` of a module: it runs for the objects of a track now and then, until it is certain;
//! `per_track = { once = true }`: one time.

use weir_config::{Content, Fields};
use weir_types::Span;

use super::context::Context;
use super::tables::RawPerTrack;

/// Default of `every`: one second of media time.
const DEFAULT_EVERY: Span = Span::from_micros(1_000_000);

pub(super) fn read(fields: &Fields<'_>, context: &mut Context<'_>) -> Option<RawPerTrack> {
    let entry = fields.entry("per_track")?;
    let owner = format!("`per_track` of {}", fields.owner);
    let mut own = Fields::open(owner, entry, context.diagnostics)?;
    own.expect(&["every", "until", "once"], false, context.diagnostics);
    let every = own.span("every", context.diagnostics).into_value();
    let until = own.read("until", context.diagnostics, |node| match node.content {
        Content::Float(number) => Ok(number),
        Content::Integer(whole) => Ok(whole as f64),
        _ => Err("a number from 0 to 1".to_owned()),
    });
    if let Some(given) = until.given().filter(|given| !(0.0..=1.0).contains(&given.value)) {
        let message = format!("`until` must lie between 0 and 1, not {}", given.value);
        let hint = "the certainty of the attribute from which on the module no longer runs for a track";
        context.diagnostics.add(given.at, message, Some(hint.to_owned()));
    }
    let once = own
        .flag("once", context.diagnostics)
        .into_value()
        .unwrap_or(false);
    if once && let Some(entry) = own.entry("every").or(own.entry("until")) {
        let message =
            "`once` stands alone: the module runs one time per track, whatever the certainty".to_owned();
        let hint = "leave out `every` and `until`, or `once`";
        context.diagnostics.add(entry.at, message, Some(hint.to_owned()));
    }
    Some(RawPerTrack {
        at: entry.at,
        every: every.unwrap_or(DEFAULT_EVERY),
        until: until.into_value().map(|until| until as f32),
        once,
    })
}
