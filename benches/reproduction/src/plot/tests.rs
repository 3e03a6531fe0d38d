//! Figures are the same bytes every time, survive any numbers, and say in the SVG what they were told.
//! With WEIR_PLOTS naming a folder the figures of these tests are also written there, to be looked at.

mod figures;

use std::path::Path;

use self::figures::{all, grouped, noise, over_time, stacked};
use super::*;

#[test]
fn the_same_figure_is_the_same_bytes() {
    for (name, figure) in all() {
        assert_eq!(figure.svg().unwrap(), figure.clone().svg().unwrap(), "{name}");
        assert_eq!(figure.png().unwrap(), figure.clone().png().unwrap(), "{name}");
    }
}

#[test]
fn svg_is_well_formed_and_says_every_name() {
    for (name, figure) in all() {
        let text = figure.svg().unwrap();
        assert!(text.starts_with("<svg ") && text.ends_with("</svg>\n"), "{name}");
        assert!(!text.contains("NaN") && !text.contains("inf"), "{name}");
        assert_eq!(
            text.matches("<text").count(),
            text.matches("</text>").count(),
            "{name}"
        );
        let forbidden = |c: char| c.is_control() && c != '\n';
        assert!(!text.contains(forbidden), "{name}");
        // Every `&` begins one of the five names XML knows.
        for rest in text.split('&').skip(1) {
            assert!(
                ["amp;", "lt;", "gt;", "quot;", "apos;"]
                    .iter()
                    .any(|known| rest.starts_with(known)),
                "{name}: {rest:.20}"
            );
        }
        for line in text.lines() {
            assert!(line.starts_with('<') && line.ends_with('>'), "{name}: {line}");
            assert_eq!(line.matches('"').count() % 2, 0, "{name}: {line}");
        }
    }
    let text = over_time().svg().unwrap();
    for label in [
        "Goodput over time, 5 seeds",
        "tm-azure &lt;burst&gt;",
        "HBF active",
        "capacity",
        "pard",
        "time (s)",
    ] {
        assert!(text.contains(&format!(">{label}</text>")), "{label}");
    }
    assert!(
        stacked()
            .svg()
            .unwrap()
            .contains(">pard-split &amp; even 1</text>")
    );
    assert!(grouped().svg().unwrap().contains(">paper</text>"));
}

#[test]
fn png_has_the_size_asked_for_and_ink() {
    let figure = grouped();
    let bytes = figure.png().unwrap();
    let mut reader = png::Decoder::new(std::io::Cursor::new(bytes))
        .read_info()
        .unwrap();
    assert_eq!((reader.info().width, reader.info().height), (1500, 630));
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    reader.next_frame(&mut pixels).unwrap();
    let dark = pixels
        .chunks_exact(3)
        .filter(|p| p.iter().all(|c| *c < 90))
        .count();
    let blue = pixels.chunks_exact(3).filter(|p| **p == [0, 114, 178]).count();
    assert!(
        dark > 1000 && blue > 1000,
        "{dark} dark, {blue} of the first series"
    );
}

#[test]
fn everything_lies_on_the_page() {
    for (name, figure) in all() {
        let scene = panel::scene(&figure).unwrap();
        let on_page = |&(x, y): &(f64, f64)| {
            x >= -1.0 && y >= -1.0 && x <= f64::from(scene.width) + 1.0 && y <= f64::from(scene.height) + 1.0
        };
        for shape in &scene.shapes {
            let inside = match shape {
                scene::Shape::Polygon { points, .. } | scene::Shape::Line { points, .. } => {
                    points.iter().all(on_page)
                }
                scene::Shape::Text(text) => on_page(&text.at),
            };
            assert!(inside, "{name}: {shape:?}");
        }
    }
}

#[test]
fn a_line_of_many_points_is_drawn_with_few() {
    let points = (0..1_000_000)
        .map(|i| (f64::from(i), noise(i as usize)))
        .collect();
    let kind = Kind::Lines(vec![Line {
        name: "l".to_owned(),
        points,
        ..Line::default()
    }]);
    let figure = Figure {
        panels: vec![Panel {
            kind,
            ..Panel::default()
        }],
        width: 800,
        height: 300,
        ..Figure::default()
    };
    assert!(figure.svg().unwrap().len() < 200_000);
}

#[test]
fn what_cannot_be_drawn_is_an_error() {
    let empty = Figure {
        width: 800,
        height: 300,
        ..Figure::default()
    };
    assert!(matches!(empty.svg(), Err(PlotError::Empty(_))));
    let huge = Figure {
        width: u32::MAX,
        ..grouped()
    };
    assert!(matches!(huge.png(), Err(PlotError::Size { .. })));
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
        grouped().write(Path::new("/nonexistent/folder/figure")),
        Err(PlotError::Write { .. })
    ));
}

#[test]
fn both_files_are_written_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let folder = std::env::var_os("WEIR_PLOTS").map_or_else(|| folder.path().to_owned(), Into::into);
    for (name, figure) in all() {
        let stem = folder.join(format!("fig.{name}"));
        figure.write(&stem).unwrap();
        figure.write(&stem).unwrap();
        assert_eq!(
            std::fs::read(folder.join(format!("fig.{name}.png"))).unwrap(),
            figure.png().unwrap()
        );
        assert_eq!(
            std::fs::read_to_string(folder.join(format!("fig.{name}.svg"))).unwrap(),
            figure.svg().unwrap()
        );
    }
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 2 * all().len());
}

#[test]
fn ticks_grow_and_are_neither_few_nor_many() {
    for seed in 0..2000 {
        let low = (noise(seed) - 0.5) * 10f64.powi((seed % 13) as i32 - 6);
        let high = low + (0.01 + noise(seed + 5000)) * 10f64.powi((seed % 11) as i32 - 5);
        let scale = scale::Scale::fit(
            &Axis::default().range(low, high),
            std::iter::empty(),
            false,
            false,
        );
        let ticks = scale.ticks(6);
        assert!((3..=12).contains(&ticks.len()), "{low} to {high}: {ticks:?}");
        assert!(
            ticks.windows(2).all(|pair| pair[0].0 < pair[1].0),
            "{low} to {high}: {ticks:?}"
        );
        let log = scale::Scale::fit(
            &Axis::default().log(),
            [low.abs(), high.abs()].into_iter(),
            false,
            true,
        );
        let ticks = log.ticks(6);
        assert!((2..=16).contains(&ticks.len()), "{low} to {high}: {ticks:?}");
        assert!(
            ticks.windows(2).all(|pair| pair[0].0 < pair[1].0),
            "{low} to {high}: {ticks:?}"
        );
        assert!(
            [low.abs(), high.abs()]
                .iter()
                .all(|v| log.place(*v).is_some_and(|share| (0.0..=1.0).contains(&share)))
        );
    }
}
