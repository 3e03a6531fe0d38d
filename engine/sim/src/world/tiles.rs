//! Tiles in which modules of a world read frames, as gears set them.

use std::collections::BTreeMap;

use weir_graph::Tiling;
use weir_policy::gears::{StageSetting, StageSettings};
use weir_types::{ModuleId, StreamId};

use crate::cascades::CascadeSpec;

/// Tiles of one module.
#[derive(Debug)]
struct Tiled {
    /// Tiles where no gear sets others.
    own: Tiling,
    settings: StageSettings,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Tiles(BTreeMap<usize, Tiled>);

impl Tiles {
    pub(super) fn new(spec: &CascadeSpec) -> Self {
        let tiled = |own: &Tiling| Tiled {
            own: *own,
            settings: StageSettings::new(StageSetting::asked(0.0)),
        };
        Self(
            spec.tiles
                .iter()
                .map(|(module, own)| (*module, tiled(own)))
                .collect(),
        )
    }

    /// Another gear is in force, for a stream or for all that have none of their own.
    pub(super) fn set(&mut self, module: ModuleId, stream: Option<StreamId>, setting: StageSetting) {
        if let Some(tiled) = self.0.get_mut(&module.index()) {
            tiled.settings.set(stream, setting);
        }
    }

    /// Sets the items of a request of a stream at each module that reads tiles.
    pub(super) fn fill(&self, stream: StreamId, items: &mut [u8]) {
        for (module, tiled) in &self.0 {
            let grid = tiled.settings.of(stream).tiles.unwrap_or(tiled.own.grid);
            if let Some(items) = items.get_mut(*module) {
                *items = u8::try_from(Tiling { grid, ..tiled.own }.items()).unwrap_or(u8::MAX);
            }
        }
    }
}
