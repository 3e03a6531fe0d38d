//! Boxes over time, a row for each thing that is used, a box for each use.

use plotters::prelude::*;

use super::chart::Plane;
use super::kind::Timeline;
use super::legend::Legend;
use super::page::{Drawn, stroke};
use super::palette;

// Share of a row's height that its boxes take.
const FILLED: f64 = 0.74;

/// Draws the boxes, then what links those that are marked; says whether there was any.
pub(super) fn draw(plane: &Plane<'_>, timeline: &Timeline, legend: &Legend) -> Drawn<bool> {
    let x = plane.as_coord_spec().x_spec();
    let range = plane.get_x_range();
    let rows = timeline.rows.len();
    let middle = |row: usize| rows as f64 - row as f64 - 0.5;
    let mut any = false;
    for span in timeline.boxes.iter().filter(|span| span.row < rows) {
        if !(span.to > range.start && span.from < range.end) {
            continue;
        }
        let (left, right) = (span.from.max(range.start), span.to.min(range.end));
        let (low, high) = (middle(span.row) - FILLED / 2.0, middle(span.row) + FILLED / 2.0);
        let colour = legend.colour(&span.name);
        let (fill, line) = match span.mark {
            Some(_) => (colour.to_rgba(), stroke(palette::INK, 1.8)),
            None => (colour.mix(0.4), stroke(palette::FRAME, 0.75)),
        };
        plane.draw(&Rectangle::new([(left, low), (right, high)], fill.filled()))?;
        let outline = [
            (left, low),
            (right, low),
            (right, high),
            (left, high),
            (left, low),
        ];
        plane.draw(&PathElement::new(outline, line))?;
        any = true;
    }
    for [(row, from), (next, to)] in linked(timeline) {
        if x.contains(from) && x.contains(to) {
            let ends = [(from, middle(row)), (to, middle(next))];
            plane.draw(&PathElement::new(ends, stroke(palette::INK, 1.3)))?;
        }
    }
    Ok(any)
}

/// Links between marked boxes with the same mark: row and x of the end of one and of the start of the next.
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
    use crate::plot::{Figure, Kind, Panel, TimelineBox};

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
