//! The part of a picture that differs from the picture that was looked at last.
//!
//! ```text
//! detail[c]    = luma[c] - mean luma of the (2 RADIUS + 1)^2 cells around c
//! difference   = |detail[c] - detail of the reference[c]|
//! threshold[c] = max(MIN_DIFFERENCE, 2.5 * noise[c])
//! changed      = cells of the largest connected area in which difference > threshold
//! ```
//!
//! Light that changes over a whole wall leaves the detail of its cells as it was. `noise[c]` follows by how much a cell departs from
//! its own mean over some seconds: within 3 s up to that of a tree in the wind, and back over a minute. Cells that a found object
//! covers do not take part in that, so objects that come again and again are never learned as noise.

use super::area_changes::{AreaChanges, Region};
use super::gate::MIN_CHANGED;

/// Columns of the grid; it has as many rows as make its cells square.
const COLUMNS: usize = 160;

/// Rows of the grid at most, of pictures that are upright.
const MAX_ROWS: usize = 320;

/// Cells to each side over which light is taken to be even: 24 pixels of a picture that is 640 wide.
const RADIUS: usize = 6;

/// Levels of luma (0 to 255) by which a cell without noise must differ. Compression changes it by less, a person at dusk by more.
const MIN_DIFFERENCE: f32 = 8.0;

/// Levels above which no noise raises the threshold.
const MAX_DIFFERENCE: f32 = 100.0;

/// Threshold over noise: what sways from one side to the other departs from its mean by half of that.
const OVER_NOISE: f32 = 2.5;

/// Seconds over which a cell's own mean follows, over which its noise rises, and over which that falls.
const MEAN_S: f32 = 3.0;
const RISE_S: f32 = 3.0;
const FALL_S: f32 = 60.0;

/// Seconds between two pictures at most, for learning: after a longer pause the cell is not known better.
const MAX_STEP_S: f32 = 0.5;

/// Luma of a picture in square cells, row by row.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LumaGrid {
    columns: usize,
    rows: usize,
    cells: Vec<f32>,
}

impl LumaGrid {
    /// The grid of a plane of luma, `stride` bytes from one row of `width` pixels to the next. `None` of a picture that is smaller
    /// than the grid, or whose plane is shorter than it says.
    #[must_use]
    pub fn new(luma: &[u8], stride: usize, (width, height): (usize, usize)) -> Option<Self> {
        let columns = COLUMNS.min(width / 2);
        let rows = (columns * height)
            .checked_div(width)?
            .min(MAX_ROWS)
            .min(height / 2);
        if columns == 0 || rows == 0 || stride < width {
            return None;
        }
        let bounds: Vec<usize> = (0..=columns).map(|column| column * width / columns).collect();
        let mut cells = Vec::with_capacity(columns * rows);
        let mut sums = vec![0_u32; columns];
        for row in 0..rows {
            let (top, bottom) = (row * height / rows, (row + 1) * height / rows);
            // Four rows of a cell say enough of it.
            let step = ((bottom - top) / 4).max(1);
            let mut lines = 0_u32;
            sums.fill(0);
            for line in (top..bottom).step_by(step) {
                let samples = luma.get(line * stride..line * stride + width)?;
                for (sum, edges) in sums.iter_mut().zip(bounds.windows(2)) {
                    let cell = &samples[edges[0]..edges[1]];
                    *sum += cell.iter().map(|sample| u32::from(*sample)).sum::<u32>();
                }
                lines += 1;
            }
            let means = sums.iter().zip(bounds.windows(2)).map(|(sum, edges)| {
                let samples = lines * (edges[1] - edges[0]) as u32;
                *sum as f32 / samples.max(1) as f32
            });
            cells.extend(means);
        }
        Some(Self { columns, rows, cells })
    }

    /// The grid without what changes over more than a few cells.
    fn detail(&self) -> Vec<f32> {
        let (columns, rows) = (self.columns, self.rows);
        // Sums of all cells above and to the left.
        let width = columns + 1;
        let mut sums = vec![0.0_f64; width * (rows + 1)];
        for row in 0..rows {
            let mut line = 0.0;
            for column in 0..columns {
                line += f64::from(self.cells[row * columns + column]);
                sums[(row + 1) * width + column + 1] = sums[row * width + column + 1] + line;
            }
        }
        let mut detail = Vec::with_capacity(self.cells.len());
        for row in 0..rows {
            let (top, bottom) = (row.saturating_sub(RADIUS), (row + RADIUS + 1).min(rows));
            for column in 0..columns {
                let (left, right) = (column.saturating_sub(RADIUS), (column + RADIUS + 1).min(columns));
                let sum =
                    sums[bottom * width + right] - sums[top * width + right] - sums[bottom * width + left]
                        + sums[top * width + left];
                let mean = sum / ((bottom - top) * (right - left)) as f64;
                detail.push(self.cells[row * columns + column] - mean as f32);
            }
        }
        detail
    }
}

