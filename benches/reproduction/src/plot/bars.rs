//! Bars: side by side with error bars and the paper's diamonds, or stacked. A category is one unit wide.

use plotters::prelude::*;

use super::chart::Plane;
use super::kind::{Bar, Bars, Stacked};
use super::legend::{Legend, diamond};
use super::page::{Drawn, pixels, stroke};
use super::palette;

// Shares of a category that its bars take, and of its room that a bar does.
const SIDE_BY_SIDE: f64 = 0.8;
const STACKED: f64 = 0.64;
const BAR: f64 = 0.92;

/// All y values of grouped bars.
pub(super) fn values(bars: &Bars) -> impl Iterator<Item = f64> {
    bars.series
        .iter()
        .flat_map(|series| &series.values)
        .flat_map(|bar| {
            let (low, high) = bar.error.unwrap_or((f64::NAN, f64::NAN));
            [bar.value, low, high, bar.paper.unwrap_or(f64::NAN)]
        })
}

/// The heights of stacked bars.
pub(super) fn sums(stacked: &Stacked) -> impl Iterator<Item = f64> {
    (0..stacked.categories.len()).map(|index| {
        let each = stacked.parts.iter().filter_map(|part| part.values.get(index));
        each.filter(|value| counts(**value)).sum()
    })
}

/// Draws grouped bars; says whether there was any.
pub(super) fn draw(plane: &Plane<'_>, bars: &Bars, legend: &Legend) -> Drawn<bool> {
    let wide = SIDE_BY_SIDE / bars.series.len().max(1) as f64;
    let mut papers = Vec::new();
    let mut any = false;
    for (index, series) in bars.series.iter().enumerate() {
        let colour = legend.colour(&series.name);
        for (category, bar) in series.values.iter().enumerate() {
            let left = category as f64 + (1.0 - SIDE_BY_SIDE) / 2.0 + wide * index as f64;
            let middle = left + wide / 2.0;
            any |= one(plane, bar, middle, wide * BAR / 2.0, colour)?;
            papers.extend(bar.paper.map(|paper| (middle, paper)));
        }
    }
    // Above every bar, including neighbouring ones.
    let y = plane.as_coord_spec().y_spec();
    for at in papers
        .into_iter()
        .filter(|(_, paper)| y.contains_or_beyond(*paper))
    {
        plane.draw(&diamond(at))?;
        any = true;
    }
    Ok(any)
}

fn one(plane: &Plane<'_>, bar: &Bar, middle: f64, half: f64, colour: RGBColor) -> Drawn<bool> {
    let y = plane.as_coord_spec().y_spec();
    if !y.contains_or_beyond(bar.value) {
        return Ok(false);
    }
    if bar.value != y.base() {
        let corners = [(middle - half, y.base()), (middle + half, bar.value)];
        plane.draw(&Rectangle::new(corners, colour.filled()))?;
    }
    let top = plane.get_y_range().end;
    if bar.value > top {
        // Higher than its axis: an arrow head at its top.
        let head = EmptyElement::at((middle, top))
            + TriangleMarker::new((0, pixels(5.0)), pixels(5.0), palette::INK.filled());
        plane.draw(&head)?;
    }
    if let Some((low, high)) = bar.error
        && low <= high
        && y.contains_or_beyond(high)
    {
        let low = if y.contains_or_beyond(low) { low } else { y.base() };
        let ink = stroke(palette::INK, 1.3);
        let reach = (0.5 * half).min(0.05);
        plane.draw(&PathElement::new([(middle, low), (middle, high)], ink))?;
        for end in [low, high] {
            plane.draw(&PathElement::new(
                [(middle - reach, end), (middle + reach, end)],
                ink,
            ))?;
        }
    }
    Ok(true)
}

/// Draws stacked bars; says whether there was any.
pub(super) fn draw_stacked(plane: &Plane<'_>, stacked: &Stacked, legend: &Legend) -> Drawn<bool> {
    let base = plane.as_coord_spec().y_spec().base();
    let mut any = false;
    for category in 0..stacked.categories.len() {
        let left = category as f64 + (1.0 - STACKED) / 2.0;
        let right = left + STACKED;
        let mut sum = 0.0;
        for part in &stacked.parts {
            let Some(value) = part.values.get(category).copied().filter(|value| counts(*value)) else {
                continue;
            };
            let from = if sum == 0.0 { base } else { sum };
            sum += value;
            let colour = legend.colour(&part.name);
            plane.draw(&Rectangle::new([(left, from), (right, sum)], colour.filled()))?;
            // A thin gap separates neighbours where their greys are alike.
            plane.draw(&PathElement::new([(left, sum), (right, sum)], stroke(WHITE, 1.0)))?;
            any = true;
        }
    }
    Ok(any)
}

fn counts(value: f64) -> bool {
    value.is_finite() && value > 0.0
}
