//! Items of a frame that is read in tiles, and the sides of tiles in the frames of sources.

use std::collections::{BTreeMap, BTreeSet};

use weir_flow::{Rect, Region, Tiling};
use weir_graph::Graph;

use crate::printable;

/// Shorter side of a tile in pixels below which a model sees more of its padding and its own scaling than of the picture.
const MIN_SIDE: f32 = 256.0;

/// Remarks on the modules that read tiles; `sizes` has the size of frames by address, of sources that were opened.
pub(super) fn remarks(graph: &Graph, sizes: &BTreeMap<String, (u32, u32)>) -> Vec<String> {
    let mut remarks = Vec::new();
    let mut seen = BTreeSet::new();
    for (index, module) in graph.modules().iter().enumerate() {
        let Some(tiling) = module.tiling().filter(|_| seen.insert(module.label())) else {
            continue;
        };
        let name = printable::line(module.label());
        let (items, grid) = (tiling.items(), tiling.grid);
        let and_whole = if items > grid.count() {
            " and the whole frame"
        } else {
            ""
        };
        let by_gear = graph.gears().into_iter().flat_map(|gears| &gears.gears);
        let by_gear = by_gear.filter_map(|gear| gear.stages.get(&index)?.tiles);
        let grids: BTreeSet<String> = by_gear.map(|grid| grid.to_string()).collect();
        let gears = match grids.is_empty() {
            true => String::new(),
            false => {
                let grids: Vec<String> = grids.into_iter().collect();
                format!("; gears read {}", grids.join(", "))
            }
        };
        remarks.push(format!(
            "module {name}: a frame is {items} items of its model, {grid} tiles{and_whole}{gears}"
        ));
        let reached = graph.sources().iter().enumerate();
        let reached = reached.filter(|(source, _)| graph.reachable_from(*source).contains(&index));
        for (_, source) in reached {
            if let Some(size) = sizes.get(source.frames_uri()) {
                let of = format!("module {name}, source {}", printable::line(&source.name));
                remarks.push(format!("{of}: {}", of_size(&tiling, *size)));
            }
        }
    }
    remarks
}

/// The sides of the tiles of frames of that size, and the largest object that is always whole in one.
fn of_size(tiling: &Tiling, (width, height): (u32, u32)) -> String {
    let whole = Rect::new(0.0, 0.0, width as f32, height as f32);
    let tile = match tiling.regions((width, height)).first() {
        Some(Region::Crop { rect, .. }) => *rect,
        Some(Region::Whole) | None => whole,
    };
    let (wide, high) = (tile.width(), tile.height());
    let largest = tiling.overlap * wide.min(high);
    let mut text = format!(
        "tiles of {width} x {height} are {wide:.0} x {high:.0} pixels; objects of up to {largest:.0} pixels are whole in one"
    );
    if wide.min(high) < MIN_SIDE {
        text += ", and fewer tiles would show the same";
    }
    text
}

#[cfg(test)]
mod tests {
    use weir_flow::TileGrid;

    use super::*;

    #[test]
    fn tiles_of_a_small_frame_are_doubted() {
        let tiling = Tiling {
            grid: TileGrid::new([4, 3]).expect("within bounds"),
            overlap: 0.2,
            whole: true,
        };
        assert_eq!(
            of_size(&tiling, (3_840, 2_160)),
            "tiles of 3840 x 2160 are 1130 x 831 pixels; objects of up to 166 pixels are whole in one"
        );
        let small = of_size(&tiling, (640, 360));
        assert!(small.ends_with("fewer tiles would show the same"), "{small}");
    }
}
