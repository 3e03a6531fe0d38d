//! Maps of models that read each cell of a picture: classes of a semantic segmentation, or values such as a depth.

use std::sync::Arc;

use crate::geometry::{Point, Rect};
use crate::mask::Mask;

/// Contents of the cells of a [`DenseMap`], row by row.
#[derive(Debug, Clone, PartialEq)]
pub enum MapCells {
    /// The class of each cell, as a number of the names.
    Classes {
        /// Names of the classes.
        names: Arc<[Arc<str>]>,
        /// Class of each cell.
        cells: Box<[u16]>,
    },
    /// A value of each cell; a cell whose value is not finite has none.
    Values(Box<[f32]>),
}

/// A grid of classes or values over a part of a picture.
#[derive(Debug, Clone, PartialEq)]
pub struct DenseMap {
    /// Part of the picture under the grid, in source pixels. It may exceed the picture, where the input of the model has a border.
    area: Rect,
    columns: usize,
    rows: usize,
    cells: MapCells,
}

impl DenseMap {
    /// A map over `area`; `None` if it has another number of cells than columns times rows, none, or no area.
    #[must_use]
    pub fn new(area: Rect, columns: usize, rows: usize, cells: MapCells) -> Option<Self> {
        let count = match &cells {
            MapCells::Classes { cells, .. } => cells.len(),
            MapCells::Values(cells) => cells.len(),
        };
        let has_area = area.width() > 0.0 && area.height() > 0.0;
        (has_area && count > 0 && columns.checked_mul(rows) == Some(count)).then_some(Self {
            area,
            columns,
            rows,
            cells,
        })
    }

    /// Contents of the cells.
    #[must_use]
    pub const fn cells(&self) -> &MapCells {
        &self.cells
    }

    /// Classes of the cells within a box, in source pixels, with their shares from 0 to 1, the largest first; none for a map of values.
    #[must_use]
    pub fn shares(&self, rect: &Rect) -> Vec<(Arc<str>, f32)> {
        let MapCells::Classes { names, cells } = &self.cells else {
            return Vec::new();
        };
        let mut counts = vec![0_u32; names.len()];
        for cell in self.within(rect) {
            if let Some(count) = counts.get_mut(usize::from(cells[cell])) {
                *count += 1;
            }
        }
        let all: u32 = counts.iter().sum();
        let mut found: Vec<(usize, u32)> = counts
            .into_iter()
            .enumerate()
            .filter(|(_, count)| *count > 0)
            .collect();
        // The sort is stable: of equals, the first class stays first.
        found.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let share = |(class, count): (usize, u32)| (Arc::clone(&names[class]), count as f32 / all as f32);
        found.into_iter().map(share).collect()
    }

    /// Finite values of the cells within a box, in source pixels; none for a map of classes.
    #[must_use]
    pub fn values(&self, rect: &Rect) -> Vec<f32> {
        let MapCells::Values(cells) = &self.cells else {
            return Vec::new();
        };
        let values = self.within(rect).map(|cell| cells[cell]);
        values.filter(|value| value.is_finite()).collect()
    }

    /// The box and the mask of the cells of a class within a picture of that width and height; `None` where there are none.
    #[must_use]
    pub fn class_mask(&self, class: &str, (width, height): (f32, f32)) -> Option<(Rect, Mask)> {
        let MapCells::Classes { names, cells } = &self.cells else {
            return None;
        };
        let number = names.iter().position(|name| **name == *class)?;
        let is_class = |cell: &u16| usize::from(*cell) == number;
        let size = (
            self.area.width() / self.columns as f32,
            self.area.height() / self.rows as f32,
        );
        let rows = cells.chunks_exact(self.columns).enumerate();
        let boxes = rows.filter_map(|(row, cells)| {
            let (first, last) = (
                cells.iter().position(is_class)?,
                cells.iter().rposition(is_class)?,
            );
            let x = |column: usize| self.area.x0 + column as f32 * size.0;
            let y = self.area.y0 + row as f32 * size.1;
            Some(Rect::new(x(first), y, x(last) + size.0, y + size.1))
        });
        let rect = boxes.reduce(|one, other| one.union(&other))?.clamp(width, height);
        let cell = |at: f32, start: f32, size: f32, count: usize| {
            (((at - start) / size).max(0.0) as usize).min(count - 1)
        };
        let mask = Mask::sample(&rect, |x, y| {
            let column = cell(x, self.area.x0, size.0, self.columns);
            is_class(&cells[cell(y, self.area.y0, size.1, self.rows) * self.columns + column])
        })?;
        Some((rect, mask))
    }

    /// Cells whose centres are within a box; the cell under the centre of a box that has none.
    fn within(&self, rect: &Rect) -> impl Iterator<Item = usize> {
        let columns = cells(rect.x0, rect.x1, (self.area.x0, self.area.width()), self.columns);
        let rows = cells(rect.y0, rect.y1, (self.area.y0, self.area.height()), self.rows);
        let width = self.columns;
        rows.flat_map(move |row| columns.clone().map(move |column| row * width + column))
    }

