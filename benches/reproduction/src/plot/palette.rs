//! Colours: the eight of Okabe and Ito, distinct to colour-blind readers too, and the greys around them.

use plotters::style::{Color as _, RGBAColor, RGBColor};

/// Text, error bars and the paper's markers.
pub(super) const INK: RGBColor = RGBColor(34, 34, 34);
/// Axes and their ticks.
pub(super) const FRAME: RGBColor = RGBColor(120, 120, 120);
/// Colour of grid lines.
pub(super) const GRID: RGBColor = RGBColor(226, 226, 226);

// Yellow is last, since it has the least contrast on white.
const SERIES: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(230, 159, 0),
    RGBColor(0, 158, 115),
    RGBColor(213, 94, 0),
    RGBColor(86, 180, 233),
    RGBColor(204, 121, 167),
    RGBColor(110, 110, 110),
    RGBColor(240, 228, 66),
];

/// The colour of the `index`th name of a figure; they repeat after eight.
pub(super) fn series(index: usize) -> RGBColor {
    SERIES[index % SERIES.len()]
}

/// Colour of shaded spans.
pub(super) fn region() -> RGBAColor {
    RGBColor(90, 90, 120).mix(0.16)
}
