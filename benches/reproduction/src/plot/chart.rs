//! Draws a panel: its axes, its data, and its reference lines.

use plotters::coord::cartesian::Cartesian2d;
use plotters::coord::ranged1d::{BoldPoints, Ranged as _, ValueFormatter as _};
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::figure::Panel;
use super::kind::Kind;
use super::legend::Legend;
use super::names::Names;
use super::page::{Drawn, HEADING, LABEL, Page, SMALL, bold, pixels, stroke, text};
use super::scale::Scale;
use super::{bars, lines, palette, timeline};

/// Area of the chart, addressed by data values.
pub(super) type Plane<'a> = DrawingArea<SVGBackend<'a>, Cartesian2d<Scale, Scale>>;

// Room for the title above a panel, for a label along an axis, and for a tick, in figure units.
const ABOVE: f64 = 24.0;
const DESCRIPTION: f64 = 20.0;
const TICK: f64 = 4.0;

/// Draws the panel into its cell of the page.
pub(super) fn draw(cell: &Page<'_>, panel: &Panel, legend: &Legend) -> Drawn {
    let cell = cell.margin(pixels(2.0), pixels(6.0), pixels(8.0), pixels(16.0));
    let (x, y) = scales(panel);
    let (width, height) = cell.dim_in_pixel();
    let ticks = |side: u32, each: f64, most: usize| {
        (side as usize / pixels(each).unsigned_abs() as usize).clamp(3, most)
    };
    let (across, up) = (ticks(width, 60.0, 16), ticks(height, 34.0, 11));
    let left = numbers(&cell, &y, up) + pixels(TICK * 3.0) + label_area(&panel.y.label);
    let names = match &panel.kind {
        Kind::Bars(bars) => Names::within(&bars.categories, width as i32 - left, &cell),
        Kind::Stacked(stacked) => Names::within(&stacked.categories, width as i32 - left, &cell),
        Kind::Lines(_) | Kind::Timeline(_) => Names::within(&[], 0, &cell),
    };
    let below = pixels(names.height().max(SMALL) + TICK * 2.0) + label_area(&panel.x.label);
    let above = pixels(if panel.title.is_empty() { SMALL } else { ABOVE });
    let style = bold(HEADING).pos(Pos::new(HPos::Center, VPos::Top));
    cell.draw_text(&panel.title, &style, (width as i32 / 2, pixels(2.0)))?;
    let mut chart = ChartBuilder::on(&cell)
        .margin_top(above)
        .x_label_area_size(below)
        .y_label_area_size(left)
        .build_cartesian_2d(x, y)?;
    chart
        .configure_mesh()
        .bold_line_style(stroke(palette::GRID, 1.0))
        .light_line_style(TRANSPARENT)
        .axis_style(stroke(palette::FRAME, 1.0))
        .set_all_tick_mark_size(pixels(TICK))
        .label_style(text(SMALL))
        .axis_desc_style(text(LABEL))
        .x_labels(across)
        .y_labels(up)
        .x_desc(&panel.x.label)
        .y_desc(&panel.y.label)
        .draw()?;
    let (base_x, base_y) = cell.get_base_pixel();
    let bottom = chart.y_range().start;
    names.draw(&cell, |index| {
        let (x, y) = chart.backend_coord(&(index as f64 + 0.5, bottom));
        (x - base_x, y - base_y)
    })?;
    let plane = chart.plotting_area();
    let drawn = match &panel.kind {
        Kind::Bars(bars) => bars::draw(plane, bars, legend),
        Kind::Stacked(stacked) => bars::draw_stacked(plane, stacked, legend),
        Kind::Lines(each) => lines::draw(plane, each, &panel.regions, legend),
        Kind::Timeline(timeline) => timeline::draw(plane, timeline, legend),
    }?;
    rules(plane, panel)?;
    if !drawn {
        let (width, height) = plane.dim_in_pixel();
        let style = text(LABEL).pos(Pos::new(HPos::Center, VPos::Center));
        let middle = (width as i32 / 2, height as i32 / 2);
        plane.strip_coord_spec().draw_text("no data", &style, middle)?;
    }
    Ok(())
}

fn scales(panel: &Panel) -> (Scale, Scale) {
    let rules = panel.rules.iter().map(|rule| rule.at);
    match &panel.kind {
        Kind::Bars(bars) => (
            Scale::categories(bars.categories.len()),
            Scale::up(&panel.y, bars::values(bars).chain(rules), true),
        ),
        Kind::Stacked(stacked) => (
            Scale::categories(stacked.categories.len()),
            Scale::up(&panel.y, bars::sums(stacked).chain(rules), true),
        ),
        Kind::Lines(each) => {
            let regions = panel.regions.iter().flat_map(|region| [region.from, region.to]);
            let area = each.iter().any(|line| line.area);
            (
                Scale::across(&panel.x, lines::across(each).chain(regions)),
                Scale::up(&panel.y, lines::up(each).chain(rules), area),
            )
        }
        Kind::Timeline(timeline) => (
            Scale::across(
                &panel.x,
                timeline.boxes.iter().flat_map(|span| [span.from, span.to]),
            ),
            Scale::rows(&timeline.rows),
        ),
    }
}

/// Width of the widest number beside an axis, in pixels.
fn numbers(page: &Page<'_>, scale: &Scale, ticks: usize) -> i32 {
    let style = text(SMALL);
    let wide = |value: &f64| page.estimate_text_size(&scale.format_ext(value), &style);
    let points = scale.key_points(BoldPoints(ticks));
    let widths = points.iter().filter_map(|value| wide(value).ok());
    widths.map(|(wide, _)| wide as i32).max().unwrap_or(0)
}

fn label_area(label: &str) -> i32 {
    if label.is_empty() { 0 } else { pixels(DESCRIPTION) }
}

fn rules(plane: &Plane<'_>, panel: &Panel) -> Drawn {
    let (x, y) = (plane.get_x_range(), plane.as_coord_spec().y_spec().clone());
    for rule in panel.rules.iter().filter(|rule| y.contains(rule.at)) {
        dashed(
            plane,
            vec![(x.start, rule.at), (x.end, rule.at)],
            stroke(palette::INK, 1.5),
        )?;
    }
    Ok(())
}

/// A dashed line through places of any area.
pub(super) fn dashed<Spec: plotters::coord::CoordTranslate>(
    area: &DrawingArea<SVGBackend<'_>, Spec>,
    points: Vec<Spec::From>,
    style: ShapeStyle,
) -> Drawn
where
    Spec::From: Clone,
{
    area.draw(&DashedPathElement::new(points, pixels(6.0), pixels(4.0), style))
}
