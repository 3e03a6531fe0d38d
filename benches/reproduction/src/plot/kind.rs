//! Kinds of charts: bars side by side, stacked bars, lines with bands, and boxes over time.

/// Kind of chart, with its data.
#[derive(Debug, Clone, PartialEq)]
pub enum Kind {
    /// Bars side by side within each category.
    Bars(Bars),
    /// A bar for each category, composed of parts.
    Stacked(Stacked),
    /// Lines over a continuous x.
    Lines(Vec<Line>),
    /// Boxes over time in named rows.
    Timeline(Timeline),
}

impl Default for Kind {
    fn default() -> Self {
        Self::Lines(Vec::new())
    }
}

/// Bars in groups side by side.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Bars {
    /// Names of the groups, from the left.
    pub categories: Vec<String>,
    /// Bars of every group, from the left.
    pub series: Vec<BarSeries>,
}

/// Bars of one colour in all groups.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct BarSeries {
    /// Name in the legend.
    pub name: String,
    /// One bar for each category.
    pub values: Vec<Bar>,
}

/// A single bar. Not drawn if `value` is not finite.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bar {
    /// Height of the bar, in y.
    pub value: f64,
    /// Ends of its error bar, as values of y (not distances).
    pub error: Option<(f64, f64)>,
    /// Value that the paper reports, drawn as a hollow diamond.
    pub paper: Option<f64>,
}

impl From<f64> for Bar {
    fn from(value: f64) -> Self {
        Self {
            value,
            error: None,
            paper: None,
        }
    }
}

/// Bars that are stacked from parts.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Stacked {
    /// Names of the bars, from the left.
    pub categories: Vec<String>,
    /// Parts of each bar, from below.
    pub parts: Vec<Part>,
}

/// Part of every stacked bar. Values that are not positive and finite are ignored.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Part {
    /// Name in the legend.
    pub name: String,
    /// One value for each category.
    pub values: Vec<f64>,
}

/// Uses of resources over time.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Timeline {
    /// Names of the rows, from the top.
    pub rows: Vec<String>,
    /// Boxes of all rows.
    pub boxes: Vec<TimelineBox>,
}

/// Box in a row of a timeline.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TimelineBox {
    /// Index of its row, from 0.
    pub row: usize,
    /// Start of the box, in x.
    pub from: f64,
    /// End of the box, in x.
    pub to: f64,
    /// Name in the legend, which determines its colour.
    pub name: String,
    /// Boxes with the same mark stand out and are linked, by growing x; the others are pale.
    pub mark: Option<u32>,
}

/// A line. A point that is not finite breaks it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Line {
    /// Name in the legend.
    pub name: String,
    /// (x, y), by growing x.
    pub points: Vec<(f64, f64)>,
    /// (x, low, high), by growing x, shaded in the line's colour; may be empty.
    pub band: Vec<(f64, f64, f64)>,
    /// Level until the next point, then straight up or down, instead of slanted.
    pub step: bool,
    /// Shaded down to the bottom of the panel.
    pub area: bool,
    /// Drawn with dashes.
    pub dashed: bool,
}
