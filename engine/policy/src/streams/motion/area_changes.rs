//! The time of the last change in each part of a picture, by which a module that reads tiles leaves out those that it knows.
//!
//! ```text
//! read     a tile that was never read, changed within HOLD or after its last reading, or was read REFRESH ago
//! known    any other tile: the objects that were found there are there yet
//! ```
//!
//! This is the rule of the gate for whole pictures, for each tile. The time of a tile's last reading is that of a frame whose result
//! came: a tile that was dropped is read again.

use super::gate::{HOLD_MS, REFRESH_MS};

/// Cells of the grid of luma along each side of a block.
const CELLS: usize = 4;

/// A box in fractions (0 to 1) of the width and height of a picture: left, top, right, bottom.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Region {
    /// Distance of the left edge from the left of the picture.
    pub left: f32,
    /// Distance of the upper edge from the top of the picture.
    pub top: f32,
    /// Distance of the right edge from the left of the picture.
    pub right: f32,
    /// Distance of the lower edge from the top of the picture.
    pub bottom: f32,
}

/// Media time in milliseconds of the last change in each block of a picture.
#[derive(Debug, Clone, PartialEq)]
pub struct AreaChanges {
    columns: usize,
    rows: usize,
    changed_ms: Vec<f64>,
}

impl AreaChanges {
    /// The last change of each block, from that of each of `columns` by `rows` cells.
    pub(super) fn new((columns, rows): (usize, usize), mut cells_ms: impl Iterator<Item = f64>) -> Self {
        let size = (columns.div_ceil(CELLS), rows.div_ceil(CELLS));
        let mut changed_ms = vec![f64::NEG_INFINITY; size.0 * size.1];
        for row in 0..rows {
            for (column, at_ms) in (0..columns).zip(&mut cells_ms) {
                if let Some(block) = changed_ms.get_mut(row / CELLS * size.0 + column / CELLS) {
                    *block = block.max(at_ms);
                }
            }
        }
        Self {
            columns: size.0,
            rows: size.1,
            changed_ms,
        }
    }

    /// Media time in milliseconds of the last change within a part of the picture.
    #[must_use]
    pub fn last_ms(&self, part: &Region) -> f64 {
        let blocks = |from: f32, to: f32, count: usize| {
            let place = |part: f32| (part * count as f32).clamp(0.0, count as f32);
            (place(from).floor() as usize)..(place(to).ceil() as usize)
        };
        let rows = blocks(part.top, part.bottom, self.rows);
        let changed = rows.flat_map(|row| {
            let columns = blocks(part.left, part.right, self.columns);
            columns.filter_map(move |column| self.changed_ms.get(row * self.columns + column))
        });
        changed.copied().fold(f64::NEG_INFINITY, f64::max)
    }
}

/// Whether a tile is read in the picture of `at_ms`: `read_ms` is the media time of the last frame in which it was, and
/// `changed_ms` that of its last change.
#[must_use]
pub fn is_tile_due(read_ms: Option<f64>, changed_ms: f64, at_ms: f64) -> bool {
    let Some(read_ms) = read_ms else { return true };
    let is_moving = at_ms - changed_ms < HOLD_MS;
    let is_known = changed_ms <= read_ms && (0.0..REFRESH_MS).contains(&(at_ms - read_ms));
    is_moving || !is_known
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tile_is_read_until_its_change_is_known_and_has_passed() {
        for (read_ms, changed_ms, at_ms, due) in [
            (None, f64::NEG_INFINITY, 5_000.0, true),
            (Some(4_960.0), f64::NEG_INFINITY, 5_000.0, false),
            (Some(4_960.0), 4_500.0, 5_000.0, true),
            (Some(4_960.0), 3_500.0, 5_000.0, false),
            // The frames since the change were dropped.
            (Some(3_000.0), 3_500.0, 5_000.0, true),
            (Some(5_000.0), 0.0, 15_000.0, true),
            // The time of the stream jumped back.
            (Some(9_000.0), 0.0, 5_000.0, true),
        ] {
            assert_eq!(
                is_tile_due(read_ms, changed_ms, at_ms),
                due,
                "{read_ms:?} {changed_ms} {at_ms}"
            );
        }
    }

    #[test]
    fn change_counts_for_the_parts_that_meet_its_block() {
        // The last cell of a grid whose sides are no whole numbers of blocks.
        let cells = (0..10 * 6).map(|cell| if cell == 59 { 80.0 } else { 40.0 });
        let changes = AreaChanges::new((10, 6), cells);
        let part = |left, top, right, bottom| Region {
            left,
            top,
            right,
            bottom,
        };
        assert_eq!(changes.last_ms(&part(0.0, 0.0, 1.0, 1.0)), 80.0);
        assert_eq!(changes.last_ms(&part(0.7, 0.6, 1.0, 1.0)), 80.0);
        assert_eq!(changes.last_ms(&part(0.0, 0.0, 0.6, 0.5)), 40.0);
        assert_eq!(changes.last_ms(&part(2.0, 2.0, 3.0, 3.0)), f64::NEG_INFINITY);
    }
}
