//! One legend for the whole figure, above the panels: it covers no data, and a name has one colour everywhere.

use super::figure::Figure;
use super::font;
use super::kind::Kind;
use super::palette;
use super::scene::{Anchor, Paint, Scene, Size};

const SWATCH: f64 = 20.0;
const GAP: f64 = 7.0;
const BETWEEN: f64 = 20.0;
const ROW: f64 = 19.0;

/// How an entry is drawn.
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
    pub(super) fn colour(&self, name: &str) -> Paint {
        palette::series(
            self.entries
                .iter()
                .find(|(known, ..)| known == name)
                .map_or(0, |(_, _, colour)| *colour),
        )
    }

    /// Draws it from `top` and returns where it ends.
    pub(super) fn draw(&self, scene: &mut Scene, top: f64) -> f64 {
        let shown: Vec<_> = self
            .entries
            .iter()
            .filter(|(name, ..)| !name.is_empty())
            .collect();
        let room = f64::from(scene.width) - 24.0;
        let length = |name: &str| SWATCH + GAP + font::width(name, Size::Small);
        let mut rows: Vec<(f64, Vec<_>)> = Vec::new();
        for entry in shown {
            let wide = length(&entry.0);
            match rows.last_mut() {
                Some((used, row)) if *used + BETWEEN + wide <= room => {
                    *used += BETWEEN + wide;
                    row.push(entry);
                }
                _ => rows.push((wide, vec![entry])),
            }
        }
        let mut y = top;
        for (used, row) in rows {
            let mut x = ((f64::from(scene.width) - used) / 2.0).max(12.0);
            for (name, mark, colour) in row {
                swatch(scene, *mark, (x, y + ROW / 2.0), palette::series(*colour));
                scene.text(
                    (x + SWATCH + GAP, y + ROW / 2.0),
                    name,
                    Size::Small,
                    Anchor::Start,
                );
                x += length(name) + BETWEEN;
            }
            y += ROW;
        }
        y
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

fn swatch(scene: &mut Scene, mark: Mark, (x, y): (f64, f64), paint: Paint) {
    match mark {
        Mark::Box => scene.rect((x + 4.0, y - 6.0), (x + 16.0, y + 6.0), paint),
        Mark::Line => scene.line(vec![(x, y), (x + SWATCH, y)], 2.5, paint),
        Mark::Dashed => scene.dashed(vec![(x, y), (x + SWATCH, y)], 2.5, paint),
        Mark::Region => scene.rect((x, y - 6.0), (x + SWATCH, y + 6.0), palette::REGION),
        Mark::Rule => scene.dashed(vec![(x, y), (x + SWATCH, y)], 1.5, palette::INK),
        Mark::Paper => diamond(scene, (x + SWATCH / 2.0, y), 5.5),
    }
}

/// The hollow diamond of a figure that the paper reports; white inside, so that it shows on any bar.
pub(super) fn diamond(scene: &mut Scene, (x, y): (f64, f64), reach: f64) {
    let corners = [(x, y - reach), (x + reach, y), (x, y + reach), (x - reach, y)];
    scene.polygon(corners.to_vec(), palette::PAGE.with_alpha(0.75));
    let mut outline = corners.to_vec();
    outline.extend([corners[0], corners[1]]);
    scene.line(outline, 1.5, palette::INK);
}
