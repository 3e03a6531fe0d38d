//! What a panel can show: bars side by side, stacked bars, lines with bands, and boxes over time.

/// What a panel draws.
#[derive(Debug, Clone, PartialEq)]
pub enum Kind {
    /// Bars side by side within each category.
    Bars(Bars),
    /// One bar for each category, made of parts.
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

/// Grouped bars.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Bars {
    /// Groups, from the left.
    pub categories: Vec<String>,
    /// The bars of every group, from the left.
    pub series: Vec<BarSeries>,
}

/// One colour of grouped bars.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct BarSeries {
    /// Its name in the legend.
    pub name: String,
    /// One for each category.
    pub values: Vec<Bar>,
}

/// One bar. Not drawn where `value` is not finite.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bar {
    /// Its height.
    pub value: f64,
    /// Both ends of its error bar, as values of y (not distances).
    pub error: Option<(f64, f64)>,
    /// The figure the paper reports, drawn as a hollow diamond.
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

/// Stacked bars.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Stacked {
    /// Bars, from the left.
    pub categories: Vec<String>,
    /// What each is made of, from below.
    pub parts: Vec<Part>,
}

/// One part of every stacked bar. Values that are not positive and finite add nothing.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Part {
    /// Its name in the legend.
    pub name: String,
    /// One for each category.
    pub values: Vec<f64>,
}

/// Uses of resources over time.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Timeline {
    /// What is used, from the top.
    pub rows: Vec<String>,
    /// The uses.
    pub boxes: Vec<TimelineBox>,
}

/// One use.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TimelineBox {
    /// Of which row, from 0.
    pub row: usize,
    /// Its beginning, in x.
    pub from: f64,
    /// Its end, in x.
    pub to: f64,
    /// Its name in the legend, which gives its colour.
    pub name: String,
    /// Boxes with the same mark stand out and are linked, by growing x; the others are pale.
    pub mark: Option<u32>,
}

/// A line. A point that is not finite breaks it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Line {
    /// Its name in the legend.
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
