//! Outlines of masks as polygons with few corners.

use crate::geometry::Point;
use crate::mask::Mask;

/// Polygons of a mask, the largest first.
const MAX_POLYGONS: usize = 16;
/// Corners of one polygon.
const MAX_CORNERS: usize = 64;
/// First tolerance in cells of the grid: above half a diagonal, so that slanted edges have no stairs.
const TOLERANCE: f32 = 0.75;

/// A corner of the grid: column and row.
type Corner = (usize, usize);

/// Directions of edges: right, down, left, up.
const STEPS: [(isize, isize); 4] = [(1, 0), (0, 1), (-1, 0), (0, -1)];

impl Mask {
    /// The outer outlines in source pixels, clockwise in the picture, the largest first; holes are left out. Corners are at most 0.75
    /// cells of the mask away from its edge, or more where an outline would have more than 64.
    #[must_use]
    pub fn outlines(&self) -> Vec<Vec<Point>> {
        let (columns, rows) = self.grid();
        let mut rings = rings(columns, rows, &self.intervals());
        // A ring around a hole runs the other way.
        rings.retain(|ring| doubled_area(ring) > 0);
        rings.sort_by_key(|ring| std::cmp::Reverse(doubled_area(ring)));
        rings.truncate(MAX_POLYGONS);
        let area = self.bounds();
        let scale = (area.width() / columns as f32, area.height() / rows as f32);
        let pixel =
            |(x, y): &Corner| Point::new(area.x0 + *x as f32 * scale.0, area.y0 + *y as f32 * scale.1);
        rings
            .iter()
            .map(|ring| simplified(ring).iter().map(pixel).collect())
            .collect()
    }
}

/// Twice the area of a ring, positive where it runs clockwise in the picture.
fn doubled_area(ring: &[Corner]) -> i64 {
    let next = ring.iter().cycle().skip(1);
    let product = |a: usize, b: usize| a as i64 * b as i64;
    ring.iter()
        .zip(next)
        .map(|(a, b)| product(a.0, b.1) - product(b.0, a.1))
        .sum()
}

/// The rings of edges between covered cells and others, with the covered ones at their right; only corners where they turn.
fn rings(columns: usize, rows: usize, intervals: &[Vec<(u32, u32)>]) -> Vec<Vec<Corner>> {
    let mut covered = vec![false; columns * rows];
    for (column, intervals) in intervals.iter().enumerate() {
        for row in intervals.iter().flat_map(|(from, to)| *from..*to) {
            covered[row as usize * columns + column] = true;
        }
    }
    let is_covered = |x: isize, y: isize| {
        let is_within = (0..columns as isize).contains(&x) && (0..rows as isize).contains(&y);
        is_within && covered[y as usize * columns + x as usize]
    };
    // Edges that begin at each corner of the grid, a bit for each direction.
    let width = columns + 1;
    let mut edges = vec![0_u8; width * (rows + 1)];
    for (y, x) in (0..rows).flat_map(|y| (0..columns).map(move |x| (y, x))) {
        let (left, top) = (x as isize, y as isize);
        if !is_covered(left, top) {
            continue;
        }
        let sides = [
            (0, (x, y), (left, top - 1)),
            (1, (x + 1, y), (left + 1, top)),
            (2, (x + 1, y + 1), (left, top + 1)),
            (3, (x, y + 1), (left - 1, top)),
        ];
        for (direction, from, beyond) in sides {
            if !is_covered(beyond.0, beyond.1) {
                edges[from.1 * width + from.0] |= 1 << direction;
            }
        }
    }
    let mut rings = Vec::new();
    // Each ring has an edge to the right.
    for start in 0..edges.len() {
        while edges[start] & 1 != 0 {
            rings.push(ring(&mut edges, width, start));
        }
    }
    rings
}

/// Takes the edges of one ring away, which begins with the edge to the right at `start`.
fn ring(edges: &mut [u8], width: usize, start: usize) -> Vec<Corner> {
    let mut corners = Vec::new();
    let (mut at, mut direction, mut before) = (start, 0, None);
    while edges[at] & (1 << direction) != 0 {
        edges[at] &= !(1 << direction);
        if before != Some(direction) {
            corners.push((at % width, at / width));
        }
        before = Some(direction);
        let (x, y) = STEPS[direction];
        at = at.saturating_add_signed(x + y * width as isize);
        // Where two rings meet at a corner, each stays at its own cell.
        let turns = [1, 0, 3].map(|turn| (direction + turn) % 4);
        direction = turns
            .into_iter()
            .find(|turn| edges[at] & (1 << turn) != 0)
            .unwrap_or(0);
    }
    corners
}

/// A ring with at most [`MAX_CORNERS`] corners (Douglas and Peucker, Algorithms for the reduction of the number of points, 1973).
fn simplified(ring: &[Corner]) -> Vec<Corner> {
    let mut tolerance = TOLERANCE;
    loop {
        let kept = reduced(ring, tolerance);
        if kept.len() <= MAX_CORNERS {
            return kept;
        }
        tolerance *= 1.5;
    }
}

