//! Figures to test with: every kind of panel, and every number that could go wrong.

use super::super::*;

fn names(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|i| format!("{prefix}{i}")).collect()
}

/// A repeatable number between 0 and 1.
fn noise(seed: usize) -> f64 {
    let mixed = (seed as u64).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 11) as f64 / (1u64 << 53) as f64
}

pub(super) fn grouped() -> Figure {
    let bar = |series: usize, category: usize| {
        let value = 0.12 * 6f64.powi(series as i32) * (0.4 + noise(series * 12 + category));
        Bar {
            value,
            error: Some((value * 0.8, value * 1.25)),
            paper: (category % 3 != 1).then_some(value * (0.7 + noise(category))),
        }
    };
    let series = ["pard", "nexus", "clipper++", "naive"].into_iter().enumerate();
    let kind = Kind::Bars(Bars {
        categories: names("lv-wiki-", 12),
        series: series
            .map(|(index, name)| BarSeries {
                name: name.to_owned(),
                values: (0..12).map(|category| bar(index, category)).collect(),
            })
            .collect(),
    });
    let rules = vec![Rule {
        name: "1 % promised".to_owned(),
        at: 1.0,
    }];
    let panel = Panel {
        x: Axis::new("application and trace"),
        y: Axis::new("drop rate (%)").log(),
        kind,
        rules,
        ..Panel::default()
    };
    Figure {
        title: "Drop rate of every workload".to_owned(),
        panels: vec![panel],
        columns: 1,
        width: 1000,
        height: 420,
    }
}

pub(super) fn over_time() -> Figure {
    let line = |name: &str, offset: f64| {
        let points = (0..100).map(|i| (f64::from(i), offset + 80.0 * (f64::from(i) / 9.0).sin()));
        let points: Vec<_> = points.collect();
        Line {
            name: name.to_owned(),
            band: points.iter().map(|(x, y)| (*x, y - 30.0, y + 60.0)).collect(),
            points,
            ..Line::default()
        }
    };
    let load = Line {
        step: true,
        area: true,
        dashed: true,
        band: Vec::new(),
        ..line("load", 120.0)
    };
    let region = |from: f64, to: f64| Region {
        name: "HBF active".to_owned(),
        from,
        to,
    };
    let panel = |title: &str| Panel {
        title: title.to_owned(),
        x: Axis::new("time (s)"),
        y: Axis::new("goodput (requests/s)"),
        kind: Kind::Lines(vec![line("pard", 300.0), line("nexus", 180.0), load.clone()]),
        regions: vec![region(12.0, 26.0), region(70.0, 76.0)],
        rules: vec![Rule {
            name: "capacity".to_owned(),
            at: 400.0,
        }],
    };
    Figure {
        title: "Goodput over time, 5 seeds".to_owned(),
        panels: ["lv-tweet", "tm-azure <burst>", "gm-wiki"].map(panel).to_vec(),
        columns: 2,
        width: 1200,
        height: 720,
    }
}

pub(super) fn stacked() -> Figure {
    let part = |module: usize| Part {
        name: format!("module {module}"),
        values: (0..11)
            .map(|category| 20.0 * noise(module * 17 + category))
            .collect(),
    };
    let panel = |prefix: &str| Panel {
        title: format!("names with {prefix}"),
        y: Axis::new("share of drops (%)"),
        kind: Kind::Stacked(Stacked {
            categories: names(prefix, 11),
            parts: (1..=5).map(part).collect(),
        }),
        ..Panel::default()
    };
    Figure {
        title: "Where requests are dropped".to_owned(),
        panels: vec![panel("pard-split & even "), panel("w")],
        columns: 2,
        width: 1000,
        height: 420,
    }
}

/// Every kind of panel on every kind of axis, with numbers that have no place.
pub(super) fn odd_values() -> Figure {
    let odd = [
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        0.0,
        -1.0,
        1e308,
        -1e308,
        5e-324,
        f64::MAX,
    ];
    let bar = |value: f64| Bar {
        value,
        error: Some((value, f64::NAN)),
        paper: Some(value),
    };
    let bars = Bars {
        categories: names("c", odd.len()),
        series: vec![BarSeries {
            name: String::new(),
            values: odd.map(bar).to_vec(),
        }],
    };
    let part = Part {
        name: "p".to_owned(),
        values: odd.to_vec(),
    };
    let stacked = Stacked {
        categories: names("a very long name ", odd.len()),
        parts: vec![part.clone(), part],
    };
    let line = Line {
        name: "l\u{1f600}".to_owned(),
        points: odd.iter().flat_map(|v| [(1.0, *v), (*v, 1.0)]).collect(),
        band: odd.map(|v| (v, v, -v)).to_vec(),
        step: true,
        area: true,
        dashed: true,
    };
    let timeline = Timeline {
        rows: names("r", 2),
        boxes: odd
            .map(|v| TimelineBox {
                row: 1,
                from: v,
                to: 1.0,
                mark: Some(1),
                ..TimelineBox::default()
            })
            .to_vec(),
    };
    let point = Line {
        points: vec![(2.0, 5.0)],
        ..Line::default()
    };
    let kinds = [
        Kind::Bars(bars),
        Kind::Stacked(stacked),
        Kind::Lines(vec![line, Line::default()]),
        Kind::Timeline(timeline),
        Kind::Bars(Bars::default()),
        Kind::Stacked(Stacked::default()),
        Kind::Timeline(Timeline::default()),
        Kind::default(),
        Kind::Lines(vec![point]),
    ];
    let axes = [
        Axis::default(),
        Axis::default().log(),
        Axis::new("x").range(f64::NAN, 1.0),
        Axis::new("y").range(0.0, 1e-12),
        Axis::default().log().range(1.0, 1.0),
    ];
    let panel = |kind: &Kind, axis: &Axis| Panel {
        x: axis.clone(),
        y: axis.clone(),
        kind: kind.clone(),
        regions: odd
            .map(|from| Region {
                name: "r".to_owned(),
                from,
                to: 1.0,
            })
            .to_vec(),
        rules: odd
            .map(|at| Rule {
                name: "q".to_owned(),
                at,
            })
            .to_vec(),
        ..Panel::default()
    };
    let panels = kinds
        .iter()
        .flat_map(|kind| axes.iter().map(move |axis| panel(kind, axis)));
    Figure {
        title: "odd".to_owned(),
        panels: panels.collect(),
        columns: 5,
        width: 1000,
        height: 1600,
    }
}

pub(super) fn all() -> [(&'static str, Figure); 4] {
    [
        ("grouped", grouped()),
        ("over-time", over_time()),
        ("stacked", stacked()),
        ("odd", odd_values()),
    ]
}
