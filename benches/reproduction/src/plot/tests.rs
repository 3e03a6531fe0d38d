//! Figures are the same bytes every time, survive any numbers, and have all their texts in the SVG.

mod figures;

use std::path::Path;

use self::figures::{all, grouped, over_time, stacked};
use super::*;

#[test]
fn the_same_figure_is_the_same_bytes() {
    for (name, figure) in all() {
        assert_eq!(figure.svg().unwrap(), figure.clone().svg().unwrap(), "{name}");
    }
}

#[test]
fn svg_is_well_formed() {
    for (name, figure) in all() {
        let text = figure.svg().unwrap();
        assert!(text.starts_with("<svg ") && text.ends_with("</svg>\n"), "{name}");
        assert!(!text.contains("NaN") && !text.contains("inf"), "{name}");
        assert_eq!(
            text.matches("<text").count(),
            text.matches("</text>").count(),
            "{name}"
        );
        assert_eq!(text.matches('"').count() % 2, 0, "{name}");
        // Every `&` begins one of the five entities of XML.
        for rest in text.split('&').skip(1) {
            assert!(
                ["amp;", "lt;", "gt;", "quot;", "apos;"]
                    .iter()
                    .any(|known| rest.starts_with(known)),
                "{name}: {rest:.20}"
            );
        }
    }
}

#[test]
fn a_figure_says_every_name_and_has_the_size_asked_for() {
    let says = |figure: &Figure, text: &str| {
        let svg = figure.svg().unwrap();
        assert!(svg.contains(&format!(">\n{text}\n</text>")), "{text}: {svg}");
    };
    for text in [
        "Goodput over time, 5 seeds",
        "tm-azure &lt;burst&gt;",
        "HBF active",
        "capacity",
        "pard",
        "time (s)",
        "goodput (requests/s)",
    ] {
        says(&over_time(), text);
    }
    says(&stacked(), "pard-");
    says(&stacked(), "module 5");
    says(&grouped(), "paper");
    assert!(
        grouped()
            .svg()
            .unwrap()
            .starts_with("<svg width=\"1000\" height=\"420\"")
    );
}

#[test]
fn everything_lies_on_the_page() {
    for (name, figure) in all() {
        let text = figure.svg().unwrap();
        let (wide, tall) = (f64::from(figure.width * 4), f64::from(figure.height * 4));
        for pair in text.split("points=\"").skip(1).flat_map(|rest| {
            let points = rest.split('"').next().unwrap_or_default();
            points.split_whitespace().collect::<Vec<_>>()
        }) {
            let (x, y) = pair.split_once(',').unwrap();
            let (x, y): (f64, f64) = (x.parse().unwrap(), y.parse().unwrap());
            assert!(
                (0.0..=wide).contains(&x) && (0.0..=tall).contains(&y),
                "{name}: {pair}"
            );
        }
    }
}

#[test]
fn what_is_not_a_number_is_left_out_and_an_empty_panel_says_so() {
    let line = |points: Vec<(f64, f64)>| Figure {
        panels: vec![Panel {
            y: Axis::new("y").log(),
            kind: Kind::Lines(vec![Line {
                points,
                ..Line::default()
            }]),
            ..Panel::default()
        }],
        width: 400,
        height: 300,
        ..Figure::default()
    };
    let nothing = line(vec![
        (0.0, f64::NAN),
        (f64::INFINITY, 1.0),
        (1.0, -3.0),
        (2.0, 0.0),
    ]);
    assert!(nothing.svg().unwrap().contains("no data"));
    // Broken in the middle: two lines.
    let broken = line(vec![
        (0.0, 1.0),
        (1.0, 2.0),
        (2.0, f64::NAN),
        (3.0, 2.0),
        (4.0, 1.0),
    ]);
    let svg = broken.svg().unwrap();
    assert!(!svg.contains("no data"));
    assert_eq!(svg.matches("stroke=\"#0072B2\"").count(), 2, "{svg}");
}

#[test]
fn what_cannot_be_drawn_is_an_error() {
    let empty = Figure {
        width: 800,
        height: 300,
        ..Figure::default()
    };
    assert!(matches!(empty.svg(), Err(PlotError::Empty(_))));
    for (width, columns) in [(u32::MAX, 1), (0, 1), (1000, 20)] {
        let mut figure = Figure {
            width,
            columns,
            ..grouped()
        };
        figure.panels = vec![figure.panels[0].clone(); columns];
        assert!(
            matches!(figure.svg(), Err(PlotError::Size { .. })),
            "{width}, {columns}"
        );
    }
    let mut uneven = grouped();
    if let Kind::Bars(bars) = &mut uneven.panels[0].kind {
        bars.categories.pop();
    }
    assert!(matches!(
        uneven.svg(),
        Err(PlotError::Uneven {
            values: 12,
            categories: 11,
            ..
        })
    ));
    assert!(matches!(
        grouped().write(Path::new("/nonexistent/folder/figure.svg")),
        Err(PlotError::Write { .. })
    ));
}