/// The corners of a ring that are needed within a tolerance.
fn reduced(ring: &[Corner], tolerance: f32) -> Vec<Corner> {
    let last = ring.len();
    // A ring is two lines, from its first corner to the farthest and back.
    let distance = |index: &usize| {
        let (a, b) = (ring[0], ring[*index]);
        a.0.abs_diff(b.0).pow(2) + a.1.abs_diff(b.1).pow(2)
    };
    let far = (0..last).max_by_key(distance).unwrap_or(0);
    let mut kept = vec![false; last];
    kept[0] = true;
    kept[far] = true;
    let farthest = |from: usize, to: usize| {
        let end = ring[to % last];
        let away = (from + 1..to).map(|index| (index, to_line(ring[index], ring[from], end)));
        away.max_by(|(_, a), (_, b)| a.total_cmp(b))
    };
    let halves = [(0, far), (far, last)];
    let mut open = halves.to_vec();
    while let Some((from, to)) = open.pop() {
        if let Some((index, _)) = farthest(from, to).filter(|(_, away)| *away > tolerance) {
            kept[index] = true;
            open.extend([(from, index), (index, to)]);
        }
    }
    if kept.iter().filter(|kept| **kept).count() < 3 {
        // A thin shape would be a line: it keeps the corners farthest from that, too.
        for (index, _) in halves.iter().filter_map(|(from, to)| farthest(*from, *to)) {
            kept[index] = true;
        }
    }
    let corners = ring.iter().zip(kept);
    corners
        .filter(|(_, kept)| *kept)
        .map(|(corner, _)| *corner)
        .collect()
}

/// Distance of a corner to the line between two others.
fn to_line(corner: Corner, from: Corner, to: Corner) -> f32 {
    let at = |corner: Corner| (corner.0 as f32, corner.1 as f32);
    let ((x, y), (x0, y0), (x1, y1)) = (at(corner), at(from), at(to));
    let (dx, dy) = (x1 - x0, y1 - y0);
    let length = dx.mul_add(dx, dy * dy);
    let along = if length > 0.0 {
        (((x - x0) * dx + (y - y0) * dy) / length).clamp(0.0, 1.0)
    } else {
        0.0
    };
    (x - x0 - along * dx).hypot(y - y0 - along * dy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::Rect;

    fn outlines(rect: Rect, covers: impl Fn(f32, f32) -> bool) -> Vec<Vec<(f32, f32)>> {
        let mask = Mask::sample(&rect, covers).expect("pixels");
        let outlines = mask.outlines();
        outlines
            .iter()
            .map(|outline| outline.iter().map(|point| (point.x, point.y)).collect())
            .collect()
    }

    #[test]
    fn outlines_run_clockwise_around_covered_cells() {
        let whole = outlines(Rect::new(10.0, 20.0, 14.0, 23.0), |_, _| true);
        assert_eq!(whole, [[(10.0, 20.0), (14.0, 20.0), (14.0, 23.0), (10.0, 23.0)]]);
        // Two squares that touch at a corner stay two, the larger one first; a hole is left out.
        let two = outlines(Rect::new(0.0, 0.0, 9.0, 9.0), |x, y| {
            (x < 5.0 && y < 5.0 && (x != 2.5 || y != 2.5)) || (x > 5.0 && y > 5.0)
        });
        assert_eq!(
            two,
            [
                [(0.0, 0.0), (5.0, 0.0), (5.0, 5.0), (0.0, 5.0)],
                [(5.0, 5.0), (9.0, 5.0), (9.0, 9.0), (5.0, 9.0)]
            ]
        );
        let line = outlines(Rect::new(0.0, 0.0, 1.0, 1.0), |_, _| true);
        assert_eq!(line[0].len(), 4);
    }

    #[test]
    fn slanted_edges_have_few_corners() {
        let triangle = outlines(Rect::new(0.0, 0.0, 200.0, 200.0), |x, y| y > x);
        assert_eq!(triangle.len(), 1);
        assert!(triangle[0].len() <= 6, "{triangle:?}");
    }

    #[test]
    fn large_and_noisy_masks_are_bounded_and_near() {
        let disc = |x: f32, y: f32| (x - 1000.0).hypot(y - 600.0) < 500.0;
        let found = outlines(Rect::new(480.0, 80.0, 1520.0, 1120.0), disc);
        assert_eq!(found.len(), 1);
        assert!((12..=MAX_CORNERS).contains(&found[0].len()), "{}", found[0].len());
        for (x, y) in &found[0] {
            let radius = (x - 1000.0).hypot(y - 600.0);
            assert!((radius - 500.0).abs() < 8.0, "{radius}");
        }
        let spots = |x: f32, y: f32| (x % 40.0).hypot(y % 40.0) < 20.0;
        let many = outlines(Rect::new(0.0, 0.0, 4000.0, 3000.0), spots);
        assert!((1..=MAX_POLYGONS).contains(&many.len()));
        let comb = |x: f32, y: f32| y > 900.0 || ((x / 10.0) as u32).is_multiple_of(2);
        let comb = outlines(Rect::new(0.0, 0.0, 1000.0, 1000.0), comb);
        assert!(comb.iter().all(|outline| outline.len() <= MAX_CORNERS));
        // A tolerance that takes the teeth at both sides of a column away leaves its two ends.
        let teeth = |x: f32, y: f32| (x - 4.5).abs() < 0.6 || (y as u32) % 4 == 1;
        let teeth = outlines(Rect::new(0.0, 0.0, 9.0, 200.0), teeth);
        assert!((3..=MAX_CORNERS).contains(&teeth[0].len()), "{teeth:?}");
    }
}