    /// The box around a single point.
    #[must_use]
    pub fn at(point: Point) -> Rect {
        Rect::new(point.x, point.y, point.x, point.y)
    }
}

/// Cells along one side whose centres are from `low` to `high`, of so many over a length from a start; at least one.
fn cells(low: f32, high: f32, (start, length): (f32, f32), count: usize) -> std::ops::Range<usize> {
    // A cast turns NaN into 0.
    let place = |at: f32| (at - start) / length * count as f32;
    let first = (place(low) - 0.5).ceil().max(0.0) as usize;
    let end = ((place(high) - 0.5).floor() + 1.0).max(0.0) as usize;
    let (first, end) = (first.min(count), end.min(count));
    if first < end {
        return first..end;
    }
    let middle = (place((low + high) / 2.0).max(0.0) as usize).min(count - 1);
    middle..middle + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn area() -> Rect {
        Rect::new(0.0, 0.0, 40.0, 20.0)
    }

    fn classes() -> DenseMap {
        let names: Arc<[Arc<str>]> = ["sky", "road", "grass"].map(Arc::from).into();
        let cells = [0, 0, 0, 2, 1, 1, 1, 1].into();
        DenseMap::new(area(), 4, 2, MapCells::Classes { names, cells }).expect("sizes agree")
    }

    #[test]
    fn shares_are_of_the_cells_with_their_centre_in_the_box() {
        let map = classes();
        let shares = |rect: Rect| -> Vec<(String, f32)> {
            let found = map.shares(&rect).into_iter();
            found.map(|(name, share)| (name.to_string(), share)).collect()
        };
        let named = |shares: &[(&str, f32)]| -> Vec<(String, f32)> {
            shares
                .iter()
                .map(|(name, share)| ((*name).to_owned(), *share))
                .collect()
        };
        assert_eq!(
            shares(area()),
            named(&[("road", 0.5), ("sky", 0.375), ("grass", 0.125)])
        );
        assert_eq!(
            shares(Rect::new(-100.0, -100.0, 100.0, 10.0)),
            named(&[("sky", 0.75), ("grass", 0.25)])
        );
        // Centres of columns are at 5, 15, 25 and 35.
        assert_eq!(
            shares(Rect::new(14.0, 0.0, 36.0, 9.0)),
            named(&[("sky", 2.0 / 3.0), ("grass", 1.0 / 3.0)])
        );
        // Smaller than a cell, a point, and beyond the map.
        assert_eq!(shares(Rect::new(31.0, 1.0, 33.0, 3.0)), named(&[("grass", 1.0)]));
        assert_eq!(
            shares(DenseMap::at(Point::new(3.0, 19.0))),
            named(&[("road", 1.0)])
        );
        assert_eq!(
            shares(Rect::new(500.0, 500.0, 600.0, 600.0)),
            named(&[("road", 1.0)])
        );
        assert_eq!(shares(Rect::new(f32::NAN, 0.0, f32::NAN, 5.0)).len(), 1);
        assert!(map.values(&area()).is_empty());
    }

    #[test]
    fn mask_of_a_class_covers_its_cells_within_the_picture() {
        let map = classes();
        let (rect, mask) = map.class_mask("sky", (40.0, 20.0)).expect("there is some");
        assert_eq!(rect, Rect::new(0.0, 0.0, 30.0, 10.0));
        assert_eq!(mask.coco_counts(40, 20)[..3], [0, 10, 10]);
        let (rect, mask) = map.class_mask("road", (38.0, 15.0)).expect("there is some");
        assert_eq!(rect, Rect::new(0.0, 10.0, 38.0, 15.0));
        let area: u32 = mask.spans().iter().map(|span| span.bottom - span.top).sum();
        assert_eq!(area, 38 * 5);
        assert!(map.class_mask("water", (40.0, 20.0)).is_none());
        assert!(
            map.class_mask("grass", (20.0, 20.0)).is_none(),
            "beyond the picture"
        );
    }

    #[test]
    fn values_are_finite() {
        let cells = [3.0, f32::NAN, 1.0, f32::INFINITY, 2.0, 0.5, 4.0, 5.0].into();
        let map = DenseMap::new(area(), 4, 2, MapCells::Values(cells)).expect("sizes agree");
        assert_eq!(map.values(&Rect::new(0.0, 0.0, 40.0, 10.0)), [3.0, 1.0]);
        assert_eq!(map.values(&Rect::new(0.0, 10.0, 20.0, 20.0)), [2.0, 0.5]);
        assert!(map.values(&DenseMap::at(Point::new(15.0, 5.0))).is_empty());
        assert!(map.shares(&area()).is_empty());
    }

    #[test]
    fn sizes_that_disagree_are_refused() {
        let cells = |count: usize| MapCells::Values(vec![0.0; count].into());
        assert!(DenseMap::new(area(), 4, 2, cells(7)).is_none());
        assert!(DenseMap::new(area(), 0, 2, cells(0)).is_none());
        assert!(DenseMap::new(area(), usize::MAX, 2, cells(8)).is_none());
        assert!(DenseMap::new(Rect::new(0.0, 0.0, 0.0, 5.0), 4, 2, cells(8)).is_none());
    }
}
