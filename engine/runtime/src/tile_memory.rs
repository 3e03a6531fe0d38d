//! Findings in the tiles of a stream's pictures, for frames in which a tile shows nothing new.

use std::collections::BTreeMap;

use weir_flow::{Inference, Item, Region};
use weir_policy::{AreaChanges, is_tile_due};
use weir_types::ModuleId;

use crate::picture_part::part_of;

/// Tiles of a module whose findings are kept at most: those of the two largest grids, between which a gear may shift.
const MAX_KNOWN: usize = 130;

/// Findings in a tile, and the frame in which it was read.
#[derive(Debug)]
struct KnownTile {
    region: Region,
    /// Media time of the frame in milliseconds.
    read_ms: f64,
    inference: Inference,
}

/// The tiles of one stream by module, of the graph that it enters.
#[derive(Debug, Default)]
pub(crate) struct TileMemory {
    graph: u32,
    modules: BTreeMap<ModuleId, Vec<KnownTile>>,
}

impl TileMemory {
    /// The findings in a tile that need not be read in its frame; `None` where it has to be.
    pub(crate) fn known(
        &self,
        (graph, module): (u32, ModuleId),
        item: &Item,
        changes: &AreaChanges,
    ) -> Option<Inference> {
        let tiles = self.modules.get(&module).filter(|_| self.graph == graph)?;
        let tile = tiles.iter().find(|tile| tile.region == item.region)?;
        let changed_ms = changes.last_ms(&part_of(&item.bounds(), &item.frame.image));
        let is_due = is_tile_due(Some(tile.read_ms), changed_ms, item.frame.pts_ms);
        (!is_due).then(|| tile.inference.clone())
    }

    /// A tile was read. Results of frames may come in another order than the frames, and those of an earlier graph late.
    pub(crate) fn on_read(&mut self, (graph, module): (u32, ModuleId), item: &Item, inference: &Inference) {
        // A tile without a result is read again.
        if graph < self.graph || inference.failure.is_some() {
            return;
        }
        if graph > self.graph {
            *self = Self {
                graph,
                ..Self::default()
            };
        }
        let read_ms = item.frame.pts_ms;
        let tiles = self.modules.entry(module).or_default();
        let place = tiles.iter().position(|tile| tile.region == item.region);
        if place.is_some_and(|place| tiles[place].read_ms > read_ms) {
            return;
        }
        // The one that was read last is at the end.
        let oldest = (tiles.len() >= MAX_KNOWN).then_some(0);
        if let Some(place) = place.or(oldest) {
            tiles.remove(place);
        }
        tiles.push(KnownTile {
            region: item.region.clone(),
            read_ms,
            inference: inference.clone(),
        });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use weir_flow::{Frame, Image, Points, Rect};
    use weir_policy::{LumaGrid, SceneChange};

    use super::*;

    const OF: (u32, ModuleId) = (1, ModuleId(0));

    /// The left or the right half of a picture of that time.
    fn half(right: bool, at_ms: f64) -> Item {
        let x0 = if right { 320.0 } else { 0.0 };
        let image = Image::from_rgb(640, 360, vec![0; 640 * 360 * 3]);
        let region = Region::Crop {
            rect: Rect::new(x0, 0.0, x0 + 320.0, 360.0),
            points: Points::None,
        };
        Item::of_frame(&Arc::new(Frame::new(0, at_ms, image)), region)
    }

    /// Changes of a picture of which only the right half changes, at `moved_ms`.
    fn changes(moved_ms: f64) -> AreaChanges {
        let mut scene = SceneChange::default();
        let mut at_ms = |at_ms: f64, level: u8| {
            let mut luma = vec![60; 640 * 360];
            for row in luma.chunks_mut(640).skip(100).take(100) {
                row[400..500].fill(level);
            }
            let grid = LumaGrid::new(&luma, 640, (640, 360)).expect("large enough");
            scene.observe(&grid, 0.04);
            scene.changes(at_ms)
        };
        at_ms(0.0, 60);
        at_ms(moved_ms, 200)
    }

    #[test]
    fn only_the_tile_that_changed_since_its_reading_is_read() {
        let mut memory = TileMemory::default();
        let found = Inference {
            certainty: Some(0.5),
            ..Inference::default()
        };
        let known = |memory: &TileMemory, of, right, at_ms| {
            memory.known(of, &half(right, at_ms), &changes(5_000.0)).is_some()
        };
        assert!(!known(&memory, OF, false, 5_000.0), "it was never read");
        for right in [false, true] {
            memory.on_read(OF, &half(right, 4_960.0), &found);
        }
        assert!(known(&memory, OF, false, 5_000.0) && !known(&memory, OF, true, 5_000.0));
        memory.on_read(OF, &half(true, 5_040.0), &found);
        assert!(known(&memory, OF, true, 6_100.0), "it was read after its change");
        // A result that comes late is no news.
        memory.on_read(OF, &half(true, 4_000.0), &Inference::default());
        assert!(known(&memory, OF, true, 6_100.0));
        assert!(!known(&memory, (1, ModuleId(1)), true, 6_100.0));
        assert!(!known(&memory, (2, ModuleId(0)), true, 6_100.0));
        memory.on_read((2, ModuleId(0)), &half(true, 6_000.0), &found);
        assert!(!known(&memory, OF, true, 6_100.0), "another graph is in force");
    }

    #[test]
    fn tile_whose_reading_failed_is_read_again() {
        let mut memory = TileMemory::default();
        let failed = Inference {
            failure: Some("the head failed".into()),
            ..Inference::default()
        };
        memory.on_read(OF, &half(false, 4_960.0), &failed);
        let known = |memory: &TileMemory| memory.known(OF, &half(false, 5_000.0), &changes(5_000.0));
        assert!(known(&memory).is_none());
        memory.on_read(OF, &half(false, 4_960.0), &Inference::default());
        assert!(known(&memory).is_some());
    }

    #[test]
    fn findings_of_many_tiles_are_bounded() {
        let mut memory = TileMemory::default();
        for tile in 0..1_000_u16 {
            let item = Item {
                region: Region::Crop {
                    rect: Rect::new(f32::from(tile), 0.0, 640.0, 360.0),
                    points: Points::None,
                },
                ..half(false, 0.0)
            };
            memory.on_read(OF, &item, &Inference::default());
        }
        assert_eq!(memory.modules[&OF.1].len(), MAX_KNOWN);
    }
}
