//! Whether the classes that sources have rules for are found in their frames.

use std::collections::BTreeSet;

use weir_config::{Diagnostics, spelling};
use weir_flow::Catalog;

use super::types::Upstream;
use super::wiring::Wiring;
use crate::raw::{RawGraph, RawModule};

pub(super) fn check(
    raw: &RawGraph,
    wiring: &Wiring,
    models: &[Option<usize>],
    catalog: &Catalog,
    diagnostics: &mut Diagnostics,
) {
    let looks_at_frames = |module: &RawModule| {
        module
            .regions
            .given()
            .is_none_or(|regions| regions.value.is_empty())
    };
    for (index, source) in raw.sources.iter().enumerate() {
        if source.objects.has_heights() && source.objects.ground.is_none() {
            let message = format!(
                "heights in metres of source \"{}\" have no effect: it has no `ground`",
                source.name.value
            );
            let hint = "ground = { points = [[0.3, 0.5], ...], metres = [[0, 10], ...] }: four points of the ground in its picture";
            diagnostics.warn(source.name.at, message, Some(hint.to_owned()));
        }
        if source.object_classes.is_empty() {
            continue;
        }
        let passed = wiring.passed_by(index).into_iter();
        let detectors: BTreeSet<usize> = passed
            .filter(|module| looks_at_frames(&raw.modules[*module]))
            .collect();
        let found = Upstream::collect(raw, &detectors, models, catalog);
        let Some(classes) = found.classes.filter(|_| !found.unknown) else {
            continue;
        };
        let known = || classes.iter().map(String::as_str);
        for (class, at) in &source.object_classes {
            if classes.contains(class) {
                continue;
            }
            let message = format!(
                "`objects` of source \"{}\": no detector finds the class \"{class}\" in its frames",
                source.name.value
            );
            let hint = spelling::nearest(class, known())
                .map(|meant| format!("did you mean \"{meant}\"?"))
                .or_else(|| spelling::list("its frames have", known()))
                .unwrap_or_else(|| {
                    "add a module with operator = \"detect\" that takes its frames".to_owned()
                });
            diagnostics.add_if_parsed(*at, message, Some(hint));
        }
    }
}
