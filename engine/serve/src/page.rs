//! The page at `/`: files that are compiled in. It holds no secret, so no token is needed for it; what it shows comes over the
//! API, with the token that its reader gives.

use axum::http::header;
use axum::response::{IntoResponse, Response};

/// Nothing but what this server has itself may be loaded or asked, no script stands in the page, and no other site frames it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; media-src 'self' \
                      blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";

/// A file of the page.
struct File {
    path: &'static str,
    kind: &'static str,
    bytes: &'static [u8],
}

macro_rules! file {
    ($path:literal, $kind:expr, $file:literal) => {
        File {
            path: $path,
            kind: $kind,
            bytes: include_bytes!(concat!("../page/", $file)),
        }
    };
}

const FILES: &[File] = &[
    file!("/", "text/html; charset=utf-8", "index.html"),
    file!("/page/icon.svg", "image/svg+xml", "icon.svg"),
    file!("/page/base.css", STYLE, "base.css"),
    file!("/page/parts.css", STYLE, "parts.css"),
    file!("/page/live.css", STYLE, "live.css"),
    file!("/page/incidents.css", STYLE, "incidents.css"),
    file!("/page/recordings.css", STYLE, "recordings.css"),
    file!("/page/search.css", STYLE, "search.css"),
    file!("/page/edit.css", STYLE, "edit.css"),
    file!("/page/engine.css", STYLE, "engine.css"),
    file!("/page/theme.js", SCRIPT, "theme.js"),
    file!("/page/api.js", SCRIPT, "api.js"),
    file!("/page/cameras.js", SCRIPT, "cameras.js"),
    file!("/page/causes.js", SCRIPT, "causes.js"),
    file!("/page/charts.js", SCRIPT, "charts.js"),
    file!("/page/de.js", SCRIPT, "de.js"),
    file!("/page/de_causes.js", SCRIPT, "de_causes.js"),
    file!("/page/de_edit.js", SCRIPT, "de_edit.js"),
    file!("/page/de_engine.js", SCRIPT, "de_engine.js"),
    file!("/page/dialogs.js", SCRIPT, "dialogs.js"),
    file!("/page/drawing.js", SCRIPT, "drawing.js"),
    file!("/page/dom.js", SCRIPT, "dom.js"),
    file!("/page/dropped.js", SCRIPT, "dropped.js"),
    file!("/page/edit.js", SCRIPT, "edit.js"),
    file!("/page/edit_canvas.js", SCRIPT, "edit_canvas.js"),
    file!("/page/edit_diff.js", SCRIPT, "edit_diff.js"),
    file!("/page/edit_draw.js", SCRIPT, "edit_draw.js"),
    file!("/page/edit_forms.js", SCRIPT, "edit_forms.js"),
    file!("/page/edit_shapes.js", SCRIPT, "edit_shapes.js"),
    file!("/page/edit_text.js", SCRIPT, "edit_text.js"),
    file!("/page/edit_variables.js", SCRIPT, "edit_variables.js"),
    file!("/page/engine.js", SCRIPT, "engine.js"),
    file!("/page/fleet.js", SCRIPT, "fleet.js"),
    file!("/page/format.js", SCRIPT, "format.js"),
    file!("/page/gears.js", SCRIPT, "gears.js"),
    file!("/page/graph.js", SCRIPT, "graph.js"),
    file!("/page/grid.js", SCRIPT, "grid.js"),
    file!("/page/help.js", SCRIPT, "help.js"),
    file!("/page/history.js", SCRIPT, "history.js"),
    file!("/page/icons.js", SCRIPT, "icons.js"),
    file!("/page/incident_dialog.js", SCRIPT, "incident_dialog.js"),
    file!("/page/incident_filters.js", SCRIPT, "incident_filters.js"),
    file!("/page/incident_row.js", SCRIPT, "incident_row.js"),
    file!("/page/incident_strip.js", SCRIPT, "incident_strip.js"),
    file!("/page/incident_words.js", SCRIPT, "incident_words.js"),
    file!("/page/incidents.js", SCRIPT, "incidents.js"),
    file!("/page/latency.js", SCRIPT, "latency.js"),
    file!("/page/live.js", SCRIPT, "live.js"),
    file!("/page/live_groups.js", SCRIPT, "live_groups.js"),
    file!("/page/main.js", SCRIPT, "main.js"),
    file!("/page/modules.js", SCRIPT, "modules.js"),
    file!("/page/overlay.js", SCRIPT, "overlay.js"),
    file!("/page/player.js", SCRIPT, "player.js"),
    file!("/page/de_incidents.js", SCRIPT, "de_incidents.js"),
    file!("/page/de_recordings.js", SCRIPT, "de_recordings.js"),
    file!("/page/de_search.js", SCRIPT, "de_search.js"),
    file!("/page/recording_controls.js", SCRIPT, "recording_controls.js"),
    file!("/page/recording_player.js", SCRIPT, "recording_player.js"),
    file!("/page/recording_range.js", SCRIPT, "recording_range.js"),
    file!("/page/recording_strip.js", SCRIPT, "recording_strip.js"),
    file!("/page/recordings.js", SCRIPT, "recordings.js"),
    file!("/page/search.js", SCRIPT, "search.js"),
    file!("/page/search_words.js", SCRIPT, "search_words.js"),
    file!("/page/socket.js", SCRIPT, "socket.js"),
    file!("/page/status.js", SCRIPT, "status.js"),
    file!("/page/summary.js", SCRIPT, "summary.js"),
    file!("/page/texts.js", SCRIPT, "texts.js"),
    file!("/page/tile.js", SCRIPT, "tile.js"),
    file!("/page/timeline.js", SCRIPT, "timeline.js"),
    file!("/page/video.js", SCRIPT, "video.js"),
    file!("/page/videos.js", SCRIPT, "videos.js"),
];

