//! The frame of a panel: grid, ticks, category names (wrapped, or turned where they do not fit) and axis labels.

use super::figure::Panel;
use super::kind::Kind;
use super::panel::{Area, heading};
use super::scale::Scale;
use super::scene::{Anchor, Scene, Size, Turn};
use super::{font, palette, timeline};

const LINE: f64 = 14.0;
const SINE: f64 = std::f64::consts::FRAC_1_SQRT_2;

/// What runs along x.
pub(super) enum Across<'a> {
    Values(Scale),
    Categories(&'a [String]),
}

/// Draws all but the frame itself and returns the area left for the data.
pub(super) fn draw(scene: &mut Scene, panel: &Panel, cell: Area, y: &Scale, across: &Across<'_>) -> Area {
    let mut area = cell;
    area.top += heading(scene, &panel.title, &cell);
    if !panel.x.label.is_empty() {
        area.bottom -= 20.0;
    }
    let y_wanted = ((area.height() - 30.0) / 42.0).clamp(2.0, 10.0) as usize;
    let y_ticks = match &panel.kind {
        Kind::Timeline(timeline) => timeline::ticks(timeline),
        _ => y.ticks(y_wanted),
    };
    let y_ticks: Vec<_> = y_ticks
        .into_iter()
        .filter(|(share, _)| (-1e-6..=1.000_001).contains(share))
        .collect();
    let widest = y_ticks
        .iter()
        .map(|(_, text)| font::width(text, Size::Small))
        .fold(0.0, f64::max);
    area.left += widest + 8.0 + if panel.y.label.is_empty() { 0.0 } else { 20.0 };
    match across {
        Across::Values(x) => {
            area.bottom -= 20.0;
            area.right -= 6.0;
            values(scene, x, &area);
        }
        Across::Categories(names) => categories(scene, names, &mut area, cell.left),
    }
    for (share, text) in &y_ticks {
        let (from, to) = (area.at(0.0, *share), area.at(1.0, *share));
        scene.line(vec![from, to], 1.0, palette::GRID);
        scene.line(vec![(from.0 - 4.0, from.1), from], 1.0, palette::FRAME);
        scene.text((from.0 - 7.0, from.1), text, Size::Small, Anchor::End);
    }
    labels(scene, panel, &cell, &area);
    area
}

/// The frame, drawn over the data so that bars stand on a clean line.
pub(super) fn frame(scene: &mut Scene, area: &Area) {
    scene.line(vec![area.at(0.0, 0.0), area.at(1.0, 0.0)], 1.0, palette::FRAME);
    scene.line(vec![area.at(0.0, 0.0), area.at(0.0, 1.0)], 1.0, palette::FRAME);
}

fn labels(scene: &mut Scene, panel: &Panel, cell: &Area, area: &Area) {
    if !panel.x.label.is_empty() {
        scene.text(
            ((area.left + area.right) / 2.0, cell.bottom - 8.0),
            &panel.x.label,
            fitting(&panel.x.label, area.width()),
            Anchor::Middle,
        );
    }
    if !panel.y.label.is_empty() {
        // A label longer than its axis may use the whole height of the cell.
        let size = fitting(&panel.y.label, area.height());
        let half = font::width(&panel.y.label, size) / 2.0;
        let middle = ((area.top + area.bottom) / 2.0)
            .min(cell.bottom - half)
            .max(cell.top + half);
        scene.turned(
            (cell.left + 8.0, middle),
            &panel.y.label,
            size,
            Anchor::Middle,
            Turn::Quarter,
        );
    }
}

fn fitting(text: &str, room: f64) -> Size {
    if font::width(text, Size::Label) > room {
        Size::Small
    } else {
        Size::Label
    }
}

fn values(scene: &mut Scene, x: &Scale, area: &Area) {
    let ticks = x.ticks((area.width() / 75.0).clamp(2.0, 12.0) as usize);
    let mut free = f64::NEG_INFINITY;
    for (share, text) in ticks
        .iter()
        .filter(|(share, _)| (-1e-6..=1.000_001).contains(share))
    {
        let (foot, head) = (area.at(*share, 0.0), area.at(*share, 1.0));
        scene.line(vec![foot, head], 1.0, palette::GRID);
        scene.line(vec![foot, (foot.0, foot.1 + 4.0)], 1.0, palette::FRAME);
        let half = font::width(text, Size::Small) / 2.0;
        if foot.0 - half > free {
            scene.text((foot.0, foot.1 + 12.0), text, Size::Small, Anchor::Middle);
            free = foot.0 + half + 4.0;
        }
    }
}

fn categories(scene: &mut Scene, names: &[String], area: &mut Area, page_left: f64) {
    if names.is_empty() {
        return;
    }
    let slot = area.width() / names.len() as f64;
    let wrapped: Vec<Vec<String>> = names.iter().map(|name| wrap(name, slot - 6.0)).collect();
    let fits = wrapped
        .iter()
        .all(|lines| lines.len() <= 3 && lines.iter().all(|l| font::width(l, Size::Small) <= slot - 4.0));
    if fits {
        let lines = wrapped.iter().map(Vec::len).max().unwrap_or(1);
        area.bottom -= 8.0 + LINE * lines as f64;
        for (index, lines) in wrapped.iter().enumerate() {
            let (x, y) = area.at((index as f64 + 0.5) / names.len() as f64, 0.0);
            for (row, line) in lines.iter().enumerate() {
                scene.text(
                    (x, y + 12.0 + LINE * row as f64),
                    line,
                    Size::Small,
                    Anchor::Middle,
                );
            }
        }
        return;
    }
    let lengths = || names.iter().map(|name| font::width(name, Size::Small) * SINE);
    area.bottom -= lengths().fold(0.0, f64::max) + 16.0;
    // A turned name reaches left of its bar: the first ones must not leave their cell, within reason.
    let most = area.left + area.width() / 3.0;
    let wanted = lengths()
        .enumerate()
        .map(|(index, reach)| {
            let share = (index as f64 + 0.5) / names.len() as f64;
            (page_left + reach + 6.0 - share * area.right) / (1.0 - share)
        })
        .fold(area.left, f64::max);
    area.left = wanted.min(most);
    for (index, name) in names.iter().enumerate() {
        let (x, y) = area.at((index as f64 + 0.5) / names.len() as f64, 0.0);
        scene.turned((x + 4.0, y + 9.0), name, Size::Small, Anchor::End, Turn::Eighth);
    }
}

/// Lines no wider than `room` where words allow; a break is possible after a space, `-`, `/`, `_` or `+`.
fn wrap(name: &str, room: f64) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in name.split_inclusive([' ', '-', '/', '_', '+']) {
        let index = lines.len() - 1;
        let joined = format!("{}{word}", lines[index]);
        if lines[index].is_empty() || font::width(joined.trim_end(), Size::Small) <= room {
            lines[index] = joined;
        } else {
            lines.push(word.to_owned());
        }
    }
    lines.into_iter().map(|line| line.trim().to_owned()).collect()
}
