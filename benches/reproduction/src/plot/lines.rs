//! Lines with bands, steps and areas, over the shaded regions behind them.

use plotters::prelude::*;

use super::chart::{Plane, dashed};
use super::figure::Region;
use super::kind::Line;
use super::legend::Legend;
use super::page::{Drawn, pixels, stroke};
use super::palette;

/// All x values of lines and bands.
pub(super) fn across(lines: &[Line]) -> impl Iterator<Item = f64> {
    let each = |line: &Line| {
        line.points
            .iter()
            .map(|p| p.0)
            .chain(line.band.iter().map(|b| b.0))
            .collect::<Vec<_>>()
    };
    lines.iter().flat_map(each)
}

/// All y values of lines and bands.
pub(super) fn up(lines: &[Line]) -> impl Iterator<Item = f64> {
    let points = lines.iter().flat_map(|line| line.points.iter().map(|p| p.1));
    points.chain(
        lines
            .iter()
            .flat_map(|line| line.band.iter().flat_map(|b| [b.1, b.2])),
    )
}

/// Draws regions first, then bands, areas and lines; says whether there was a line or a band.
pub(super) fn draw(plane: &Plane<'_>, lines: &[Line], regions: &[Region], legend: &Legend) -> Drawn<bool> {
    let (x, y) = (plane.get_x_range(), plane.get_y_range());
    for region in regions {
        let (from, to) = (region.from.max(x.start), region.to.min(x.end));
        if from < to {
            plane.draw(&Rectangle::new(
                [(from, y.start), (to, y.end)],
                palette::region().filled(),
            ))?;
        }
    }
    let mut any = false;
    for line in lines {
        for shape in bands(plane, line) {
            plane.draw(&Polygon::new(shape, legend.colour(&line.name).mix(0.22)))?;
            any = true;
        }
    }
    let base = plane.as_coord_spec().y_spec().base();
    for line in lines.iter().filter(|line| line.area) {
        for mut run in runs(plane, line) {
            if let (Some(first), Some(last)) = (run.first().copied(), run.last().copied()) {
                run.extend([(last.0, base), (first.0, base)]);
                plane.draw(&Polygon::new(run, legend.colour(&line.name).mix(0.45)))?;
            }
        }
    }
    for line in lines {
        let colour = legend.colour(&line.name);
        for run in runs(plane, line) {
            match run[..] {
                [point] => plane.draw(&Circle::new(point, pixels(2.5), colour.filled()))?,
                _ if line.dashed => dashed(plane, run, stroke(colour, 1.8))?,
                _ => plane.draw(&PathElement::new(run, stroke(colour, 1.8)))?,
            }
            any = true;
        }
    }
    Ok(any)
}

/// The line's unbroken stretches, with the corners of its steps.
fn runs(plane: &Plane<'_>, line: &Line) -> Vec<Vec<(f64, f64)>> {
    let spec = plane.as_coord_spec();
    let shown = |(x, y): &(f64, f64)| spec.x_spec().contains(*x) && spec.y_spec().contains_or_beyond(*y);
    let stretches = line.points.split(|point| !shown(point));
    stretches
        .filter(|run| !run.is_empty())
        .map(|run| if line.step { stepped(run) } else { run.to_vec() })
        .collect()
}

fn stepped(run: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let corners = run.windows(2).flat_map(|pair| [pair[0], (pair[1].0, pair[0].1)]);
    corners.chain(run.last().copied()).collect()
}

/// The outlines of the band's unbroken stretches.
fn bands(plane: &Plane<'_>, line: &Line) -> Vec<Vec<(f64, f64)>> {
    let spec = plane.as_coord_spec();
    let shown = |(x, low, high): &(f64, f64, f64)| {
        spec.x_spec().contains(*x) && low.is_finite() && spec.y_spec().contains_or_beyond(*high)
    };
    let stretches = line.band.split(|point| !shown(point));
    let outline = |run: &[(f64, f64, f64)]| {
        let low: Vec<_> = run.iter().map(|(x, low, _)| (*x, *low)).collect();
        let high: Vec<_> = run.iter().map(|(x, _, high)| (*x, *high)).collect();
        let (low, high) = if line.step {
            (stepped(&low), stepped(&high))
        } else {
            (low, high)
        };
        low.into_iter().chain(high.into_iter().rev()).collect()
    };
    stretches.filter(|run| run.len() > 1).map(outline).collect()
}
