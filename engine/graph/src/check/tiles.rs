//! Whether a module that reads frames in tiles takes whole frames.

use weir_config::Diagnostics;

use crate::graph::Escalate;
use crate::raw::{RawGraph, RawModule};

pub(super) fn check(raw: &RawGraph, diagnostics: &mut Diagnostics) {
    // The stages of a cascade are one table.
    let is_first = |module: &&RawModule| module.stage.as_ref().is_none_or(|stage| stage.index == 0);
    for module in raw.modules.iter().filter(is_first) {
        let Some(at) = module.tiles_at else { continue };
        let stage = module.stage.as_ref();
        let name = stage.map_or(&module.name.value, |stage| &stage.cascade);
        let regions = module.regions.given();
        let (other, hint) = if regions.is_some_and(|regions| !regions.value.is_empty()) {
            (
                "`regions`",
                "tiles are of whole frames, and regions are crops of objects: leave out one of them",
            )
        } else if module.items_at.is_some() {
            ("`items`", "its items are the tiles of frames: leave out `items`")
        } else if stage.is_some_and(|stage| stage.escalate.value == Escalate::Regions) {
            (
                "`escalate = \"regions\"`",
                "leave out `escalate`: a tile that the first stage is not certain of is handed on whole",
            )
        } else {
            continue;
        };
        let message = format!("module \"{name}\" has both `tiles` and {other}");
        diagnostics.add(at, message, Some(hint.to_owned()));
    }
}
