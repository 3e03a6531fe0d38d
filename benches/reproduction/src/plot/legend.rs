//! Legend of the whole figure, above the panels: it covers no data, and a name has the same colour
//! everywhere.

use plotters::element::ComposedElement;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::chart::dashed;
use super::figure::Figure;
use super::kind::Kind;
use super::page::{Drawn, Page, SMALL, pixels, stroke, text};
use super::palette;

// Sizes in figure units.
const SWATCH: f64 = 20.0;
const GAP: f64 = 7.0;
const BETWEEN: f64 = 20.0;
const ROW: f64 = 19.0;

type Diamond<'a, Place> =
    ComposedElement<Place, SVGBackend<'a>, Polygon<(i32, i32)>, PathElement<(i32, i32)>>;

/// Symbol of a legend entry.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Mark {
    Box,
    Line,
    Dashed,
    Region,
    Rule,
    Paper,
}

/// Names in order of first appearance.
#[derive(Debug)]
pub(super) struct Legend {
    entries: Vec<(String, Mark, usize)>,
    colours: usize,
}

impl Legend {
    pub(super) fn of(figure: &Figure) -> Self {
        let mut legend = Self {
            entries: Vec::new(),
            colours: 0,
        };
        for panel in &figure.panels {
            match &panel.kind {
                Kind::Bars(bars) => bars.series.iter().for_each(|s| legend.series(&s.name, Mark::Box)),
                Kind::Stacked(stacked) => stacked
                    .parts
                    .iter()
                    .for_each(|p| legend.series(&p.name, Mark::Box)),
                Kind::Lines(lines) => lines.iter().for_each(|l| {
                    let mark = match (l.area, l.dashed) {
                        (true, _) => Mark::Box,
                        (_, true) => Mark::Dashed,
                        _ => Mark::Line,
                    };
                    legend.series(&l.name, mark);
                }),
                Kind::Timeline(timeline) => timeline
                    .boxes
                    .iter()
                    .for_each(|span| legend.series(&span.name, Mark::Box)),
            }
        }
        for panel in &figure.panels {
            if matches!(panel.kind, Kind::Lines(_)) {
                panel
                    .regions
                    .iter()
                    .for_each(|region| legend.other(&region.name, Mark::Region));
            }
            panel
                .rules
                .iter()
                .for_each(|rule| legend.other(&rule.name, Mark::Rule));
        }
        if figure.panels.iter().any(reports_paper) {
            legend.other("paper", Mark::Paper);
        }
        legend
    }

    fn series(&mut self, name: &str, mark: Mark) {
        if !self.entries.iter().any(|(known, ..)| known == name) {
            self.entries.push((name.to_owned(), mark, self.colours));
            self.colours += 1;
        }
    }

    fn other(&mut self, name: &str, mark: Mark) {
        if !self
            .entries
            .iter()
            .any(|(known, m, _)| known == name && *m == mark)
        {
            self.entries.push((name.to_owned(), mark, 0));
        }
    }

    /// The colour of a series.
    pub(super) fn colour(&self, name: &str) -> RGBColor {
        let known = self.entries.iter().find(|(known, ..)| known == name);
        palette::series(known.map_or(0, |(_, _, colour)| *colour))
    }

    /// Draws it from `top` and gives the height it takes, both in pixels.
    pub(super) fn draw(&self, page: &Page<'_>, top: i32) -> Drawn<i32> {
        let width = page.dim_in_pixel().0 as i32;
        let style = text(SMALL).pos(Pos::new(HPos::Left, VPos::Center));
        let shown = self.entries.iter().filter(|(name, ..)| !name.is_empty());
        let mut rows: Vec<(i32, Vec<_>)> = Vec::new();
        for entry in shown {
            let wide = pixels(SWATCH + GAP) + page.estimate_text_size(&entry.0, &style)?.0 as i32;
            match rows.last_mut() {
                Some((used, row)) if *used + pixels(BETWEEN) + wide <= width - pixels(24.0) => {
                    *used += pixels(BETWEEN) + wide;
                    row.push((entry, wide));
                }
                _ => rows.push((wide, vec![(entry, wide)])),
            }
        }
        let height = pixels(ROW) * rows.len() as i32;
        for ((used, row), index) in rows.into_iter().zip(0..) {
            let y = top + pixels(ROW) * index + pixels(ROW / 2.0);
            let mut x = ((width - used) / 2).max(pixels(12.0));
            for ((name, mark, colour), wide) in row {
                swatch(page, *mark, (x, y), palette::series(*colour))?;
                page.draw_text(name, &style, (x + pixels(SWATCH + GAP), y))?;
                x += wide + pixels(BETWEEN);
            }
        }
        Ok(height)
    }
}

fn reports_paper(panel: &super::figure::Panel) -> bool {
    match &panel.kind {
        Kind::Bars(bars) => bars
            .series
            .iter()
            .flat_map(|s| &s.values)
            .any(|bar| bar.paper.is_some_and(f64::is_finite)),
        _ => false,
    }
}

fn swatch(page: &Page<'_>, mark: Mark, (x, y): (i32, i32), colour: RGBColor) -> Drawn {
    let (right, half) = (x + pixels(SWATCH), pixels(6.0));
    let line = vec![(x, y), (right, y)];
    let filled =
        |from: i32, to: i32, style: ShapeStyle| Rectangle::new([(from, y - half), (to, y + half)], style);
    match mark {
        Mark::Box => page.draw(&filled(x + pixels(4.0), right - pixels(4.0), colour.filled())),
        Mark::Line => page.draw(&PathElement::new(line, stroke(colour, 2.5))),
        Mark::Dashed => dashed(page, line, stroke(colour, 2.5)),
        Mark::Region => page.draw(&filled(x, right, palette::region().filled())),
        Mark::Rule => dashed(page, line, stroke(palette::INK, 1.5)),
        Mark::Paper => page.draw(&diamond(((x + right) / 2, y))),
    }
}

/// The hollow diamond of a figure that the paper reports, around `at`; white inside, so that it shows on any bar.
pub(super) fn diamond<'a, Place>(at: Place) -> Diamond<'a, Place> {
    let reach = pixels(5.5);
    let corners = [(0, -reach), (reach, 0), (0, reach), (-reach, 0)];
    let outline = [&corners[..], &corners[..2]].concat();
    EmptyElement::at(at)
        + Polygon::new(corners, WHITE.mix(0.75))
        + PathElement::new(outline, stroke(palette::INK, 1.5))
}
