//! Lines with bands, steps and areas, and the shaded regions behind them.

use super::figure::{Axis, Panel};
use super::kind::Line;
use super::legend::Legend;
use super::palette;
use super::panel::Area;
use super::scale::Scale;
use super::scene::{Paint, Scene};

/// The x of all lines and regions.
pub(super) fn x_scale(lines: &[Line], panel: &Panel) -> Scale {
    let points = lines
        .iter()
        .flat_map(|l| l.points.iter().map(|p| p.0).chain(l.band.iter().map(|b| b.0)));
    let regions = panel.regions.iter().flat_map(|region| [region.from, region.to]);
    Scale::fit(&panel.x, points.chain(regions), false, false)
}

/// The y of all lines and bands.
pub(super) fn y_scale(lines: &[Line], axis: &Axis, rules: impl Iterator<Item = f64>) -> Scale {
    let area = lines.iter().any(|line| line.area);
    let values = lines.iter().flat_map(|l| {
        l.points
            .iter()
            .map(|p| p.1)
            .chain(l.band.iter().flat_map(|b| [b.1, b.2]))
    });
    Scale::fit(axis, values.chain(rules), area, true)
}

/// Shades the panel's regions.
pub(super) fn draw_regions(scene: &mut Scene, panel: &Panel, area: &Area, x: &Scale) {
    for region in &panel.regions {
        if let (Some(from), Some(to)) = (x.place(region.from), x.place(region.to))
            && from.min(to) < 1.0
            && from.max(to) > 0.0
        {
            scene.rect(area.at(from, 0.0), area.at(to, 1.0), palette::REGION);
        }
    }
}

/// Draws bands first, then areas, then lines; says whether there was any.
pub(super) fn draw(
    scene: &mut Scene,
    lines: &[Line],
    area: &Area,
    (x, y): (&Scale, &Scale),
    legend: &Legend,
) -> bool {
    let mut any = false;
    for line in lines {
        any |= band(scene, line, area, (x, y), legend.colour(&line.name));
    }
    let runs: Vec<_> = lines
        .iter()
        .map(|line| (line, runs(line, area, (x, y))))
        .collect();
    for (line, runs) in runs.iter().filter(|(line, _)| line.area) {
        for run in runs {
            let (Some(first), Some(last)) = (run.first(), run.last()) else {
                continue;
            };
            let foot = area.at(0.0, y.base()).1;
            let mut shape = run.clone();
            shape.extend([(last.0, foot), (first.0, foot)]);
            scene.polygon(shape, legend.colour(&line.name).with_alpha(0.45));
        }
    }
    for (line, runs) in runs {
        let paint = legend.colour(&line.name);
        for run in runs {
            any = true;
            match (run.len(), line.dashed) {
                (1, _) => dot(scene, run[0], paint),
                (_, true) => scene.dashed(run, 1.8, paint),
                _ => scene.line(run, 1.8, paint),
            }
        }
    }
    any
}

fn dot(scene: &mut Scene, (x, y): (f64, f64), paint: Paint) {
    scene.rect((x - 2.5, y - 2.5), (x + 2.5, y + 2.5), paint);
}

fn band(scene: &mut Scene, line: &Line, area: &Area, (x, y): (&Scale, &Scale), paint: Paint) -> bool {
    let mut any = false;
    let placed = |&(at, low, high): &(f64, f64, f64)| {
        let at = x.place(at).filter(within)?;
        // Below a logarithmic axis is its low end.
        let low = if y.is_log() && low <= 0.0 {
            0.0
        } else {
            y.place(low)?
        };
        Some((area.at(at, low), area.at(at, y.place(high)?)))
    };
    let places: Vec<Option<_>> = line.band.iter().map(placed).collect();
    for run in places.split(Option::is_none) {
        let lows = thinned(run.iter().flatten().map(|(low, _)| *low), line.step);
        let highs = thinned(run.iter().flatten().map(|(_, high)| *high), line.step);
        if lows.len() > 1 && highs.len() > 1 {
            let shape = lows.into_iter().chain(highs.into_iter().rev()).collect();
            scene.polygon(shape, paint.with_alpha(0.22));
            any = true;
        }
    }
    any
}

fn within(share: &f64) -> bool {
    (-1e-9..=1.000_000_001).contains(share)
}

/// The line's unbroken stretches, in places of the page.
fn runs(line: &Line, area: &Area, (x, y): (&Scale, &Scale)) -> Vec<Vec<(f64, f64)>> {
    let places: Vec<Option<(f64, f64)>> = line
        .points
        .iter()
        .map(|(at, value)| Some(area.at(x.place(*at).filter(within)?, y.place(*value)?)))
        .collect();
    places
        .split(Option::is_none)
        .map(|run| thinned(run.iter().flatten().copied(), line.step))
        .filter(|run| !run.is_empty())
        .collect()
}

/// Leaves out what no one could see: of the points in one half pixel across only the first, lowest, highest and last
/// stay. With `step`, corners are added.
fn thinned(points: impl Iterator<Item = (f64, f64)>, step: bool) -> Vec<(f64, f64)> {
    let mut stepped: Vec<(f64, f64)> = Vec::new();
    for point in points {
        if step && let Some(last) = stepped.last().copied() {
            stepped.push((point.0, last.1));
        }
        stepped.push(point);
    }
    let mut out = Vec::new();
    for column in stepped.chunk_by(|a, b| (a.0 * 2.0).floor() == (b.0 * 2.0).floor()) {
        if column.len() <= 4 {
            out.extend_from_slice(column);
            continue;
        }
        let lowest = (0..column.len()).fold(0, |best, i| if column[i].1 < column[best].1 { i } else { best });
        let highest =
            (0..column.len()).fold(0, |best, i| if column[i].1 > column[best].1 { i } else { best });
        let mut kept = vec![0, lowest, highest, column.len() - 1];
        kept.sort_unstable();
        kept.dedup();
        out.extend(kept.into_iter().map(|i| column[i]));
    }
    out
}