/// A cell of the grid.
#[derive(Debug, Clone, Copy, Default)]
struct Cell {
    /// Detail in the picture that was looked at last.
    reference: f32,
    /// Detail over the last seconds.
    mean: f32,
    /// Levels by which it departs from that.
    noise: f32,
    /// Whether a found object covers it.
    covered: bool,
    /// Whether it never counts as changed.
    ignored: bool,
    /// Detail when it changed last, by itself and not with the whole picture.
    settled: f32,
    /// Media time of that in milliseconds.
    changed_ms: f64,
}

impl Cell {
    /// Whether its detail is another one than `before`, over its noise.
    fn differs(&self, now: f32, before: f32) -> bool {
        let threshold = (OVER_NOISE * self.noise).clamp(MIN_DIFFERENCE, MAX_DIFFERENCE);
        !self.ignored && (now - before).abs() > threshold
    }
}

/// Compares the pictures of one stream with the one that was looked at last.
#[derive(Debug, Clone, Default)]
pub struct SceneChange {
    size: (usize, usize),
    cells: Vec<Cell>,
    /// Detail of the last picture.
    detail: Vec<f32>,
    ignored: Vec<Vec<(f32, f32)>>,
    /// Media time of the last picture whose changes were asked for; `None`: none of this size was.
    changes_ms: Option<f64>,
}

impl SceneChange {
    /// Changes within the polygons `ignored`, in fractions of width and height, do not count: clocks that a camera draws, a road
    /// behind the fence.
    #[must_use]
    pub fn new(ignored: Vec<Vec<(f32, f32)>>) -> Self {
        Self {
            ignored,
            ..Self::default()
        }
    }

    /// The next picture, `seconds` after the one before: cells of the largest area that differs from the reference. Of the first
    /// picture, and of one with another size, all.
    pub fn observe(&mut self, grid: &LumaGrid, seconds: f64) -> u32 {
        let detail = grid.detail();
        let is_new = self.size != (grid.columns, grid.rows);
        if is_new {
            self.begin(grid, &detail);
        }
        let step = (seconds as f32).clamp(0.0, MAX_STEP_S);
        let mut differs = Vec::with_capacity(detail.len());
        for (cell, now) in self.cells.iter_mut().zip(&detail) {
            differs.push(cell.differs(*now, cell.reference));
            if !cell.covered {
                let departs = (now - cell.mean).abs();
                let over = if departs > cell.noise { RISE_S } else { FALL_S };
                cell.noise += (departs - cell.noise) * (step / over);
            }
            cell.mean += (now - cell.mean) * (step / MEAN_S);
        }
        self.detail = detail;
        if is_new {
            return u32::try_from(self.cells.len()).unwrap_or(u32::MAX);
        }
        let mut largest = 0;
        for_each_area(differs, self.size, |area| largest = largest.max(area.len()));
        u32::try_from(largest).unwrap_or(u32::MAX)
    }

    /// The time of the last change in each part of the picture, the last picture included, which is of `at_ms`. A part changes
    /// where an area that counts as a change differs from how it was when it changed last, so that a slow change adds up.
    pub fn changes(&mut self, at_ms: f64) -> AreaChanges {
        let is_next = self.changes_ms.is_some_and(|before_ms| before_ms <= at_ms);
        self.changes_ms = Some(at_ms);
        let cells = self.cells.iter().zip(&self.detail);
        let differs = cells.map(|(cell, now)| !is_next || cell.differs(*now, cell.settled));
        let differs = differs.collect();
        for_each_area(differs, self.size, |area| {
            if is_next && area.len() < MIN_CHANGED as usize {
                return;
            }
            for &place in area {
                self.cells[place].settled = self.detail[place];
                self.cells[place].changed_ms = at_ms;
            }
        });
        AreaChanges::new(self.size, self.cells.iter().map(|cell| cell.changed_ms))
    }

    fn begin(&mut self, grid: &LumaGrid, detail: &[f32]) {
        self.size = (grid.columns, grid.rows);
        self.changes_ms = None;
        let places = (0..grid.rows).flat_map(|row| (0..grid.columns).map(move |column| (column, row)));
        let (columns, rows) = (grid.columns as f32, grid.rows as f32);
        let cells = places.zip(detail).map(|((column, row), now)| {
            let centre = ((column as f32 + 0.5) / columns, (row as f32 + 0.5) / rows);
            Cell {
                reference: *now,
                mean: *now,
                noise: 0.0,
                covered: false,
                ignored: self.ignored.iter().any(|polygon| contains(polygon, centre)),
                settled: *now,
                changed_ms: f64::NEG_INFINITY,
            }
        });
        self.cells = cells.collect();
    }

