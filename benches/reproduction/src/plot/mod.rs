//! Charts as plain values, written as SVG and PNG from one list of shapes; the same figure gives the same bytes.
//!
//! A [`Figure`] is a grid of [`Panel`]s under one legend. A name has one colour in the whole figure, so panels can be
//! compared. Values that are not finite (and, on a logarithmic axis, not positive) are left out, never drawn wrong.

mod axes;
mod bars;
mod figure;
mod font;
mod kind;
mod legend;
mod lines;
mod palette;
mod panel;
mod raster;
mod scale;
mod scene;
mod svg;
mod table;
#[cfg(test)]
mod tests;
mod timeline;
mod write;

pub use figure::{Axis, Figure, Panel, PlotError, Region, Rule};
pub use kind::{Bar, BarSeries, Bars, Kind, Line, Part, Stacked, Timeline, TimelineBox};
pub use table::markdown;
