//! Lengths that nets are to predict need nets.

use weir_config::Diagnostics;

use crate::raw::RawGraph;

/// Reports models whose lengths `[policy]` wants predicted and that have nothing to predict them by.
pub(super) fn check(raw: &RawGraph, models: &[Option<usize>], diagnostics: &mut Diagnostics) {
    let source = raw.policy.length;
    if !source.is_predicted() {
        return;
    }
    for (index, model) in raw.models.iter().enumerate() {
        let lacks = model.predictor.is_none() && !model.names_predictor;
        if !lacks || !model.generates() || !models.contains(&Some(index)) {
            continue;
        }
        let name = source.name();
        let message = format!(
            "length = \"{name}\" of [policy] predicts lengths with nets, and model \"{}\" has none",
            model.name.value
        );
        let hint = "set their file, lengths = \"FILE.json\"; on an emulated device, set length_error = 0.3; or set length = \"mean\"";
        diagnostics.add_if_parsed(model.name.at, message, Some(hint.to_owned()));
    }
}
