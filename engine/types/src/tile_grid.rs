//! Grid of tiles in which a module reads large pictures.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Number of columns and rows of tiles, each 1 to [`TileGrid::MAX_SIDE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "[u32; 2]", into = "[u32; 2]")]
pub struct TileGrid {
    columns: u8,
    rows: u8,
}

impl TileGrid {
    /// Maximum number of columns, and of rows. A frame then brings 64 tiles, and costs as much as 64 frames.
    pub const MAX_SIDE: u32 = 8;

    /// The grid of `[columns, rows]`; `None` if either is 0 or above the maximum.
    #[must_use]
    pub fn new([columns, rows]: [u32; 2]) -> Option<Self> {
        let side = |side: u32| (1..=Self::MAX_SIDE).contains(&side).then_some(side as u8);
        Some(Self {
            columns: side(columns)?,
            rows: side(rows)?,
        })
    }

    /// Number of columns.
    #[must_use]
    pub fn columns(self) -> u32 {
        u32::from(self.columns)
    }

    /// Number of rows.
    #[must_use]
    pub fn rows(self) -> u32 {
        u32::from(self.rows)
    }

    /// Number of tiles.
    #[must_use]
    pub fn count(self) -> u32 {
        self.columns() * self.rows()
    }
}

impl TryFrom<[u32; 2]> for TileGrid {
    type Error = String;

    fn try_from(sides: [u32; 2]) -> Result<Self, String> {
        let max = Self::MAX_SIDE;
        Self::new(sides)
            .ok_or_else(|| format!("`tiles` are [columns, rows], each from 1 to {max}, not {sides:?}"))
    }
}

impl From<TileGrid> for [u32; 2] {
    fn from(grid: TileGrid) -> Self {
        [grid.columns(), grid.rows()]
    }
}

impl fmt::Display for TileGrid {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} x {}", self.columns, self.rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sides_are_bounded_also_where_they_are_read() {
        for sides in [[0, 1], [1, 0], [9, 1], [1, 9], [u32::MAX, 1]] {
            assert_eq!(TileGrid::new(sides), None);
            let text = serde_json::json!(sides).to_string();
            let error = serde_json::from_str::<TileGrid>(&text).expect_err("it is out of bounds");
            assert!(error.to_string().contains("1 to 8"), "{error}");
        }
        let grid: TileGrid = serde_json::from_str("[3,2]").expect("it is valid");
        assert_eq!((grid.columns(), grid.rows(), grid.count()), (3, 2, 6));
        assert_eq!(grid.to_string(), "3 x 2");
        assert_eq!(serde_json::to_string(&grid).expect("it is plain data"), "[3,2]");
    }
}
