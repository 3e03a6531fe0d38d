//! Charts as plain values, drawn as SVG by `plotters`; the same figure gives the same bytes.
//!
//! A [`Figure`] is a grid of [`Panel`]s under one legend, which covers no data. A name has the same colour in
//! the whole figure, so panels can be compared. Values that are not finite (and, on a logarithmic axis, not
//! positive) are left out.
//!
//! `plotters` draws coordinates, ticks, axes with labels, shapes and the document. This module adds suitable
//! ranges, bars side by side or stacked, category names on several lines, and a common legend for all panels.
//! The only format is SVG: every viewer of the pages shows it, and it needs no font here.

mod bars;
mod chart;
mod figure;
mod kind;
mod legend;
mod lines;
mod names;
mod page;
mod palette;
mod scale;
mod table;
#[cfg(test)]
mod tests;
mod timeline;

pub use figure::{Axis, Figure, Panel, PlotError, Region, Rule};
pub use kind::{Bar, BarSeries, Bars, Kind, Line, Part, Stacked, Timeline, TimelineBox};
pub use table::markdown;
