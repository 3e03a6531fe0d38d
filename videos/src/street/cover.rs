//! Visibility of objects: a picture of identities at half the resolution, painted back to front beside the
//! canvas.

use crate::geometry::{Bounds, Vec2};

/// Owner of a cell on which nothing was painted.
const NOBODY: u32 = u32::MAX;
/// Width and height of a cell in pixels.
const CELL: f32 = 2.0;

/// Picture of identities: the owner of each cell.
pub(super) struct Cover {
    width: usize,
    height: usize,
    cells: Vec<u32>,
}

/// The cells that a thing had when it was painted.
#[derive(Debug, Clone, Default)]
pub(super) struct Mark {
    owner: u32,
    cells: Vec<u32>,
}

impl Cover {
    pub(super) fn new((width, height): (u32, u32)) -> Self {
        let (width, height) = (width as usize / 2, height as usize / 2);
        Self {
            width,
            height,
            cells: vec![NOBODY; width * height],
        }
    }

    /// Paints the polygons for `owner`, which hides earlier owners, and returns the painted cells.
    pub(super) fn paint(&mut self, owner: u32, polygons: &[Vec<Vec2>]) -> Mark {
        let mut mark = Mark {
            owner,
            cells: Vec::new(),
        };
        for polygon in polygons {
            for index in self.inside(polygon) {
                if self.cells[index] != owner {
                    self.cells[index] = owner;
                    mark.cells.push(index as u32);
                }
            }
        }
        mark
    }

    /// The cells of a part of `owner` that were not hidden when `owner` was painted.
    pub(super) fn part(&self, owner: u32, polygon: &[Vec2]) -> Mark {
        let cells = self.inside(polygon).into_iter();
        let cells = cells.filter(|index| self.cells[*index] == owner);
        Mark {
            owner,
            cells: cells.map(|index| index as u32).collect(),
        }
    }

    /// Fraction of the marked cells that is still visible, 0 to 1; 0 if there were no cells.
    pub(super) fn visible(&self, mark: &Mark) -> f32 {
        let kept = mark
            .cells
            .iter()
            .filter(|index| self.cells[**index as usize] == mark.owner);
        kept.count() as f32 / mark.cells.len().max(1) as f32
    }

    /// Cells whose middles lie within the polygon, by the even-odd rule.
    fn inside(&self, polygon: &[Vec2]) -> Vec<usize> {
        let mut cells = Vec::new();
        let Some(bounds) = Bounds::about(polygon.iter().copied()) else {
            return cells;
        };
        let row = |y: f32| (y / CELL - 0.5).ceil().clamp(0.0, self.height as f32) as usize;
        let mut crossings: Vec<f32> = Vec::new();
        for y in row(bounds.y0)..row(bounds.y1) {
            let middle = (y as f32 + 0.5) * CELL;
            crossings.clear();
            for (index, to) in polygon.iter().enumerate() {
                let from = polygon[(index + polygon.len() - 1) % polygon.len()];
                if (from.y > middle) != (to.y > middle) {
                    crossings.push(from.x + (to.x - from.x) * (middle - from.y) / (to.y - from.y));
                }
            }
            crossings.sort_by(f32::total_cmp);
            for pair in crossings.chunks_exact(2) {
                let column = |x: f32| (x / CELL - 0.5).ceil().clamp(0.0, self.width as f32) as usize;
                cells.extend((column(pair[0])..column(pair[1])).map(|x| y * self.width + x));
            }
        }
        cells
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::vec2;

    fn square(x: f32, y: f32, side: f32) -> Vec<Vec2> {
        vec![
            vec2(x, y),
            vec2(x + side, y),
            vec2(x + side, y + side),
            vec2(x, y + side),
        ]
    }

    #[test]
    fn what_comes_later_hides_what_was_there() {
        let mut cover = Cover::new((100, 100));
        let behind = cover.paint(1, &[square(10.0, 10.0, 20.0)]);
        let part = cover.part(1, &square(10.0, 10.0, 10.0));
        assert!((cover.visible(&behind) - 1.0).abs() < 1e-6);
        let before = cover.paint(2, &[square(10.0, 10.0, 10.0), square(90.0, 90.0, 30.0)]);
        assert!((cover.visible(&behind) - 0.75).abs() < 1e-6);
        assert!(cover.visible(&part) < 1e-6);
        assert!((cover.visible(&before) - 1.0).abs() < 1e-6);
        assert!(cover.visible(&cover.part(1, &square(200.0, 0.0, 5.0))) < 1e-6);
    }
}
