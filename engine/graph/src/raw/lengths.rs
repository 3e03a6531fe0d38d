//! Keys of a model that choose the predictor of the lengths of its texts.

use std::path::Path;
use std::sync::Arc;

use weir_config::{Fields, absolute, report_missing};
use weir_policy::lengths::LengthNets;

use super::context::Context;
use crate::graph::LengthPredictor;
use crate::keys::{self, MAX_LENGTH_ERROR, MODEL};

/// Nets of a model are some hundred kilobytes.
const MAX_BYTES: u64 = 16 << 20;

/// Keys of a model that this file reads.
pub(super) const KEYS: [&str; 2] = ["lengths", "length_error"];

/// Facts about a model that decide which keys it may have.
pub(super) struct Known {
    pub(super) generates: bool,
    pub(super) emulated: bool,
    /// Nets that ship with the model, as text, if there are any.
    pub(super) shipped: Option<&'static str>,
}

pub(super) fn read(fields: &Fields<'_>, known: &Known, context: &mut Context<'_>) -> Option<LengthPredictor> {
    for (key, is_right, what) in [
        (
            "lengths",
            !known.emulated,
            "models that run, and what is emulated has no prompts: it has `length_error`",
        ),
        (
            "length_error",
            known.emulated,
            "emulated devices: other models have nets, `lengths`",
        ),
        ("lengths", known.generates, "models that generate"),
        ("length_error", known.generates, "models that generate"),
    ] {
        if let Some(entry) = fields.entry(key)
            && !is_right
        {
            let message = format!("`{key}` of {} is for {what}", fields.owner);
            context
                .diagnostics
                .add(entry.at, message, Some("leave it out".to_owned()));
            return None;
        }
    }
    let error = fields.read("length_error", context.diagnostics, |node| {
        let number = node.number();
        let number = number.filter(|number| keys::in_bounds(MODEL, "length_error", *number));
        number.ok_or_else(|| format!("a number from 0 to {MAX_LENGTH_ERROR}"))
    });
    if let Some(error) = error.into_value() {
        return Some(LengthPredictor::Emulated { error });
    }
    let Some(file) = fields.text("lengths", context.diagnostics).given().cloned() else {
        // Emulated models have no prompts. A test checks that the shipped nets can be read.
        let shipped = known.shipped.filter(|_| !known.emulated)?;
        let nets = serde_json::from_str::<LengthNets>(shipped).ok()?;
        return Some(LengthPredictor::Nets(Arc::new(nets)));
    };
    let path = absolute(context.folder, &file.value);
    if !path.is_file() {
        let message = format!("`lengths`: there is no file \"{}\"", file.value);
        report_missing(&message, &path, file.at, context.diagnostics);
        return None;
    }
    context.diagnostics.record_file(&path);
    match nets(&path) {
        Ok(nets) => Some(LengthPredictor::Nets(Arc::new(nets))),
        Err(reason) => {
            let message = format!("`lengths`: {}: {reason}", path.display());
            let hint = "models/training/lengths.py writes such a file".to_owned();
            context.diagnostics.add(file.at, message, Some(hint));
            None
        }
    }
}

fn nets(path: &Path) -> Result<LengthNets, String> {
    let text = weir_files::read_text(path, MAX_BYTES).map_err(|error| error.to_string())?;
    serde_json::from_str(&text).map_err(|error| error.to_string())
}
