//! Hiding of parts of a picture: cells of one colour each, or black. The picture is copied, in its own format.

use std::sync::Arc;

use weir_flow::{
    HiddenArea, HiddenForm, HiddenParts, HiddenShape, Image, OwnedPlanes, PixelFormat, Point, Rect,
};

use super::layout::{PlaneLayout, layout};

/// Cells along the longer side of a blurred part; one more where the first is cut to whole samples of chroma.
const CELLS: f32 = 7.0;

/// Least side of a cell in pixels.
const MIN_CELL: usize = 4;

/// A copy of the picture in which these parts are hidden.
pub(super) fn hide(image: &Image, parts: HiddenParts<'_>) -> Image {
    let mut planes: Vec<Plane> = layout(image.format)
        .into_iter()
        .enumerate()
        .map(|(index, layout)| match parts {
            HiddenParts::Whole => Plane::black(image, index, layout),
            HiddenParts::Areas(_) => Plane::copied(image, index, layout),
        })
        .collect();
    if let HiddenParts::Areas(areas) = parts {
        // Black comes last: a blurred part may lie over one that is black.
        let of_form = |form: HiddenForm| areas.iter().filter(move |area| area.form == form);
        for area in of_form(HiddenForm::Blur).chain(of_form(HiddenForm::Blackout)) {
            hide_area(image, area, &mut planes);
        }
    }
    let planes = planes.into_iter().map(|plane| {
        let stride = plane.columns * plane.channels;
        (plane.samples, stride)
    });
    Image {
        planes: Arc::new(OwnedPlanes {
            planes: planes.collect(),
        }),
        ..image.clone()
    }
}

fn hide_area(image: &Image, area: &HiddenArea, planes: &mut [Plane]) {
    let Some(cover) = Cover::of(&area.shape, image.width as usize, image.height as usize) else {
        return;
    };
    for plane in planes {
        match area.form {
            HiddenForm::Blur => plane.blur(&cover),
            HiddenForm::Blackout => plane.black_out(&cover),
        }
    }
}

/// Pixels of the picture that a shape touches.
struct Cover {
    left: usize,
    top: usize,
    right: usize,
    bottom: usize,
    /// Side of a cell in pixels: an even number.
    cell: usize,
    /// By row and column from the upper left corner; `None`: all.
    pixels: Option<Vec<bool>>,
}

impl Cover {
    /// `None` if the shape lies outside of the picture, or nowhere.
    fn of(shape: &HiddenShape, width: usize, height: usize) -> Option<Self> {
        let bounds = match shape {
            HiddenShape::Box(rect) => *rect,
            HiddenShape::Polygon(points) => bounds(points)?,
        };
        let is_finite = [bounds.x0, bounds.y0, bounds.x1, bounds.y1]
            .iter()
            .all(|side| side.is_finite());
        // Casts saturate, so that what lies outside gives an empty range.
        let range =
            |low: f32, high: f32, side: usize| (low.floor() as usize, (high.ceil() as usize).min(side));
        let (left, right) = range(bounds.x0, bounds.x1, width);
        let (top, bottom) = range(bounds.y0, bounds.y1, height);
        if !is_finite || left >= right || top >= bottom {
            return None;
        }
        let side = (bounds.width().max(bounds.height()) / CELLS).ceil() as usize;
        let cell = side
            .clamp(MIN_CELL, width.max(height).max(MIN_CELL))
            .next_multiple_of(2);
        let mut cover = Self {
            left,
            top,
            right,
            bottom,
            cell,
            pixels: None,
        };
        if let HiddenShape::Polygon(points) = shape {
            cover.fill(points);
        }
        Some(cover)
    }

    /// Covers the pixels that a polygon touches, by three lines through each row.
    fn fill(&mut self, points: &[Point]) {
        let width = self.right - self.left;
        let mut pixels = vec![false; width * (self.bottom - self.top)];
        let mut crossings = Vec::new();
        for (row, line) in (self.top..self.bottom).zip(pixels.chunks_mut(width)) {
            for offset in [0.0, 0.5, 1.0] {
                let y = row as f32 + offset;
                let ends = points.iter().zip(points.iter().cycle().skip(1));
                let crossed = ends.filter(|(a, b)| (a.y > y) != (b.y > y));
                crossings.extend(crossed.map(|(a, b)| a.x + (y - a.y) / (b.y - a.y) * (b.x - a.x)));
                crossings.sort_unstable_by(f32::total_cmp);
                for pair in crossings.chunks_exact(2) {
                    let first = (pair[0].floor() as usize).max(self.left);
                    let last = (pair[1].ceil() as usize).min(self.right);
                    if first < last {
                        line[first - self.left..last - self.left].fill(true);
                    }
                }
                crossings.clear();
            }
        }
        self.pixels = Some(pixels);
    }