/// Paths of the files.
pub(crate) fn paths() -> impl Iterator<Item = &'static str> {
    FILES.iter().map(|file| file.path)
}

/// The file at a path, if there is one.
pub(crate) fn file(path: &str) -> Option<Response> {
    let file = FILES.iter().find(|file| file.path == path)?;
    let headers = [
        (header::CONTENT_TYPE, file.kind),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        // Another version of the program has other files.
        (header::CACHE_CONTROL, "no-cache"),
    ];
    Some((headers, file.bytes).into_response())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Paths of `page/` that a text names, relative to the page, and modules that it imports.
    fn named(text: &str) -> BTreeSet<String> {
        let quoted = text.split(['"', '\'']);
        let names = quoted.filter_map(|text| match text.strip_prefix("./") {
            Some(name) => Some(format!("/page/{name}")),
            None => text.starts_with("page/").then(|| format!("/{text}")),
        });
        names.collect()
    }

    #[test]
    fn every_file_that_is_served_is_used_and_every_one_that_is_used_is_served() {
        let texts = FILES
            .iter()
            .filter_map(|file| std::str::from_utf8(file.bytes).ok());
        let used: BTreeSet<String> = texts.flat_map(named).collect();
        let served: BTreeSet<String> = paths().filter(|path| *path != "/").map(str::to_owned).collect();
        assert_eq!(used, served);
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/page");
        assert_eq!(std::fs::read_dir(folder).unwrap().count(), FILES.len());
    }

    /// Texts that the scripts hand to `t` as they stand.
    fn keys(text: &str) -> impl Iterator<Item = &str> {
        let calls = text.match_indices("t(\"").filter(|(at, _)| {
            let before = text[..*at].chars().next_back();
            !before.is_some_and(|before| before.is_alphanumeric() || before == '_')
        });
        calls.filter_map(|(at, call)| text[at + call.len()..].split('"').next())
    }

    #[test]
    fn every_text_of_a_script_has_a_german_one() {
        let text = |file: &File| std::str::from_utf8(file.bytes).unwrap();
        let scripts = FILES.iter().filter(|file| file.kind == SCRIPT);
        let (german, others): (Vec<&File>, Vec<&File>) =
            scripts.partition(|file| file.path == "/page/de.js" || file.path.starts_with("/page/de_"));
        let german: String = german.into_iter().map(text).collect();
        for file in others {
            for key in keys(text(file)) {
                assert!(
                    german.contains(&format!("\"{key}\":")),
                    "{}: {key:?} is not in de.js",
                    file.path
                );
            }
        }
    }

    #[test]
    fn every_address_is_below_the_path_of_the_page() {
        for file in FILES {
            let text = std::str::from_utf8(file.bytes).unwrap();
            for start in ["\"/", "'/", "`/", "(/", "${location.host}", "${location.origin}"] {
                for (at, _) in text.match_indices(start) {
                    let rest = &text[at + start.len()..];
                    let is_address = rest.starts_with(|c: char| c.is_ascii_lowercase());
                    assert!(
                        !is_address,
                        "{}: {}",
                        file.path,
                        rest.lines().next().unwrap_or_default()
                    );
                }
            }
        }
    }

    #[test]
    fn texts_of_others_enter_the_page_as_texts_and_nothing_is_loaded_from_elsewhere() {
        for file in FILES {
            let text = std::str::from_utf8(file.bytes).unwrap();
            for wrong in [
                "innerHTML",
                "outerHTML",
                "insertAdjacentHTML",
                "document.write",
                "eval(",
            ] {
                assert!(!text.contains(wrong), "{} has {wrong}", file.path);
            }
            let elsewhere = text.replace("http://www.w3.org/", "");
            for wrong in ["http://", "https://", " style=", "onclick=\""] {
                assert!(!elsewhere.contains(wrong), "{} has {wrong}", file.path);
            }
        }
    }
}
