//! Sinks that are to have sound, in a graph whose sources are not asked for it.

use weir_config::Diagnostics;

use crate::raw::RawGraph;

pub(super) fn check(raw: &RawGraph, diagnostics: &mut Diagnostics) {
    let has_sound = raw.sources.iter().any(|source| source.connection.sound);
    // Streams that are added have keys of their own.
    if has_sound || !raw.templates.is_empty() {
        return;
    }
    for sink in raw.sinks.iter().filter(|sink| sink.settings.flag("sound", false)) {
        let message = format!(
            "sink \"{}\" is to have sound, and no source is asked for it",
            sink.name.value
        );
        let hint =
            "sound = true in the table of a camera asks it for its sound, or in [defaults] all of them";
        diagnostics.warn(sink.name.at, message, Some(hint.to_owned()));
    }
}
