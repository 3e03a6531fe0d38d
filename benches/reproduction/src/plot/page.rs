//! A figure on its page: title, legend, and the grid of panels; and the page as an SVG document in a file.

use std::path::Path;

use plotters::coord::Shift;
use plotters::drawing::DrawingAreaErrorKind;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::figure::{Figure, PlotError};
use super::kind::Kind;
use super::legend::Legend;
use super::{chart, palette};

// Plotters puts everything at whole pixels: with four of them a unit, no line looks bent by that.
const PIXELS: u32 = 4;

/// Minimum size of a panel with its labels, in figure units.
const MIN_PANEL: (u32, u32) = (140, 110);
/// Maximum width and height of a figure, in figure units.
const MAX_SIDE: u32 = 8000;

const FACE: &str = "sans-serif";
/// Height of letters on ticks and in legends, in figure units.
pub(super) const SMALL: f64 = 11.0;
/// Height of letters of axis labels.
pub(super) const LABEL: f64 = 12.0;
/// Height of letters above a panel.
pub(super) const HEADING: f64 = 13.0;
const TITLE: f64 = 17.0;

/// A part of the page, in pixels.
pub(super) type Page<'a> = DrawingArea<SVGBackend<'a>, Shift>;
/// Result of a drawing operation.
pub(super) type Drawn<T = ()> = Result<T, DrawingAreaErrorKind<std::io::Error>>;

/// Pixels of a length in figure units.
pub(super) fn pixels(units: f64) -> i32 {
    (units * f64::from(PIXELS)).round() as i32
}

/// Letters of a height in figure units.
pub(super) fn text(height: f64) -> TextStyle<'static> {
    // Plotters writes a font size that is smaller by this factor than the requested one.
    (FACE, f64::from(pixels(height)) * 1.24, &palette::INK).into_text_style(&(0, 0))
}

/// The same text style in bold.
pub(super) fn bold(height: f64) -> TextStyle<'static> {
    (
        FACE,
        f64::from(pixels(height)) * 1.24,
        FontStyle::Bold,
        &palette::INK,
    )
        .into_text_style(&(0, 0))
}

/// A line of a width in figure units.
pub(super) fn stroke(colour: impl Color, width: f64) -> ShapeStyle {
    colour.stroke_width(pixels(width).unsigned_abs())
}

impl Figure {
    /// The figure as an SVG document.
    ///
    /// # Errors
    /// When it has no panels, a size out of bounds, or a series without one value for every category.
    pub fn svg(&self) -> Result<String, PlotError> {
        self.check()?;
        let size = (self.width * PIXELS, self.height * PIXELS);
        let mut document = String::new();
        let page = SVGBackend::with_string(&mut document, size).into_drawing_area();
        draw(&page, self)
            .and_then(|()| page.present())
            .map_err(|error| PlotError::Draw {
                title: self.title.clone(),
                reason: error.to_string(),
            })?;
        drop(page);
        // The view box keeps its resolution; only the displayed size changes.
        let side = |(width, height): (u32, u32)| format!("width=\"{width}\" height=\"{height}\"");
        Ok(document.replacen(&side(size), &side((self.width, self.height)), 1))
    }

    /// Writes the document to a file. The folder must exist.
    ///
    /// # Errors
    /// As [`Figure::svg`], or when the file could not be written.
    pub fn write(&self, path: &Path) -> Result<(), PlotError> {
        std::fs::write(path, self.svg()?).map_err(|source| PlotError::Write {
            path: path.to_owned(),
            source,
        })
    }

    /// Panels side by side, and rows of them.
    fn grid(&self) -> (usize, usize) {
        let columns = self.columns.clamp(1, self.panels.len().max(1));
        (columns, self.panels.len().div_ceil(columns))
    }

    fn check(&self) -> Result<(), PlotError> {
        if self.panels.is_empty() {
            return Err(PlotError::Empty(self.title.clone()));
        }
        let (columns, rows) = self.grid();
        let fits =
            |side: u32, count: usize, least: u32| side <= MAX_SIDE && side as usize / count >= least as usize;
        if !fits(self.width, columns, MIN_PANEL.0) || !fits(self.height, rows, MIN_PANEL.1) {
            return Err(PlotError::Size {
                title: self.title.clone(),
                width: self.width,
                height: self.height,
            });
        }
        self.panels.iter().try_for_each(|panel| {
            let (categories, series): (usize, Vec<(&str, usize)>) = match &panel.kind {
                Kind::Bars(bars) => {
                    let each = bars.series.iter().map(|s| (s.name.as_str(), s.values.len()));
                    (bars.categories.len(), each.collect())
                }
                Kind::Stacked(stacked) => {
                    let each = stacked.parts.iter().map(|p| (p.name.as_str(), p.values.len()));
                    (stacked.categories.len(), each.collect())
                }
                Kind::Lines(_) | Kind::Timeline(_) => (0, Vec::new()),
            };
            match series.into_iter().find(|(_, values)| *values != categories) {
                Some((name, values)) => Err(PlotError::Uneven {
                    panel: panel.title.clone(),
                    series: name.to_owned(),
                    values,
                    categories,
                }),
                None => Ok(()),
            }
        })
    }
}

fn draw(page: &Page<'_>, figure: &Figure) -> Drawn {
    page.fill(&WHITE)?;
    let mut top = pixels(8.0);
    if !figure.title.is_empty() {
        let middle = page.dim_in_pixel().0 as i32 / 2;
        let style = bold(TITLE).pos(Pos::new(HPos::Center, VPos::Top));
        page.draw_text(&figure.title, &style, (middle, top))?;
        top += pixels(26.0);
    }
    let legend = Legend::of(figure);
    top += legend.draw(page, top)? + pixels(4.0);
    let (_, panels) = page.split_vertically(top);
    let (columns, rows) = figure.grid();
    let cells = panels.split_evenly((rows, columns));
    for (cell, panel) in cells.iter().zip(&figure.panels) {
        chart::draw(cell, panel, &legend)?;
    }
    Ok(())
}
