//! The drawing of figures over thresholds: a panel a class with precision, recall and F1 over the score, a panel a gallery with
//! known faces and strangers over the cosine.

use std::error::Error;

use plotters::coord::Shift;
use plotters::prelude::{
    BLACK, ChartBuilder, DrawingArea, IntoDrawingArea, PathElement, RGBColor, SVGBackend, WHITE,
};
use plotters::style::Color;

use crate::score::Curves;

/// Width and height of a panel.
const PANEL: (u32, u32) = (420, 300);
/// Panels in a row.
const COLUMNS: usize = 3;
/// Panels that are drawn; a model of a thousand classes has a table.
const MAX_PANELS: usize = 60;

/// Dark, middle and light, also in grey.
const COLORS: [RGBColor; 3] = [
    RGBColor(31, 78, 121),
    RGBColor(200, 85, 40),
    RGBColor(110, 110, 110),
];

/// Title, curves and axis of one panel.
struct Panel {
    title: String,
    /// Name and points of each line.
    lines: Vec<(&'static str, Vec<(f64, f64)>)>,
    /// The best threshold.
    best: Option<f64>,
    x: &'static str,
}

/// Draws all panels.
///
/// # Errors
/// Those of the drawing.
pub(crate) fn draw(curves: &Curves) -> Result<String, Box<dyn Error>> {
    let panels = panels(curves);
    let rows = panels.len().div_ceil(COLUMNS).max(1);
    let mut drawing = String::new();
    {
        let size = (PANEL.0 * COLUMNS as u32, PANEL.1 * rows as u32);
        let area = SVGBackend::with_string(&mut drawing, size).into_drawing_area();
        area.fill(&WHITE)?;
        let places = area.split_evenly((rows, COLUMNS));
        for (panel, place) in panels.iter().zip(places) {
            draw_panel(panel, &place)?;
        }
        area.present()?;
    }
    Ok(drawing)
}

fn panels(curves: &Curves) -> Vec<Panel> {
    let classes = curves.classes.iter().filter(|(_, curve)| curve.best.is_some());
    let classes = classes.map(|(name, curve)| {
        let points = || curve.points.iter();
        Panel {
            title: format!("{name}, {} to find", curve.truths),
            lines: vec![
                (
                    "precision",
                    points().map(|at| (at.threshold, at.precision)).collect(),
                ),
                ("recall", points().map(|at| (at.threshold, at.recall)).collect()),
                ("F1", points().map(|at| (at.threshold, at.f1)).collect()),
            ],
            best: curve.best.map(|best| best.threshold),
            x: "score",
        }
    });
    let matches = curves.matches.iter().map(|(name, curve)| {
        let points = || curve.points.iter();
        Panel {
            title: format!("{name}, {} known, {} strangers", curve.known, curve.strangers),
            lines: vec![
                (
                    "known, named",
                    points().map(|at| (at.threshold, at.named)).collect(),
                ),
                (
                    "strangers, named",
                    points().map(|at| (at.threshold, at.strangers_named)).collect(),
                ),
                (
                    "known, misnamed",
                    points().map(|at| (at.threshold, at.misnamed)).collect(),
                ),
            ],
            best: curve.best.map(|best| best.threshold),
            x: "cosine",
        }
    });
    classes.chain(matches).take(MAX_PANELS).collect()
}

fn draw_panel(panel: &Panel, place: &DrawingArea<SVGBackend<'_>, Shift>) -> Result<(), Box<dyn Error>> {
    let thresholds = || panel.lines.iter().flat_map(|(_, points)| points).map(|(x, _)| *x);
    let low = thresholds().fold(0.0, f64::min);
    let mut chart = ChartBuilder::on(place)
        .caption(&panel.title, ("sans-serif", 16))
        .margin(10)
        .x_label_area_size(36)
        .y_label_area_size(40)
        .build_cartesian_2d(low..1.0, 0.0..1.02)?;
    chart
        .configure_mesh()
        .x_desc(panel.x)
        .label_style(("sans-serif", 12))
        .light_line_style(WHITE)
        .draw()?;
    for ((name, points), color) in panel.lines.iter().zip(COLORS) {
        chart
            .draw_series([PathElement::new(points.clone(), color.stroke_width(2))])?
            .label(*name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 14, y)], color.stroke_width(2)));
    }
    if let Some(best) = panel.best {
        let color = BLACK.mix(0.5);
        chart
            .draw_series([PathElement::new([(best, 0.0), (best, 1.02)], color)])?
            .label(format!(
                "{}: {best:.2}",
                if panel.x == "score" {
                    "best F1"
                } else {
                    "1 stranger in 20"
                }
            ))
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 14, y)], color));
    }
    chart
        .configure_series_labels()
        .position(plotters::prelude::SeriesLabelPosition::LowerLeft)
        .background_style(WHITE.mix(0.85))
        .label_font(("sans-serif", 12))
        .draw()?;
    Ok(())
}
