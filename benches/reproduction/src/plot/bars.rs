//! Bars: side by side with error bars and the paper's diamonds, or stacked.

use super::figure::Axis;
use super::kind::{Bar, Bars, Stacked};
use super::legend::{Legend, diamond};
use super::palette;
use super::panel::Area;
use super::scale::Scale;
use super::scene::{Anchor, Paint, Scene, Size};

// Share of a category's slot that bars take.
const FILLED: f64 = 0.8;

/// The y of grouped bars.
pub(super) fn scale(bars: &Bars, axis: &Axis, rules: impl Iterator<Item = f64>) -> Scale {
    let values = bars.series.iter().flat_map(|s| &s.values).flat_map(|bar| {
        let (low, high) = bar.error.unwrap_or((f64::NAN, f64::NAN));
        [bar.value, low, high, bar.paper.unwrap_or(f64::NAN)]
    });
    Scale::fit(axis, values.chain(rules), true, true)
}

/// The y of stacked bars.
pub(super) fn stacked_scale(stacked: &Stacked, axis: &Axis, rules: impl Iterator<Item = f64>) -> Scale {
    let sums = (0..stacked.categories.len()).map(|i| {
        stacked
            .parts
            .iter()
            .filter_map(|part| part.values.get(i))
            .filter(|v| counts(**v))
            .sum::<f64>()
    });
    // A stack that fills its axis, such as one hundred per cent, needs no room above.
    let sums: Vec<f64> = sums.collect();
    let largest = sums.iter().copied().fold(0.0, f64::max);
    let rules: Vec<f64> = rules.collect();
    if (largest - 100.0).abs() < 1e-6
        && !axis.log
        && axis.range.is_none()
        && rules.iter().all(|r| *r <= 100.0)
    {
        return Scale::fit(&axis.clone().range(0.0, 100.0), std::iter::empty(), true, true);
    }
    Scale::fit(axis, sums.into_iter().chain(rules), true, true)
}

/// Draws grouped bars; says whether there was any.
pub(super) fn draw(scene: &mut Scene, bars: &Bars, area: &Area, y: &Scale, legend: &Legend) -> bool {
    let slot = 1.0 / bars.categories.len().max(1) as f64;
    let wide = slot * FILLED / bars.series.len().max(1) as f64;
    let mut marks = Vec::new();
    let mut any = false;
    for (index, series) in bars.series.iter().enumerate() {
        let paint = legend.colour(&series.name);
        for (group, bar) in series.values.iter().enumerate() {
            let left = slot * (group as f64 + (1.0 - FILLED) / 2.0) + wide * index as f64;
            any |= one(scene, bar, (left, left + wide * 0.92), area, y, paint);
            let middle = left + wide * 0.46;
            if let Some(share) = bar.paper.and_then(|paper| y.place(paper)) {
                marks.push(area.at(middle, share));
            }
        }
    }
    // Above every bar, also those beside it.
    let reach = (wide * area.width() * 0.42).clamp(3.0, 5.5);
    any |= !marks.is_empty();
    marks.into_iter().for_each(|at| diamond(scene, at, reach));
    any
}

fn one(
    scene: &mut Scene,
    bar: &Bar,
    (left, right): (f64, f64),
    area: &Area,
    y: &Scale,
    paint: Paint,
) -> bool {
    let middle = (left + right) / 2.0;
    if y.is_log() && bar.value == 0.0 {
        // Nought has no place on a logarithmic axis: it is written out.
        let (x, foot) = area.at(middle, 0.0);
        scene.text((x, foot - 9.0), "0", Size::Small, Anchor::Middle);
        return true;
    }
    let Some(share) = y.place(bar.value) else {
        return false;
    };
    scene.rect(area.at(left, y.base()), area.at(right, share), paint);
    if share > 1.0 + 1e-9 {
        cut(scene, area.at(middle, 1.0));
    }
    if let Some((low, high)) = bar.error
        && low <= high
        && let Some(high) = y.place(high)
    {
        let low = y.place(low).unwrap_or(0.0);
        let (x, from) = area.at(middle, low);
        let to = area.at(middle, high).1;
        let cap = ((right - left) * area.width() * 0.25).clamp(1.5, 5.0);
        scene.line(vec![(x, from), (x, to)], 1.4, palette::INK);
        scene.line(vec![(x - cap, from), (x + cap, from)], 1.4, palette::INK);
        scene.line(vec![(x - cap, to), (x + cap, to)], 1.4, palette::INK);
    }
    true
}

/// The mark of a bar higher than its axis: an arrow head at its top.
fn cut(scene: &mut Scene, (x, y): (f64, f64)) {
    scene.polygon(vec![(x - 4.5, y + 7.0), (x, y), (x + 4.5, y + 7.0)], palette::INK);
}

/// Draws stacked bars; says whether there was any.
pub(super) fn draw_stacked(
    scene: &mut Scene,
    stacked: &Stacked,
    area: &Area,
    y: &Scale,
    legend: &Legend,
) -> bool {
    let slot = 1.0 / stacked.categories.len().max(1) as f64;
    let mut any = false;
    for index in 0..stacked.categories.len() {
        let (left, right) = (slot * (index as f64 + 0.18), slot * (index as f64 + 0.82));
        let mut sum = 0.0;
        for part in &stacked.parts {
            let Some(value) = part.values.get(index).copied().filter(|v| counts(*v)) else {
                continue;
            };
            let from = if sum == 0.0 {
                y.base()
            } else {
                y.place(sum).unwrap_or(0.0)
            };
            sum += value;
            let Some(to) = y.place(sum) else { break };
            scene.rect(area.at(left, from), area.at(right, to), legend.colour(&part.name));
            // A thin gap tells neighbours apart where their greys are alike.
            scene.line(vec![area.at(left, to), area.at(right, to)], 1.0, palette::PAGE);
            any = true;
        }
    }
    any
}

fn counts(value: f64) -> bool {
    value.is_finite() && value > 0.0
}
