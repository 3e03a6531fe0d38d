//! Trackers: modules with `operator = "track"`. They have no model, and requests do not wait for them.

use weir_analytics::Parts;
use weir_config::{Entry, Fields, Spanned};

use super::context::Context;
use super::required::{expect_keys, required_inputs, streams};
use super::tables::RawTracker;
use crate::keys::{MODULE, Mark};
use crate::settings;

/// Score from which objects begin tracks, and that from which they continue them, where the text does not say.
const DEFAULT_HIGH: f64 = 0.5;
const DEFAULT_LOW: f64 = 0.1;

pub(super) fn read(name: Spanned<String>, entry: &Entry, context: &mut Context<'_>) -> Option<RawTracker> {
    let mut fields = Fields::open(format!("module \"{}\"", name.value), entry, context.diagnostics)?;
    let keys = context.catalog.tracker_keys;
    for key in MODULE.iter().filter(|key| !key.has(Mark::Tracker)) {
        if let Some(entry) = fields.entry(key.name) {
            let message = format!("{} is a tracker, which has no `{}`", fields.owner, key.name);
            let hint = "it runs no model: it follows the objects of its `inputs` where deliveries come out";
            context.diagnostics.add(entry.at, message, Some(hint.to_owned()));
        }
    }
    expect_keys(&mut fields, MODULE, keys, false, context);
    let settings = settings::read(&fields, keys, context.folder, context.diagnostics).settings;
    let (low, high) = (
        settings.number("low", DEFAULT_LOW),
        settings.number("high", DEFAULT_HIGH),
    );
    let at = ["low", "high"].into_iter().find_map(|key| fields.entry(key));
    if let Some(entry) = at.filter(|_| low > high) {
        let message = format!("`low` of {} is {low}, above `high`, {high}", fields.owner);
        let hint =
            "objects from `high` on continue any track, those from `low` on one that the frame before showed";
        context.diagnostics.add(entry.at, message, Some(hint.to_owned()));
    }
    if let Some(entry) = fields
        .entry("begin")
        .filter(|_| settings.number("begin", 1.0) < high)
    {
        let message = format!("`begin` of {} is below `high`, {high}", fields.owner);
        let hint = "what begins a track continues one as well: raise `begin`, or leave it out";
        context.diagnostics.add(entry.at, message, Some(hint.to_owned()));
    }
    let parts = Parts::read(settings.texts("parts").unwrap_or_default());
    if let Some((entry, wrong)) = fields.entry("parts").zip(parts.err()) {
        let message = format!("`parts` of {}: {wrong}", fields.owner);
        context.diagnostics.add(entry.at, message, None);
    }
    Some(RawTracker {
        inputs: required_inputs(&fields, context),
        streams: streams(&fields, context),
        settings,
        name,
    })
}
