//! Boxes over time, a row for each thing that is used: who used what from when to when.

use super::figure::{Axis, Panel};
use super::kind::Timeline;
use super::legend::Legend;
use super::palette;
use super::panel::Area;
use super::scale::Scale;
use super::scene::Scene;

// Share of a row's height that its boxes take.
const FILLED: f64 = 0.74;

/// The x of all boxes.
pub(super) fn x_scale(timeline: &Timeline, panel: &Panel) -> Scale {
    let ends = timeline.boxes.iter().flat_map(|span| [span.from, span.to]);
    Scale::fit(&panel.x, ends, false, false)
}

/// Rows from the top, one unit each.
pub(super) fn y_scale(timeline: &Timeline) -> Scale {
    let axis = Axis::default().range(0.0, timeline.rows.len().max(1) as f64);
    Scale::fit(&axis, std::iter::empty(), true, false)
}

/// Where rows are named.
pub(super) fn ticks(timeline: &Timeline) -> Vec<(f64, String)> {
    let count = timeline.rows.len();
    let name = |(row, name): (usize, &String)| (middle(row, count), name.clone());
    timeline.rows.iter().enumerate().map(name).collect()
}

fn middle(row: usize, rows: usize) -> f64 {
    1.0 - (row as f64 + 0.5) / rows.max(1) as f64
}

/// Draws the boxes, then what links those that are marked; says whether there was any.
pub(super) fn draw(scene: &mut Scene, timeline: &Timeline, area: &Area, x: &Scale, legend: &Legend) -> bool {
    let rows = timeline.rows.len();
    let half = 0.5 * FILLED / rows.max(1) as f64;
    let mut any = false;
    for span in timeline.boxes.iter().filter(|span| span.row < rows) {
        let (Some(from), Some(to)) = (x.place(span.from), x.place(span.to)) else {
            continue;
        };
        if to <= 0.0 || from >= 1.0 {
            continue;
        }
        let row = middle(span.row, rows);
        let (low, high) = (area.at(from, row - half), area.at(to, row + half));
        let paint = legend.colour(&span.name);
        scene.rect(
            low,
            high,
            if span.mark.is_some() {
                paint
            } else {
                paint.with_alpha(0.4)
            },
        );
        let outline = vec![low, (high.0, low.1), high, (low.0, high.1), low];
        match span.mark {
            Some(_) => scene.line(outline, 1.8, palette::INK),
            None => scene.line(outline, 0.7, palette::FRAME),
        }
        any = true;
    }
    for pair in linked(timeline) {
        if let (Some(from), Some(to)) = (x.place(pair[0].1), x.place(pair[1].1))
            && from >= 0.0
            && to <= 1.0
        {
            let ends = vec![
                area.at(from, middle(pair[0].0, rows)),
                area.at(to, middle(pair[1].0, rows)),
            ];
            scene.line(ends, 1.3, palette::INK);
        }
    }
    any
}

/// From the end of each marked box to the beginning of the next with the same mark: row and x of both.
fn linked(timeline: &Timeline) -> Vec<[(usize, f64); 2]> {
    let mut marked: Vec<_> = timeline.boxes.iter().filter(|span| span.mark.is_some()).collect();
    marked.sort_by(|one, other| one.mark.cmp(&other.mark).then(one.from.total_cmp(&other.from)));
    let pairs = marked.windows(2).filter(|pair| pair[0].mark == pair[1].mark);
    pairs
        .map(|pair| [(pair[0].row, pair[0].to), (pair[1].row, pair[1].from)])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::{Figure, Kind, TimelineBox};

    fn span(row: usize, from: f64, to: f64, mark: Option<u32>) -> TimelineBox {
        TimelineBox {
            row,
            from,
            to,
            name: format!("part {row}"),
            mark,
        }
    }

    #[test]
    fn boxes_with_a_mark_are_linked_in_the_order_of_time() {
        let timeline = Timeline {
            rows: vec!["a".to_owned(), "b".to_owned()],
            boxes: vec![
                span(1, 3.0, 4.0, Some(7)),
                span(0, 0.0, 2.0, Some(7)),
                span(0, 2.0, 3.0, None),
                span(1, 0.5, 1.0, Some(8)),
            ],
        };
        assert_eq!(linked(&timeline), [[(0, 2.0), (1, 3.0)]]);
        let figure = Figure {
            panels: vec![Panel {
                kind: Kind::Timeline(timeline),
                ..Panel::default()
            }],
            columns: 1,
            width: 400,
            height: 200,
            ..Figure::default()
        };
        let svg = figure.svg().unwrap();
        assert!(svg.contains("part 0") && !svg.contains("no data"), "{svg}");
    }
}