    /// True if a pixel within those columns and rows is covered.
    fn touches(&self, columns: (usize, usize), rows: (usize, usize)) -> bool {
        let columns = columns.0.max(self.left)..columns.1.min(self.right);
        let rows = rows.0.max(self.top)..rows.1.min(self.bottom);
        let Some(pixels) = &self.pixels else {
            return !columns.is_empty() && !rows.is_empty();
        };
        let width = self.right - self.left;
        rows.into_iter().any(|row| {
            let line = &pixels[(row - self.top) * width..][..width];
            columns.clone().any(|column| line[column - self.left])
        })
    }
}

/// The smallest box around points; `None` without any.
fn bounds(points: &[Point]) -> Option<Rect> {
    let first = points.first()?;
    let start = Rect::new(first.x, first.y, first.x, first.y);
    let bounds = points
        .iter()
        .fold(start, |all, at| all.union(&Rect::new(at.x, at.y, at.x, at.y)));
    Some(bounds)
}

/// A plane of the copy, rows packed.
struct Plane {
    samples: Vec<u8>,
    columns: usize,
    rows: usize,
    channels: usize,
    /// Pixels of the picture in a sample, in each direction.
    by: (usize, usize),
    /// Value of black.
    dark: u8,
}

impl Plane {
    fn empty(image: &Image, index: usize, PlaneLayout { channels, by }: PlaneLayout) -> Self {
        let by = (by.0 as usize, by.1 as usize);
        let dark = match image.format {
            PixelFormat::Rgb24 => 0,
            _ if index > 0 => 128,
            _ if image.full_range => 0,
            _ => 16,
        };
        Self {
            samples: Vec::new(),
            columns: (image.width as usize).div_ceil(by.0),
            rows: (image.height as usize).div_ceil(by.1),
            channels,
            by,
            dark,
        }
    }

    fn black(image: &Image, index: usize, layout: PlaneLayout) -> Self {
        let empty = Self::empty(image, index, layout);
        Self {
            samples: vec![empty.dark; empty.columns * empty.rows * empty.channels],
            ..empty
        }
    }

    fn copied(image: &Image, index: usize, layout: PlaneLayout) -> Self {
        let mut plane = Self::empty(image, index, layout);
        let (samples, stride) = image.planes.plane(index);
        let width = plane.columns * plane.channels;
        plane.samples.reserve_exact(width * plane.rows);
        for row in 0..plane.rows {
            plane.samples.extend_from_slice(&samples[row * stride..][..width]);
        }
        plane
    }

    /// Columns and rows of samples that have a pixel within the bounds of a cover.
    fn bounds(&self, cover: &Cover) -> ((usize, usize), (usize, usize)) {
        let columns = (cover.left / self.by.0, cover.right.div_ceil(self.by.0));
        let rows = (cover.top / self.by.1, cover.bottom.div_ceil(self.by.1));
        (columns, rows)
    }

    /// True if a pixel of a sample is covered.
    fn is_covered(&self, cover: &Cover, column: usize, row: usize) -> bool {
        let (by_x, by_y) = self.by;
        cover.touches(
            (column * by_x, (column + 1) * by_x),
            (row * by_y, (row + 1) * by_y),
        )
    }

    fn black_out(&mut self, cover: &Cover) {
        let (columns, rows) = self.bounds(cover);
        for row in rows.0..rows.1 {
            for column in columns.0..columns.1 {
                if self.is_covered(cover, column, row) {
                    let at = (row * self.columns + column) * self.channels;
                    let dark = self.dark;
                    self.samples[at..at + self.channels].fill(dark);
                }
            }
        }
    }

    fn blur(&mut self, cover: &Cover) {
        let (columns, rows) = self.bounds(cover);
        let (across, down) = (cover.cell / self.by.0, cover.cell / self.by.1);
        for top in (rows.0..rows.1).step_by(down) {
            for left in (columns.0..columns.1).step_by(across) {
                let cell = (
                    (left, (left + across).min(columns.1)),
                    (top, (top + down).min(rows.1)),
                );
                self.level(cover, cell);
            }
        }
    }

    /// Gives the covered samples of a cell the mean of the cell.
    fn level(&mut self, cover: &Cover, (columns, rows): ((usize, usize), (usize, usize))) {
        let count = ((columns.1 - columns.0) * (rows.1 - rows.0)) as u64;
        for channel in 0..self.channels {
            let at = |row: usize, column: usize| (row * self.columns + column) * self.channels + channel;
            let places = || {
                (rows.0..rows.1).flat_map(move |row| (columns.0..columns.1).map(move |column| (row, column)))
            };
            let sum: u64 = places()
                .map(|(row, column)| u64::from(self.samples[at(row, column)]))
                .sum();
            let mean = (sum / count.max(1)) as u8;
            let covered = places().filter(|(row, column)| self.is_covered(cover, *column, *row));
            let covered: Vec<usize> = covered.map(|(row, column)| at(row, column)).collect();
            for place in covered {
                self.samples[place] = mean;
            }
        }
    }
}

#[cfg(test)]
mod tests;
