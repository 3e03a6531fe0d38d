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

/// One chart.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Panel {
    /// Above the chart; may be empty.
    pub title: String,
    /// Across. Bars and stacks take only its label: their categories are the ticks.
    pub x: Axis,
    /// Up.
    pub y: Axis,
    /// What is drawn.
    pub kind: Kind,
    /// Shaded spans of x (lines only).
    pub regions: Vec<Region>,
    /// Level reference lines.
    pub rules: Vec<Rule>,
}

/// An axis.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Axis {
    /// What it measures with its unit, such as `drop rate (%)`.
    pub label: String,
    /// Logarithmic, base ten.
    pub log: bool,
    /// Lowest and highest value; what the data need when absent, not finite or empty. What lies above or below is
    /// drawn at the edge (a bar with an arrow head), what lies left or right is left out.
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

    /// The same axis, logarithmic.
    pub fn log(self) -> Self {
        Self { log: true, ..self }
    }

    /// The same axis from `low` to `high`.
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
    /// Its name in the legend; spans of one name share an entry.
    pub name: String,
    /// Where it begins, in x.
    pub from: f64,
    /// Where it ends, in x.
    pub to: f64,
}

/// A level line at a reference value, such as the latency promised.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    /// Its name in the legend.
    pub name: String,
    /// Its height, in y.
    pub at: f64,
}

/// Why a figure was not written.
#[derive(Debug, thiserror::Error)]
pub enum PlotError {
    /// Nothing to draw.
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
        /// What the drawing said.
        reason: String,
    },
    /// A file could not be written.
    #[error("{path} could not be written: {source}; see that its folder exists and has room")]
    Write {
        /// The file meant.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
}
