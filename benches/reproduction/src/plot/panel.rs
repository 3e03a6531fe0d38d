//! Where things go: title, legend, the grid of panels, and the margins each panel needs for its labels.

use super::axes::{self, Across};
use super::figure::{Figure, Panel, PlotError};
use super::kind::Kind;
use super::legend::Legend;
use super::scale::Scale;
use super::scene::{Anchor, Scene, Size, Text};
use super::{bars, font, lines, palette, timeline};

/// A rectangle of the page.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Area {
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) right: f64,
    pub(super) bottom: f64,
}

impl Area {
    /// The place at these shares of the way right and up, kept inside.
    pub(super) fn at(&self, x: f64, y: f64) -> (f64, f64) {
        let (x, y) = (x.clamp(0.0, 1.0), y.clamp(0.0, 1.0));
        (self.left + x * self.width(), self.bottom - y * self.height())
    }

    pub(super) fn width(&self) -> f64 {
        self.right - self.left
    }

    pub(super) fn height(&self) -> f64 {
        self.bottom - self.top
    }
}

/// Everything the figure draws.
pub(super) fn scene(figure: &Figure) -> Result<Scene, PlotError> {
    check(figure)?;
    let mut scene = Scene {
        width: figure.width,
        height: figure.height,
        shapes: Vec::new(),
    };
    let (width, height) = (f64::from(figure.width), f64::from(figure.height));
    scene.rect((0.0, 0.0), (width, height), palette::PAGE);
    let mut top = 8.0;
    if !figure.title.is_empty() {
        let size = [Size::Title, Size::Label]
            .into_iter()
            .find(|s| font::width(&figure.title, *s) < width - 20.0);
        scene.text(
            (width / 2.0, top + 11.0),
            &figure.title,
            size.unwrap_or(Size::Small),
            Anchor::Middle,
        );
        top += 26.0;
    }
    let legend = Legend::of(figure);
    top = legend.draw(&mut scene, top) + 4.0;
    let columns = figure.columns.clamp(1, figure.panels.len());
    let rows = figure.panels.len().div_ceil(columns);
    let (wide, tall) = (width / columns as f64, (height - top) / rows as f64);
    for (index, panel) in figure.panels.iter().enumerate() {
        let (column, row) = ((index % columns) as f64, (index / columns) as f64);
        let cell = Area {
            left: column * wide + 8.0,
            top: top + row * tall + 2.0,
            right: (column + 1.0) * wide - 14.0,
            bottom: top + (row + 1.0) * tall - 6.0,
        };
        draw(&mut scene, panel, cell, &legend);
    }
    Ok(scene)
}

fn check(figure: &Figure) -> Result<(), PlotError> {
    if figure.panels.is_empty() {
        return Err(PlotError::Empty(figure.title.clone()));
    }
    if !(200..=8000).contains(&figure.width) || !(150..=8000).contains(&figure.height) {
        return Err(PlotError::Size {
            title: figure.title.clone(),
            width: figure.width,
            height: figure.height,
        });
    }
    for panel in &figure.panels {
        let (categories, series): (usize, Vec<(&str, usize)>) = match &panel.kind {
            Kind::Bars(b) => (
                b.categories.len(),
                b.series
                    .iter()
                    .map(|s| (s.name.as_str(), s.values.len()))
                    .collect(),
            ),
            Kind::Stacked(s) => (
                s.categories.len(),
                s.parts
                    .iter()
                    .map(|p| (p.name.as_str(), p.values.len()))
                    .collect(),
            ),
            Kind::Lines(_) | Kind::Timeline(_) => (0, Vec::new()),
        };
        if let Some((name, values)) = series.into_iter().find(|(_, values)| *values != categories) {
            let (panel, series) = (panel.title.clone(), name.to_owned());
            return Err(PlotError::Uneven {
                panel,
                series,
                values,
                categories,
            });
        }
    }
    Ok(())
}

fn draw(scene: &mut Scene, panel: &Panel, cell: Area, legend: &Legend) {
    let rules = panel.rules.iter().map(|rule| rule.at);
    let (y, across) = match &panel.kind {
        Kind::Bars(bars) => (
            bars::scale(bars, &panel.y, rules),
            Across::Categories(&bars.categories),
        ),
        Kind::Stacked(stacked) => (
            bars::stacked_scale(stacked, &panel.y, rules),
            Across::Categories(&stacked.categories),
        ),
        Kind::Lines(series) => (
            lines::y_scale(series, &panel.y, rules),
            Across::Values(lines::x_scale(series, panel)),
        ),
        Kind::Timeline(timeline) => (
            timeline::y_scale(timeline),
            Across::Values(timeline::x_scale(timeline, panel)),
        ),
    };
    let area = axes::draw(scene, panel, cell, &y, &across);
    if area.width() < 10.0 || area.height() < 10.0 {
        return;
    }
    let drawn = match (&panel.kind, &across) {
        (Kind::Bars(bars), _) => bars::draw(scene, bars, &area, &y, legend),
        (Kind::Stacked(stacked), _) => bars::draw_stacked(scene, stacked, &area, &y, legend),
        (Kind::Lines(series), Across::Values(x)) => {
            lines::draw_regions(scene, panel, &area, x);
            lines::draw(scene, series, &area, (x, &y), legend)
        }
        (Kind::Timeline(timeline), Across::Values(x)) => timeline::draw(scene, timeline, &area, x, legend),
        (Kind::Lines(_) | Kind::Timeline(_), Across::Categories(_)) => false,
    };
    rule_lines(scene, panel, &area, &y);
    axes::frame(scene, &area);
    if !drawn {
        let middle = area.at(0.5, 0.5);
        scene.text(middle, "no data", Size::Label, Anchor::Middle);
    }
}

fn rule_lines(scene: &mut Scene, panel: &Panel, area: &Area, y: &Scale) {
    for rule in &panel.rules {
        if let Some(share) = y.place(rule.at).filter(|share| (0.0..=1.0).contains(share)) {
            scene.dashed(vec![area.at(0.0, share), area.at(1.0, share)], 1.5, palette::INK);
        }
    }
}

/// Draws `text` as the heading of a cell and returns the height it takes.
pub(super) fn heading(scene: &mut Scene, text: &str, cell: &Area) -> f64 {
    if text.is_empty() {
        return 6.0;
    }
    scene.shapes.push(super::scene::Shape::Text(Text {
        at: ((cell.left + cell.right) / 2.0, cell.top + 9.0),
        content: text.to_owned(),
        size: if font::width(text, Size::Label) > cell.width() {
            Size::Small
        } else {
            Size::Label
        },
        bold: true,
        anchor: Anchor::Middle,
        turn: super::scene::Turn::None,
        paint: palette::INK,
    }));
    24.0
}
