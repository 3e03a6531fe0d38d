//! The description of a figure and what can be wrong with it.

use std::path::PathBuf;

use super::kind::Kind;

/// A grid of panels under a title and one legend.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Figure {
    /// Above everything; may be empty.
    pub title: String,
    /// Row by row.
    pub panels: Vec<Panel>,
    /// Panels side by side; 0 counts as 1.
    pub columns: usize,
    /// Width in figure units (SVG pixels at its own size): at least 140 a column, at most 8000.
    pub width: u32,
    /// Height in figure units: at least 110 a row, at most 8000.
    pub height: u32,
}

/// One chart of a figure.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Panel {
    /// Title above the chart; may be empty.
    pub title: String,
    /// Horizontal axis. Bars and stacks use only its label, since their categories are the ticks.
    pub x: Axis,
    /// Vertical axis of the chart.
    pub y: Axis,
    /// Kind of chart, with its data.
    pub kind: Kind,
    /// Shaded spans of x (lines only).
    pub regions: Vec<Region>,
    /// Level reference lines.
    pub rules: Vec<Rule>,
}

/// Axis of a panel.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Axis {
    /// Quantity with its unit, such as `drop rate (%)`.
    pub label: String,
    /// True for a logarithmic axis, base ten.
    pub log: bool,
    /// Lowest and highest value; computed from the data if absent, not finite or empty. Values above or below
    /// are drawn at the edge (a bar with an arrow head), values to the left or right are left out.
    pub range: Option<(f64, f64)>,
}

impl Axis {
    /// A linear axis that fits the data.
    pub fn new(label: impl Into<String>) -> Self {
        Self {
            label: label.into(),
            log: false,
            range: None,
        }
    }

    /// Makes the axis logarithmic.
    pub fn log(self) -> Self {
        Self { log: true, ..self }
    }

    /// Limits the axis to the range from `low` to `high`.
    pub fn range(self, low: f64, high: f64) -> Self {
        Self {
            range: Some((low, high)),
            ..self
        }
    }
}

/// A shaded span of x, such as the time a mode was on.
#[derive(Debug, Clone, PartialEq)]
pub struct Region {
    /// Name in the legend; spans with the same name share an entry.
    pub name: String,
    /// Start of the span, in x.
    pub from: f64,
    /// End of the span, in x.
    pub to: f64,
}

/// A level line at a reference value, such as the latency promised.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    /// Name in the legend.
    pub name: String,
    /// Height of the line, in y.
    pub at: f64,
}

/// Reason why a figure was not written.
#[derive(Debug, thiserror::Error)]
pub enum PlotError {
    /// The figure has nothing to draw.
    #[error("figure `{0}` has no panels: give it at least one")]
    Empty(String),
    /// A size that cannot hold its charts.
    #[error(
        "figure `{title}` is {width} by {height}: give a panel 140 by 110 or more, and the figure at most 8000 each way"
    )]
    Size {
        /// The figure's title.
        title: String,
        /// Figure units across.
        width: u32,
        /// Figure units down.
        height: u32,
    },
    /// A series without one value for every category.
    #[error(
        "panel `{panel}`: `{series}` has {values} values for {categories} categories: give one for each, NaN where there is none"
    )]
    Uneven {
        /// The panel's title.
        panel: String,
        /// The series or part.
        series: String,
        /// Values it has.
        values: usize,
        /// Categories of the panel.
        categories: usize,
    },
    /// The figure could not be drawn.
    #[error("figure `{title}` could not be drawn: {reason}")]
    Draw {
        /// The figure's title.
        title: String,
        /// Error of the drawing library.
        reason: String,
    },
    /// A file could not be written.
    #[error("{path} could not be written: {source}; see that its folder exists and has room")]
    Write {
        /// The file meant.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
}