    /// The last picture is looked at: the next ones are compared with it.
    pub fn on_look(&mut self) {
        for (cell, now) in self.cells.iter_mut().zip(&self.detail) {
            cell.reference = *now;
        }
    }

    /// Objects that were found in the picture that was looked at.
    pub fn on_objects(&mut self, objects: &[Region]) {
        let (columns, rows) = self.size;
        self.cells.iter_mut().for_each(|cell| cell.covered = false);
        for object in objects {
            // With a cell around it: boxes are not exact, and shadows belong to them.
            let place = |part: f32, of: usize, margin: f32| {
                (part * of as f32 + margin).clamp(0.0, of as f32) as usize
            };
            let (left, right) = (
                place(object.left, columns, -1.0),
                place(object.right, columns, 2.0),
            );
            let (top, bottom) = (place(object.top, rows, -1.0), place(object.bottom, rows, 2.0));
            for row in top..bottom {
                for cell in &mut self.cells[row * columns + left..row * columns + right.max(left)] {
                    cell.covered = true;
                }
            }
        }
    }
}

/// Calls `on_area` with the cells of each area of neighbours that differ.
fn for_each_area(mut differs: Vec<bool>, (columns, rows): (usize, usize), mut on_area: impl FnMut(&[usize])) {
    let mut area = Vec::new();
    for start in 0..differs.len() {
        if !std::mem::take(&mut differs[start]) {
            continue;
        }
        area.clear();
        area.push(start);
        let mut looked_at = 0;
        while let Some(&cell) = area.get(looked_at) {
            looked_at += 1;
            let (column, row) = (cell % columns, cell / columns);
            let beside = [
                (column > 0).then(|| cell - 1),
                (column + 1 < columns).then(|| cell + 1),
                (row > 0).then(|| cell - columns),
                (row + 1 < rows).then(|| cell + columns),
            ];
            for next in beside.into_iter().flatten() {
                if std::mem::take(&mut differs[next]) {
                    area.push(next);
                }
            }
        }
        on_area(&area);
    }
}

