//! `per_track = { every = "1s", until = 0.9 }` of a module: it runs for the objects of a track now and then, until it is certain;
//! `per_track = { once = true }`: one time.

use weir_config::Fields;
use weir_types::Span;

use super::context::Context;
use super::tables::RawPerTrack;
use crate::keys::{self, PER_TRACK};

/// Default of `every`: one second of media time.
const DEFAULT_EVERY: Span = Span::from_micros(1_000_000);

pub(super) fn read(fields: &Fields<'_>, context: &mut Context<'_>) -> Option<RawPerTrack> {
    let entry = fields.entry("per_track")?;
    let owner = format!("`per_track` of {}", fields.owner);
    let mut own = Fields::open(owner, entry, context.diagnostics)?;
    own.expect(&keys::names(PER_TRACK), false, context.diagnostics);
    let every = own.span("every", context.diagnostics).into_value();
    let hint = "the certainty of the attribute from which on the module no longer runs for a track";
    let until = keys::number(PER_TRACK, "until", Some(hint), &own, context.diagnostics);
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
