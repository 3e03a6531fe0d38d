//! The drawing of a cascade's curve: accuracy over work, with its models alone.

use std::error::Error;

use plotters::prelude::{
    BLACK, BLUE, ChartBuilder, Circle, Color, EmptyElement, IntoDrawingArea, IntoFont, PathElement, RED,
    SVGBackend, Text, WHITE,
};
use weir_sim::gears::CurvePoint;

/// Width and height of the drawing.
const SIZE: (u32, u32) = (800, 500);

/// Draws all points, the line through those that no other beats, and each model alone as (accuracy, work in milliseconds).
pub(crate) fn draw(
    cascade: &str,
    models: &[String],
    points: &[CurvePoint],
    kept: &[&CurvePoint],
    alone: &[(f64, f64)],
) -> Result<String, Box<dyn Error>> {
    let mut drawing = String::new();
    {
        let area = SVGBackend::with_string(&mut drawing, SIZE).into_drawing_area();
        area.fill(&WHITE)?;
        let accuracies = || {
            points
                .iter()
                .map(|point| point.accuracy)
                .chain(alone.iter().map(|(accuracy, _)| *accuracy))
        };
        let works = points
            .iter()
            .map(|point| point.work)
            .chain(alone.iter().map(|(_, work)| *work));
        let (low, high) = (accuracies().fold(1.0, f64::min), accuracies().fold(0.0, f64::max));
        let margin = ((high - low) * 0.1).max(0.005);
        let widest = works.fold(0.0, f64::max) * 1.15;
        let mut chart = ChartBuilder::on(&area)
            .caption(
                format!("{cascade}: {}", models.join(", then ")),
                ("sans-serif", 20),
            )
            .margin(12)
            .x_label_area_size(40)
            .y_label_area_size(60)
            .build_cartesian_2d(0.0..widest.max(1e-6), (low - margin)..(high + margin))?;
        chart
            .configure_mesh()
            .x_desc("mean work of an item in ms")
            .y_desc("accuracy")
            .label_style(("sans-serif", 14))
            .draw()?;
        chart.draw_series(
            points
                .iter()
                .map(|point| Circle::new((point.work, point.accuracy), 2, BLUE.mix(0.4).filled())),
        )?;
        let line: Vec<(f64, f64)> = kept.iter().map(|point| (point.work, point.accuracy)).collect();
        chart.draw_series([PathElement::new(line, BLUE)])?;
        let labelled = alone.iter().zip(models).map(|((accuracy, work), model)| {
            EmptyElement::at((*work, *accuracy))
                + Circle::new((0, 0), 4, RED.filled())
                + Text::new(
                    model.clone(),
                    (7, -7),
                    ("sans-serif", 14).into_font().color(&BLACK),
                )
        });
        chart.draw_series(labelled)?;
        area.present()?;
    }
    Ok(drawing)
}