/// Whether a point is within a polygon (even-odd rule).
fn contains(polygon: &[(f32, f32)], (x, y): (f32, f32)) -> bool {
    let mut inside = false;
    let mut before = polygon.last().copied();
    for &(x1, y1) in polygon {
        if let Some((x0, y0)) = before
            && (y0 > y) != (y1 > y)
            && x < (x1 - x0) * (y - y0) / (y1 - y0) + x0
        {
            inside = !inside;
        }
        before = Some((x1, y1));
    }
    inside
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: (usize, usize) = (640, 360);

    /// A wall with a pattern, under light of `gain`, with `noise` of that many levels by a seeded hash.
    fn picture(seed: u32, gain: f32, noise: f32, objects: &[(usize, usize, usize, usize)]) -> Vec<u8> {
        let mut samples = Vec::with_capacity(SIZE.0 * SIZE.1);
        for y in 0..SIZE.1 {
            for x in 0..SIZE.0 {
                let pattern = 90.0 + 30.0 * (((x / 40) + (y / 40)) % 2) as f32;
                let is_object = objects
                    .iter()
                    .any(|(left, top, w, h)| x >= *left && x < left + w && y >= *top && y < top + h);
                let base = if is_object { 160.0 } else { pattern };
                let mut hash =
                    (x as u32).wrapping_mul(0x9E37_79B1) ^ (y as u32).wrapping_mul(0x85EB_CA77) ^ seed;
                hash = (hash ^ (hash >> 15)).wrapping_mul(0x2C1B_3C6D);
                hash ^= hash >> 13;
                let random = (hash % 1_000) as f32 / 500.0 - 1.0;
                samples.push((base * gain + noise * random).clamp(0.0, 255.0) as u8);
            }
        }
        samples
    }

    fn grid(samples: &[u8]) -> LumaGrid {
        LumaGrid::new(samples, SIZE.0, SIZE).unwrap()
    }

    #[test]
    fn a_still_picture_with_noise_and_other_light_does_not_differ_and_a_small_person_does() {
        let mut change = SceneChange::default();
        assert!(
            change.observe(&grid(&picture(1, 1.0, 12.0, &[])), 0.0) > 1_000,
            "the first"
        );
        change.on_look();
        for seed in 2..20 {
            assert!(change.observe(&grid(&picture(seed, 1.0, 12.0, &[])), 0.04) < 6);
        }
        let cloudy = change.observe(&grid(&picture(20, 1.15, 12.0, &[])), 0.04);
        assert!(cloudy < 6, "a cloud passes: {cloudy}");
        let person = [(300, 200, 12, 30)];
        assert!(change.observe(&grid(&picture(21, 1.0, 12.0, &person)), 0.04) >= 12);
        change.on_look();
        let stands = change.observe(&grid(&picture(22, 1.0, 12.0, &person)), 0.04);
        assert!(stands < 6, "it stands: {stands}");
        let moved = [(304, 200, 12, 30)];
        assert!(change.observe(&grid(&picture(23, 1.0, 12.0, &moved)), 0.04) >= 6);
    }

    #[test]
    fn movement_in_which_nothing_is_found_is_learned_and_that_of_objects_is_not() {
        let sways = |frame: u32| [(200 + 8 * (frame as usize / 6 % 2), 100, 16, 40)];
        let at = Region {
            left: 0.3,
            top: 0.27,
            right: 0.36,
            bottom: 0.4,
        };
        for (found, learned) in [(vec![], true), (vec![at], false)] {
            let mut change = SceneChange::default();
            change.observe(&grid(&picture(0, 1.0, 2.0, &sways(0))), 0.0);
            change.on_look();
            change.on_objects(&found);
            let mut last = Vec::new();
            for frame in 1..400 {
                last.push(change.observe(&grid(&picture(frame, 1.0, 2.0, &sways(frame))), 0.04));
            }
            assert!(last[..30].iter().any(|area| *area > 6));
            assert_eq!(
                last[350..].iter().all(|area| *area == 0),
                learned,
                "{:?}",
                &last[350..]
            );
        }
    }

    #[test]
    fn ignored_regions_do_not_count() {
        let corner = vec![(0.0, 0.0), (0.5, 0.0), (0.5, 0.2), (0.0, 0.2)];
        let mut change = SceneChange::new(vec![corner]);
        change.observe(&grid(&picture(1, 1.0, 0.0, &[])), 0.0);
        change.on_look();
        assert_eq!(
            change.observe(&grid(&picture(1, 1.0, 0.0, &[(20, 10, 60, 20)])), 0.04),
            0
        );
        assert!(change.observe(&grid(&picture(1, 1.0, 0.0, &[(400, 10, 60, 20)])), 0.04) > 6);
    }

    #[test]
    fn only_parts_in_which_an_area_changes_have_a_new_time() {
        let part = |left: f32, right: f32| Region {
            left,
            top: 0.0,
            right,
            bottom: 1.0,
        };
        let mut change = SceneChange::default();
        let mut at = |frame: u32, objects: &[(usize, usize, usize, usize)]| {
            change.observe(&grid(&picture(frame, 1.0, 2.0, objects)), 0.04);
            change.changes(f64::from(frame) * 40.0)
        };
        let first = at(1, &[]);
        assert_eq!(first.last_ms(&part(0.0, 0.4)), 40.0, "nothing is known before");
        let moved = at(2, &[(500, 100, 40, 40)]);
        assert_eq!(
            (moved.last_ms(&part(0.0, 0.4)), moved.last_ms(&part(0.6, 1.0))),
            (40.0, 80.0)
        );
        let stands = at(3, &[(500, 100, 40, 40)]);
        assert_eq!(stands.last_ms(&part(0.6, 1.0)), 80.0, "it stands since then");
        let left = at(4, &[]);
        assert_eq!(left.last_ms(&part(0.6, 1.0)), 160.0, "its place is another one");
        assert_eq!(at(0, &[]).last_ms(&part(0.0, 1.0)), 0.0, "the time jumped back");
    }

    #[test]
    fn pictures_of_any_size_and_planes_that_are_too_short_are_taken() {
        for (width, height) in [(0, 0), (1, 1), (2, 2), (3, 1_000), (1_000, 3), (161, 97)] {
            let luma = vec![7; width * height];
            if let Some(grid) = LumaGrid::new(&luma, width, (width, height)) {
                assert_eq!(grid.cells.len(), grid.columns * grid.rows);
                assert!(grid.cells.iter().all(|cell| (*cell - 7.0).abs() < 1e-3));
                let mut change = SceneChange::default();
                change.observe(&grid, 0.0);
                change.on_objects(&[Region {
                    left: -1.0,
                    top: 0.5,
                    right: 3.0,
                    bottom: 0.2,
                }]);
                assert_eq!(change.observe(&grid, 1.0), 0);
                change.changes(0.0);
            }
        }
        assert_eq!(LumaGrid::new(&[0; 100], 640, SIZE), None);
    }
}
